# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Detect keypoints of an image, with position in space and covariance.

Depth of a structured-light camera: Khoshelham and Elberink, "Accuracy and Resolution of Kinect
Depth Data", Sensors 12 (2012). Mixture over the neighbours: Dryanovski, Valenti, Xiao, "Fast
visual odometry and mapping from RGB-D data", ICRA 2013.
"""

from dataclasses import dataclass
import itertools
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.geometry import Floats, Intrinsics, opencv
from optitrack_vrpn.rgbd.images import Bytes, check_sizes, Depth
from optitrack_vrpn.settings import checked, setting

#: Weights of a 3x3 binomial filter, row by row.
_WEIGHTS = np.array([1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0])


@checked
@dataclass(frozen=True)
class FeatureSettings:
    """Selection of keypoints."""

    detector: str = setting(
        'gftt', choices=('gftt', 'orb'), doc='gftt (corners of Shi and Tomasi) or orb')
    count: int = setting(300, low=20, high=5000, doc='most keypoints of a frame')
    quality: float = setting(
        0.01, low=0.0001, high=1.0, doc='gftt: least corner strength as a share of the strongest')
    distance_px: float = setting(
        4.0, unit='px', low=1.0, high=100.0, doc='gftt: least distance between two corners')
    contrast: float = setting(
        4.0, low=0.0, high=100.0,
        doc='least gradient along the weaker direction of a corner (grey levels per pixel); it '
        'rejects corners that noise makes on a white wall')
    max_range_m: float = setting(
        7.0, unit='m', low=0.1, high=100.0, doc='keypoints farther away are not used')
    max_stdev_m: float = setting(
        0.05, unit='m', low=0.001, high=1.0,
        doc='keypoints with a larger deviation of depth are not used; this removes depth edges')
    depth_noise: float = setting(
        0.001425, unit='1/m', low=0.0, high=0.1,
        doc='standard deviation of the depth z is this times z squared; 0.001425: Kinect '
        '(Khoshelham 2012)')
    pixel_noise: float = setting(
        0.5, unit='px', low=0.01, high=20.0, doc='standard deviation of a keypoint')


@dataclass(frozen=True, eq=False)
class Features:
    """
    The keypoints with valid depth.

    :ivar pixels: (N, 2), u and v.
    :ivar means: (N, 3), metres in the optical frame.
    :ivar covariances: (N, 3, 3), square metres.
    :ivar detected: number of keypoints before the limits on depth.
    :ivar found: the cv2.KeyPoints of the detector orb, one per feature; None for gftt.
    """

    pixels: Floats
    means: Floats
    covariances: Floats
    detected: int = 0
    found: Optional[tuple[Any, ...]] = None

    def __len__(self) -> int:
        return len(self.pixels)


def find_features(
    grey: Bytes, depth: Depth, camera: Intrinsics, settings: Optional[FeatureSettings] = None,
) -> Features:
    """Detect keypoints of a grey image with its depth (m), and their positions."""
    settings = settings or FeatureSettings()
    check_sizes(grey, depth, camera)
    pixels, found = detect(grey, depth, settings)
    mean_z, variance_z, valid = depth_mixture(depth, pixels, settings.depth_noise)
    with np.errstate(invalid='ignore'):
        valid &= (mean_z <= settings.max_range_m) & (variance_z <= settings.max_stdev_m ** 2)
    if found is not None:
        found = tuple(itertools.compress(found, valid))
    detected = len(pixels)
    pixels, mean_z, variance_z = pixels[valid], mean_z[valid], variance_z[valid]
    rays = camera.rays(pixels)
    return Features(pixels, rays * mean_z[:, None], covariances_of(
        rays, mean_z, variance_z, camera, settings.pixel_noise), detected, found)


def detect(
    grey: Bytes, depth: Depth, settings: FeatureSettings,
) -> tuple[Floats, Optional[tuple[Any, ...]]]:
    """Detect keypoints at pixels with measured depth; return cv2.KeyPoints too for orb."""
    cv2 = opencv()
    grey = np.ascontiguousarray(grey)
    # 255, because ORB of OpenCV 4 treats smaller values as 0 when it resizes the mask
    mask = (depth > 0) * np.uint8(255)
    if settings.detector == 'gftt':
        corners = cv2.goodFeaturesToTrack(
            grey, settings.count, settings.quality, settings.distance_px, mask=mask)
        pixels = np.zeros((0, 2)) if corners is None else corners.reshape(-1, 2).astype(float)
        return pixels[corner_contrast(grey, pixels) >= settings.contrast], None
    found = cv2.ORB_create(settings.count).detect(grey, mask)
    pixels = np.array([point.pt for point in found], float).reshape(-1, 2)
    strong = corner_contrast(grey, pixels) >= settings.contrast
    return pixels[strong], tuple(itertools.compress(found, strong))


def patches(image: NDArray[Any], pixels: Floats, reach: int) -> NDArray[Any]:
    """Return the squares around pixels, (N, 2 reach + 1, 2 reach + 1), cut from a padded image."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (2 * reach + 1, 2 * reach + 1))
    u, v = np.rint(pixels).astype(int).T
    return windows[v, u]


