# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A trajectory of the simulated room as a motion of the simulated Motive."""

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.rgbd.trajectories import Trajectory
from optitrack_vrpn.sim.motion import MotionState, oriented

Array = NDArray[np.float64]

#: Columns: the axes of Motive (x forward, y up, z right) in ENU, with Motive's x to the north (the
#: default of the node's ``motive_x``).
ENU_FROM_MOTIVE = np.array(((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))


class BodyMotion:
    """
    The motion of a body in Motive's axes.

    :param trajectory: motion of the body in ENU and FLU.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory

    def at(self, time: Array, /) -> MotionState:
        """
        Evaluate the motion.

        :param time: (n,) seconds of the scenario.
        """
        trajectory = self._trajectory
        # a row vector times ENU_FROM_MOTIVE: MOTIVE_FROM_ENU times the column vector
        position, velocity, acceleration = (
            trajectory.positions(time, order) @ ENU_FROM_MOTIVE for order in (0, 1, 2))
        (yaw, yaw_rate), (pitch, pitch_rate), (roll, roll_rate) = (
            (angle.at(time), angle.at(time, 1))
            for angle in (trajectory.yaw, trajectory.pitch, trajectory.roll))
        # yaw counts from Motive's x instead of east, and pitch about its z, to the right
        return oriented(position, velocity, acceleration, yaw - np.pi / 2, -pitch, roll,
                        yaw_rate, -pitch_rate, roll_rate)
