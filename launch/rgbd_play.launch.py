# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Play a recording of a depth camera, with odometry on its images in the recording's time."""

import os

from launch.actions import ExecuteProcess, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.arguments import number
from optitrack_vrpn.cli.files_io import use_profile
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import BASE, SCALE, TOPICS

ARGUMENTS = (
    ('folder', 'rgbd_recording', 'the recording'),
    ('rate', '1.0', 'speed', number),
    *TOPICS, SCALE, BASE,
)


def make_all(given):
    """Make the player and the odometry; the recorded odometry is played under another name."""
    folder = os.path.expanduser(given['folder'])
    if not os.path.exists(folder):
        raise ValueError(f'folder:={folder} does not exist')
    use_profile()    # for ros2 bag play too
    odometry = {name: str(given[name]) for name, *_ in (*TOPICS, SCALE, BASE)}
    return [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(PathJoinSubstitution(
                [FindPackageShare('optitrack_vrpn'), 'launch', 'rgbd_odometry.launch.py'])),
            launch_arguments={**odometry, 'use_sim_time': 'true', 'tf': 'false'}.items()),
        # two seconds, in which the odometry subscribes
        ExecuteProcess(
            cmd=['ros2', 'bag', 'play', folder, '--clock', '--rate',
                 str(given['rate']), '--delay', '2.0', '--remap', '/vo:=/vo_recorded'],
            output='screen'),
    ]


def generate_launch_description():
    """Describe the arguments, and what they start."""
    return describe(__file__, ARGUMENTS, make_all)
