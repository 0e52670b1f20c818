# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record the images of a depth camera with all bodies of mocap."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_file_ros import describe

ARGUMENTS = (
    ('folder', 'rgbd_recording', 'new folder of the recording'),
    ('colour', '/camera/camera/color/image_raw', 'topic of the colour images'),
    ('depth', '/camera/camera/aligned_depth_to_color/image_raw', 'topic of the depth images'),
    ('info', '/camera/camera/color/camera_info', 'topic of the CameraInfo'),
)


def make_all(given):
    """Make the recorder, which takes poses, odometry and TF without being asked."""
    topics = [word for name in ('colour', 'depth', 'info') for word in ('--topic', given[name])]
    return [Node(
        package='optitrack_vrpn', executable='record',
        arguments=['-o', given['folder'], *topics], output='screen', emulate_tty=True)]


def generate_launch_description():
    """Describe the recorder."""
    return describe(__file__, ARGUMENTS, make_all)
