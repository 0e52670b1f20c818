# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up a simulated Motive and the node that follows it: no hardware needed."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

ARGUMENTS = (
    ('bodies', '3', 'how many bodies, named "Rigid Body 1" and so on'),
    ('rate', '240', 'frames a second'),
    ('port', '3883', 'VRPN port of the simulated Motive'),
    ('activate', 'true', 'false: leave the node inactive, for mocap control'),
    ('rviz', 'false', 'start rviz2 with the display of this package'),
)
#: Arguments of optitrack_vrpn.launch.py that reach it without being declared here.
PASSED_ON = ('params_file', 'namespace', 'name', 'autostart', 'respawn', 'log_level')


def check(context):
    """Refuse a misspelt argument."""
    check_launch_arguments(
        sys.argv, ('demo.launch.py',),
        [*(name for name, *_ in ARGUMENTS), *PASSED_ON])


def generate_launch_description():
    """Describe both processes."""
    node = PathJoinSubstitution(
        [FindPackageShare('optitrack_vrpn'), 'launch', 'optitrack_vrpn.launch.py'])
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=check),
        # first, as it checks the arguments before anything runs
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(node),
            launch_arguments={
                'server': '127.0.0.1', 'port': LaunchConfiguration('port'),
                'activate': LaunchConfiguration('activate'),
                'rviz': LaunchConfiguration('rviz')}.items()),
        Node(
            package='optitrack_vrpn', executable='motive_sim', name='motive_sim',
            arguments=[
                '--bodies', LaunchConfiguration('bodies'), '--rate', LaunchConfiguration('rate'),
                '--port', LaunchConfiguration('port'), '--noise-mm', '0.1',
                '--noise-deg', '0.05'],
            output='screen', emulate_tty=True),
    ])
