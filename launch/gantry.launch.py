# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bring up a simulated machine with its Motive, the main node, the bridge and the controller.

What is simulated keeps apart from real systems: its topics, nodes and frames are below gantry_sim.
"""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PythonExpression
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

ARGUMENTS = (
    ('simulate', 'true', 'false: your own Motive and a machine that takes set points by UDP'),
    ('server', '127.0.0.1', 'Motive'),
    ('port', '3883', 'its VRPN port'),
    ('machine', 'gantry_orion', 'YAML file of the machine, or a name in config/'),
    ('table', 'axes_orion', 'axis table'),
    ('machine_host', '127.0.0.1', 'address of the machine'),
    ('machine_port', '9200', 'its UDP port'),
    ('cutoff_hz', '5.0', 'low-pass of the poses; 0.0: none'),
    ('record_folder', '', 'folder of the recordings; empty: none'),
    ('prefix', '', "put before the controller's command line, as in 'chrt -f 20'"),
)

NAMESPACE = 'gantry_sim'


def simulated(text, otherwise=''):
    """Substitute a text where the machine is simulated, and another one where it is not."""
    return PythonExpression([
        f'{text!r} if "', LaunchConfiguration('simulate'),
        f'" in ("true", "1") else {otherwise!r}'])


def frame(name):
    """Return the parameter of a frame's name."""
    return ParameterValue(simulated(f'{NAMESPACE}/{name}', name), value_type=str)


def check_graph(context):
    """Refuse to start a simulation beside another one."""
    if LaunchConfiguration('simulate').perform(context) in ('true', '1'):
        from optitrack_vrpn.demo.foreign_ros import publishers_below
        others = publishers_below(f'/{NAMESPACE}')
        if others:
            raise RuntimeError(
                f'/{NAMESPACE} is in use: {"; ".join(others)}. Nothing was started; end that '
                'first')
    return []


def value(name, kind=str):
    """Take an argument as a parameter of a type."""
    return ParameterValue(LaunchConfiguration(name), value_type=kind)


def generate_launch_description():
    """Describe all four processes."""
    given = LaunchConfiguration
    check_launch_arguments(
        sys.argv, ['gantry.launch.py'], [argument[0] for argument in ARGUMENTS])
    apart = {'namespace': simulated(NAMESPACE), 'remappings': [
        ('/diagnostics', simulated(f'/{NAMESPACE}/diagnostics', '/diagnostics'))]}
    control = {'control.absolute_topics': ParameterValue(
        simulated('false', 'true'), value_type=bool)}
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=check_graph),
        Node(
            package='optitrack_vrpn', executable='gantry_sim', name='gantry_sim',
            condition=IfCondition(given('simulate')),
            arguments=['--machine', given('machine'), '--axes', given('table'),
                       '--machine-host', given('machine_host'),
                       '--machine-port', given('machine_port'), '--port', given('port'),
                       '--noise-mm', '0.33', '--noise-deg', '0.037'],
            output='screen', emulate_tty=True),
        Node(
            **apart, package='optitrack_vrpn', executable='optitrack_vrpn_node',
            name='optitrack_vrpn',
            parameters=[{'server': value('server'), 'port': value('port', int),
                         'autostart': True, **control,
                         'frames.world': frame('optitrack'),
                         'frames.world_ned': frame('optitrack_ned'),
                         'frames.body': frame('{body}'),
                         'frames.body_ned': frame('{body}_ned')}],
            output='screen', emulate_tty=True),
        Node(
            **apart, package='optitrack_vrpn', executable='axis_bridge',
            name='axis_bridge',
            parameters=[{'table': value('table'), 'autostart': True, **control,
                         'mapper.lowpass.cutoff_hz': value('cutoff_hz', float)}],
            output='screen', emulate_tty=True),
        Node(
            **apart, package='optitrack_vrpn', executable='gantry_controller',
            name='gantry_controller',
            prefix=given('prefix'),
            parameters=[{'machine': value('machine'), 'driver': 'udp', **control,
                         'machine_host': value('machine_host'),
                         'machine_port': value('machine_port', int),
                         'record_folder': value('record_folder'), 'autostart': True}],
            output='screen', emulate_tty=True),
    ])
