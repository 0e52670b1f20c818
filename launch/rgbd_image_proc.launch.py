# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Process raw images of a camera without aligned depth, and bring up odometry on the results."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

PROCESSING = (
    ('colour', 'camera/rgb/image_color', 'topic of the raw colour images', str),
    ('depth', 'camera/depth/image_raw', 'topic of the raw depth images', str),
    ('colour_info', 'camera/rgb/camera_info', 'topic of the CameraInfo of colour', str),
    ('depth_info', 'camera/depth/camera_info', 'topic of the CameraInfo of depth', str),
    ('colour_file', '', 'rgb.yml; empty: intrinsics from the topic', str),
    ('depth_file', '', 'depth.yml; empty: intrinsics from the topic', str),
    ('extrinsics_file', '', 'extr.yml, the transform between the cameras', str),
    ('warp_file', '', 'warp.yml, correction of the depth of each pixel; empty: none', str),
    ('aligned', 'false', 'true: the driver aligns the depth to the colour image', bool),
    ('scale', '0.5', 'size of the results; 0.5: QVGA of VGA', float),
)
COMMON = (
    ('use_sim_time', 'false', 'true: with a recording', bool),
    ('activate', 'true', 'false: leave the nodes inactive, for mocap control', bool),
)
ARGUMENTS = (*PROCESSING, *COMMON)


def _parameters(arguments):
    return {name: ParameterValue(LaunchConfiguration(name), value_type=kind)
            for name, _, _, kind in arguments}


def generate_launch_description():
    """Describe both nodes."""
    check_launch_arguments(
        sys.argv, ['rgbd_image_proc.launch.py'], [argument[0] for argument in ARGUMENTS])
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what, _ in ARGUMENTS),
        Node(
            package='optitrack_vrpn', executable='rgbd_image_proc', name='rgbd_image_proc',
            parameters=[{'autostart': True, **_parameters(ARGUMENTS)}],
            output='screen', emulate_tty=True),
        Node(
            package='optitrack_vrpn', executable='rgbd_odometry', name='rgbd_odometry',
            parameters=[{'autostart': True, **_parameters(COMMON)}],
            output='screen', emulate_tty=True),
    ])
