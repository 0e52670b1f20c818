# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses of one body to a PX4 or ArduPilot vehicle; see docs/autopilot.md."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('mavlink_bridge', 'command:main',
     'poses of one body to a PX4 or ArduPilot vehicle, and a check before the take-off'),
)
NODES = (
    ('mavlink_bridge', 'settings:BridgeSettings'),
)
CHECKS = (
    'check_ros:BridgeChecks',
)
