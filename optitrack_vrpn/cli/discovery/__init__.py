# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Many robots on one network: Fast DDS's Discovery Server, multicast, clocks."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('discovery_server', 'command:main',
     "start Fast DDS's Discovery Server, and say what each robot sets"),
)
CHECKS = (
    'checks_ros:MulticastCheck',
    'checks_ros:ClockCheck',
)
