# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Roll, pitch and yaw from an attitude, and back.

The rotation is yaw about the third axis, then pitch about the second, then roll about the first
(intrinsic z-y-x; equal to roll, pitch, yaw about fixed axes, as in REP 103 and URDF). Pitch is
limited to +-90 degrees. Near that limit roll and yaw turn about the same axis and cannot be
distinguished (gimbal lock).
"""

import math
from typing import NamedTuple

from optitrack_vrpn.motion.quaternion import IDENTITY, Quat

#: The convention in the terms of transforms3d.
AXES = 'sxyz'
#: Pitch (rad) above which roll and yaw are reported as undetermined. Chosen: 1 / cos(pitch)
#: amplifies the noise of roll and yaw by 57 there. At 88 degrees the factor is 29, at 89.5 degrees
#: 115.
GIMBAL_LOCK = math.radians(89.0)


class Angles(NamedTuple):
    """Roll (-pi to pi), pitch (-pi/2 to pi/2) and yaw (-pi to pi) about the axes (rad)."""

    roll: float
    pitch: float
    yaw: float

    @property
    def gimbal_lock(self) -> bool:
        """Return whether roll and yaw are undetermined."""
        return abs(self.pitch) > GIMBAL_LOCK


def angles_from_quat(q: Quat) -> Angles:
    """Convert an attitude to roll, pitch, yaw; with a pitch of +-90 degrees yaw is 0."""
    from transforms3d.euler import quat2euler
    x, y, z, w = q
    return Angles(*map(float, quat2euler((w, x, y, z), AXES)))


def quat_from_angles(roll: float, pitch: float, yaw: float) -> Quat:
    """Convert roll, pitch and yaw (rad) to an attitude: ``angles_from_quat`` inverted."""
    if roll == pitch == yaw == 0.0:
        return IDENTITY    # the most frequent offset, without an import that takes 50 ms
    from transforms3d.euler import euler2quat
    w, x, y, z = euler2quat(roll, pitch, yaw, AXES).tolist()
    return (x, y, z, w)
