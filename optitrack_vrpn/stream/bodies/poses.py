# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses before the history of a body is known: bad numbers and repetitions."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from optitrack_vrpn.core.rotation import angle_between, normalised, Quat, Vector
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import Disposition, NEVER_NS

NO_REACH_LIMIT = 1e9
"""Distance (m) that stands for no limit, and from the origin that is not a position any more."""
LEVER_ARM = 0.1
"""
Metres per radian when the distances of a pose from two places are compared. Chosen: markers are
about 0.1 m from the origin of a body.
"""


class TimedPose(NamedTuple):
    """
    One pose.

    :ivar now: sender time (ns).
    :ivar position: (m), as sent.
    :ivar quat: attitude of unit norm.
    """

    now: int
    position: Vector
    quat: Quat


def pose_distance(p: Vector, a: Quat, q: Vector, b: Quat) -> float:
    """
    Return the distance (m) of two poses as one number.

    :param p, a: position (m) and attitude of one.
    :param q, b: those of the other.
    :returns: the distance of the positions plus ``LEVER_ARM`` times the angle (rad).
    """
    return math.dist(p, q) + LEVER_ARM * angle_between(a, b)


UNIT_ERROR: Final = 4e-15
"""
Deviation of a squared norm from 1 by rounding of doubles; such a quaternion is passed unchanged.
"""
NORM_RANGE = (1e-3, 1e9)
"""Norms of a quaternion that are normalised without loss of digits. Chosen, far from any use."""


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


class RepetitionDetector:
    """
    Recognise poses that are equal bit for bit.

    :ivar pose: position and attitude, as sent, of the last finite pose; None for none.
    :ivar since_ns: sender time (ns) since which it has been the same.
    """

    __slots__ = ('pose', 'since_ns')

    def __init__(self) -> None:
        self.pose: tuple[Vector, Quat] | None = None
        self.since_ns = NEVER_NS

    def repeats(self, now: int, position: Vector, raw: Quat,
                valid: tuple[Vector, Quat] | None) -> bool:
        """
        Process a pose; return whether it equals the last one, or the last valid one.

        A server that was restarted can repeat the last valid one after another pose.

        :param now: its sender time (ns).
        :param valid: position and attitude, as sent, of the last valid pose.
        """
        if self.pose is not None and position == self.pose[0]:
            same = raw in (self.pose[1], negated(self.pose[1]))
        else:
            same = valid is not None and position == valid[0] and raw == valid[1]
        if not same:
            self.pose, self.since_ns = (position, raw), now
        return same
