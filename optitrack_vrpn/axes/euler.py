# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Roll, pitch and yaw from an attitude, and back; the equations of the interface thesis.

The rotation is yaw about the third axis, then pitch about the second, then roll about the first
(intrinsic z-y-x). Pitch is limited to +-90 degrees. Near that limit roll and yaw turn about the
same axis and cannot be distinguished (gimbal lock).
"""

import math
from typing import NamedTuple

from optitrack_vrpn.motion.quaternion import Quat

#: Sine of the pitch (89 degrees) above which roll and yaw are reported as undetermined. Chosen: 1
#: / cos(pitch) amplifies the noise of roll and yaw by 57 there. At 88 degrees the factor is 29, at
#: 89.5 degrees 115.
GIMBAL_LOCK_SINE = math.sin(math.radians(89.0))


class Angles(NamedTuple):
    """
    Roll, pitch and yaw.

    :ivar roll: about the first axis (rad), -pi to pi.
    :ivar pitch: about the second axis (rad), -pi/2 to pi/2.
    :ivar yaw: about the third axis (rad), -pi to pi.
    :ivar gimbal_lock: True where roll and yaw are undetermined.
    """

    roll: float
    pitch: float
    yaw: float
    gimbal_lock: bool


def angles_from_quat(q: Quat) -> Angles:
    """
    Convert an attitude to roll, pitch and yaw.

    With q0 the scalar part: roll = atan2(2(q0 q1 + q2 q3), 1 - 2(q1^2 + q2^2)),
    pitch = asin(2(q0 q2 - q3 q1)), yaw = atan2(2(q0 q3 + q1 q2), 1 - 2(q2^2 + q3^2)).

    :param q: a unit quaternion (x, y, z, w), either sign.
    """
    q1, q2, q3, q0 = q
    sine = 2.0 * (q0 * q2 - q3 * q1)
    return Angles(
        math.atan2(2.0 * (q0 * q1 + q2 * q3), 1.0 - 2.0 * (q1 * q1 + q2 * q2)),
        # Rounding can make the sine slightly larger than 1.
        math.asin(max(-1.0, min(1.0, sine))),
        math.atan2(2.0 * (q0 * q3 + q1 * q2), 1.0 - 2.0 * (q2 * q2 + q3 * q3)),
        abs(sine) > GIMBAL_LOCK_SINE)


def quat_from_angles(roll: float, pitch: float, yaw: float) -> Quat:
    """
    Convert roll, pitch and yaw to an attitude: the inverse of ``angles_from_quat``.

    :param roll: about the first axis (rad).
    :param pitch: about the second axis (rad).
    :param yaw: about the third axis (rad).
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
