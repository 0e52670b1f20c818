# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which values of a topic can follow others after a time: each is a ``streams.Reach``; pure."""

import math
from typing import Sequence

#: Fastest motion: 15 m/s, the default of the node, and a margin, which allow 25 m/s at 100 Hz.
_SPEED_M_S, _MARGIN_M = 15.0, 0.1
#: Fastest turn: 1000 deg/s and 20 degrees, which allow 3000 deg/s at 100 Hz.
_TURN_RAD_S, _MARGIN_RAD = math.radians(1000.0), math.radians(20.0)

PoseValues = tuple[Sequence[float], Sequence[float]]
JointValues = tuple[Sequence[str], Sequence[float]]


def pose_reach(before: PoseValues, after: PoseValues, seconds: float) -> bool:
    """Return whether a body can move from one pose (m, quaternion xyzw) to another in a time."""
    (p, q), (r, s) = before, after
    if not math.dist(p, r) <= _MARGIN_M + _SPEED_M_S * seconds:
        return False
    cosine = min(abs(sum(a * b for a, b in zip(q, s))), 1.0)
    return 2.0 * math.acos(cosine) <= _MARGIN_RAD + _TURN_RAD_S * seconds


def joint_reach(before: JointValues, after: JointValues, seconds: float) -> bool:
    """
    Return whether axes (m, rad) can move between two readings in a time.

    NaN, an axis without a value, follows and is followed by any; an angle may change by a turn.
    """
    if list(before[0]) != list(after[0]):
        return False
    most = _MARGIN_M + _SPEED_M_S * seconds
    return not any(
        min(abs(b - a), abs(math.remainder(b - a, 2.0 * math.pi))) > most
        for a, b in zip(before[1], after[1]) if math.isfinite(a) and math.isfinite(b))


def any_reach(before: object, after: object, seconds: float) -> bool:
    """Return True: the values of this topic may jump, as commands do."""
    return True