def corner_contrast(grey: Bytes, pixels: Floats) -> Floats:
    """
    Measure the gradient around pixels along the direction of least change.

    :returns: root of the smaller eigenvalue of the mean gradient tensor over 5x5 pixels, in grey
        levels per pixel (N,).
    """
    # one pixel more than the window on each side: central differences need it
    patch = patches(np.pad(grey, 3, mode='edge'), pixels, 3).astype(np.float32)
    along_u = (patch[:, 1:-1, 2:] - patch[:, 1:-1, :-2]).reshape(-1, 25) / 2
    along_v = (patch[:, 2:, 1:-1] - patch[:, :-2, 1:-1]).reshape(-1, 25) / 2
    uu, vv, uv = ((a * b).mean(axis=1) for a, b in (
        (along_u, along_u), (along_v, along_v), (along_u, along_v)))
    least = (uu + vv) / 2 - np.sqrt(((uu - vv) / 2) ** 2 + uv * uv)
    return np.sqrt(np.maximum(least, 0)).astype(float)


def depth_mixture(
    depth: Depth, pixels: Floats, depth_noise: float,
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """
    Compute mean and variance of the depth at pixels, from a Gaussian mixture of 3x3 neighbours.

    With weights w, depths z and standard deviations s = depth_noise z^2 of the valid neighbours:
    mean = sum w z, variance = sum w (s^2 + z^2) - mean^2. At a depth edge the variance is large.

    :returns: mean (m), variance (m2), and True if the pixel itself has depth, (N,) each.
    """
    near = patches(np.pad(depth, 1), pixels, 1).reshape(-1, 9).astype(float)
    weights = np.where(near > 0, _WEIGHTS, 0.0)
    total = weights.sum(axis=1)
    weights /= np.where(total > 0, total, 1.0)[:, None]
    mean = (weights * near).sum(axis=1)
    # sum w (z - mean)^2 instead of sum w z^2 - mean^2, which loses precision by cancellation
    variance = (weights * ((depth_noise * near ** 2) ** 2
                           + (near - mean[:, None]) ** 2)).sum(axis=1)
    return mean, variance, near[:, 4] > 0    # the centre


def covariances_of(
    rays: Floats, mean_z: Floats, variance_z: Floats, camera: Intrinsics, pixel_noise: float,
) -> Floats:
    """
    Compute the covariances of points z d, d = (x, y, 1), from the variances of z and the pixel.

    :returns: var_z d d^T + (z^2 + var_z) diag(n^2/fx^2, n^2/fy^2, 0), (N, 3, 3).
    """
    covariances = rays[:, :, None] * rays[:, None, :] * variance_z[:, None, None]
    second_moment = mean_z ** 2 + variance_z
    covariances[:, 0, 0] += second_moment * (pixel_noise / camera.fx) ** 2
    covariances[:, 1, 1] += second_moment * (pixel_noise / camera.fy) ** 2
    return covariances
