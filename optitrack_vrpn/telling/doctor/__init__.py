# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out why poses do or do not arrive: probes, checks, and the command."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('doctor', 'command:main',
     'check the connection, the bodies and the ROS graph, and report remedies'),
)
