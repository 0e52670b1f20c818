# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A bounded model of landmarks in a fixed frame, each with a Kalman filter.

Each landmark is a static point with mean m and covariance S. A matching point with mean z and
covariance R updates it (Kalman filter with identity matrices):

    S' = S + Q,  K = S' (S' + R)^-1,  m += K (z - m),  S = (I - K) S'

Q = q^2 I is process noise. The error of the camera's pose is common to all points of a frame, so
the errors of successive points of a landmark are not independent. Without Q, the covariance of a
landmark would become too small, and a drifted model would not converge to new measurements. With
Q, S does not fall below about q sqrt(R).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.settings import checked, setting
from scipy.spatial import cKDTree

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@checked
@dataclass(frozen=True)
class ModelSettings:
    """The landmarks that are the reference of the camera's motion."""

    capacity: int = setting(
        5000, low=100, high=100000, doc='most landmarks; beyond that, a new one replaces the '
        'oldest')
    neighbours: int = setting(
        4, low=1, high=32, doc='number of nearest landmarks from which the best match is chosen')
    gate: float = setting(
        3.0, unit='sigma', low=0.1, high=100.0,
        doc='a point with a greater Mahalanobis distance from all of them is a new landmark; with '
        '10, landmarks take points of their neighbours, and the odometry drifts')
    process_noise_m: float = setting(
        0.001, unit='m', low=0.0, high=0.1,
        doc='process noise of a landmark per update; it limits the certainty of old landmarks')


class Matches(NamedTuple):
    """
    Points and their landmarks.

    :ivar landmarks: (N,), index of the best landmark, -1 for none within the gate.
    :ivar squares: (N,), squared Mahalanobis distance to it; infinite for none.
    """

    landmarks: Indices
    squares: Floats


class LandmarkModel:
    """The landmarks, in arrays."""

    def __init__(self, settings: Optional[ModelSettings] = None) -> None:
        self.settings = settings or ModelSettings()
        capacity = self.settings.capacity
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
        """
        Return the indices of the nearest landmarks of each point, nearest first.

        :param means: (N, 3) in the fixed frame.
        :returns: (N, k) with at most ``settings.neighbours`` columns.
        """
        count = min(self.settings.neighbours, self._count)
        if not count or not len(means):
            return np.zeros((len(means), 0), np.intp)
        _, near = self.tree.query(means, k=count)
        nearest: Indices = near.reshape(len(means), count)
        return nearest

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
        matched = least <= self.settings.gate ** 2
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
        if len(new) or len(landmarks):
            self._tree = None

    def _merge(self, landmarks: Indices, means: Floats, covariances: Floats) -> None:
        if not len(landmarks):
            return
        before = self._covariances[landmarks]
        before[:, range(3), range(3)] += self.settings.process_noise_m ** 2
        gain = before @ inverse_3x3(before + covariances)
        self._means[landmarks] += np.einsum(
            'nij,nj->ni', gain, means - self._means[landmarks])
        after = before - gain @ before
        self._covariances[landmarks] = (after + after.transpose(0, 2, 1)) / 2

    def _append(self, means: Floats, covariances: Floats, frame: Floats) -> None:
        capacity = self.settings.capacity
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
    squares: Floats = (x * (xx * x + 2 * (xy * y + xz * z)) + y * (yy * y + 2 * yz * z)
                       + zz * z * z) / determinant
    return squares
