# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Keypoints of an image, with position in space and covariance; loop edges between keyframes.

Depth of a structured-light camera: Khoshelham and Elberink, "Accuracy and Resolution of Kinect
Depth Data", Sensors 12 (2012). Mixture over the neighbours: Dryanovski, Valenti, Xiao, "Fast
visual odometry and mapping from RGB-D data", ICRA 2013. Descriptors: ORB (Rublee et al., ICCV
2011), compared by Hamming distance. Ratio test: Lowe, IJCV 60 (2004). Three-point RANSAC on points
in space: Fischler and Bolles, CACM 24 (1981).
"""

from dataclasses import dataclass
import itertools
import math
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.space import skew
from optitrack_vrpn.guests.rgbd.geometry import (
    Floats, Intrinsics, opencv, rigid_transform, transformed)
from optitrack_vrpn.guests.rgbd.images import Bytes, check_sizes, Depth

#: Weights of a 3x3 binomial filter, row by row.
_WEIGHTS = np.array([1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0])


class FeatureTuning(NamedTuple):
    """
    Selection of keypoints.

    :ivar detector: gftt (corners of Shi and Tomasi) or orb.
    :ivar keypoints: most keypoints of a frame.
    :ivar quality: gftt: least corner strength as a share of the strongest.
    :ivar distance_px: gftt: least distance between two corners (px).
    :ivar contrast: least gradient along the weaker direction of a corner (grey levels per pixel);
        it rejects corners that noise makes on a white wall.
    :ivar max_range_m: keypoints farther away are not used.
    :ivar max_stdev_m: keypoints with a larger deviation of depth are not used; this removes depth
        edges.
    :ivar depth_noise: the standard deviation of the depth z is this times z squared (1/m).
    :ivar pixel_noise: standard deviation of a keypoint (px).
    """

    detector: str = 'gftt'
    keypoints: int = 300
    quality: float = 0.01
    distance_px: float = 4.0
    contrast: float = 4.0
    max_range_m: float = 7.0
    max_stdev_m: float = 0.05
    depth_noise: float = 0.001425
    pixel_noise: float = 0.5


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
    grey: Bytes, depth: Depth, camera: Intrinsics, tuning: Optional[FeatureTuning] = None,
) -> Features:
    """Detect keypoints of a grey image with its depth (m), and their positions."""
    tuning = tuning or FeatureTuning()
    check_sizes(grey, depth, camera)
    pixels, found = detect(grey, depth, tuning)
    mean_z, variance_z, valid = depth_mixture(depth, pixels, tuning.depth_noise)
    with np.errstate(invalid='ignore'):
        valid &= (mean_z <= tuning.max_range_m) & (variance_z <= tuning.max_stdev_m ** 2)
    if found is not None:
        found = tuple(itertools.compress(found, valid))
    detected = len(pixels)
    pixels, mean_z, variance_z = pixels[valid], mean_z[valid], variance_z[valid]
    rays = camera.rays(pixels)
    return Features(pixels, rays * mean_z[:, None], covariances_of(
        rays, mean_z, variance_z, camera, tuning.pixel_noise), detected, found)


def detect(
    grey: Bytes, depth: Depth, tuning: FeatureTuning,
) -> tuple[Floats, Optional[tuple[Any, ...]]]:
    """Detect keypoints at pixels with measured depth; return cv2.KeyPoints too for orb."""
    cv2 = opencv()
    grey = np.ascontiguousarray(grey)
    # 255, because ORB of OpenCV 4 treats smaller values as 0 when it resizes the mask
    mask = (depth > 0) * np.uint8(255)
    if tuning.detector == 'gftt':
        corners = cv2.goodFeaturesToTrack(
            grey, tuning.keypoints, tuning.quality, tuning.distance_px, mask=mask)
        pixels = np.zeros((0, 2)) if corners is None else corners.reshape(-1, 2).astype(float)
        return pixels[corner_contrast(grey, pixels) >= tuning.contrast], None
    found = cv2.ORB_create(tuning.keypoints).detect(grey, mask)
    pixels = np.array([point.pt for point in found], float).reshape(-1, 2)
    strong = corner_contrast(grey, pixels) >= tuning.contrast
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


#: Chosen: standard deviations (m, rad) that are added to each edge: the errors of the calibration
#: and of the time between colour and depth.
FLOOR_M, FLOOR_RAD = 0.003, 0.002
#: Measured (bench/rgbd.py, column NEES): the errors of a keypoint in successive frames are
#: correlated. The covariance of a registration is computed for independent errors and multiplied
#: by this factor.
CORRELATION = 4.0


class LoopTuning(NamedTuple):
    """
    Detection of keyframes of the same place.

    :ivar descriptors: most ORB descriptors of a keyframe.
    :ivar candidates: number of keyframes that are compared with a new one: those with the most
        similar descriptors.
    :ivar separation: least difference between the numbers of two keyframes of a loop edge;
        odometry joins successive keyframes.
    :ivar ratio: a descriptor matches if its best distance is less than this share of the second
        best.
    :ivar inlier_m: greatest distance of two points that match.
    :ivar inliers: fewest matches of a loop edge.
    :ivar rounds: most hypotheses of RANSAC.
    :ivar confidence: probability of a sample without outliers at which RANSAC ends early.
    """

    descriptors: int = 400
    candidates: int = 15
    separation: int = 2
    ratio: float = 0.75
    inlier_m: float = 0.03
    inliers: int = 30
    rounds: int = 1000
    confidence: float = 0.99


LOOPS = LoopTuning()


class View(NamedTuple):
    """Features of an image: means (N, 3; m), covariances (N, 3, 3), ORB descriptors (N, 32)."""

    means: Floats = np.zeros((0, 3))
    covariances: Floats = np.zeros((0, 3, 3))
    descriptors: Bytes = np.zeros((0, 32), np.uint8)


class Loop(NamedTuple):
    """
    Two views of the same place.

    :ivar transform: 4x4, pose of the second camera in the first.
    :ivar information: (6, 6), as in ``posegraph.Edge``.
    :ivar inliers: number of matches that agree with the transform.
    """

    transform: Floats
    information: Floats
    inliers: int


def describe(
    grey: Bytes, depth: Depth, camera: Intrinsics, limits: Optional[FeatureTuning] = None,
) -> View:
    """
    Find keypoints and their descriptors.

    :param grey: (height, width) uint8.
    :param depth: (height, width) float32, metres, 0 for none.
    :param limits: range and uncertainty of depth; detector and count are ignored.
    :raises ImageError: if the sizes differ.
    """
    limits = (limits or FeatureTuning())._replace(detector='orb', keypoints=LOOPS.descriptors)
    features = find_features(grey, depth, camera, limits)
    keypoints = list(features.found or ())
    for number, point in enumerate(keypoints):
        point.class_id = number    # compute() drops keypoints at the border
    kept, descriptors = opencv().ORB_create(LOOPS.descriptors).compute(
        np.ascontiguousarray(grey), keypoints)
    if descriptors is None:
        return View()
    index = [point.class_id for point in kept]
    return View(features.means[index], features.covariances[index], descriptors)


class Places:
    """All views so far; candidates for the place of a new view are searched among them."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def add(self, view: View) -> None:
        """Append a view; its number is the count of earlier views."""
        self.views.append(view)

    def candidates(self, number: int) -> list[int]:
        """
        Return the earlier views with the most similar descriptors, the most similar first.

        Each descriptor of the view votes for the views of its 4 nearest neighbours among all
        descriptors of views that are at least ``separation`` earlier.
        """
        earlier = self.views[:max(0, number - LOOPS.separation + 1)]
        owners = np.repeat(np.arange(len(earlier)), [len(view.means) for view in earlier])
        own = self.views[number].descriptors
        if not len(owners) or not len(own):
            return []
        _, nearest = nearest_descriptors(
            own, np.concatenate([view.descriptors for view in earlier]), 4)
        votes = np.bincount(owners[nearest.ravel()], minlength=len(earlier))
        order = np.argsort(-votes, kind='stable')[:LOOPS.candidates]
        return [int(index) for index in order if votes[index]]

    def loops(self, number: int) -> list[tuple[int, Loop]]:
        """Return the earlier views that show the place of a view, with the motion between them."""
        found = ((index, match_views(self.views[index], self.views[number]))
                 for index in self.candidates(number))
        return [(index, loop) for index, loop in found if loop is not None]


