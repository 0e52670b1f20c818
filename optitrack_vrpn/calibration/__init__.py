# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate latency, body to IMU, gravity, base and world; see docs/calibration.md."""

from optitrack_vrpn.faces import lazy

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
)

__all__, __getattr__ = lazy(__name__, {
    'coarse': 'find_start Start',
    'data': 'ImuData ImuNoise make_problem Problem',
    'imu': 'calibrate_imu Options',
    'results': 'lines Quantity Result yaml_text',
    'solver': 'Solution solve_jointly',
})
