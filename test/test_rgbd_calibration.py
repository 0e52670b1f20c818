# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibration files as OpenCV and ROS write them; rectification and registration by OpenCV."""

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.rgbd.calibration import (
    ImageProcessor, parse_extrinsics, parse_intrinsics, parse_warp, read_storage, Rectifier,
    Registration, unwarp)
from optitrack_vrpn.guests.rgbd.files_io import load_storage
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import ImageError
import pytest
from rgbd_kit import written
from scipy.spatial.transform import Rotation

cv2 = pytest.importorskip('cv2')

COLOUR = Intrinsics(160, 120, 131.0, 130.0, 80.5, 59.0, (0.26, -0.95, -0.005, 0.003, 1.16))
DEPTH = Intrinsics(160, 120, 142.0, 142.5, 78.0, 58.5)
ROS_FILE = """
image_width: 640
image_height: 480
camera_name: camera
camera_matrix: {rows: 3, cols: 3, data: [525.0, 0, 319.5, 0, 526.0, 239.5, 0, 0, 1]}
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.1, -0.2, 0.001, 0.002, 0.05]
projection_matrix: {rows: 3, cols: 4, data: [525, 0, 319.5, 0, 0, 526, 239.5, 0, 0, 0, 1, 0]}
"""


@pytest.fixture
def load(tmp_path):
    """Give a function that writes values by OpenCV, and reads the file."""
    return lambda **values: load_storage(written(tmp_path / 'yml', **values))


def extrinsics(degrees=2.0, shift=(25.0, 1.0, -2.0)):
    matrix = np.zeros((3, 4))
    matrix[:, :3] = Rotation.from_rotvec([0.2, 1.0, 0.1], degrees=True).as_matrix()
    matrix[:, 3] = shift
    return matrix


def test_intrinsics_as_ros_writes_them():
    assert parse_intrinsics(read_storage(ROS_FILE, 'rgb.yml'), 'rgb.yml') == Intrinsics(
        640, 480, 525.0, 526.0, 319.5, 239.5, (0.1, -0.2, 0.001, 0.002, 0.05))


def test_intrinsics_as_opencv_writes_them(load):
    values = load(image_width=160, image_height=120, camera_matrix=COLOUR.matrix,
                  distortion_coefficients=np.array([COLOUR.distortion]))
    assert parse_intrinsics(values, 'rgb.yml') == COLOUR


def test_a_file_of_an_older_opencv_is_read():
    matrix = ('!!opencv-matrix\n   rows: 3\n   cols: 4\n   dt: d\n   data: [ 1., 0., 0., 26., 0., '
              '1., 0., 0., 0., 0., 1., 0. ]\n')
    values = read_storage(f'%YAML:1.0\n---\nir2rgb: {matrix}', 'extr.yml')
    assert parse_extrinsics(values, 'extr.yml')[0, 3] == pytest.approx(0.026)


def test_extrinsics_are_in_millimetres(load):
    transform = parse_extrinsics(load(ir2rgb=extrinsics()), 'extr.yml')
    np.testing.assert_allclose(transform[:3, 3], [0.025, 0.001, -0.002])
    np.testing.assert_allclose(transform[:3, :3], extrinsics()[:, :3], atol=1e-9)


@pytest.mark.parametrize('mode, expected', [
    (0, [0, 10 + 1.02 * 1000]), (1, [0, 1.02 * 1000]),
    (2, [0, 10 + 1.02 * 1000 + 1e-5 * 1000 ** 2]), (3, [0, 1.02 * 1000 + 1e-5 * 1000 ** 2])])
def test_each_mode_of_the_warp(load, mode, expected):
    ones = np.ones((1, 2))
    warp = parse_warp(
        load(fit_mode=mode, c0=10 * ones, c1=1.02 * ones, c2=1e-5 * ones), 'warp.yml')
    np.testing.assert_allclose(
        unwarp(warp, np.array([[0, 1.0]], np.float32)), [np.array(expected) / 1000], rtol=1e-6)


