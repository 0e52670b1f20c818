# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start one node with a parameter file; some parameters are launch arguments."""

import os
import sys

from ament_index_python.packages import get_package_share_directory, PackageNotFoundError
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

CONFIG = PathJoinSubstitution([FindPackageShare('optitrack_vrpn'), 'config'])

ARGUMENTS = (
    ('server', '', 'host name or IPv4 address of the Motive PC; empty: as in the file'),
    ('port', '', 'its VRPN port; empty: as in the file'),
    ('protocol', '', 'vrpn, natnet or auto; empty: as in the file'),
    ('params_file', PathJoinSubstitution([CONFIG, 'optitrack_vrpn.yaml']),
     'parameters of the node'),
    ('namespace', '', 'namespace of the node, its topics and services'),
    ('name', 'optitrack_vrpn', 'name of the node'),
    ('autostart', 'true', 'configure (and activate) the node without a lifecycle manager'),
    ('activate', 'true', 'false: autostart leaves the node inactive, for mocap control'),
    ('respawn', 'false', 'start the node again if it dies'),
    ('log_level', 'info', 'debug, info, warn, error or fatal'),
    ('rviz', 'false', 'start rviz2 with the display of this package'),
)


def as_bool(context, name):
    """Read an argument that is true or false, and refuse anything else by name."""
    text = LaunchConfiguration(name).perform(context).strip().lower()
    if text not in ('true', 'false', '1', '0'):
        raise ValueError(f'{name}:={text} is not allowed; allowed: true, false')
    return text in ('true', '1')


def make_node(context):
    """Make the node's action once the arguments are known."""
    parameters = {
        'autostart': as_bool(context, 'autostart'), 'activate': as_bool(context, 'activate')}
    for name in ('server', 'protocol'):
        if text := LaunchConfiguration(name).perform(context):
            parameters[name] = text
    if port := LaunchConfiguration('port').perform(context):
        try:
            parameters['port'] = int(port)
        except ValueError:
            raise ValueError(f'port:={port} is not a number') from None
    # launch_ros would continue without the file and use the default server.
    params_file = os.path.expanduser(LaunchConfiguration('params_file').perform(context))
    if not os.path.isfile(params_file):
        raise FileNotFoundError(f'params_file:={params_file} does not exist')
    return [Node(
        package='optitrack_vrpn', executable='optitrack_vrpn_node',
        name=LaunchConfiguration('name'), namespace=LaunchConfiguration('namespace'),
        parameters=[params_file, parameters],
        ros_arguments=['--log-level', LaunchConfiguration('log_level')],
        respawn=as_bool(context, 'respawn'), respawn_delay=2.0,
        output='screen', emulate_tty=True)]


def make_rviz(context):
    """Create rviz's action if requested; without rviz2 the node starts anyway."""
    if not as_bool(context, 'rviz'):
        return []
    try:
        get_package_share_directory('rviz2')
    except PackageNotFoundError:
        return [LogInfo(msg='rviz:=true, but rviz2 is not installed: going on without it')]
    return [Node(
        package='rviz2', executable='rviz2', name='rviz2',
        arguments=['-d', PathJoinSubstitution([CONFIG, 'optitrack_vrpn.rviz'])],
        output='screen')]


def make_all(context):
    """Create all actions first: launch does not end processes if a later action fails."""
    check_launch_arguments(
        sys.argv, ('optitrack_vrpn.launch.py', 'optitrack_vrpn.launch.yaml'),
        [name for name, *_ in ARGUMENTS])
    return [*make_node(context), *make_rviz(context)]


def generate_launch_description():
    """Describe the node, and rviz where it is wanted."""
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=make_all),
    ])
