# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up the axis bridge beside a running main node."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

ARGUMENTS = (
    ('table', 'axes_orion', 'YAML file of the axes, or a name in config/', str),
    ('udp_host', '', 'controller that gets the datagrams; empty: none', str),
    ('udp_port', '9100', 'its UDP port', int),
    ('rate_hz', '100.0', 'output rate', float),
    ('activate', 'true', 'false: leave the node inactive, for mocap control', bool),
)


def generate_launch_description():
    """Describe the node."""
    check_launch_arguments(
        sys.argv, ['axis_bridge.launch.py'], [argument[0] for argument in ARGUMENTS])
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what, _ in ARGUMENTS),
        Node(
            package='optitrack_vrpn', executable='axis_bridge', name='axis_bridge',
            parameters=[{'autostart': True, **{
                name: ParameterValue(LaunchConfiguration(name), value_type=kind)
                for name, _, _, kind in ARGUMENTS}}],
            output='screen', emulate_tty=True),
    ])
