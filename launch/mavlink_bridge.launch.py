# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up one mavlink_bridge, or one for each vehicle of a list."""

import re

from launch.substitutions import PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.arguments import flag, log_level, one_of
from optitrack_vrpn.cli.files_io import read_yaml
from optitrack_vrpn.cli.launch_file_ros import (
    describe, existing_file, kept_running, parameters_of_nodes)

CONFIG = PathJoinSubstitution([FindPackageShare('optitrack_vrpn'), 'config'])

ARGUMENTS = (
    ('body', '', 'name of the body in ROS; empty: as in the file'),
    ('autopilot', '', 'px4 or ardupilot; empty: as in the file', one_of('px4', 'ardupilot')),
    ('connection', '', 'udpout:HOST:PORT, udpin:HOST:PORT or serial:DEVICE:BAUD; empty: as in '
     'the file'),
    ('vehicles', '', 'YAML file with a list of vehicles (config/vehicles.yaml); one bridge each',
     existing_file),
    ('params_file', PathJoinSubstitution([CONFIG, 'mavlink_bridge.yaml']),
     'parameters of all bridges', parameters_of_nodes),
    ('namespace', '', "namespace of the bridges: the node's, whose topics they read"),
    ('activate', 'true', 'false: leave the bridges inactive, for mocap control', flag),
    ('respawn', 'true', 'start a bridge again 1 s after it died, so that a flight goes on', flag),
    ('log_level', 'info', 'debug, info, warn, error or fatal', log_level),
)


def read_vehicles(path):
    """Read the list of vehicles: a mapping of parameters each, with a body of its own."""
    content = read_yaml(path)
    vehicles = content.get('vehicles') if isinstance(content, dict) else None
    if not isinstance(vehicles, list) or not vehicles or not all(
            isinstance(vehicle, dict) and vehicle.get('body') for vehicle in vehicles):
        raise ValueError(f'{path}: expected vehicles: a list of mappings with body and connection')
    for key in ('body', 'connection'):
        values = [vehicle.get(key, 'of params_file') for vehicle in vehicles]
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise ValueError(f'{path}: {key} {sorted(twice)[0]} is given to two vehicles')
    return vehicles


def make_bridges(given):
    """Make one bridge, or one for each vehicle of the list."""
    one = {name: given[name] for name in ('body', 'autopilot', 'connection') if given[name]}
    vehicles = [one]
    if given['vehicles']:
        if 'body' in one or 'connection' in one:
            raise ValueError('vehicles names bodies and connections: leave out body and '
                             'connection')
        vehicles = [{**one, **vehicle} for vehicle in read_vehicles(given['vehicles'])]
    common = {'autostart': True, 'activate': given['activate']}
    return [action for vehicle in vehicles for action in kept_running(lambda of=vehicle: Node(
        package='optitrack_vrpn', executable='mavlink_bridge', name=node_name(of),
        namespace=given['namespace'], parameters=[given['params_file'], common, of],
        ros_arguments=['--log-level', given['log_level']], output='screen', emulate_tty=True),
        given['respawn'])]


def node_name(vehicle):
    """Name a bridge after its body."""
    if 'body' not in vehicle:
        return 'mavlink_bridge'
    return 'mavlink_bridge_' + re.sub(r'[^A-Za-z0-9]+', '_', vehicle['body']).strip('_')


def generate_launch_description():
    """Describe the bridges."""
    return describe(__file__, ARGUMENTS, make_bridges)
