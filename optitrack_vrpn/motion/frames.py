# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert position and attitude from OptiTrack's axes to ENU and NED (REP 103).

Motive's world is y-up: x forward, y up, z right. A rigid body's own axes are parallel to the
world's when it is created, so that its nose is along x. Conventions here:

- *Motive y-up*, body axes the same: every pose is converted to it first;
- *ENU*: x east, y north, z up; body FLU: x forward, y left, z up;
- *NED*: x north, y east, z down; body FRD: x forward, y right, z down.

The direction of Motive's x on the map is a convention (``motive_x``):

- ``north``: E = z, N = x, U = y; the convention of the original optitrack_vrpn package;
- ``east``: E = x, N = -z, U = y; the convention of other packages, rotated by 90 degrees.

In both, a body as created in Motive points along Motive's x, which is the forward axis of FLU and
FRD. Every conversion below is a change of axes, ``parent_from_child`` on both sides:
``R_enu_flu = P_enu_motive R_motive_body P_body_flu``. Each P is a rotation by a multiple of 90
degrees, so that positions keep all bits, and attitudes all but the last.
"""

from dataclasses import dataclass
import math
from typing import Any, Callable, Final, NamedTuple

from optitrack_vrpn.motion.rotation import Quat, Vector
from optitrack_vrpn.settings import checked, setting

UP_AXES = ('y', 'z')
MOTIVE_X = ('north', 'east')

_HALF: Final = math.sqrt(0.5)

#: Attitude of NED in ENU (x, y, z, w): half a turn about the axis between x and y.
QUAT_ENU_NED: Quat = (_HALF, _HALF, 0.0, 0.0)


class Pose(NamedTuple):
    """A position (m) and an attitude (x, y, z, w; rotates child axes into the parent's)."""

    position: Vector
    quat_xyzw: Quat


@checked
@dataclass(frozen=True)
class AxesConfig:
    """Axes that Motive sends, their direction on the map, and whether they are converted."""

    up_axis: str = setting(
        'y', choices=UP_AXES, doc="the up axis that is set in Motive's streaming settings")
    motive_x: str = setting(
        'north', choices=MOTIVE_X, doc="direction of Motive's x axis on the map")
    axes: str = setting('enu', choices=('enu', 'raw'), doc=(
        "axes of all outputs: ENU and FLU, or raw: Motive's numbers unchanged, as other drivers "
        'publish them; up_axis and motive_x then have no effect'))


# -- each convention, position and attitude -------------------------------------------------------

def position_to_enu_north(p: Vector) -> Vector:
    """Convert a y-up position to ENU, Motive's x pointing north."""
    return (p[2], p[0], p[1])


def quat_to_enu_north(q: Quat) -> Quat:
    """
    Convert a y-up attitude to that of FLU in ENU, Motive's x pointing north.

    The vector part is permuted like a position; a rotation by +90 degrees about z then turns the
    permuted body axes to forward-left-up: ``(z, x, y, w) (0, 0, h, h)``, h = sqrt(1/2).
    """
    x, y, z, w = q
    return (_HALF * (z + x), _HALF * (x - z), _HALF * (y + w), _HALF * (w - y))


def position_to_enu_east(p: Vector) -> Vector:
    """Convert a y-up position to ENU, Motive's x pointing east."""
    return (p[0], -p[2], p[1])


def quat_to_enu_east(q: Quat) -> Quat:
    """Convert a y-up attitude to that of FLU in ENU, Motive's x pointing east."""
    return (q[0], -q[2], q[1], q[3])


def position_z_up_to_y_up(p: Vector) -> Vector:
    """Convert a position of Motive's z-up setting (x forward, y left, z up) to y-up."""
    return (p[0], p[2], -p[1])


def quat_z_up_to_y_up(q: Quat) -> Quat:
    """Convert an attitude of Motive's z-up setting to y-up; body axes change like the world's."""
    return (q[0], q[2], -q[1], q[3])


PositionMap = Callable[[Vector], Vector]
QuaternionMap = Callable[[Quat], Quat]


def _unchanged(values: Any) -> Any:
    """Return a position or an attitude as it was sent."""
    return values


class FrameMaps(NamedTuple):
    """The conversions of one convention, from Motive's axes."""

    position_to_enu: PositionMap
    quat_to_enu: QuaternionMap


_Y_UP = {
    'north': FrameMaps(position_to_enu_north, quat_to_enu_north),
    'east': FrameMaps(position_to_enu_east, quat_to_enu_east),
}


def frame_maps(config: AxesConfig) -> FrameMaps:
    """Choose the conversions (plain tuples; quaternions x, y, z, w) for a convention."""
    if config.axes == 'raw':
        return FrameMaps(_unchanged, _unchanged)
    maps = _Y_UP[config.motive_x]
    if config.up_axis == 'y':
        return maps
    return FrameMaps(
        lambda p: maps.position_to_enu(position_z_up_to_y_up(p)),
        lambda q: maps.quat_to_enu(quat_z_up_to_y_up(q)))


def enu_to_ned(pose: Pose) -> Pose:
    """
    Convert a pose of FLU in ENU to that of FRD in NED.

    With Motive's x to the north, a pose (x, y, z), (x, y, z, w) of Motive becomes position
    (x, z, -y) and attitude (x, z, -y, w).

    :returns: ``R_ned_frd = R_ned_enu R_enu_flu R_flu_frd``; the outer two are half turns.
    """
    return Pose(position_to_ned(pose.position), quat_to_ned(pose.quat_xyzw))


def position_to_ned(position: Vector) -> Vector:
    """Convert a position in ENU to NED."""
    east, north, up = position
    return (north, east, -up)


def quat_to_ned(quat_xyzw: Quat) -> Quat:
    """Convert an attitude of FLU in ENU to that of FRD in NED."""
    x, y, z, w = quat_xyzw
    return (_HALF * (x + y), _HALF * (x - y), _HALF * (w - z), _HALF * (w + z))
