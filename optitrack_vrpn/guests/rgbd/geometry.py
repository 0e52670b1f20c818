# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rigid transforms as 4x4 matrices, and the pinhole camera with the distortion of OpenCV and ROS.

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
from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.core import space
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]


def opencv() -> Any:
    """Return the module cv2; BackendUnavailableError if it is not installed."""
    try:
        import cv2
    except ImportError as error:
        raise BackendUnavailableError(
            f'OpenCV for Python was not found ({error}): ' + how_to_install(
                'apt install python3-opencv, or pip install opencv-python-headless')) from None
    return cv2


def rigid(rotation: ArrayLike, translation: ArrayLike) -> Floats:
    """Make transforms (..., 4, 4) from rotations (..., 3, 3) and translations (..., 3)."""
    rotation = np.asarray(rotation, float)
    made = np.zeros((*rotation.shape[:-2], 4, 4))
    made[..., :3, :3], made[..., :3, 3], made[..., 3, 3] = rotation, translation, 1.0
    return made


def pose_of(position: ArrayLike, quat_xyzw: ArrayLike) -> Floats:
    """Make a transform from a position and a quaternion."""
    return rigid(Rotation.from_quat(np.asarray(quat_xyzw)).as_matrix(), position)


def rigid_transform(source: Floats, target: Floats) -> Floats:
    """
    Compute the rotation and translation from points to their partners, by least squares.

    :param source: (..., N, 3) with N of at least 3.
    :param target: (..., N, 3).
    :returns: (..., 4, 4), target_from_source; its determinant is always +1.
    """
    return rigid(*space.rigid_transform(target, source))


def transformed(transform: Floats, points: Floats) -> Floats:
    """Apply transforms (..., 4, 4) to points (..., N, 3)."""
    return points @ transform[..., :3, :3].swapaxes(-1, -2) + transform[..., None, :3, 3]


def rotation_vector(rotation: Floats) -> Floats:
    """Return axis times angle (rad) of a rotation matrix; 0 below 1e-5 rad."""
    return opencv().Rodrigues(rotation)[0].ravel()    # several times as fast as scipy


def rotation_matrix(vector: Floats) -> Floats:
    """Return the rotation matrix of axis times angle (rad)."""
    return opencv().Rodrigues(vector)[0]


def motion_of(transform: Floats) -> tuple[float, float]:
    """Return the distance (m) and the angle (rad) of a transform."""
    return (float(np.linalg.norm(transform[:3, 3])),
            float(np.linalg.norm(rotation_vector(transform[:3, :3]))))


@dataclass(frozen=True)
class Intrinsics:
    """The size of an image, its focal lengths, principal point and distortion."""

    width: int
    height: int
    fx: float    # pixels
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()    # k1 k2 p1 p2 [k3 [k4 k5 k6]]

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion)
        if not np.isfinite(numbers).all():
            raise ConfigurationError(f'camera intrinsics must be finite numbers, not {numbers}')
        if self.width < 1 or self.height < 1:
            raise ConfigurationError(
                f'an image of {self.width} x {self.height} pixels is not possible')
        # fields of view of 179 to 0.06 degrees
        low, high = (ratio * max(self.width, self.height) for ratio in (0.01, 1000.0))
        if not (low < self.fx < high and low < self.fy < high):
            raise ConfigurationError(
                f'the focal lengths are {self.fx:g} and {self.fy:g} pixels but must be between '
                f'{low:g} and {high:g}: the camera is not calibrated, or its camera_info is not '
                'filled')
        if len(self.distortion) not in (0, 4, 5, 8):    # OpenCV's 12 and 14 have further terms
            raise ConfigurationError(
                f'{len(self.distortion)} distortion coefficients; 0, 4, 5 or 8 are supported '
                '(k1 k2 p1 p2 k3 k4 k5 k6)')
        object.__setattr__(self, 'distortion', tuple(float(value) for value in self.distortion))

    @classmethod
    def from_camera_info(cls, info: Any, rectified: bool = False) -> 'Intrinsics':
        """Read a CameraInfo; a rectified image has matrix P and no distortion."""
        # drivers of cameras without distortion send '', 'none' or 'None'
        if not rectified and any(info.d) and info.distortion_model not in (
                '', 'plumb_bob', 'rational_polynomial', 'none', 'None'):
            raise ConfigurationError(
                f'camera_info has the distortion model {info.distortion_model!r}, which is not '
                'supported (plumb_bob and rational_polynomial are): rectify the image before')
        matrix = np.reshape(info.p if rectified else info.k, (3, -1)).astype(float)
        distorted = not rectified and any(info.d)
        camera = cls(
            int(info.width), int(info.height), float(matrix[0, 0]), float(matrix[1, 1]),
            float(matrix[0, 2]), float(matrix[1, 2]), tuple(info.d) if distorted else ())
        # such as that of a VGA calibration with QVGA images
        if not (0.1 < camera.cx / camera.width < 0.9 and 0.1 < camera.cy / camera.height < 0.9):
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
        distortion = [*self.distortion, *[0.0] * (5 - len(self.distortion))]
        return {
            'width': self.width, 'height': self.height, 'd': distortion,
            'distortion_model': 'plumb_bob' if len(distortion) == 5 else 'rational_polynomial',
            'k': self.matrix.ravel().tolist(), 'r': np.eye(3).ravel().tolist(),
            'p': np.column_stack([self.matrix, np.zeros(3)]).ravel().tolist()}

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
            # at most 40 steps: the tests need 5 to 15; a strong fish-eye lens does not converge
            out[:, :2] = undistort(
                pixels[:, None], self.matrix, np.array(self.distortion), R=np.eye(3), P=np.eye(3),
                criteria=(cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 40, 1e-10))[:, 0]
        else:
            out[:, :2] = (pixels - (self.cx, self.cy)) / (self.fx, self.fy)
        return out

    def pixel_grid(self) -> Floats:
        """Return all pixels of the image, row by row, as (height * width, 2)."""
        v, u = np.mgrid[:self.height, :self.width]
        return np.stack([u.ravel(), v.ravel()], axis=1).astype(float)
