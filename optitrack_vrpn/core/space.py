# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Geometry of arrays: points and vectors (n, 3), matrices (n, 3, 3), quaternions (n, 4) as x y z w.

It is for recorded data, with numpy and scipy; ``rotation`` is for single poses that arrive one by
one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

Floats = npt.NDArray[np.float64]

#: Variation (root mean square) below which a series is constant: its correlation would be that of
#: noise. For angular speeds (rad/s) far below any motion.
_CONSTANT = 1e-3
#: Number of attitudes that are computed at once: more need more memory, and exceed the cache.
_PART = 1 << 15


def lengths(vectors: Floats) -> Floats:
    """Return the length of each row."""
    found: Floats = np.sqrt(np.einsum('ij,ij->i', vectors, vectors))
    return found


def transposed(matrices: Floats) -> Floats:
    """Transpose the last two axes."""
    return np.swapaxes(matrices, -1, -2)


def product(matrices: Floats, vectors: Floats) -> Floats:
    """Multiply matrices (..., 3, 3) and vectors (..., 3)."""
    found: Floats = (matrices @ vectors[..., None])[..., 0]
    return found


def skew(vectors: Floats) -> Floats:
    """Return the matrices [v] (..., 3, 3) with [v] w = v x w of vectors (..., 3)."""
    made = np.zeros((*vectors.shape, 3))
    made[..., 0, 1], made[..., 0, 2] = -vectors[..., 2], vectors[..., 1]
    made[..., 1, 0], made[..., 1, 2] = vectors[..., 2], -vectors[..., 0]
    made[..., 2, 0], made[..., 2, 1] = -vectors[..., 1], vectors[..., 0]
    return made


def exponential(vectors: Floats) -> Floats:
    """Return the rotation matrices (n, 3, 3) of rotation vectors (n, 3)."""
    matrices: Floats = Rotation.from_rotvec(vectors).as_matrix()
    return matrices


def logarithm(matrices: Floats) -> Floats:
    """Return the rotation vectors (n, 3) of matrices (n, 3, 3)."""
    vectors: Floats = Rotation.from_matrix(matrices).as_rotvec()
    return vectors


# -- attitudes of one body, one after the other ---------------------------------------------------

def _relative(quats: Floats, step: int) -> tuple[Floats, Floats, Floats]:
    """Return the vector part (3, n) of the turns, its length and the scalar part."""
    x, y, z, w = np.ascontiguousarray(quats.T) / np.sqrt(np.einsum('ij,ij->i', quats, quats))
    (x0, y0, z0, w0), (x1, y1, z1, w1) = ([part[side] for part in (x, y, z, w)]
                                          for side in (slice(-step), slice(step, None)))
    vector = np.stack((w0 * x1 - w1 * x0 - (y0 * z1 - z0 * y1),
                       w0 * y1 - w1 * y0 - (z0 * x1 - x0 * z1),
                       w0 * z1 - w1 * z0 - (x0 * y1 - y0 * x1)))
    return (vector, np.sqrt(np.einsum('ij,ij->j', vector, vector)),
            x0 * x1 + y0 * y1 + z0 * z1 + w0 * w1)


def turns(quats: Floats, step: int = 1) -> Floats:
    """
    Return the rotation vector (rad) from each attitude to a later one, in the body.

    :param quats: (n, 4), of any norm above 0.
    :param step: how many attitudes later.
    :returns: (n - step, 3).
    """
    found = np.empty((len(quats) - step, 3))
    for at in range(0, len(found), _PART):
        vector, sine, scalar = _relative(quats[at:at + _PART + step], step)
        angle = 2.0 * np.arctan2(sine, np.abs(scalar))
        scale = np.divide(angle, sine, out=np.full(len(sine), 2.0), where=sine > 0.0)
        found[at:at + _PART] = (vector * np.where(scalar < 0.0, -scale, scale)).T
    return found


def turn_angles(quats: Floats, step: int = 1) -> Floats:
    """Return the lengths of ``turns`` (rad)."""
    found = np.empty(len(quats) - step)
    for at in range(0, len(found), _PART):
        _, sine, scalar = _relative(quats[at:at + _PART + step], step)
        found[at:at + _PART] = 2.0 * np.arctan2(sine, np.abs(scalar))
    return found