@pytest.mark.parametrize('parse, values, message', [
    (parse_intrinsics, {}, 'has no camera_matrix; it has nothing'),
    (parse_intrinsics, {'camera_matrix': np.eye(2)}, '3 x 3'),
    (parse_intrinsics, {'camera_matrix': np.zeros((3, 3)), 'image_width': 4, 'image_height': 4},
     'file: the focal lengths'),
    (parse_extrinsics, {'rgb2ir': 1}, 'has no ir2rgb; it has rgb2ir'),
    (parse_extrinsics, {'ir2rgb': np.ones((3, 4))}, 'not a rotation'),
    (parse_extrinsics, {'ir2rgb': extrinsics(shift=(25000.0, 0, 0))}, 'unit is millimetres'),
    (parse_warp, {'fit_mode': 7, 'c1': np.ones((2, 2))}, 'possible: 0 to 3'),
    (parse_warp, {'fit_mode': 2, 'c0': np.ones((2, 2)), 'c1': np.ones((2, 2))}, 'has no c2'),
    (parse_warp, {'fit_mode': 0, 'c0': np.ones((2, 3)), 'c1': np.ones((2, 2))}, 'sizes'),
])
def test_a_wrong_file_is_refused_with_a_reason(parse, values, message):
    with pytest.raises(ConfigurationError, match=message):
        parse(values, 'file')


def test_rectification_agrees_with_opencv():
    image = cv2.resize(np.random.default_rng(1).integers(0, 255, (12, 16, 3), dtype=np.uint8),
                       (160, 120), interpolation=cv2.INTER_CUBIC)
    theirs = cv2.undistort(image, COLOUR.matrix, np.array(COLOUR.distortion))
    ours = Rectifier(COLOUR).colour(image)
    # undistort rounds its maps to 1/32 pixel, which are some grey levels at an edge
    assert np.abs(ours.astype(int) - theirs).max() <= 8
    assert np.abs(ours.astype(int) - theirs).mean() < 0.5
    assert np.abs(ours.astype(int) - image).max() > 20
    plain = COLOUR.without_distortion()
    assert Rectifier(plain).colour(image) is image


def test_rectified_depth_is_never_a_mean_of_two_surfaces():
    depth = np.where(np.arange(160) < 90, 1.0, 3.0).astype(np.float32) * np.ones((120, 1), 'f4')
    assert set(np.unique(Rectifier(COLOUR).depth(depth))) <= {0.0, 1.0, 3.0}


def test_registration_agrees_with_points_projected_by_opencv():
    random = np.random.default_rng(3)
    depth = random.uniform(0.6, 3.0, (120, 160)).astype(np.float32)
    depth[random.random(depth.shape) < 0.2] = 0
    transform = parse_extrinsics({'ir2rgb': extrinsics()}, 'extr.yml')
    colour = COLOUR.without_distortion()
    ours = Registration(DEPTH, colour, transform).register(depth)

    v, u = np.nonzero(depth)
    z = depth[v, u].astype(float)
    points = np.stack([(u - DEPTH.cx) / DEPTH.fx * z, (v - DEPTH.cy) / DEPTH.fy * z, z], axis=1)
    rotation, _ = cv2.Rodrigues(transform[:3, :3])
    pixels, _ = cv2.projectPoints(points, rotation, transform[:3, 3], colour.matrix, None)
    moved = points @ transform[:3, :3].T + transform[:3, 3]
    expected = np.zeros((120, 160))
    for (x, y), place in sorted(zip(np.rint(pixels.reshape(-1, 2)).astype(int), moved),
                                key=lambda each: -each[1][2]):
        if 0 <= x < 160 and 0 <= y < 120:
            expected[y, x] = place[2]
    differ = np.abs(ours - expected) > 1e-5
    assert differ.mean() < 0.001    # pixels on the edge between two, by rounding
    assert (ours == 0).sum() > 500    # holes are not filled


def test_a_calibration_of_any_size_is_refused_before_its_maps_take_memory():
    """Both sides are the greatest that a camera_info can hold: 10^19 pixels."""
    side = 2 ** 32 - 1
    vast = Intrinsics(side, side, side, side, side / 2, side / 2, (0.1, 0.0, 0.0, 0.0, 0.0))
    for depth in (None, vast):
        with pytest.raises(ImageError, match='4 x 3'):
            ImageProcessor(vast, depth, np.eye(4)).process(
                np.zeros((3, 4, 3), np.uint8), np.zeros((3, 4), np.float32))
