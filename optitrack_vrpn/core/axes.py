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

from optitrack_vrpn.core.rotation import IDENTITY, Quat, Vector
from optitrack_vrpn.core.settings.schema import checked, setting

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
        'publish them; up_axis and motive_x then have no effect, and no default output is NED'))


PoseMap = Callable[[Vector, Quat], tuple[Vector, Quat]]

# -- each convention ------------------------------------------------------------------------------


def pose_to_enu_north(p: Vector, q: Quat) -> tuple[Vector, Quat]:
    """
    Convert a y-up pose to that of FLU in ENU, Motive's x pointing north.

    The vector part of the attitude is permuted like a position; a rotation by +90 degrees about z
    then turns the permuted body axes to forward-left-up: ``(z, x, y, w) (0, 0, h, h)``,
    h = sqrt(1/2).
    """
    x, y, z, w = q
    return (p[2], p[0], p[1]), (
        _HALF * (z + x), _HALF * (x - z), _HALF * (y + w), _HALF * (w - y))


def _pose_to_enu_east(p: Vector, q: Quat) -> tuple[Vector, Quat]:
    """Convert a y-up pose to that of FLU in ENU, Motive's x pointing east."""
    return (p[0], -p[2], p[1]), (q[0], -q[2], q[1], q[3])


def _z_up_to_y_up(p: Vector, q: Quat) -> tuple[Vector, Quat]:
    """Convert a pose of Motive's z-up setting (x forward, y left, z up) to y-up."""
    return (p[0], p[2], -p[1]), (q[0], q[2], -q[1], q[3])


def _unchanged(p: Any, q: Any) -> Any:
    """Return a pose as it was sent."""
    return p, q


class FrameMaps(NamedTuple):
    """
    The conversion of one convention, from Motive's axes.

    :ivar to_enu: converts position and attitude.
    """

    to_enu: PoseMap

    def position_to_enu(self, position: Vector) -> Vector:
        """Convert a position alone."""
        return self.to_enu(position, IDENTITY)[0]

    def quat_to_enu(self, quat_xyzw: Quat) -> Quat:
        """Convert an attitude alone."""
        return self.to_enu((0.0, 0.0, 0.0), quat_xyzw)[1]


def frame_maps(config: AxesConfig) -> FrameMaps:
    """Choose the conversion (plain tuples; quaternions x, y, z, w) for a convention."""
    if config.axes == 'raw':
        return FrameMaps(_unchanged)
    to_enu = pose_to_enu_north if config.motive_x == 'north' else _pose_to_enu_east
    if config.up_axis == 'y':
        return FrameMaps(to_enu)
    return FrameMaps(lambda p, q: to_enu(*_z_up_to_y_up(p, q)))


def enu_to_ned(pose: Pose) -> Pose:
    """
    Convert a pose of FLU in ENU to that of FRD in NED.

    With Motive's x to the north, a pose (x, y, z), (x, y, z, w) of Motive becomes position
    (x, z, -y) and attitude (x, z, -y, w).

    :returns: ``R_ned_frd = R_ned_enu R_enu_flu R_flu_frd``; the outer two are half turns.
    """
    return Pose(*pose_to_ned(*pose))


def pose_to_ned(position: Vector, quat_xyzw: Quat) -> tuple[Vector, Quat]:
    """Convert a pose of FLU in ENU to that of FRD in NED, as plain tuples."""
    east, north, up = position
    x, y, z, w = quat_xyzw
    return (north, east, -up), (
        _HALF * (x + y), _HALF * (x - y), _HALF * (w - z), _HALF * (w + z))