def match_views(first: View, second: View) -> Optional[Loop]:
    """Find the motion between two views; None if too few matches agree."""
    pairs = match_descriptors(first.descriptors, second.descriptors, LOOPS.ratio)
    if len(pairs) < LOOPS.inliers:
        return None
    target, source = first.means[pairs[:, 0]], second.means[pairs[:, 1]]
    inliers = ransac(source, target)
    if np.count_nonzero(inliers) < LOOPS.inliers:
        return None
    transform = rigid_transform(source[inliers], target[inliers])
    information = edge_information(
        transform, source[inliers], first.covariances[pairs[inliers, 0]],
        second.covariances[pairs[inliers, 1]])
    return Loop(transform, information, int(np.count_nonzero(inliers)))


def match_descriptors(first: Bytes, second: Bytes, ratio: float) -> NDArray[np.intp]:
    """Match descriptors (Hamming, ratio test); return pairs of indices (M, 2)."""
    if len(first) < 2 or not len(second):
        return np.zeros((0, 2), np.intp)
    distances, nearest = nearest_descriptors(second, first, 2)
    [good] = np.nonzero(distances[:, 0] < ratio * distances[:, 1])
    # sorted by distance, because unique() keeps the first
    good = good[np.argsort(distances[good, 0], kind='stable')]
    own, firsts = np.unique(nearest[good, 0], return_index=True)
    return np.stack([own, good[firsts]], axis=1).astype(np.intp)


