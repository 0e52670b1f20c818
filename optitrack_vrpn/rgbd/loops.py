# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find loop edges of keyframes: places, matches of ORB descriptors, RANSAC, motion; their settings.

Descriptors: ORB (Rublee et al., ICCV 2011), compared by Hamming distance. Ratio test: Lowe,
IJCV 60 (2004). Three-point RANSAC on points in space: Fischler and Bolles, CACM 24 (1981).
"""

from dataclasses import dataclass, replace
import math
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.features import FeatureSettings, find_features
from optitrack_vrpn.rgbd.geometry import (
    cross_matrices, Floats, Intrinsics, opencv, rigid_transform, transformed)
from optitrack_vrpn.rgbd.images import Bytes, Depth
from optitrack_vrpn.rgbd.odometry import CORRELATION
from optitrack_vrpn.settings import checked, setting

#: Chosen: standard deviations (m, rad) that are added to each edge: the errors of the calibration
#: and of the time between colour and depth.
FLOOR_M, FLOOR_RAD = 0.003, 0.002


@checked
@dataclass(frozen=True)
class LoopSettings:
    """Detection of keyframes of the same place."""

    descriptors: int = setting(400, low=20, high=5000, doc='most ORB descriptors of a keyframe')
    candidates: int = setting(
        15, low=1, high=1000, doc='number of keyframes that are compared with a new one: those '
        'with the most similar descriptors')
    separation: int = setting(
        2, low=1, high=1000,
        doc='least difference between the numbers of two keyframes of a loop edge; odometry '
        'joins successive keyframes')
    ratio: float = setting(
        0.75, low=0.1, high=1.0, doc='a descriptor matches if its best distance is less than '
        'this share of the second best')
    inlier_m: float = setting(
        0.03, unit='m', low=0.001, high=1.0, doc='greatest distance of two points that match')
    inliers: int = setting(30, low=4, high=1000, doc='fewest matches of a loop edge')
    rounds: int = setting(1000, low=10, high=100000, doc='maximum number of RANSAC hypotheses')
    confidence: float = setting(
        0.99, low=0.5, high=0.999999,
        doc='probability of a sample without outliers at which RANSAC ends early')


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
    grey: Bytes, depth: Depth, camera: Intrinsics, settings: LoopSettings,
    limits: Optional[FeatureSettings] = None,
) -> View:
    """
    Find keypoints and their descriptors.

    :param grey: (height, width) uint8.
    :param depth: (height, width) float32, metres, 0 for none.
    :param limits: range and uncertainty of depth; detector and count are ignored.
    :raises ImageError: if the sizes differ.
    """
    limits = replace(limits or FeatureSettings(), detector='orb', count=settings.descriptors)
    features = find_features(grey, depth, camera, limits)
    keypoints = list(features.found or ())
    for number, point in enumerate(keypoints):
        point.class_id = number    # compute() drops keypoints at the border
    kept, descriptors = opencv().ORB_create(settings.descriptors).compute(
        np.ascontiguousarray(grey), keypoints)
    if descriptors is None:
        return View()
    index = [point.class_id for point in kept]
    return View(features.means[index], features.covariances[index], descriptors)


class Places:
    """All views so far; candidates for the place of a new view are searched among them."""

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
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
        earlier = self.views[:max(0, number - self.settings.separation + 1)]
        owners = np.repeat(np.arange(len(earlier)), [len(view.means) for view in earlier])
        own = self.views[number].descriptors
        if not len(owners) or not len(own):
            return []
        _, nearest = nearest_descriptors(
            own, np.concatenate([view.descriptors for view in earlier]), 4)
        votes = np.bincount(owners[nearest.ravel()], minlength=len(earlier))
        order = np.argsort(-votes, kind='stable')[:self.settings.candidates]
        return [int(index) for index in order if votes[index]]

    def loops(self, number: int) -> list[tuple[int, Loop]]:
        """Return the earlier views that show the place of a view, with the motion between them."""
        found = ((index, match_views(self.views[index], self.views[number], self.settings))
                 for index in self.candidates(number))
        return [(index, loop) for index, loop in found if loop is not None]


def match_views(first: View, second: View, settings: LoopSettings) -> Optional[Loop]:
    """Find the motion between two views; None if too few matches agree."""
    pairs = match_descriptors(first.descriptors, second.descriptors, settings.ratio)
    if len(pairs) < settings.inliers:
        return None
    target, source = first.means[pairs[:, 0]], second.means[pairs[:, 1]]
    inliers = ransac(source, target, settings)
    if np.count_nonzero(inliers) < settings.inliers:
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


def ransac(source: Floats, target: Floats, settings: LoopSettings) -> NDArray[np.bool_]:
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
    done, needed = 0, float(settings.rounds)
    while done < min(needed, settings.rounds):
        samples = random.integers(0, count, (100, 3))    # evaluated at once
        samples = samples[(samples != np.roll(samples, 1, axis=1)).all(axis=1)]
        done += 100
        moved = transformed(rigid_transform(source[samples], target[samples]), source)
        close = np.sum((moved - target) ** 2, axis=2) <= settings.inlier_m ** 2
        winner = int(np.argmax(close.sum(axis=1)))
        if close[winner].sum() > best.sum():
            best = close[winner]
            miss = 1.0 - float(best.mean()) ** 3
            needed = 0.0 if miss <= 0 else math.log(1 - settings.confidence) / math.log(miss)
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
                               rotation @ cross_matrices(source)], axis=2)
    spread = target_covariances + rotation @ source_covariances @ rotation.T
    information = np.einsum('nab,nac,ncd->bd', jacobian, np.linalg.inv(spread), jacobian)
    covariance = CORRELATION * np.linalg.inv(information) + np.diag(
        [FLOOR_M ** 2] * 3 + [FLOOR_RAD ** 2] * 3)
    inverse = np.linalg.inv(covariance)
    return (inverse + inverse.T) / 2
