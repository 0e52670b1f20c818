# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bring up a simulated machine with its Motive, the main node, the bridge and the controller.

What is simulated keeps apart from real systems: its topics, nodes and frames are below gantry_sim.
"""

from launch_ros.actions import Node
from optitrack_vrpn.cli.arguments import flag, number, port
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.node.graph.publishers_ros import publishers_below

ARGUMENTS = (
    ('simulate', 'true', 'false: your own Motive and a machine that takes set points by UDP',
     flag),
    ('server', '127.0.0.1', 'Motive'),
    ('port', '3883', 'its port, like the parameter of the node', port),
    ('machine', 'gantry_orion', 'YAML file of the machine, or a name in config/'),
    ('table', 'axes_orion', 'axis table'),
    ('machine_host', '127.0.0.1', 'address of the machine'),
    ('machine_port', '9200', 'its UDP port', port),
    ('cutoff_hz', '5.0', 'low-pass of the poses; 0.0: none', number),
    ('prefix', '', "put before the controller's command line, as in 'chrt -f 20'"),
)

NAMESPACE = 'gantry_sim'
FRAMES = {'world': 'optitrack', 'world_ned': 'optitrack_ned', 'body': '{body}',
          'body_ned': '{body}_ned'}


def make_simulation(given):
    """Make the simulated machine; refuse to start it beside another one."""
    others = publishers_below(f'/{NAMESPACE}')
    if others:
        raise RuntimeError(
            f'/{NAMESPACE} is in use: {"; ".join(others)}. Nothing was started; end that first')
    return Node(
        package='optitrack_vrpn', executable='gantry_sim', name='gantry_sim',
        arguments=['--machine', given['machine'], '--axes', given['table'],
                   '--machine-host', given['machine_host'],
                   '--machine-port', str(given['machine_port']), '--port', str(given['port']),
                   '--noise-mm', '0.33', '--noise-deg', '0.037'],
        output='screen', emulate_tty=True)


def make_all(given):
    """Make all processes; those of a simulation have a namespace and frames of their own."""
    simulate = given['simulate']
    common = {'package': 'optitrack_vrpn', 'output': 'screen', 'emulate_tty': True}
    if simulate:
        common.update(namespace=NAMESPACE, remappings=[
            ('/diagnostics', f'/{NAMESPACE}/diagnostics')])
    prefix = f'{NAMESPACE}/' if simulate else ''
    start = {'autostart': True, 'control.absolute_topics': not simulate}
    return [
        *([make_simulation(given)] if simulate else []),
        Node(
            **common, executable='optitrack_vrpn_node', name='optitrack_vrpn',
            parameters=[{'server': given['server'], 'port': given['port'], **start, **{
                f'frames.{key}': prefix + frame for key, frame in FRAMES.items()}}]),
        Node(
            **common, executable='axis_bridge', name='axis_bridge',
            parameters=[{'table': given['table'], **start,
                         'mapper.lowpass.cutoff_hz': given['cutoff_hz']}]),
        Node(
            **common, executable='gantry_controller', name='gantry_controller',
            prefix=given['prefix'],
            parameters=[{'machine': given['machine'], 'driver': 'udp', **start,
                         'machine_host': given['machine_host'],
                         'machine_port': given['machine_port']}]),
    ]


def generate_launch_description():
    """Describe all four processes."""
    return describe(__file__, ARGUMENTS, make_all)
