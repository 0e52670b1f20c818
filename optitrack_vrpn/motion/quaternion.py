# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Quaternion arithmetic on plain floats, (x, y, z, w), Hamilton product.

numpy's overhead on four numbers is ten times the arithmetic, and poses arrive one by one.
"""

from __future__ import annotations

import math

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
