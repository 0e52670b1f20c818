# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
From OptiTrack's axes to ENU and NED (REP 103), position and attitude.

Motive's world is y-up: x forward, y up, z right. A rigid body's own axes are parallel to the
world's when it is created, so that its nose is along x. Here:

- *Motive y-up*, body axes the same: what everything is brought to first;
- *ENU*: x east, y north, z up; body FLU: x forward, y left, z up;
- *NED*: x north, y east, z down; body FRD: x forward, y right, z down.

Which way Motive's x points on the map is a convention (``motive_x``):

- ``north``: E = z, N = x, U = y; the convention of the original optitrack_vrpn package;
- ``east``: E = x, N = -z, U = y; that of other packages in the field, 90 degrees apart.

In either, a body as created in Motive looks along Motive's x, which is the forward axis of FLU and
FRD. Every conversion below is a change of axes, ``parent_from_child`` on both sides:
``R_enu_flu = P_enu_motive R_motive_body P_body_flu``. The P are rotations by multiples of 90
degrees, so that positions keep every bit and attitudes all but the last.
"""

from dataclasses import dataclass
import math
from typing import Callable, NamedTuple

from optitrack_vrpn.errors import ConfigurationError

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

UP_AXES = ('y', 'z')
MOTIVE_X = ('north', 'east')

_HALF = math.sqrt(0.5)

#: Attitude of NED in ENU (x, y, z, w): half a turn about the axis between x and y.
QUAT_ENU_NED: Quaternion = (_HALF, _HALF, 0.0, 0.0)


class Pose(NamedTuple):
    """A position (m) and an attitude (x, y, z, w; rotates child axes into the parent's)."""

    position: Vector
    quat_xyzw: Quaternion


@dataclass(frozen=True)
class AxesConfig:
    """
    What Motive sends and how its world lies on the map.

    :ivar up_axis: 'y' (Motive's default) or 'z' (x forward, y left, z up).
    :ivar motive_x: 'north' or 'east': where Motive's x axis points on the map.
    """

    up_axis: str = 'y'
    motive_x: str = 'north'

    def __post_init__(self) -> None:
        if self.up_axis not in UP_AXES:
            raise ConfigurationError(f"up_axis is {self.up_axis!r}; allowed are 'y' and 'z'")
        if self.motive_x not in MOTIVE_X:
            raise ConfigurationError(
                f"motive_x is {self.motive_x!r}; allowed are 'north' and 'east'")


def quat_multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """
    Multiply two quaternions (Hamilton's product).

    :returns: the rotation that does b first, then a; x, y, z, w.
    """
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz)


def quat_rotate(quat_xyzw: Quaternion, vector: Vector) -> Vector:
    """Rotate a vector by a unit quaternion (x, y, z, w)."""
    qx, qy, qz, qw = quat_xyzw
    x, y, z = vector
    tx = 2.0 * (qy * z - qz * y)
    ty = 2.0 * (qz * x - qx * z)
    tz = 2.0 * (qx * y - qy * x)
    return (
        x + qw * tx + qy * tz - qz * ty,
        y + qw * ty + qz * tx - qx * tz,
        z + qw * tz + qx * ty - qy * tx)


# -- each convention, position and attitude --------------------------------------------------------

def position_to_enu_north(p: Vector) -> Vector:
    """Take a y-up position to ENU, Motive's x pointing north."""
    return (p[2], p[0], p[1])


def quat_to_enu_north(q: Quaternion) -> Quaternion:
    """
    Take a y-up attitude to that of FLU in ENU, Motive's x pointing north.

    The vector part is permuted as positions are, then follows a rotation by +90 degrees about z,
    which turns the permuted body axes to forward-left-up: ``(z, x, y, w) (0, 0, h, h)``.
    """
    x, y, z, w = q
    return (_HALF * (z + x), _HALF * (x - z), _HALF * (y + w), _HALF * (w - y))


def position_to_ned_north(p: Vector) -> Vector:
    """Take a y-up position to NED, Motive's x pointing north."""
    return (p[0], p[2], -p[1])


def quat_to_ned_north(q: Quaternion) -> Quaternion:
    """Take a y-up attitude to that of FRD in NED, Motive's x pointing north."""
    return (q[0], q[2], -q[1], q[3])


def position_to_enu_east(p: Vector) -> Vector:
    """Take a y-up position to ENU, Motive's x pointing east."""
    return (p[0], -p[2], p[1])


def quat_to_enu_east(q: Quaternion) -> Quaternion:
    """Take a y-up attitude to that of FLU in ENU, Motive's x pointing east."""
    return (q[0], -q[2], q[1], q[3])


def position_to_ned_east(p: Vector) -> Vector:
    """Take a y-up position to NED, Motive's x pointing east."""
    return (-p[2], p[0], -p[1])


def quat_to_ned_east(q: Quaternion) -> Quaternion:
    """
    Take a y-up attitude to that of FRD in NED, Motive's x pointing east.

    As for north, after a rotation of the world by +90 degrees about down.
    """
    x, y, z, w = q
    return (_HALF * (x - z), _HALF * (z + x), _HALF * (w - y), _HALF * (w + y))


def position_z_up_to_y_up(p: Vector) -> Vector:
    """Bring a position of Motive's z-up setting (x forward, y left, z up) to y-up."""
    return (p[0], p[2], -p[1])


def quat_z_up_to_y_up(q: Quaternion) -> Quaternion:
    """Bring an attitude of Motive's z-up setting to y-up; body axes change with the world's."""
    return (q[0], q[2], -q[1], q[3])


PositionMap = Callable[[Vector], Vector]
QuaternionMap = Callable[[Quaternion], Quaternion]


class FrameMaps(NamedTuple):
    """The four conversions of one convention, from what Motive sends."""

    position_to_enu: PositionMap
    quat_to_enu: QuaternionMap
    position_to_ned: PositionMap
    quat_to_ned: QuaternionMap


_Y_UP = {
    'north': FrameMaps(
        position_to_enu_north, quat_to_enu_north, position_to_ned_north, quat_to_ned_north),
    'east': FrameMaps(
        position_to_enu_east, quat_to_enu_east, position_to_ned_east, quat_to_ned_east),
}


def frame_maps(config: AxesConfig) -> FrameMaps:
    """
    Choose the conversions for a convention.

    :returns: functions of plain tuples; quaternions x, y, z, w; norms are kept.
    """
    maps = _Y_UP[config.motive_x]
    if config.up_axis == 'y':
        return maps
    return FrameMaps(
        lambda p: maps.position_to_enu(position_z_up_to_y_up(p)),
        lambda q: maps.quat_to_enu(quat_z_up_to_y_up(q)),
        lambda p: maps.position_to_ned(position_z_up_to_y_up(p)),
        lambda q: maps.quat_to_ned(quat_z_up_to_y_up(q)))


def enu_to_ned(pose: Pose) -> Pose:
    """
    Take a pose of FLU in ENU to that of FRD in NED.

    :returns: ``R_ned_frd = R_ned_enu R_enu_flu R_flu_frd``; both outer ones half turns.
    """
    (east, north, up), (x, y, z, w) = pose
    return Pose(
        (north, east, -up),
        (_HALF * (x + y), _HALF * (x - y), _HALF * (w - z), _HALF * (w + z)))
