# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Play a recording of a depth camera, with odometry on its images in the recording's time."""

import os
import sys

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, OpaqueFunction)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

ARGUMENTS = (
    ('folder', 'rgbd_recording', 'the recording'),
    ('rate', '1.0', 'speed'),
    ('colour', '/camera/camera/color/image_raw', 'topic of the colour images'),
    ('depth', '/camera/camera/aligned_depth_to_color/image_raw', 'topic of the depth images'),
    ('info', '/camera/camera/color/camera_info', 'topic of the CameraInfo'),
    ('scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA'),
    ('base_frame', 'camera_link', 'child frame of the odometry'),
)
FOR_ODOMETRY = ('colour', 'depth', 'info', 'scale', 'base_frame')


def make_all(context):
    """Make the player and the odometry; the recorded odometry is played under another name."""
    check_launch_arguments(
        sys.argv, ('rgbd_play.launch.py',), [name for name, *_ in ARGUMENTS])
    folder = os.path.expanduser(LaunchConfiguration('folder').perform(context))
    if not os.path.exists(folder):
        raise FileNotFoundError(f'folder:={folder} does not exist')
    odometry = {name: LaunchConfiguration(name) for name in FOR_ODOMETRY}
    return [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(PathJoinSubstitution(
                [FindPackageShare('optitrack_vrpn'), 'launch', 'rgbd_odometry.launch.py'])),
            launch_arguments={**odometry, 'use_sim_time': 'true', 'tf': 'false'}.items()),
        # two seconds, in which the odometry subscribes
        ExecuteProcess(
            cmd=['ros2', 'bag', 'play', folder, '--clock', '--rate',
                 LaunchConfiguration('rate'), '--delay', '2.0', '--remap', '/vo:=/vo_recorded'],
            output='screen'),
    ]


def generate_launch_description():
    """Describe the arguments, and what they start."""
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=make_all),
    ])
