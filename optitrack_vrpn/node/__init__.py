# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The lifecycle node."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('optitrack_vrpn_node', 'command:main',
     'the lifecycle node: motion capture in, PoseStamped and TF out'),
)
NODES = (
    ('optitrack_vrpn', 'settings:NodeSettings', 'body_settings'),
)
