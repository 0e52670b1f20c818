# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start and stop capture systems together; see docs/mocap_control.md."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('mocap_control', 'command:main', 'start, stop and list capture systems over mocap control'),
)
