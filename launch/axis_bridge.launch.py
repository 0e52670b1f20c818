# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up the axis bridge beside a running main node."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.arguments import flag, hertz, port
from optitrack_vrpn.cli.launch_file_ros import describe

ARGUMENTS = (
    ('table', 'axes_orion', 'YAML file of the axes, or a name in config/'),
    ('udp_host', '', 'controller that gets the datagrams; empty: none'),
    ('udp_port', '9100', 'its UDP port', port),
    ('rate_hz', '100.0', 'output rate', hertz),
    ('activate', 'true', 'false: leave the node inactive, for mocap control', flag),
)


def make_all(given):
    """Make the node; every argument is one of its parameters."""
    return [Node(
        package='optitrack_vrpn', executable='axis_bridge', name='axis_bridge',
        parameters=[{'autostart': True, **given}], output='screen', emulate_tty=True)]


def generate_launch_description():
    """Describe the node."""
    return describe(__file__, ARGUMENTS, make_all)
