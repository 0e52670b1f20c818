# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bring up a simulated Motive and the node that follows it: no hardware needed.

Topics, frames and bodies have names that no real system has, and the simulator takes a free port.
"""

import atexit
import contextlib
import os
import socket

from ament_index_python.packages import get_package_share_directory, PackageNotFoundError
from launch.actions import LogInfo
from launch_ros.actions import Node
from optitrack_vrpn.cli.arguments import flag, hertz, namespace as valid_namespace, whole
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.cli.signals_io import with_parent
from optitrack_vrpn.sim.demo.child_io import display_file
from optitrack_vrpn.sim.demo.view import body_names, node_parameters
from optitrack_vrpn.sim.demo.view_ros import publishers_below

ARGUMENTS = (
    ('bodies', '3', 'how many bodies, named "Demo Body 1" and so on', whole(1)),
    ('rate', '240', 'frames a second', hertz),
    ('namespace', 'demo', 'namespace of the node and its topics, and prefix of all frames',
     valid_namespace),
    ('port', '0', 'port of the simulated Motive; 0: one that nothing uses',
     whole(0, 65535)),
    ('activate', 'true', 'false: leave the node inactive, for mocap control', flag),
    ('rviz', 'false', 'start rviz2 with the display of this package', flag),
)


def free_port():
    """Find a port that is free for TCP and UDP."""
    while True:
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            stream.bind(('127.0.0.1', 0))
            try:
                datagram.bind(stream.getsockname())
            except OSError:
                continue
            return stream.getsockname()[1]


def make_rviz(namespace, names):
    """Make rviz's action; its absence does not stop the demo."""
    try:
        get_package_share_directory('rviz2')
    except PackageNotFoundError:
        return LogInfo(msg='rviz:=true, but rviz2 is not installed: going on without it')
    files = contextlib.ExitStack()
    atexit.register(files.close)
    path = files.enter_context(display_file(namespace, names))
    return Node(package='rviz2', executable='rviz2', name='rviz2', arguments=['-d', path],
                output='screen')


def make_all(given):
    """Check the graph, then make all actions."""
    namespace, port = given['namespace'].strip('/'), given['port'] or free_port()
    if not namespace:
        raise ValueError('namespace:= is empty: the demo needs a namespace of its own')
    others = publishers_below(f'/{namespace}')
    if others:
        raise RuntimeError(
            f'/{namespace} is in use: {"; ".join(others)}. Nothing was started; end that, or '
            'give this demo a name of its own, as in namespace:=demo2')
    names = body_names(given['bodies'])
    parameters = {
        **node_parameters(namespace), 'server': '127.0.0.1', 'port': port, 'autostart': True,
        'activate': given['activate']}
    # Both end with launch, even if launch is killed.
    common = {'package': 'optitrack_vrpn', 'output': 'screen', 'emulate_tty': True,
              'additional_env': with_parent({})}
    return [
        Node(executable='optitrack_vrpn_node', name='optitrack_vrpn', namespace=namespace,
             parameters=[parameters],
             remappings=[('/diagnostics', f'/{namespace}/diagnostics')], **common),
        Node(executable='motive_sim', name='motive_sim', namespace=namespace, arguments=[
            '--names', *names, '--rate', str(given['rate']), '--port', str(port),
            '--noise-mm', '0.1', '--noise-deg', '0.05'], **common),
        *([make_rviz(namespace, names)] if given['rviz'] else []),
        LogInfo(msg=f'the demo publishes below /{namespace} in ROS domain '
                    f'{os.environ.get("ROS_DOMAIN_ID", "0")}; its frames begin with {namespace}/'),
    ]


def generate_launch_description():
    """Describe both processes."""
    return describe(__file__, ARGUMENTS, make_all)
