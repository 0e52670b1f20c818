# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The table of all nodes of the package and their settings.

The tool ``parameters`` makes ``config/<node>.yaml`` and docs/parameters.md from ``NODES``.
"""

from typing import NamedTuple


class Node(NamedTuple):
    """
    One node.

    :ivar name: its default name, also that of its parameter file.
    :ivar settings: its settings dataclass, as ``module:Class``; the module imports no ROS. The
        first line of the class's docstring is the heading of its table.
    :ivar notes: a module with more for its documents; '' for none. It may define
        ``YAML_NOTES`` (comment lines by section of the parameter file), ``sections()`` (Markdown
        that follows the table) and ``COMMON`` (names of parameters that README.md lists).
    """

    name: str
    settings: str
    notes: str = ''


NODES = (
    Node('optitrack_vrpn', 'optitrack_vrpn.node.settings:NodeSettings',
         'optitrack_vrpn.node.documents'),
    Node('mavlink_bridge', 'optitrack_vrpn.autopilot.settings:BridgeSettings'),
    Node('axis_bridge', 'optitrack_vrpn.axes.settings:BridgeSettings'),
    Node('gantry_controller', 'optitrack_vrpn.gantry.settings:ControllerSettings'),
    Node('rgbd_image_proc', 'optitrack_vrpn.rgbd.settings:ImageProcSettings'),
    Node('rgbd_odometry', 'optitrack_vrpn.rgbd.settings:OdometryNodeSettings'),
    Node('rgbd_mapper', 'optitrack_vrpn.rgbd.settings:MapperNodeSettings'),
    Node('rgbd_sim', 'optitrack_vrpn.rgbd.settings:SimSettings'),
)
