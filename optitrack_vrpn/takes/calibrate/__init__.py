# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate latency, body to IMU, gravity, base and world; see docs/calibration.md."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('calibrate', 'command:main',
     'latency of the stamps, body to IMU, gravity, base and world, from motion'),
    ('imu_sim', 'imu_sim_command:main',
     'a simulated IMU, and a simulated Motive that sees the body it is on'),
)