def euler_deg(quats: Floats) -> Floats:
    """Return roll, pitch and yaw (degrees) as rows (3, n) of attitudes of any norm above 0."""
    found = np.empty((3, len(quats)))
    for at in range(0, len(quats), _PART):
        part = quats[at:at + _PART]
        x, y, z, w = np.ascontiguousarray(part.T) / np.sqrt(np.einsum('ij,ij->i', part, part))
        found[:, at:at + _PART] = (
            np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0)),
            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
    return np.degrees(found, out=found)


# -- interpolation --------------------------------------------------------------------------------

def slerp(first: Rotation, second: Rotation, share: Floats) -> Rotation:
    """
    Interpolate between pairs of attitudes along the shorter arc.

    :param share: (n,) 0 gives the first, 1 the second.
    """
    return first * Rotation.from_rotvec(share[:, None] * (first.inv() * second).as_rotvec())


def interpolate_rotations(times: Floats, rotations: Floats, wanted: Floats) -> Floats:
    """Interpolate matrices (n, 3, 3) along the shorter arcs; the outer ones are continued."""
    after = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
    share = (wanted - times[after - 1]) / (times[after] - times[after - 1])
    found: Floats = slerp(Rotation.from_matrix(rotations[after - 1]),
                          Rotation.from_matrix(rotations[after]), share).as_matrix()
    return found


def interpolate_rows(times: Floats, values: Floats, wanted: Floats) -> Floats:
    """Interpolate (n, k) values linearly; outside of the times the first and last values hold."""
    return np.stack([np.interp(wanted, times, column) for column in values.T], axis=1)


# -- alignment ------------------------------------------------------------------------------------

def best_rotation(target: Floats, source: Floats, determinant: float = 1.0) -> Floats:
    """
    Find the matrix R for which R source is nearest to target, by least squares.

    Kabsch, Acta Crystallographica A 32 (1976); the sign as in Umeyama, IEEE PAMI 13(4), 1991.
    If all vectors are on one line, the result is one of several solutions.

    :param target: (..., n, 3).
    :param source: (..., n, 3).
    :param determinant: -1 for the best reflection.
    :returns: (..., 3, 3).
    """
    left, _, right = np.linalg.svd(transposed(target) @ source)
    right[..., 2, :] *= determinant * np.sign(np.linalg.det(left @ right))[..., None]
    found: Floats = left @ right
    return found


def rigid_transform(target: Floats, source: Floats) -> tuple[Floats, Floats]:
    """
    Find rotation R and translation t for which R source + t is nearest to target.

    :param target: (..., n, 3) points with n of at least 3.
    :param source: (..., n, 3), the same points.
    :returns: (..., 3, 3) and (..., 3).
    """
    aim, centre = target.mean(axis=-2, keepdims=True), source.mean(axis=-2, keepdims=True)
    rotation = best_rotation(target - aim, source - centre)
    return rotation, (aim - centre @ transposed(rotation))[..., 0, :]


# -- time offsets ---------------------------------------------------------------------------------

def lag_correlations(first: Floats, second: Floats, least: int) -> Floats:
    """
    Correlate two series at each offset between them.

    :param first: (n,); NaN where it is unknown.
    :param second: (n + 2 lags,), in equal steps, likewise; it begins ``lags`` steps earlier.
    :param least: number of common values that an offset needs.
    :returns: (2 lags + 1,) correlations; -1 with too few common values. Number ``lags`` is for no
        offset, a later one for a first series that lags behind the second.
    """
    lags = (len(second) - len(first)) // 2
    scores = np.full(2 * lags + 1, -1.0)
    for number in range(2 * lags + 1):
        other = second[2 * lags - number:2 * lags - number + len(first)]
        both = np.isfinite(first) & np.isfinite(other)
        if np.count_nonzero(both) >= least:
            scores[number] = _correlation(first[both], other[both])
    return scores


def _correlation(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation; 0 if both hardly vary."""
    a, b = first - first.mean(), second - second.mean()
    scale = float(np.sqrt(np.dot(a, a) * np.dot(b, b)))
    return float(np.dot(a, b)) / scale if scale >= _CONSTANT ** 2 * len(a) else 0.0
