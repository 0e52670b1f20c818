# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A bounded model of landmarks in a fixed frame, and the alignment of points to it.

Each landmark is a static point with mean m and covariance S. A matching point with mean z and
covariance R updates it (Kalman filter with identity matrices):

    S' = S + Q,  K = S' (S' + R)^-1,  m += K (z - m),  S = (I - K) S'

Q = q^2 I is process noise. The error of the camera's pose is common to all points of a frame, so
the errors of successive points of a landmark are not independent. Without Q, the covariance of a
landmark would become too small, and a drifted model would not converge to new measurements. With
Q, S does not fall below about q sqrt(R).

Alignment by iterative closest point (Besl and McKay, PAMI 14, 1992) gives all pairs the same
weight, but the depth of a far point is less certain than its direction by an order of magnitude.
The refinement uses this difference by Gauss-Newton on the Mahalanobis distances (compare Segal,
Haehnel, Thrun, "Generalized-ICP", RSS 2009), and computes the covariance of the result. With a
point x in the fixed frame, its landmark m and C = S_m + S_x, it minimises sum w(d^2) d^2,
d^2 = (m - x)^T C^-1 (m - x).

A small motion (rho, theta) of the fixed frame moves x by rho + theta x x. Poses are perturbed from
the left, so the covariance of a pose refers to the axes and the origin of the fixed frame. It
applies to the camera and to all landmarks that were added from this pose.
"""

from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.space import skew
from optitrack_vrpn.guests.rgbd.geometry import (
    Floats, motion_of, rigid, rigid_transform, rotation_matrix, transformed)
from scipy.spatial import cKDTree

Indices = NDArray[np.intp]


class ModelTuning(NamedTuple):
    """
    The landmarks that are the reference of the camera's motion.

    :ivar capacity: most landmarks; beyond that, a new one replaces the oldest.
    :ivar neighbours: number of nearest landmarks from which the best match is chosen.
    :ivar gate: a point with a greater Mahalanobis distance from all of them is a new landmark;
        with 10, landmarks take points of their neighbours, and the odometry drifts.
    :ivar process_noise_m: process noise of a landmark per update; it limits the certainty of old
        landmarks.
    """

    capacity: int = 5000
    neighbours: int = 4
    gate: float = 3.0
    process_noise_m: float = 0.001


class Matches(NamedTuple):
    """Per point: index of the best landmark (-1: none in the gate), squared distance."""

    landmarks: Indices
    squares: Floats


class LandmarkModel:
    """The landmarks, in arrays."""

    def __init__(self, tuning: Optional[ModelTuning] = None) -> None:
        self.tuning = tuning or ModelTuning()
        capacity = self.tuning.capacity
        self._means = np.zeros((capacity, 3))
        self._covariances = np.zeros((capacity, 3, 3))
        self._frames = np.zeros((capacity, 6, 6))
        self._count = 0
        self._next = 0
        self._tree: Any = None

    def __len__(self) -> int:
        return self._count

    @property
    def means(self) -> Floats:
        """Return the positions of the landmarks, (N, 3) in metres."""
        return self._means[:self._count]

    @property
    def covariances(self) -> Floats:
        """Return the covariances of the landmarks, (N, 3, 3) in square metres."""
        return self._covariances[:self._count]

    @property
    def frame_covariances(self) -> Floats:
        """Return the covariance of the camera pose that added each landmark, (N, 6, 6)."""
        return self._frames[:self._count]

    @property
    def tree(self) -> Any:
        """Return scipy's cKDTree of ``means``."""
        if self._tree is None:
            # sliding midpoint instead of median: half the build time, equal queries (measured)
            self._tree = cKDTree(self.means, balanced_tree=False, compact_nodes=False)
        return self._tree

    def clear(self) -> None:
        """Remove all landmarks."""
        self._count = self._next = 0
        self._tree = None

    def nearest(self, means: Floats) -> Indices:
        """Return the indices (N, k) of the nearest landmarks of each point."""
        count = min(self.tuning.neighbours, self._count)
        if not count or not len(means):
            return np.zeros((len(means), 0), np.intp)
        _, near = self.tree.query(means, k=count)
        return near.reshape(len(means), count)

    def match(
        self, means: Floats, covariances: Floats, near: Optional[Indices] = None,
    ) -> Matches:
        """
        Find the landmark with the least Mahalanobis distance, among the nearest of each point.

        :param means: (N, 3) in the fixed frame.
        :param covariances: (N, 3, 3).
        :param near: (N, k), indices of the candidates; the result of ``nearest`` by default.
        """
        near = self.nearest(means) if near is None else near
        if not near.size:
            return Matches(np.full(len(means), -1, np.intp), np.full(len(means), np.inf))
        squares = mahalanobis_squares(
            means[:, None] - self._means[near],
            self._covariances[near] + covariances[:, None])
        best = np.argmin(squares, axis=1)
        rows = np.arange(len(means))
        least = squares[rows, best]
        matched = least <= self.tuning.gate ** 2
        return Matches(np.where(matched, near[rows, best], -1),
                       np.where(matched, least, np.inf))

    def update(
        self, means: Floats, covariances: Floats, matches: Optional[Matches] = None,
        frame_covariance: Optional[Floats] = None,
    ) -> None:
        """
        Merge the points of a frame; only the best point of a landmark updates it.

        :param means: (N, 3) in the fixed frame.
        :param covariances: (N, 3, 3).
        :param matches: result of ``match`` for the same points; computed here by default.
        :param frame_covariance: (6, 6), of the pose of the frame; stored with each new landmark.
        """
        matches = matches or self.match(means, covariances)
        [known] = np.nonzero(matches.landmarks >= 0)
        # sorted by distance, because unique() keeps the first point of each landmark
        known = known[np.argsort(matches.squares[known], kind='stable')]
        landmarks, first = np.unique(matches.landmarks[known], return_index=True)
        chosen = known[first]
        self._merge(landmarks, means[chosen], covariances[chosen])
        [new] = np.nonzero(matches.landmarks < 0)
        self._append(means[new], covariances[new],
                     np.zeros((6, 6)) if frame_covariance is None else frame_covariance)
        self._tree = None

    def _merge(self, landmarks: Indices, means: Floats, covariances: Floats) -> None:
        before = self._covariances[landmarks] + self.tuning.process_noise_m ** 2 * np.eye(3)
        gain = before @ inverse_3x3(before + covariances)
        self._means[landmarks] += np.einsum('nij,nj->ni', gain, means - self._means[landmarks])
        after = before - gain @ before
        self._covariances[landmarks] = (after + after.transpose(0, 2, 1)) / 2

    def _append(self, means: Floats, covariances: Floats, frame: Floats) -> None:
        capacity = self.tuning.capacity
        means, covariances = means[-capacity:], covariances[-capacity:]
        places = (self._next + np.arange(len(means))) % capacity
        self._means[places], self._covariances[places] = means, covariances
        self._frames[places] = frame
        self._next = (self._next + len(means)) % capacity
        self._count = min(self._count + len(means), capacity)


def _adjugate(matrices: Floats) -> tuple[Floats, ...]:
    """Return the upper triangle of the adjugate by rows, and the determinant."""
    a, b, c = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 0, 2]
    d, e, f = matrices[..., 1, 1], matrices[..., 1, 2], matrices[..., 2, 2]
    first, second, third = d * f - e * e, c * e - b * f, b * e - c * d
    return (first, second, third, a * f - c * c, b * c - a * e, a * d - b * b,
            a * first + b * second + c * third)


