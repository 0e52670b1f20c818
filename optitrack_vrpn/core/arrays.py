# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Products of many quaternions, and vectors that they rotate, as arrays of numpy."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def quat_multiply(left: Array, right: Array) -> Array:
    """Multiply quaternions (..., 4) in the order x, y, z, w; the right one acts first."""
    ax, ay, az, aw = np.moveaxis(left, -1, 0)
    bx, by, bz, bw = np.moveaxis(right, -1, 0)
    return np.stack((
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz), axis=-1)


def quat_rotate(quats_xyzw: Array, vectors: Array) -> Array:
    """Rotate vectors (n, 3) by unit quaternions (n, 4)."""
    axis, scalar = quats_xyzw[:, :3], quats_xyzw[:, 3:]
    twice = 2.0 * np.cross(axis, vectors)
    rotated: Array = vectors + scalar * twice + np.cross(axis, twice)
    return rotated
