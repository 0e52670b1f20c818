# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Small commands."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('parameters', 'parameters_command:main',
     'print a parameter file with all defaults and descriptions'),
    ('topics', 'topics_command:main',
     "list topics or print the messages of one, without ROS 2's own tools"),
)
