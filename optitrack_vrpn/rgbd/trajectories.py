# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Motions of a body with a camera through the simulated room, in closed form.

World axes are ENU, body axes FLU (x forward, y left, z up; REP 103). The attitude is
R = Rz(yaw) Ry(pitch) Rx(roll). Each of x, y, z, yaw, pitch and roll is the sum of an offset, a
linear term and sines, so velocities and accelerations are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import math
from typing import Optional

import numpy as np
from numpy.typing import ArrayLike
from optitrack_vrpn.rgbd.geometry import Floats, rigid
from optitrack_vrpn.sim import MotionState, oriented
from scipy.spatial.transform import Rotation

#: Columns: the axes of the optical frame (x right, y down, z forward) in FLU.
FLU_FROM_OPTICAL = np.array(((0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)))


@dataclass(frozen=True)
class Harmonic:
    """offset + rate t + sum of amplitude sin(2 pi t / period + phase), by ``sines``."""

    offset: float = 0.0
    rate: float = 0.0
    sines: tuple[tuple[float, float, float], ...] = ()

    def at(self, time: Floats, derivative: int = 0) -> Floats:
        """Evaluate the quantity, or its first or second derivative, at times (n,) in seconds."""
        value = np.full_like(time, (self.offset, self.rate, 0.0)[derivative])
        if derivative == 0:
            value += self.rate * time
        for amplitude, period, phase in self.sines:
            speed = 2 * math.pi / period
            value += amplitude * speed**derivative * np.sin(
                speed * time + phase + derivative * math.pi / 2)
        return value


def _swing(degrees: float, period: float, phase: float = 0.0, mean: float = 0.0) -> Harmonic:
    """Return an angle (rad) that oscillates, from degrees."""
    return Harmonic(math.radians(mean), 0.0, ((math.radians(degrees), period, phase),))


@dataclass(frozen=True)
class Trajectory:
    """
    A motion of a body.

    :ivar duration: time in which the motion covers its range (s); it continues without end.
    :ivar summary: description in one line.
    :ivar x: east (m); y: north, z: up.
    :ivar yaw: angle in radians, as pitch and roll.
    """

    duration: float
    summary: str
    x: Harmonic = Harmonic()
    y: Harmonic = Harmonic()
    z: Harmonic = Harmonic(1.2)
    yaw: Harmonic = Harmonic()
    pitch: Harmonic = Harmonic()
    roll: Harmonic = Harmonic()

    def positions(self, time: ArrayLike, derivative: int = 0) -> Floats:
        """Return positions or derivatives (n, 3) in the world at times (n,) in seconds."""
        times = np.atleast_1d(np.asarray(time, float))
        return np.stack([each.at(times, derivative) for each in (self.x, self.y, self.z)], axis=1)

    def poses(self, time: ArrayLike) -> Floats:
        """Return poses of the body at (n,) seconds, world_from_body (n, 4, 4)."""
        times = np.atleast_1d(np.asarray(time, float))
        return rigid(rotation_from_angles(
            self.yaw.at(times), self.pitch.at(times), self.roll.at(times)), self.positions(times))

    def camera_poses(
        self, time: ArrayLike, body_from_camera: Optional[Floats] = None,
    ) -> Floats:
        """Return world_from_camera (n, 4, 4) of a camera on the body at times (s)."""
        return self.poses(time) @ (
            camera_on_body() if body_from_camera is None else body_from_camera)


def rotation_from_angles(yaw: ArrayLike, pitch: ArrayLike, roll: ArrayLike) -> Floats:
    """Return Rz(yaw) Ry(pitch) Rx(roll), (..., 3, 3), of angles in radians."""
    angles = np.stack(np.broadcast_arrays(yaw, pitch, roll), axis=-1)
    return Rotation.from_euler('ZYX', angles).as_matrix()


def camera_on_body(
    xyz: Sequence[float] = (0.0, 0.0, 0.0), rpy: Sequence[float] = (0.0, 0.0, 0.0),
) -> Floats:
    """Return body_from_camera (4x4) for a place (m) and angles (rad) in FLU."""
    return rigid(rotation_from_angles(rpy[2], rpy[1], rpy[0]) @ FLU_FROM_OPTICAL, xyz)


