# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The six quantities of a body's pose in each frame that a row of the axis table can name.

| frame | x, y, z | roll, pitch, yaw about |
|---|---|---|
| ``motive`` | Motive's x (forward), y (up), z (right) | forward (x), left (-z), up (y) |
| ``motive_xyz`` | the same | x, y, z: the equations applied to Motive's numbers unchanged |
| ``enu`` | east, north, up | forward, left, up of the body (FLU) |
| ``ned`` | north, east, down | forward, right, down of the body (FRD) |

In ``motive`` yaw is the rotation about the vertical, which is unlimited, and pitch stays within
+-90 degrees. In ``motive_xyz`` the rotation about the vertical is pitch, limited to +-90 degrees.
Attitudes are relative to the body's attitude when it was created in Motive.
"""

import math
from typing import NamedTuple

from optitrack_vrpn.motion.euler import angles_from_quat, quat_from_angles
from optitrack_vrpn.motion.frames import enu_to_ned, Pose
from optitrack_vrpn.motion.quaternion import Quat, Vector

FRAMES = ('motive', 'motive_xyz', 'enu', 'ned')
LENGTHS = ('x', 'y', 'z')
ANGLES = ('roll', 'pitch', 'yaw')
QUANTITIES = LENGTHS + ANGLES

_HALF = math.sqrt(0.5)


class Quantities(NamedTuple):
    """
    A pose as six numbers in one frame.

    :ivar values: x, y, z (m), roll, pitch, yaw (rad).
    :ivar gimbal_lock: True where roll and yaw are undetermined.
    """

    values: tuple[float, float, float, float, float, float]
    gimbal_lock: bool


def motive_from_enu(pose: Pose, motive_x: str) -> Pose:
    """
    Convert a pose from FLU in ENU to Motive's y-up axes.

    The inverse of ``frames.frame_maps``.

    :param motive_x: 'north' or 'east', as in the main node.
    """
    (east, north, up), (a, b, c, d) = pose
    if motive_x == 'east':
        return Pose((east, up, -north), (a, c, -b, d))
    return Pose((north, up, east), (
        _HALF * (a + b), _HALF * (c - d), _HALF * (a - b), _HALF * (c + d)))


def quantities_of(pose_enu: Pose, frame: str, motive_x: str = 'north') -> Quantities:
    """
    Return the six quantities of a pose.

    :param pose_enu: the pose of FLU in ENU, as the main node publishes it.
    :param frame: one of ``FRAMES``.
    :param motive_x: direction of Motive's x axis, for the frames of Motive.
    """
    if frame == 'enu':
        pose = pose_enu
        turned = pose.quat_xyzw
    elif frame == 'ned':
        pose = enu_to_ned(pose_enu)
        turned = pose.quat_xyzw
    else:
        pose = motive_from_enu(pose_enu, motive_x)
        turned = pose.quat_xyzw
        if frame == 'motive':
            x, y, z, w = turned
            turned = (x, -z, y, w)
    angles = angles_from_quat(turned)
    return Quantities((*pose.position, *angles), angles.gimbal_lock)


def pose_from_quantities(
    position: Vector, roll: float, pitch: float, yaw: float, frame: str,
    motive_x: str = 'north',
) -> Pose:
    """
    Compute the pose on Motive's y-up axes with these quantities: the inverse of ``quantities_of``.

    :param position: x, y, z (m) in the frame.
    :param frame: one of ``FRAMES``.
    """
    q: Quat = quat_from_angles(roll, pitch, yaw)
    if frame == 'motive_xyz':
        return Pose(position, q)
    if frame == 'motive':
        x, y, z, w = q
        return Pose(position, (x, z, -y, w))
    pose = Pose(position, q)
    if frame == 'ned':
        pose = enu_to_ned(pose)    # this rotation by 180 degrees is its own inverse
    return motive_from_enu(pose, motive_x)


TURN = 2.0 * math.pi


class Unwrapper:
    """
    Count the turns of one angle.

    Between two samples the angle is assumed to change by the shorter way. If a body rotates by
    more than half a turn while it is not visible, the result is wrong by whole turns.

    :ivar angle: the unwrapped angle (rad), or None before the first sample.
    """

    def __init__(self) -> None:
        self.angle: float | None = None

    def update(self, wrapped: float) -> float:
        """
        Process a sample.

        :param wrapped: the angle (rad), modulo whole turns.
        :returns: the same angle plus whole turns, nearest to the previous result.
        """
        if self.angle is None:
            self.angle = wrapped
        else:
            self.angle += math.remainder(wrapped - self.angle, TURN)
        return self.angle
