# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate latency, body to IMU, gravity, base and world; see docs/calibration.md."""

from optitrack_vrpn.faces import lazy

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('calibrate', 'command:main',
     'latency of the stamps, body to IMU, gravity, base and world, from motion'),
    ('imu_sim', 'imu_sim_command:main',
     'a simulated IMU, and a simulated Motive that sees the body it is on'),
)

__all__, __getattr__ = lazy(__name__, {
    'base': 'fixed_point odometry_result pivot_result Placement placements_result '
            'reference_result rest_pose turn_result world_result',
    'coarse': 'find_start Start',
    'apply_io': 'apply changed_text',
    'data': 'ImuData ImuNoise make_problem Problem',
    'imu': 'calibrate_imu Options',
    'results': 'lines Quantity Result yaml_text',
    'rows': 'add_imu_rows compose_offset compose_world',
    'solver': 'Solution solve_jointly',
    'take_io': 'body_poses open_take read_imu read_parameters',
})
