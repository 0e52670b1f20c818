# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Series of numbers from the poses of a body: turns, Euler angles, running deviation, runs."""

from __future__ import annotations

import numpy as np
from optitrack_vrpn.takes.trajectory import Floats, Mask, Stamps

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
WINDOW = 100


def running_deviation(values: Floats, window: int = WINDOW) -> Floats:
    """
    Return the standard deviation over a sliding window.

    :param values: (n, k).
    :returns: (n - window + 1, k); empty for fewer values.
    """
    if len(values) < window:
        return np.zeros((0, values.shape[1]))
    result = np.empty((len(values) - window + 1, values.shape[1]))
    for axis, column in enumerate(values.T):    # one at a time: it bounds the memory
        centred = column - column.mean()
        mean, square = ((sums[window:] - sums[:-window]) / window for sums in (
            np.concatenate(([0.0], np.cumsum(part))) for part in (centred, centred ** 2)))
        result[:, axis] = np.sqrt(np.maximum(square - mean ** 2, 0.0) * window / (window - 1))
    return result


def worst_deviation(positions: Floats, turned: Floats) -> tuple[Floats, Floats]:
    """
    Return the running deviation of position (m) and attitude (rad), of the worst axis.

    :param positions: (n, 3), metres.
    :param turned: (n - 1, 3), rotation vectors between the poses.
    :returns: (n - 99,) each.
    """
    # Around a fixed attitude the turns of noise cancel, so that their sum is the deviation.
    angles = np.concatenate((np.zeros((1, 3)), np.cumsum(turned, axis=0)))
    position, attitude = (running_deviation(values).max(axis=1, initial=0.0)
                          for values in (positions, angles))
    return position, attitude


def turns(quats: Floats, step: int = 1) -> Floats:
    """
    Return the rotation vector (rad) from each attitude to a later one.

    :param quats: (n, 4), x y z w, of any norm above 0.
    :param step: how many attitudes later.
    :returns: (n - step, 3).
    """
    x, y, z, w = np.ascontiguousarray(quats.T) / np.sqrt(np.einsum('ij,ij->i', quats, quats))
    (x0, y0, z0, w0), (x1, y1, z1, w1) = ([part[side] for part in (x, y, z, w)]
                                          for side in (slice(-step), slice(step, None)))
    vector = np.stack((w0 * x1 - w1 * x0 - (y0 * z1 - z0 * y1),
                       w0 * y1 - w1 * y0 - (z0 * x1 - x0 * z1),
                       w0 * z1 - w1 * z0 - (x0 * y1 - y0 * x1)))
    scalar = x0 * x1 + y0 * y1 + z0 * z1 + w0 * w1
    sine = np.sqrt((vector * vector).sum(axis=0))
    angle = 2.0 * np.arctan2(sine, np.abs(scalar))
    scale = np.divide(angle, sine, out=np.full(len(sine), 2.0), where=sine > 0.0)
    result: Floats = (vector * np.where(scalar < 0.0, -scale, scale)).T
    return result


def lengths(vectors: Floats) -> Floats:
    """Return the length of each row."""
    found: Floats = np.sqrt(np.einsum('ij,ij->i', vectors, vectors))
    return found


def euler_deg(quats: Floats) -> Floats:
    """Return roll, pitch and yaw (degrees) of attitudes x y z w; (n, 3)."""
    x, y, z, w = (quats / np.linalg.norm(quats, axis=1)[:, None]).T
    result: Floats = np.degrees(np.column_stack((
        np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0)),
        np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))))
    return result


def runs(mask: Mask) -> Stamps:
    """
    Find the runs of true values.

    :returns: (runs, 2), index of the first value and index after the last one.
    """
    edges = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    found: Stamps = np.flatnonzero(edges).reshape(-1, 2)
    return found
