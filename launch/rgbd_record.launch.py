# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record the images of a depth camera with all bodies of mocap."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import TOPICS

ARGUMENTS = (
    ('folder', 'rgbd_recording', 'new folder of the recording'),
    *TOPICS,
)


def make_all(given):
    """Make the recorder, which takes poses, odometry and TF without being asked."""
    topics = [word for name, *_ in TOPICS for word in ('--topic', given[name])]
    return [Node(
        package='optitrack_vrpn', executable='record',
        arguments=['-o', given['folder'], *topics], output='screen', emulate_tty=True)]


def generate_launch_description():
    """Describe the recorder."""
    return describe(__file__, ARGUMENTS, make_all)
