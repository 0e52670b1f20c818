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

from optitrack_vrpn.motion.quaternion import Quat

#: Pitch (rad) above which roll and yaw are reported as undetermined. Chosen: 1 / cos(pitch)
#: amplifies the noise of roll and yaw by 57 there. At 88 degrees the factor is 29, at 89.5 degrees
#: 115.
GIMBAL_LOCK = math.radians(89.0)


class Angles(NamedTuple):
    """
    Roll, pitch and yaw.

    :ivar roll: about the first axis (rad), -pi to pi.
    :ivar pitch: about the second axis (rad), -pi/2 to pi/2.
    :ivar yaw: about the third axis (rad), -pi to pi.
    """

    roll: float
    pitch: float
    yaw: float

    @property
    def gimbal_lock(self) -> bool:
        """Return whether roll and yaw are undetermined."""
        return abs(self.pitch) > GIMBAL_LOCK


def angles_from_quat(q: Quat) -> Angles:
    """
    Convert an attitude to roll, pitch and yaw.

    With q0 the scalar part: roll = atan2(2(q0 q1 + q2 q3), 1 - 2(q1^2 + q2^2)),
    pitch = asin(2(q0 q2 - q3 q1)), yaw = atan2(2(q0 q3 + q1 q2), 1 - 2(q2^2 + q3^2)).

    :param q: a unit quaternion (x, y, z, w), either sign.
    :returns: the angles; with a pitch of +-90 degrees roll is 0.
    """
    q1, q2, q3, q0 = q
    sine = 2.0 * (q0 * q2 - q3 * q1)
    if abs(sine) > 1.0 - 1e-12:
        # The terms of atan2 vanish; only the sum or the difference of roll and yaw is determined.
        yaw = -2.0 * math.copysign(1.0, sine) * math.atan2(q1, q0)
        return Angles(0.0, math.copysign(0.5 * math.pi, sine), math.remainder(yaw, 2.0 * math.pi))
    return Angles(
        math.atan2(2.0 * (q0 * q1 + q2 * q3), 1.0 - 2.0 * (q1 * q1 + q2 * q2)),
        math.asin(sine),
        math.atan2(2.0 * (q0 * q3 + q1 * q2), 1.0 - 2.0 * (q2 * q2 + q3 * q3)))


def quat_from_angles(roll: float, pitch: float, yaw: float) -> Quat:
    """
    Convert roll, pitch and yaw (rad) to an attitude: the inverse of ``angles_from_quat``.

    :returns: a unit quaternion (x, y, z, w).
    """
    sr, cr = math.sin(0.5 * roll), math.cos(0.5 * roll)
    sp, cp = math.sin(0.5 * pitch), math.cos(0.5 * pitch)
    sy, cy = math.sin(0.5 * yaw), math.cos(0.5 * yaw)
    return (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy)
