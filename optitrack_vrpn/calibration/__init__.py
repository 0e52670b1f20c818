# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate latency, body to IMU, gravity, base and world; see docs/calibration.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.calibration.apply_io import apply, changed_text
    from optitrack_vrpn.calibration.base import (
        fixed_point, odometry_result, pivot_result, Placement, placements_result, reference_result,
        rest_pose, turn_result, world_result)
    from optitrack_vrpn.calibration.coarse import find_start, Start
    from optitrack_vrpn.calibration.command import main
    from optitrack_vrpn.calibration.data import ImuData, ImuNoise, make_problem, Problem
    from optitrack_vrpn.calibration.guided import advice, is_done, measure, STAGES, view
    from optitrack_vrpn.calibration.imu import calibrate_imu, Options
    from optitrack_vrpn.calibration.preintegration import ImuErrors, Samples
    from optitrack_vrpn.calibration.results import lines, Quantity, Result, yaml_text
    from optitrack_vrpn.calibration.rows import add_imu_rows, compose_offset, compose_world
    from optitrack_vrpn.calibration.session_ros import guide
    from optitrack_vrpn.calibration.solver import Solution, solve_jointly
    from optitrack_vrpn.calibration.take_io import body_poses, open_take, read_imu, read_parameters
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('calibrate', 'command:main',
     'latency of the stamps, body to IMU, gravity, base and world, from motion'),
    ('imu_sim', 'imu_sim_command:main',
     'a simulated IMU, and a simulated Motive that sees the body it is on'),
)
