# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the numbers of a single pose show: zeros, NaN, wrong norms; signs of an attitude."""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.limits import NO_REACH_LIMIT
from optitrack_vrpn.motion.quaternion import normalised, Quat, Vector

UNIT_ERROR: Final = 4e-15
"""
Deviation of a squared norm from 1 by rounding of doubles; such a quaternion is passed unchanged.
Doubled or halved, only the last bit of a quaternion changes.
"""
NORM_RANGE = (1e-3, 1e9)
"""
Norms of a quaternion that are normalised without loss of digits. Chosen, far from any use. Halved
or doubled, no quaternion in use is affected.
"""


def fault_of(position: Vector, raw: Quat, config: BodyConfig) -> Disposition | None:
    """Return why these numbers are not a pose of a body; None if they are."""
    # Filters of numbers near the largest double would give infinity.
    if not (math.hypot(*position) < NO_REACH_LIMIT and math.isfinite(sum(raw))):
        return Disposition.NOT_FINITE
    if (config.detect_zeroed and not any(position) and not any(raw[:3])
            and raw[3] in (0.0, 1.0, -1.0)):
        return Disposition.ZEROED
    norm = math.hypot(*raw)
    if (not NORM_RANGE[0] < norm < NORM_RANGE[1]
            or abs(norm - 1.0) > (config.norm_tolerance or NORM_RANGE[1])):
        return Disposition.NORM
    return None


def negated(q: Quat) -> Quat:
    """Return the same attitude with the other sign."""
    return -q[0], -q[1], -q[2], -q[3]


def unit(q: Quat) -> Quat:
    """Return the attitude with unit norm, the same tuple if only rounding differs from it."""
    x, y, z, w = q
    return q if abs(x * x + y * y + z * z + w * w - 1.0) < UNIT_ERROR else normalised(q)


def continued(before: Quat, quat: Quat) -> Quat:
    """Return an attitude with the sign that continues the one before."""
    a, b, c, d = before
    x, y, z, w = quat
    return quat if a * x + b * y + c * z + d * w >= 0.0 else negated(quat)


def describe(position: Vector, raw: Quat) -> str:
    """Describe numbers that are not a pose."""
    numbers = ', '.join(f'{value:.6g}' for value in position + raw)
    return f'not a pose: x, y, z, qx, qy, qz, qw = {numbers}'
