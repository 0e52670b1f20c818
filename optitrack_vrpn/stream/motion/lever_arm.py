# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Motion and covariance of a point away from a body's origin; angular rates as VRPN sends them.

The base of a robot is fixed to Motive's rigid body at the end of a lever arm (m). Measured and
estimated is the body; a small error e (rad) of its attitude moves the base by e x arm, so that
errors of attitude and position are correlated at the base although they are not at the body.

VRPN's velocity message contains ``vel_quat`` and ``vel_quat_dt``: the rotation of the body in dt
seconds (vrpn_Tracker.h of the VRPN library). Its acceleration message has the same layout.
"""

from __future__ import annotations

from collections.abc import Sequence
import math

from optitrack_vrpn.core.rotation import Quat, to_rotation_vector, Vector
from optitrack_vrpn.stream.motion.gains import Gains

_AXES: tuple[Vector, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def cross(a: Vector, b: Vector) -> Vector:
    """Return a x b."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def _sum(a: Vector, b: Vector) -> Vector:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def velocity_at(arm: Vector, velocity: Vector, rate: Vector) -> Vector:
    """Return the velocity (m/s) at the end of an arm (m); all vectors on the same axes."""
    return _sum(velocity, cross(rate, arm))


def acceleration_at(arm: Vector, acceleration: Vector, rate: Vector, change: Vector) -> Vector:
    """
    Return the acceleration (m/s^2) at the end of an arm; all vectors along the same, fixed axes.

    :param arm: from the body's origin (m).
    :param acceleration: of the body's origin (m/s^2).
    :param rate: angular rate (rad/s).
    :param change: angular acceleration (rad/s^2).
    """
    return _sum(acceleration, _sum(cross(change, arm), cross(rate, cross(rate, arm))))


def pose_covariance_at(arm: Vector, covariance: Sequence[float]) -> list[float]:
    """
    Return the covariance of a pose at the end of an arm.

    :param arm: from the body's origin, in world axes (m).
    :param covariance: of the body's pose, 36 numbers of which those off the diagonal are zero;
        order x, y, z, rotation about fixed X, Y, Z.
    :returns: the same at the end of the arm, row by row.
    """
    x, y, z = arm
    a, b, c = covariance[21], covariance[28], covariance[35]
    return [
        covariance[0] + z * z * b + y * y * c, -x * y * c, -x * z * b, 0.0, z * b, -y * c,
        -x * y * c, covariance[7] + z * z * a + x * x * c, -y * z * a, -z * a, 0.0, x * c,
        -x * z * b, -y * z * a, covariance[14] + y * y * a + x * x * b, y * a, -x * b, 0.0,
        0.0, -z * a, y * a, a, 0.0, 0.0,
        z * b, 0.0, -x * b, 0.0, b, 0.0,
        -y * c, x * c, 0.0, 0.0, 0.0, c]


def twist_covariance_at(
    arm: Vector, linear: Gains, angular: Gains, velocity: Vector, rate: Vector,
) -> list[float]:
    """
    Return the covariance of velocity and angular rate at the end of an arm, in the body's axes.

    An error of the rate adds its cross product with the arm. An error e of the attitude rotates
    the arm, and with it rate x arm; in axes that are rotated by e, velocity and rate have the
    errors velocity x e and rate x e.

    The covariance is a sum over independent errors: the effect of each, at one sigma, on the six
    numbers is a column, and the outer products of the columns add up.

    :param arm: from the body's origin (m); all vectors are in the axes of the result.
    :param linear: covariance of the body's position and velocity.
    :param angular: that of its attitude and rate.
    :param velocity: at the end of the arm (m/s).
    :param rate: angular rate (rad/s).
    :returns: 36 numbers, row by row; order x, y, z, about x, y, z.
    """
    # Part of the rate's error is correlated with the attitude's, the rest is independent.
    tilt = math.sqrt(angular.pp)
    shared = angular.pv / tilt
    own = math.sqrt(max(0.0, angular.vv - shared * shared))
    columns = []
    for axis in _AXES:
        swing = cross(axis, arm)
        p, q, r = cross(rate, swing)
        u, v, w = cross(velocity, axis)
        a, b, c = cross(rate, axis)
        x, y, z = swing
        i, j, k = axis
        columns.append((
            shared * x + tilt * (p + u), shared * y + tilt * (q + v), shared * z + tilt * (r + w),
            shared * i + tilt * a, shared * j + tilt * b, shared * k + tilt * c))
        columns.append((own * x, own * y, own * z, own * i, own * j, own * k))
    rows = list(zip(*columns))
    matrix = [
        a * p + b * q + c * r + d * s + e * t + f * u
        for a, b, c, d, e, f in rows for p, q, r, s, t, u in rows]
    for corner in (0, 7, 14):
        matrix[corner] += linear.vv
    return matrix


def angular_rate(quat_xyzw: Quat, dt: float) -> Vector | None:
    """
    Convert a rotation over dt into a rate.

    The fastest rate that can be represented is half a turn in dt: q and -q are the same rotation,
    and the shorter of the two ways is used.

    :param quat_xyzw: rotation over dt, of any norm.
    :param dt: its duration (s).
    :returns: the rate (rad/s) along the axes of the quaternion's frame, or None where dt is zero,
        negative or not finite, or the quaternion has no usable norm. Servers without a rate send
        the identity over dt zero, which gives None too.
    """
    norm = math.hypot(*quat_xyzw)
    if not (dt > 0.0 and math.isfinite(dt) and 1e-9 < norm < 1e9):
        return None
    x, y, z = to_rotation_vector((
        quat_xyzw[0] / norm, quat_xyzw[1] / norm, quat_xyzw[2] / norm, quat_xyzw[3] / norm))
    rate = (x / dt, y / dt, z / dt)
    return rate if math.isfinite(sum(rate)) else None
