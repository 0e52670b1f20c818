# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up one mavlink_bridge, or one for each vehicle of a list."""

import os
import re
import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments
import yaml

CONFIG = PathJoinSubstitution([FindPackageShare('optitrack_vrpn'), 'config'])

ARGUMENTS = (
    ('body', '', 'name of the body in ROS; empty: as in the file'),
    ('autopilot', '', 'px4 or ardupilot; empty: as in the file'),
    ('connection', '', 'udpout:HOST:PORT, udpin:HOST:PORT, tcp:HOST:PORT or serial:DEVICE:BAUD; '
     'empty: as in the file'),
    ('vehicles', '', 'YAML file with a list of vehicles (config/vehicles.yaml); one bridge each'),
    ('params_file', PathJoinSubstitution([CONFIG, 'mavlink_bridge.yaml']),
     'parameters of all bridges'),
    ('namespace', '', "namespace of the bridges: the node's, whose topics they read"),
    ('activate', 'true', 'false: leave the bridges inactive, for mocap control'),
    ('respawn', 'false', 'start a bridge again if it dies'),
    ('log_level', 'info', 'debug, info, warn, error or fatal'),
)


def as_bool(context, name):
    """Read an argument that is true or false, and refuse anything else by name."""
    text = LaunchConfiguration(name).perform(context).strip().lower()
    if text not in ('true', 'false', '1', '0'):
        raise ValueError(f'{name}:={text} is not allowed; allowed: true, false')
    return text in ('true', '1')


def existing(context, name):
    """Read an argument that names a file."""
    path = os.path.expanduser(LaunchConfiguration(name).perform(context))
    if not os.path.isfile(path):
        raise FileNotFoundError(f'{name}:={path} does not exist')
    return path


def read_vehicles(path):
    """Read the list of vehicles: a mapping of parameters each, with a body of its own."""
    with open(path) as stream:
        content = yaml.safe_load(stream)
    vehicles = content.get('vehicles') if isinstance(content, dict) else None
    if not isinstance(vehicles, list) or not vehicles or not all(
            isinstance(vehicle, dict) and vehicle.get('body') for vehicle in vehicles):
        raise ValueError(f'{path}: expected vehicles: a list of mappings with body and connection')
    for key in ('body', 'connection'):
        values = [vehicle[key] for vehicle in vehicles if key in vehicle]
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise ValueError(f'{path}: {key} {sorted(twice)[0]} is given to two vehicles')
    return vehicles


def make_bridges(context):
    """Create all actions first: launch does not end processes if a later action fails."""
    check_launch_arguments(
        sys.argv, ('mavlink_bridge.launch.py',), [name for name, *_ in ARGUMENTS])
    given = {name: LaunchConfiguration(name).perform(context)
             for name in ('body', 'autopilot', 'connection')}
    given = {name: value for name, value in given.items() if value}
    if LaunchConfiguration('vehicles').perform(context):
        if 'body' in given or 'connection' in given:
            raise ValueError('vehicles names bodies and connections: leave out body and '
                             'connection')
        vehicles = [{**given, **one} for one in read_vehicles(existing(context, 'vehicles'))]
    else:
        vehicles = [given]
    common = {'autostart': True, 'activate': as_bool(context, 'activate')}
    params_file = existing(context, 'params_file')
    return [Node(
        package='optitrack_vrpn', executable='mavlink_bridge', name=node_name(vehicle),
        namespace=LaunchConfiguration('namespace'), parameters=[params_file, common, vehicle],
        ros_arguments=['--log-level', LaunchConfiguration('log_level')],
        respawn=as_bool(context, 'respawn'), respawn_delay=2.0, output='screen',
        emulate_tty=True) for vehicle in vehicles]


def node_name(vehicle):
    """Name a bridge after its body."""
    if 'body' not in vehicle:
        return 'mavlink_bridge'
    return 'mavlink_bridge_' + re.sub(r'[^A-Za-z0-9]+', '_', vehicle['body']).strip('_')


def generate_launch_description():
    """Describe the bridges."""
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=make_bridges),
    ])
