# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A trajectory of the simulated room as a motion of the simulated Motive."""

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.rgbd.trajectories import Trajectory
from optitrack_vrpn.sim.motion import MotionState
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

#: Columns: the axes of Motive (x forward, y up, z right) in ENU, with Motive's x to the north (the
#: default of the node's ``motive_x``).
ENU_FROM_MOTIVE = np.array(((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
#: Columns: Motive's axes of a body in FLU.
FLU_FROM_MOTIVE_BODY = np.array(((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)))


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
        attitudes = ENU_FROM_MOTIVE.T @ trajectory.rotations(time) @ FLU_FROM_MOTIVE_BODY
        # a row vector times ENU_FROM_MOTIVE: MOTIVE_FROM_ENU times the column vector
        position, velocity, acceleration = (
            trajectory.positions(time, derivative) @ ENU_FROM_MOTIVE for derivative in (0, 1, 2))
        return MotionState(
            position, velocity, acceleration, Rotation.from_matrix(attitudes).as_quat(),
            trajectory.angular_velocities(time) @ ENU_FROM_MOTIVE)
