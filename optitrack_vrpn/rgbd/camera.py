# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The pinhole camera with the distortion model of OpenCV and ROS.

Points are in the optical frame of REP 103: x right, y down, z forward, metres. Pixels are (u, v)
with the centre of the upper left pixel at (0, 0), as in OpenCV. An image has the shape
(height, width).

Distortion is that of OpenCV, "Camera Calibration and 3D Reconstruction", with up to eight
coefficients in the order k1 k2 p1 p2 k3 k4 k5 k6.
"""

from dataclasses import dataclass, replace
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from optitrack_vrpn.cli.loading import how_to_install
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError

Floats = NDArray[np.float64]

#: Models of sensor_msgs/distortion_models.hpp that these coefficients cover; drivers of cameras
#: without distortion send '', 'none' or 'None'.
DISTORTION_MODELS = ('', 'plumb_bob', 'rational_polynomial', 'none', 'None')
#: Numbers of coefficients that OpenCV allows; 12 and 14 contain further terms.
COEFFICIENT_COUNTS = (0, 4, 5, 8)
#: Chosen: margin at each side of the image, as a share of its size; a principal point in the
#: margin is rejected, such as that of a VGA calibration with QVGA images.
_CENTRAL = 0.1
#: Chosen: limits of the focal lengths as a share of the larger side of the image, for fields of
#: view of 179 to 0.06 degrees. With limits twice as wide, more wrong calibrations pass.
_FOCAL = 0.01, 1000.0
#: Limit of fixed-point steps for the removal of distortion. The coefficients in the tests need 5
#: to 15 steps (measured); with a strong fish-eye lens the iteration does not converge.
UNDISTORT_STEPS = 40


@dataclass(frozen=True)
class Intrinsics:
    """
    The size of an image, its focal lengths, principal point and distortion.

    :raises ConfigurationError: from the constructor, for impossible values.
    """

    width: int
    height: int
    fx: float    # pixels
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()    # k1 k2 p1 p2 [k3 [k4 k5 k6]]

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if not all(math.isfinite(number) for number in numbers):
            raise ConfigurationError(f'camera intrinsics must be finite numbers, not {numbers}')
        if self.width < 1 or self.height < 1:
            raise ConfigurationError(
                f'an image of {self.width} x {self.height} pixels is not possible')
        low, high = (ratio * max(self.width, self.height) for ratio in _FOCAL)
        if not (low < self.fx < high and low < self.fy < high):
            raise ConfigurationError(
                f'the focal lengths are {self.fx:g} and {self.fy:g} pixels but must be between '
                f'{low:g} and {high:g}: the camera is not calibrated, or its camera_info is not '
                'filled')
        if len(self.distortion) not in COEFFICIENT_COUNTS:
            raise ConfigurationError(
                f'{len(self.distortion)} distortion coefficients; 0, 4, 5 or 8 are supported '
                '(k1 k2 p1 p2 k3 k4 k5 k6)')
        object.__setattr__(self, 'distortion', tuple(float(value) for value in self.distortion))

    @classmethod
    def from_camera_info(cls, info: Any, rectified: bool = False) -> 'Intrinsics':
        """
        Read a sensor_msgs/CameraInfo, or any object with its fields.

        :param rectified: the image is rectified: use the camera matrix P without distortion.
        :raises ConfigurationError: if the message does not describe a pinhole camera.
        """
        if not rectified and info.distortion_model not in DISTORTION_MODELS and any(info.d):
            raise ConfigurationError(
                f'camera_info has the distortion model {info.distortion_model!r}, which is not '
                'supported (plumb_bob and rational_polynomial are): rectify the image before')
        matrix = [float(value) for value in (info.p if rectified else info.k)]
        row = 4 if rectified else 3
        distortion = () if rectified else tuple(float(value) for value in info.d)
        camera = cls(int(info.width), int(info.height), matrix[0], matrix[row + 1], matrix[2],
                     matrix[row + 2], distortion if any(distortion) else ())
        low, high = _CENTRAL, 1 - _CENTRAL
        if not (low * camera.width < camera.cx < high * camera.width
                and low * camera.height < camera.cy < high * camera.height):
            raise ConfigurationError(
                f'the principal point ({camera.cx:g}, {camera.cy:g}) is at the edge of the image '
                f'of {camera.width} x {camera.height} pixels: is the calibration for another '
                'resolution?')
        return camera._cut(info)

    def _cut(self, info: Any) -> 'Intrinsics':
        """Apply the region of interest and the binning of a CameraInfo; K excludes both."""
        region = getattr(info, 'roi', None)
        left, top, width, height = 0, 0, self.width, self.height
        if region is not None and region.width and region.height:
            left, top = int(region.x_offset), int(region.y_offset)
            width, height = int(region.width), int(region.height)
        across = max(1, int(getattr(info, 'binning_x', 1)))
        down = max(1, int(getattr(info, 'binning_y', 1)))
        # the centre of a binned pixel is the common centre of the pixels it covers
        return replace(
            self, width=width // across, height=height // down, fx=self.fx / across,
            fy=self.fy / down, cx=(self.cx - left + 0.5) / across - 0.5,
            cy=(self.cy - top + 0.5) / down - 0.5)

    def info_values(self) -> dict[str, Any]:
        """Return the fields of sensor_msgs/CameraInfo without the header."""
        fx, fy, cx, cy = self.fx, self.fy, self.cx, self.cy
        return {
            'width': self.width, 'height': self.height,
            'distortion_model': 'rational_polynomial' if len(self.distortion) > 5
            else 'plumb_bob',
            'd': list(self.distortion) if len(self.distortion) >= 5
            else [*self.distortion, 0.0, 0.0, 0.0, 0.0, 0.0][:5],
            'k': [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
            'r': [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            'p': [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        }

    @property
    def matrix(self) -> Floats:
        """Return the camera matrix K, 3x3."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    def without_distortion(self) -> 'Intrinsics':
        """Return the camera of the rectified image, with the same camera matrix."""
        return replace(self, distortion=())

    def scaled(self, factor: float) -> 'Intrinsics':
        """
        Return the camera of the image resized by a factor (0.5: half as wide).

        The centre of a pixel is 0.5 from its corner, so the new principal point is
        (c + 0.5) factor - 0.5, as for cv2.resize.
        """
        if not 0 < factor < math.inf:
            raise ConfigurationError(f'an image cannot be scaled by {factor:g}')
        width, height = max(1, round(self.width * factor)), max(1, round(self.height * factor))
        # cv2.resize computes its factors from the rounded size
        in_x, in_y = width / self.width, height / self.height
        return replace(self, width=width, height=height, fx=self.fx * in_x, fy=self.fy * in_y,
                       cx=(self.cx + 0.5) * in_x - 0.5, cy=(self.cy + 0.5) * in_y - 0.5)

    def rays(self, pixels: ArrayLike) -> Floats:
        """Return the rays, (N, 3) with z = 1, of pixels (N, 2); distortion is removed."""
        pixels = np.asarray(pixels, float)
        out = np.ones((len(pixels), 3))
        if any(self.distortion) and len(pixels):
            cv2 = opencv()
            # OpenCV 4 takes the criteria in another function
            undistort = getattr(cv2, 'undistortPointsIter', cv2.undistortPoints)
            out[:, :2] = undistort(
                pixels[:, None], self.matrix, np.array(self.distortion), R=np.eye(3), P=np.eye(3),
                criteria=(cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, UNDISTORT_STEPS, 1e-10),
            )[:, 0]
        else:
            out[:, :2] = (pixels - (self.cx, self.cy)) / (self.fx, self.fy)
        return out

    def pixel_grid(self) -> Floats:
        """Return all pixels of the image, row by row, as (height * width, 2)."""
        u, v = np.meshgrid(np.arange(self.width), np.arange(self.height))
        grid: Floats = np.stack([u.ravel(), v.ravel()], axis=1).astype(float)
        return grid


def opencv() -> Any:
    """
    Return the module cv2.

    :raises BackendUnavailableError: if it is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise BackendUnavailableError(
            f'OpenCV for Python was not found ({error}): ' + how_to_install(
                'apt install python3-opencv, or pip install opencv-python-headless')) from None
    return cv2