def nearest_descriptors(queries: Bytes, among: Bytes, number: int) -> tuple[Any, Any]:
    """Return distances and indices (N, K) of the nearest descriptors."""
    cv2 = opencv()
    return cv2.batchDistance(
        queries, among, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=min(number, len(among)))


def ransac(source: Floats, target: Floats) -> NDArray[np.bool_]:
    """
    Find the pairs of points that agree with one rigid motion.

    :param source: (N, 3).
    :param target: (N, 3).
    :returns: (N,), True for the inliers of the motion with the most inliers; all False without
        one.
    """
    count = len(source)
    best: NDArray[np.bool_] = np.zeros(count, bool)
    if count < 3:
        return best
    random = np.random.default_rng(1)    # the same images give the same graph
    done, needed = 0, float(LOOPS.rounds)
    while done < min(needed, LOOPS.rounds):
        samples = random.integers(0, count, (100, 3))    # evaluated at once
        samples = samples[(samples != np.roll(samples, 1, axis=1)).all(axis=1)]
        done += 100
        moved = transformed(rigid_transform(source[samples], target[samples]), source)
        close = np.sum((moved - target) ** 2, axis=2) <= LOOPS.inlier_m ** 2
        winner = int(np.argmax(close.sum(axis=1)))
        if close[winner].sum() > best.sum():
            best = close[winner]
            miss = 1.0 - float(best.mean()) ** 3
            needed = 0.0 if miss <= 0 else math.log(1 - LOOPS.confidence) / math.log(miss)
    return best


def edge_information(
    transform: Floats, source: Floats, target_covariances: Floats, source_covariances: Floats,
) -> Floats:
    """
    Compute the information matrix of a motion from the covariances of its points.

    The error of a pair is a - (R exp(p) b + t + d). The information of (d, p) is the sum of
    J' S^-1 J with J = [-I, R [b]x] and S = S_a + R S_b R'.

    :returns: (6, 6).
    """
    rotation = transform[:3, :3]
    jacobian = np.concatenate([np.broadcast_to(-np.eye(3), (len(source), 3, 3)),
                               rotation @ skew(source)], axis=2)
    spread = target_covariances + rotation @ source_covariances @ rotation.T
    information = np.einsum('nab,nac,ncd->bd', jacobian, np.linalg.inv(spread), jacobian)
    covariance = CORRELATION * np.linalg.inv(information) + np.diag(
        [FLOOR_M ** 2] * 3 + [FLOOR_RAD ** 2] * 3)
    inverse = np.linalg.inv(covariance)
    return (inverse + inverse.T) / 2
