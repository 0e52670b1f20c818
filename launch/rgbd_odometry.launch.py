# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry on a colour and depth camera that delivers aligned depth."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import NODE_ARGUMENTS, ODOMETRY

ARGUMENTS = (
    *ODOMETRY, ('motion_constraint', 'none', 'none, level or planar'), *NODE_ARGUMENTS)


def make_all(given):
    """Make the node; every argument is a parameter."""
    return [Node(
        package='optitrack_vrpn', executable='rgbd_odometry', name='rgbd_odometry',
        parameters=[{'autostart': True, **given}], output='screen', emulate_tty=True)]


def generate_launch_description():
    """Describe the node."""
    return describe(__file__, ARGUMENTS, make_all)
