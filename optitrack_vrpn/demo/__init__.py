# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo: a simulated Motive, the node and a table of the received poses."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.demo.child_io import (
        display_file, renamed, start_sim, start_tool, texts_of)
    from optitrack_vrpn.demo.rgbd_view import Comparison, line
    from optitrack_vrpn.demo.view import (
        body_names, BodyRow, display, Endpoint, foreign, missing, NAMES, node_parameters, table,
        too_fast)
    from optitrack_vrpn.demo.view_ros import publishers_below
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('demo', 'command:main', 'a simulated Motive, the node and a live table of the poses'),
    ('rgbd_demo', 'rgbd_command:main',
     'visual odometry of a simulated depth camera beside mocap, with its score'),
)
