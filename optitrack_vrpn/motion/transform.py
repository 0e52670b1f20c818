# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fixed transforms: from a rigid body to the robot's base, and from the mocap world to the user's.

Names read parent_from_child: ``a_from_b`` converts the coordinates of a point in b into those in
a, and is at the same time the pose of b in a.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.euler import quat_from_angles
from optitrack_vrpn.motion.quaternion import (
    conjugate, IDENTITY, multiply, normalised, Quat, rotate, Vector)


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


def body_from_base(values: Sequence[float], where: str = 'offset') -> Transform:
    """
    Read ``bodies.<name>.offset``: the pose of the robot's base in Motive's rigid body.

    Compose it after the body's pose: ``compose(world_from_body, body_from_base)`` is the base's
    pose in the world.

    :param values: x, y, z (m) alone, or followed by roll, pitch, yaw (rad, fixed axes), or by a
        quaternion x, y, z, w. Axes are those of the published body frame (forward, left, up).
    :param where: the setting's name, for messages.
    :raises ConfigurationError: there are not 3, 6 or 7 finite numbers, or the quaternion's norm
        is not 1 within a hundredth.
    """
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (3, 6, 7) or not all(map(math.isfinite, numbers)):
        given = values.tolist() if hasattr(values, 'tolist') else values    # rclpy has arrays
        raise ConfigurationError(
            f'{where} is {given!r}: give x, y, z in metres, then nothing, or roll, pitch, '
            'yaw in radians, or a quaternion x, y, z, w')
    x, y, z, *rest = numbers
    if not rest:
        return Transform((x, y, z))
    if len(rest) == 3:
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
