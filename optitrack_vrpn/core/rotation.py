# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rotations and rigid transforms of single poses on plain floats; roll, pitch and yaw.

Quaternions are (x, y, z, w), multiplied as by Hamilton. numpy's overhead on four numbers is ten
times the arithmetic, and poses arrive one by one.

Names of transforms read parent_from_child: ``a_from_b`` converts the coordinates of a point in b
into those in a, and is at the same time the pose of b in a.

Roll, pitch and yaw: yaw about the third axis, then pitch about the second, then roll about the
first (intrinsic z-y-x; equal to roll, pitch, yaw about fixed axes, as in REP 103 and URDF). Near a
pitch of +-90 degrees roll and yaw turn about the same axis and cannot be distinguished.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from optitrack_vrpn.core.errors import ConfigurationError

Quat = tuple[float, float, float, float]
Vector = tuple[float, float, float]

IDENTITY: Quat = (0.0, 0.0, 0.0, 1.0)


def multiply(p: Quat, q: Quat) -> Quat:
    """Compose two rotations: the product p q, in which q is applied first."""
    a, b, c, d = p
    x, y, z, w = q
    return (
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
        d * w - a * x - b * y - c * z)


def conjugate(q: Quat) -> Quat:
    """Invert a rotation."""
    return (-q[0], -q[1], -q[2], q[3])


def normalised(q: Quat) -> Quat:
    """Scale a quaternion of any norm above zero to unit norm."""
    scale = 1.0 / math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return (q[0] * scale, q[1] * scale, q[2] * scale, q[3] * scale)


def rotate(q: Quat, v: Vector) -> Vector:
    """Turn a vector from the rotated (child) frame to the parent frame."""
    a, b, c, w = q
    x, y, z = v
    tx = 2.0 * (b * z - c * y)
    ty = 2.0 * (c * x - a * z)
    tz = 2.0 * (a * y - b * x)
    return (
        x + w * tx + b * tz - c * ty,
        y + w * ty + c * tx - a * tz,
        z + w * tz + a * ty - b * tx)


def to_rotation_vector(q: Quat) -> Vector:
    """Return axis times angle (rad) of a rotation, the shorter way round."""
    x, y, z, w = q
    if w < 0.0:
        x, y, z, w = -x, -y, -z, -w
    sine = math.sqrt(x * x + y * y + z * z)
    # angle / sin(angle / 2); near zero atan2(s, w) / s tends to 1 / w.
    scale = 2.0 * math.atan2(sine, w) / sine if sine > 1e-150 else 2.0
    return (x * scale, y * scale, z * scale)


def from_rotation_vector(v: Vector) -> Quat:
    """Return the rotation of axis times angle (rad), of any length."""
    x, y, z = v
    square = x * x + y * y + z * z
    if square < 1e-8:
        # Series of sin(a / 2) / a and cos(a / 2): the next terms are below 1e-16.
        scale = 0.5 - square * (1.0 / 48.0)
        return (x * scale, y * scale, z * scale, 1.0 - square * (0.125 - square / 384.0))
    angle = math.sqrt(square)
    scale = math.sin(0.5 * angle) / angle
    return (x * scale, y * scale, z * scale, math.cos(0.5 * angle))


def angle_between(p: Quat, q: Quat) -> float:
    """Return the angle (rad, 0 to pi) between two attitudes; signs do not matter."""
    x, y, z, w = multiply(conjugate(p), q)
    return 2.0 * math.atan2(math.sqrt(x * x + y * y + z * z), abs(w))


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


class Transform(NamedTuple):
    """A rigid transform parent_from_child: the child's origin (m) and attitude."""

    position: Vector = (0.0, 0.0, 0.0)
    quat_xyzw: Quat = IDENTITY

    def inverse(self) -> Transform:
        """Return child_from_parent."""
        back = conjugate(self.quat_xyzw)
        x, y, z = rotate(back, self.position)
        return Transform((-x, -y, -z), back)


def compose(a_from_b: Transform, b_from_c: Transform) -> Transform:
    """Chain two transforms, a_from_b and b_from_c, to a_from_c."""
    x, y, z = rotate(a_from_b.quat_xyzw, b_from_c.position)
    p = a_from_b.position
    return Transform(
        (p[0] + x, p[1] + y, p[2] + z), multiply(a_from_b.quat_xyzw, b_from_c.quat_xyzw))


def body_from_base(values: Any, where: str = 'offset') -> Transform:
    """
    Read ``bodies.<name>.offset``: the pose of the robot's base in Motive's rigid body.

    Compose it after the body's pose: ``compose(world_from_body, body_from_base)`` is the base's
    pose in the world.

    :param values: nothing (the base is the rigid body), or x, y, z (m) alone, or followed by
        roll, pitch, yaw (rad, fixed axes), or by a quaternion x, y, z, w. Axes are those of the
        published body frame (forward, left, up).
    :param where: the setting's name, for messages.
    :raises ConfigurationError: there are not 0, 3, 6 or 7 finite numbers, an angle is larger than
        a turn, or the quaternion's norm is not 1 within a hundredth.
    """
    try:
        numbers = [math.nan] if isinstance(values, str) else [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = [math.nan]
    if len(numbers) not in (0, 3, 6, 7) or not all(map(math.isfinite, numbers)):
        given = values.tolist() if hasattr(values, 'tolist') else values    # rclpy has arrays
        raise ConfigurationError(
            f'{where} is {given!r}: give x, y, z in metres, then nothing, or roll, pitch, '
            'yaw in radians, or a quaternion x, y, z, w')
    if not numbers:
        return Transform()
    x, y, z, *rest = numbers
    if not rest:
        return Transform((x, y, z))
    if len(rest) == 3:
        if max(map(abs, rest)) > 2 * math.pi:
            raise ConfigurationError(
                f'{where} has the angle {max(rest, key=abs):g}: angles are in radians, at most a '
                'turn (6.2832); 90 degrees are 1.5708')
        return Transform((x, y, z), quat_from_angles(*rest))
    if abs(math.hypot(*rest) - 1.0) > 0.01:
        raise ConfigurationError(
            f'{where} has a quaternion of norm {math.hypot(*rest):.4g}: give x, y, z, w of norm 1')
    return Transform((x, y, z), normalised((rest[0], rest[1], rest[2], rest[3])))


def world_from_mocap(origin: Vector, yaw: float) -> Transform:
    """
    Read the world offset: the pose of the user's world in the mocap world.

    Compose it before every pose: ``compose(world_from_mocap, mocap_from_body)``. A body at
    ``origin`` with heading ``yaw`` gets position zero and heading zero.

    :param origin: the user's origin in the mocap world (m, east north up).
    :param yaw: heading of the user's x axis in the mocap world (rad, about up).
    :raises ConfigurationError: a number is not finite.
    """
    if not all(map(math.isfinite, (*origin, yaw))):
        raise ConfigurationError(
            f'world offset is {(*origin, yaw)!r}: give finite x, y, z (m) and yaw (rad)')
    return Transform(origin, quat_from_angles(0.0, 0.0, yaw)).inverse()