def inverse_3x3(matrices: Floats) -> Floats:
    """Invert symmetric positive definite matrices (..., 3, 3); 10 times as fast as numpy's inv."""
    xx, xy, xz, yy, yz, zz, determinant = _adjugate(matrices)
    inverse = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=-1) / determinant[..., None]
    return inverse.reshape(matrices.shape)


def mahalanobis_squares(differences: Floats, covariances: Floats) -> Floats:
    """Compute y^T S^-1 y for differences (..., 3) and covariances (..., 3, 3)."""
    xx, xy, xz, yy, yz, zz, determinant = _adjugate(covariances)
    x, y, z = differences[..., 0], differences[..., 1], differences[..., 2]
    return (x * (xx * x + 2 * (xy * y + xz * z)) + y * (yy * y + 2 * yz * z)
            + zz * z * z) / determinant


class IcpTuning(NamedTuple):
    """
    Alignment of points to the model.

    :ivar rounds: most iterations.
    :ivar distance_m: greatest distance of a pair of points.
    :ivar pairs: fewest pairs; a frame with fewer is not used.
    :ivar stop_m: an iteration that moves by less, and turns by less than ``stop_rad``, is the
        last.
    """

    rounds: int = 10
    distance_m: float = 0.15
    pairs: int = 15
    stop_m: float = 1e-3
    stop_rad: float = 1.7e-3


ICP = IcpTuning()


