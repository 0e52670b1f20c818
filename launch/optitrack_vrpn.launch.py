# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start one node with a parameter file; some parameters are launch arguments."""

from ament_index_python.packages import get_package_share_directory, PackageNotFoundError
from launch.actions import LogInfo
from launch.substitutions import PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.arguments import flag, log_level, one_of, port
from optitrack_vrpn.cli.files_io import package_file, read_parameter_file
from optitrack_vrpn.cli.launch_file_ros import describe, kept_running, parameters_of_nodes
from optitrack_vrpn.drivers.table import port_parameter, SOURCES

CONFIG = PathJoinSubstitution([FindPackageShare('optitrack_vrpn'), 'config'])

#: Files of config/drop_in/.
DROP_INS = ('airstack', 'crazyswarm2', 'mavros', 'mocap4r2_optitrack', 'mocap_optitrack',
            'motion_capture_tracking', 'natnet_ros2', 'ros2_vicon_receiver', 'vrpn_client_ros',
            'vrpn_mocap')
#: The namespace in which a driver's own launch file starts it; the others have none.
OWN_NAMESPACES = {'airstack': '/robot_1', 'vrpn_mocap': '/vrpn_mocap'}

ARGUMENTS = (
    ('server', '', 'host name or IPv4 address of the Motive PC; empty: as in the file'),
    ('port', '', 'its port for the given protocol; empty: as in the file', port),
    ('protocol', '', 'as the parameter of the node; empty: as in the file', one_of(*SOURCES)),
    ('params_file', '', 'parameters of the node, which override those of drop_in; empty: defaults',
     parameters_of_nodes),
    ('drop_in', '', 'settings in place of another driver, as vrpn_mocap; see config/drop_in/',
     one_of('', *DROP_INS)),
    ('namespace', '', 'namespace of the node, its topics and services'),
    ('name', 'optitrack_vrpn', 'name of the node'),
    ('autostart', 'true', 'configure (and activate) the node without a lifecycle manager', flag),
    ('activate', 'true', 'false: autostart leaves the node inactive, for mocap control', flag),
    ('respawn', 'true', 'start the node again 1 s after it died, so that a flight goes on', flag),
    ('log_level', 'info', 'debug, info, warn, error or fatal', log_level),
    ('rviz', 'false', 'start rviz2 with the display of this package', flag),
    ('dashboard', 'false', 'serve the live page on http://127.0.0.1:8080/', flag),
)


def make_rviz():
    """Make rviz's action; without rviz2 the node starts anyway."""
    try:
        get_package_share_directory('rviz2')
    except PackageNotFoundError:
        return LogInfo(msg='rviz:=true, but rviz2 is not installed: going on without it')
    return Node(
        package='rviz2', executable='rviz2', name='rviz2',
        arguments=['-d', PathJoinSubstitution([CONFIG, 'optitrack_vrpn.rviz'])],
        output='screen')


def moved_topics(peer, namespace):
    """Give the topics of a drop-in that its file fixes below the root, in a namespace."""
    (section,) = read_parameter_file(package_file(f'drop_in/{peer}.yaml')).values()
    root = f'{OWN_NAMESPACES.get(peer, "")}/'
    return {name: ParameterValue(value.removeprefix(root), value_type=str)
            for name, value in section['ros__parameters'].items()
            if name.startswith('topics.') and value.startswith('/')} if namespace else {}


def make_all(given):
    """Make the node, and rviz and dashboard if requested."""
    parameters = {
        parameter: given[name] for name, parameter in (
            ('server', 'server'), ('port', port_parameter(given['protocol'])),
            ('protocol', 'protocol')) if given[name]}
    peer = given['drop_in']
    files = [PathJoinSubstitution([CONFIG, 'drop_in', f'{peer}.yaml']),
             moved_topics(peer, given['namespace'])] if peer else []
    if given['params_file']:
        files.append(given['params_file'])
    node = kept_running(lambda: Node(
        package='optitrack_vrpn', executable='optitrack_vrpn_node',
        name=given['name'], namespace=given['namespace'],
        parameters=[*files, {
            **parameters, 'autostart': given['autostart'], 'activate': given['activate']}],
        ros_arguments=['--log-level', given['log_level']],
        output='screen', emulate_tty=True), given['respawn'])
    # A process of its own, whose end does not concern the node.
    dashboard = Node(package='optitrack_vrpn', executable='dashboard',
                     output='screen')
    return [*node, *([make_rviz()] if given['rviz'] else []),
            *([dashboard] if given['dashboard'] else [])]


def generate_launch_description():
    """Describe the node, and rviz and dashboard where they are wanted."""
    return describe(__file__, ARGUMENTS, make_all)
