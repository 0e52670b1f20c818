# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry and mapping on a colour and depth camera that delivers aligned depth."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import INPUT, NODE_ARGUMENTS, ODOMETRY

ARGUMENTS = (
    *ODOMETRY,
    ('map_frame', 'map', 'frame of the map'),
    ('folder', '', 'folder of save_keyframes and load_keyframes'),
    ('pcd', '', 'file of save_pcd_map'),
    *NODE_ARGUMENTS,
)
#: The arguments that are parameters of each node.
PARAMETERS = {'rgbd_odometry': (*INPUT, 'base_frame', 'fixed_frame', 'tf'),
              'rgbd_mapper': (*INPUT, 'map_frame', 'folder', 'pcd')}


def make_all(given):
    """Make both nodes."""
    return [Node(
        package='optitrack_vrpn', executable=tool, name=tool,
        parameters=[{'autostart': True, **{name: given[name] for name in names}}],
        output='screen', emulate_tty=True) for tool, names in PARAMETERS.items()]


def generate_launch_description():
    """Describe both nodes."""
    return describe(__file__, ARGUMENTS, make_all)