def align(
    points: Floats, tree: Any, model: Floats, start: Optional[Floats] = None,
    tuning: IcpTuning = ICP,
) -> tuple[Optional[Floats], str]:
    """
    Align points to the nearest points of a model.

    :param points: (N, 3).
    :param tree: scipy's cKDTree of ``model``.
    :param model: (M, 3).
    :param start: 4x4, initial model_from_points; identity by default.
    :returns: model_from_points and '', or None and the reason for the failure.
    """
    transform = np.eye(4) if start is None else start
    moved = transformed(transform, points)
    for _ in range(tuning.rounds):
        distances, nearest = tree.query(
            moved, distance_upper_bound=tuning.distance_m)
        [kept] = np.nonzero(np.isfinite(distances))
        if len(kept) < tuning.pairs:
            return None, (f'{len(kept)} of {len(points)} points lie within '
                          f'{tuning.distance_m:g} m of the model, {tuning.pairs} are needed')
        step = rigid_transform(moved[kept], model[nearest[kept]])
        transform = step @ transform
        moved = transformed(transform, points)
        moved_m, turned_rad = motion_of(step)
        if moved_m < tuning.stop_m and turned_rad < tuning.stop_rad:
            break
    return transform, ''


class RefinementTuning(NamedTuple):
    """
    Refinement of the result of ICP.

    :ivar rounds: Gauss-Newton iterations.
    :ivar outlier_scale: distance beyond which a pair has less than half of its weight (Cauchy), in
        standard deviations.
    """

    rounds: int = 3
    outlier_scale: float = 2.0


REFINEMENT = RefinementTuning()


class Refined(NamedTuple):
    """
    A registration with its covariance.

    :ivar transform: 4x4, fixed_from_points.
    :ivar covariance: (6, 6), of (rho, theta) in metres and radians.
    :ivar matches: matches of all points in the last iteration.
    :ivar inliers: number of points with a landmark within the gate of the model.
    :ivar chi2: mean of d^2 / 3 over the inliers; 1 if the covariances are right.
    """

    transform: Floats
    covariance: Floats
    matches: Matches
    inliers: int
    chi2: float


def rotated(rotation: Floats, covariances: Floats) -> Floats:
    """Rotate covariances (N, 3, 3): R S R^T."""
    return rotation @ covariances @ rotation.T


def refine(
    transform: Floats, points: Floats, covariances: Floats, model: LandmarkModel,
    tuning: RefinementTuning = REFINEMENT,
) -> Refined:
    """Refine fixed_from_points (4x4) for points (N, 3) with covariances (N, 3, 3)."""
    # an iteration moves the points by millimetres and rotates them by milliradians, so the nearest
    # landmarks and the covariances are computed once
    near = model.nearest(transformed(transform, points))
    spreads = rotated(transform[:3, :3], covariances)
    for number in range(tuning.rounds + 1):
        places = transformed(transform, points)
        last = number == tuning.rounds
        # matching again in later iterations changes the ATE by less than 0.2 mm (measured)
        if number < 2 or last:
            matches = model.match(places, spreads, near)
            [kept] = np.nonzero(matches.landmarks >= 0)
            if len(kept) < 3:
                return Refined(transform, np.full((6, 6), np.nan), matches, len(kept), np.inf)
            landmarks = matches.landmarks[kept]
            inverse = inverse_3x3(model.covariances[landmarks] + spreads[kept])
        apart = model.means[landmarks] - places[kept]
        squares = np.einsum('ni,nij,nj->n', apart, inverse, apart)
        weights = 1.0 / (1.0 + squares / tuning.outlier_scale ** 2)
        # a motion about the centre of the points, for which the equations are well conditioned
        centre = places[kept].mean(axis=0)
        jacobian = np.concatenate([
            np.broadcast_to(np.eye(3), inverse.shape),
            -skew(places[kept] - centre)], axis=2)    # theta x p = -p x theta
        weighted = (inverse * weights[:, None, None] @ jacobian).reshape(-1, 6).T
        # the least information keeps the matrix invertible, and limits the deviation of an
        # undetermined direction to 1 km
        normal = weighted @ jacobian.reshape(-1, 6) + 1e-6 * np.eye(6)
        if last:
            break
        step = np.linalg.solve(normal, weighted @ apart.ravel())
        turn = rotation_matrix(step[3:])
        transform = rigid(turn, step[:3] + centre - turn @ centre) @ transform
    to_origin = np.eye(6)
    to_origin[:3, 3:] = skew(centre)
    return Refined(transform, to_origin @ np.linalg.inv(normal) @ to_origin.T, matches, len(kept),
                   float(squares.mean() / 3))
