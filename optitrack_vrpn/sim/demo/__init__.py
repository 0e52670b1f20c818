# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo: a simulated Motive, the node and a table of the received poses."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('demo', 'command:main', 'a simulated Motive, the node and a live table of the poses'),
)
