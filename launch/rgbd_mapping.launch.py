# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry and mapping on a colour and depth camera that delivers aligned depth."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import INPUT, NODE_ARGUMENTS, ODOMETRY, OUTPUT

ARGUMENTS = (
    *ODOMETRY,
    ('map_frame', 'map', 'frame of the map'),
    ('folder', '', 'folder of save_keyframes and load_keyframes'),
    ('pcd', '', 'file of save_pcd_map'),
    *NODE_ARGUMENTS,
)
PARAMETERS = {
    'rgbd_odometry': {**INPUT, **OUTPUT},
    'rgbd_mapper': {**INPUT, 'output.map_frame': 'map_frame', 'file.folder': 'folder',
                    'file.pcd': 'pcd'}}


def make_all(given):
    """Make both nodes."""
    return [Node(
        package='optitrack_vrpn', executable=tool, name=tool,
        parameters=[{'autostart': True, **{
            parameter: given[name] for parameter, name in parameters.items()}}],
        output='screen', emulate_tty=True) for tool, parameters in PARAMETERS.items()]


def generate_launch_description():
    """Describe both nodes."""
    return describe(__file__, ARGUMENTS, make_all)
