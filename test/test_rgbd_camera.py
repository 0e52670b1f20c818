# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The pinhole camera against OpenCV."""

from types import SimpleNamespace

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
import pytest
from rgbd_kit import projected

cv2 = pytest.importorskip('cv2')

#: Published calibration of the first camera (fr1) of the TUM RGB-D benchmark.
FR1 = Intrinsics(640, 480, 517.3, 516.5, 318.6, 255.3, (0.2624, -0.9531, -0.0054, 0.0026, 1.1633))
RATIONAL = Intrinsics(640, 480, 500, 505, 322, 238,
                      (0.4, -0.3, 0.001, -0.002, 0.05, 0.5, -0.2, 0.03))
PLAIN = Intrinsics(640, 480, 525, 525, 319.5, 239.5)


def points(count=200):
    random = np.random.default_rng(1)
    z = random.uniform(0.5, 5, count)
    return np.stack([random.uniform(-0.5, 0.5, count) * z, random.uniform(-0.4, 0.4, count) * z,
                     z], axis=1)


@pytest.mark.parametrize('camera', [FR1, RATIONAL, PLAIN])
def test_rays_lead_to_the_points_that_opencv_projected(camera):
    rays = camera.rays(projected(camera, points()))
    np.testing.assert_allclose(rays * points()[:, 2:], points(), atol=1e-6)


def test_a_scaled_camera_sees_a_point_where_the_resized_image_shows_it():
    image = np.zeros((480, 640), np.float32)
    image[200:204, 300:304] = 1.0    # its centre is at (301.5, 201.5)
    small = cv2.resize(image, (320, 240), interpolation=cv2.INTER_AREA)
    v, u = np.nonzero(small)
    [pixel] = projected(PLAIN.scaled(0.5), PLAIN.rays([[301.5, 201.5]]))
    np.testing.assert_allclose(pixel, [u.mean(), v.mean()])
    assert PLAIN.scaled(0.5).width == 320


def test_a_rectified_image_has_the_projection_matrix_and_no_distortion():
    values = FR1.info_values()
    values['p'][0], values['p'][5] = 500.0, 501.0
    camera = Intrinsics.from_camera_info(SimpleNamespace(**values), rectified=True)
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == (500.0, 501.0, FR1.cx, FR1.cy)
    assert camera.distortion == ()


@pytest.mark.parametrize('change, message', [
    ({'k': [0.0] * 9}, 'not calibrated'),
    ({'k': [1.0, 0.0, 320.0, 0.0, 1.0, 240.0, 0.0, 0.0, 1.0]}, 'not calibrated'),
    ({'k': [1e200, 0.0, 320.0, 0.0, 1e200, 240.0, 0.0, 0.0, 1.0]}, 'not calibrated'),
    ({'width': 320, 'height': 240}, 'another resolution'),
    ({'width': 320, 'height': 240, 'k': PLAIN.info_values()['k']}, 'another resolution'),
    ({'k': [float('nan')] * 9}, 'finite'),
    ({'width': 0}, 'not possible'),
    ({'distortion_model': 'equidistant', 'd': [0.1, 0.0, 0.0, 0.0]}, 'equidistant'),
    ({'d': [0.1, 0.2]}, '2 distortion coefficients'),
])
def test_wrong_camera_info_is_refused_with_a_reason(change, message):
    with pytest.raises(ConfigurationError, match=message):
        Intrinsics.from_camera_info(SimpleNamespace(**{**FR1.info_values(), **change}))


def test_region_of_interest_and_binning_are_applied_to_the_matrix():
    region = SimpleNamespace(x_offset=100, y_offset=40, width=320, height=240, do_rectify=False)
    info = SimpleNamespace(**PLAIN.info_values(), binning_x=2, binning_y=2, roi=region)
    camera = Intrinsics.from_camera_info(info)
    assert (camera.width, camera.height) == (160, 120)
    point = [[0.2, 0.1, 2.0]]
    [full], [cut] = projected(PLAIN, point), projected(camera, point)
    # the centre of the first binned pixel is between the first two
    assert cut == pytest.approx((full - (100, 40) - 0.5) / 2)
    whole = SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0)
    info = SimpleNamespace(**PLAIN.info_values(), binning_x=0, binning_y=0, roi=whole)
    assert Intrinsics.from_camera_info(info) == PLAIN
