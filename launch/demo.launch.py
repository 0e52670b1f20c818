# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the command "demo": a simulated Motive and the node, in a ROS domain of their own.

No hardware is needed, and no simulated pose reaches another system. The output says which
ROS_DOMAIN_ID shows the demo in another terminal.
"""

from launch_ros.actions import Node
from optitrack_vrpn.cli.arguments import flag, hertz, whole
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.cli.signals_io import with_parent

ARGUMENTS = (
    ('bodies', '3', 'how many bodies, named "Demo Body 1" and so on', whole(1)),
    ('rate', '240', 'frames a second', hertz),
    ('rviz', 'false', 'start rviz2 with the display of this package', flag),
    ('web', 'false', 'serve the live page too', flag),
)


def make_all(given):
    """Make the action."""
    # The demo ends with launch, even if launch is killed.
    return [Node(
        package='optitrack_vrpn', executable='demo', output='screen',
        additional_env=with_parent({}),
        arguments=['--seconds', '1e9', '--bodies', str(given['bodies']),
                   '--rate', str(given['rate']),
                   *(f'--{name}' for name in ('rviz', 'web') if given[name])])]


def generate_launch_description():
    """Describe the process."""
    return describe(
        __file__, ARGUMENTS, make_all,
        'for other settings of the node, run motive_sim, and optitrack_vrpn.launch.py with '
        'server:=127.0.0.1')
