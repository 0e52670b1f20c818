# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record the images of a depth camera with all bodies of mocap."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

ARGUMENTS = (
    ('folder', 'rgbd_recording', 'new folder of the recording'),
    ('colour', '/camera/camera/color/image_raw', 'topic of the colour images'),
    ('depth', '/camera/camera/aligned_depth_to_color/image_raw', 'topic of the depth images'),
    ('info', '/camera/camera/color/camera_info', 'topic of the CameraInfo'),
)


def generate_launch_description():
    """Describe the recorder, which takes poses, odometry and TF without being asked."""
    check_launch_arguments(
        sys.argv, ('rgbd_record.launch.py',), [name for name, *_ in ARGUMENTS])
    topics = [word for name in ('colour', 'depth', 'info')
              for word in ('--topic', LaunchConfiguration(name))]
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        Node(
            package='optitrack_vrpn', executable='record',
            arguments=['-o', LaunchConfiguration('folder'), *topics],
            output='screen', emulate_tty=True),
    ])
