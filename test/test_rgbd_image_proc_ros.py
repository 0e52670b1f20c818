# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node rgbd_image_proc with real topics."""

import cv2
import numpy as np
from optitrack_vrpn.guests.rgbd.calibration import Registration
from optitrack_vrpn.guests.rgbd.camera_node_ros import RgbdImageProc, stamp_ns
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import to_depth, to_rgb
import pytest
from rgbd_graph import active, Driver, OPTICAL
from rgbd_kit import projected, written
from rosgraph import NodeProcess, wait_until
from sensor_msgs.msg import CameraInfo, Image, PointCloud2

pytestmark = [pytest.mark.ros, pytest.mark.network]

COLOUR = Intrinsics(160, 120, 131.0, 130.0, 80.5, 59.0)
DEPTH = Intrinsics(160, 120, 142.0, 142.5, 78.0, 58.5)
SHIFT = np.array([[1.0, 0, 0, 25], [0, 1, 0, 0], [0, 0, 1, 0]])


class Camera(Driver):
    """Publish raw images, and hear the processed ones."""

    def __init__(self, observer):
        super().__init__(observer, 'camera/rgb/image_color', 'camera/depth/image_raw',
                         'camera/rgb/camera_info')
        self.publishers.append(self.publisher(CameraInfo, 'camera/depth/camera_info'))
        self.outputs = [observer.listen(kind, f'rgbd/{name}', 10) for kind, name in (
            (Image, 'rgb'), (Image, 'depth'), (CameraInfo, 'info'), (PointCloud2, 'cloud'))]
        self.rgb = np.random.default_rng(1).integers(0, 255, (120, 160, 3), dtype=np.uint8)
        self.depth = np.full((120, 160), 2.0, np.float32)
        self.depth[:, :40] = 0

    def show(self):
        """Publish everything once."""
        self.stamp_ns += 33_000_000
        self.describe(COLOUR)
        self.describe(DEPTH, 3)
        self.pair(self.rgb, self.depth, lag_ns=2_000_000)

    def said(self, text):
        """Wait for diagnostics with a text, while images come."""
        self.diagnosis(text, self.show)


@pytest.fixture
def files(tmp_path):
    ones = np.ones((120, 160))
    return {f'{name}_file': written(tmp_path / f'{name}.yml', **values) for name, values in (
        ('extrinsics', {'ir2rgb': SHIFT}),
        ('warp', {'c0': 0 * ones, 'c1': 1.05 * ones, 'c2': 0 * ones, 'fit_mode': 0}))}


def test_raw_images_become_registered_ones(observer, files):
    camera = Camera(observer)
    with active(RgbdImageProc, scale=0.5, frozen_after_s=0.0, **files):
        wait_until(lambda: camera.show() or all(len(each) for each in camera.outputs))
        rgb, depth, info, cloud = (each.messages()[-1] for each in camera.outputs)
        size = COLOUR.scaled(0.5)
        assert Intrinsics.from_camera_info(info) == size
        np.testing.assert_array_equal(to_rgb(rgb), cv2.resize(
            camera.rgb, (80, 60), interpolation=cv2.INTER_AREA))
        transform = np.eye(4)
        transform[0, 3] = 0.025
        expected = Registration(DEPTH, size, transform).register(camera.depth * np.float32(1.05))
        np.testing.assert_allclose(to_depth(depth), expected, atol=0.001)
        assert 0 < (to_depth(depth) == 0).sum() < 3000
        # each keeps its stamp, all have the frame of the colour camera
        assert (stamp_ns(depth.header) - 2_000_000) % 33_000_000 == stamp_ns(
            rgb.header) % 33_000_000
        assert {each.header.frame_id for each in (rgb, depth, info, cloud)} == {OPTICAL}
        points = np.frombuffer(cloud.data, '<f4').reshape(-1, 4)
        assert len(points) == np.count_nonzero(expected)
        np.testing.assert_allclose(points[:, 2], 2.1, atol=1e-3)
        colours = np.frombuffer(cloud.data, 'u1').reshape(-1, 16)[:, 14:11:-1]
        seen = np.rint(projected(size, points[:, :3])).astype(int)
        np.testing.assert_array_equal(colours, to_rgb(rgb)[seen[:, 1], seen[:, 0]])
        camera.said('processing')


def test_faults_are_named(observer):
    camera = Camera(observer)
    with active(RgbdImageProc, aligned=True, frozen_after_s=0.0):
        camera.depth = camera.depth[:60]
        camera.said('depth image has 160 x 60 pixels, its calibration 160 x 120')
        camera.publishers[0], camera.publishers[1] = camera.publishers[1], camera.publishers[0]
        camera.said('depth swapped')
        assert all(len(output) == 0 for output in camera.outputs)


@pytest.mark.parametrize('parameters, message', [
    ({}, 'extrinsics_file: set the file'),
    ({'extrinsics_file': '/nowhere/extr.yml'}, '/nowhere/extr.yml: cannot be read'),
    ({'aligned': True, 'warp_file': '/nowhere/warp.yml'}, '/nowhere/warp.yml: cannot be read')])
def test_a_missing_file_is_an_error_and_not_left_out(parameters, message):
    arguments = [word for name, value in parameters.items()
                 for word in ('-p', f'{name}:={str(value).lower()}')]
    with NodeProcess('-p', 'autostart:=true', '-p', 'control.generations:=[none]', *arguments,
                     tool='rgbd_image_proc') as process:
        process.wait_for(message)
        process.wait_for('autostart stops')