#: Chosen: speeds of a hand-held camera, up to 0.7 m/s and 60 deg/s.
TRAJECTORIES: dict[str, Trajectory] = {
    'translation': Trajectory(
        8.0, 'back and forth, sideways and up, looking east',
        x=Harmonic(-0.3, 0.0, ((0.6, 8.0, 0.0),)), y=Harmonic(0.0, 0.0, ((0.6, 6.3, 0.5),)),
        z=Harmonic(1.2, 0.0, ((0.25, 5.1, 1.0),))),
    'rotation': Trajectory(
        8.0, 'on the spot, about all three axes',
        x=Harmonic(-0.5), yaw=_swing(45.0, 8.0), pitch=_swing(12.0, 5.1, 0.7),
        roll=_swing(10.0, 6.3, 0.3)),
    'loop': Trajectory(
        24.0, 'two rounds of a circle of 0.8 m radius, facing forward, with small tilts',
        x=Harmonic(0.0, 0.0, ((0.8, 12.0, math.pi / 2),)),
        y=Harmonic(0.0, 0.0, ((0.8, 12.0, 0.0),)),
        z=Harmonic(1.2, 0.0, ((0.1, 6.0, 0.0),)),
        yaw=Harmonic(math.pi / 2, 2 * math.pi / 12),
        pitch=_swing(8.0, 4.0, 0.4, 5.0), roll=_swing(8.0, 3.0)),
    'calibration': Trajectory(
        24.0, 'turns of 20 to 50 deg about all three axes with little translation, for the '
        'estimation of the transform from body to camera',
        x=Harmonic(-0.4, 0.0, ((0.15, 7.7, 0.0),)), y=Harmonic(0.0, 0.0, ((0.15, 6.1, 1.0),)),
        z=Harmonic(1.25, 0.0, ((0.1, 5.3, 0.5),)), yaw=_swing(50.0, 8.0),
        pitch=_swing(22.0, 6.0, 0.8, 4.0), roll=_swing(35.0, 5.0, 0.3)),
    'hand_held': Trajectory(
        8.0, 'hand held: all six at once, without a short period',
        x=Harmonic(-0.4, 0.0, ((0.5, 7.3, 0.0), (0.04, 1.7, 1.0))),
        y=Harmonic(0.1, 0.0, ((0.45, 5.9, 1.2), (0.03, 1.3, 0.4))),
        z=Harmonic(1.25, 0.0, ((0.12, 4.7, 0.5), (0.02, 1.1, 0.0))),
        yaw=Harmonic(0.1, 0.0, ((math.radians(22.0), 6.1, 0.3), (math.radians(1.5), 1.2, 0.0))),
        pitch=Harmonic(0.08, 0.0, ((math.radians(9.0), 4.3, 0.9), (math.radians(1.0), 0.9, 0.0))),
        roll=Harmonic(0.0, 0.0, ((math.radians(8.0), 5.3, 0.2), (math.radians(1.0), 1.1, 0.5)))),
}

#: Columns: the axes of Motive (x forward, y up, z right) in ENU, with Motive's x to the north (the
#: default of the node's ``motive_x``).
ENU_FROM_MOTIVE = np.array(((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))


@dataclass(frozen=True)
class BodyMotion:
    """The motion of a body in Motive's axes, from that in ENU and FLU."""

    trajectory: Trajectory

    def at(self, time: Floats, /) -> MotionState:
        """
        Evaluate the motion.

        :param time: (n,) seconds of the scenario.
        """
        trajectory = self.trajectory
        # a row vector times ENU_FROM_MOTIVE: MOTIVE_FROM_ENU times the column vector
        position, velocity, acceleration = (
            trajectory.positions(time, order) @ ENU_FROM_MOTIVE for order in (0, 1, 2))
        (yaw, yaw_rate), (pitch, pitch_rate), (roll, roll_rate) = (
            (angle.at(time), angle.at(time, 1))
            for angle in (trajectory.yaw, trajectory.pitch, trajectory.roll))
        # yaw counts from Motive's x instead of east, and pitch about its z, to the right
        return oriented(position, velocity, acceleration, yaw - np.pi / 2, -pitch, roll,
                        yaw_rate, -pitch_rate, roll_rate)
