# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry on a colour and depth camera that delivers aligned depth."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

# The topics of realsense2_camera with align_depth.enable:=true, in its default namespaces.
_CAMERA = '/camera/camera/'
ARGUMENTS = (
    ('colour', 'input.colour', f'{_CAMERA}color/image_raw', 'topic of the colour images', str),
    ('depth', 'input.depth', f'{_CAMERA}aligned_depth_to_color/image_raw',
     'topic of depth that is aligned to the colour image', str),
    ('info', 'input.info', f'{_CAMERA}color/camera_info', 'topic of its CameraInfo', str),
    ('rectified', 'input.rectified', 'false', 'true: the images have no distortion', bool),
    ('scale', 'input.scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA', float),
    ('mount', 'mount.source', 'tf', 'tf: the camera on the base from /tf_static; parameters', str),
    ('base_frame', 'output.base_frame', 'camera_link', 'child frame of the odometry', str),
    ('fixed_frame', 'output.fixed_frame', 'odom', 'its parent', str),
    ('tf', 'output.tf', 'true', 'false: publish no transform', bool),
    ('motion_constraint', 'method.motion_constraint', 'none', 'none, level or planar', str),
    ('use_sim_time', 'use_sim_time', 'false', 'true: with a recording', bool),
    ('activate', 'activate', 'true', 'false: leave the node inactive, for mocap control', bool),
)


def generate_launch_description():
    """Describe the node."""
    check_launch_arguments(
        sys.argv, ['rgbd_odometry.launch.py'], [argument[0] for argument in ARGUMENTS])
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, _, default, what, _ in ARGUMENTS),
        Node(
            package='optitrack_vrpn', executable='rgbd_odometry', name='rgbd_odometry',
            parameters=[{'autostart': True, **{
                parameter: ParameterValue(LaunchConfiguration(name), value_type=kind)
                for name, parameter, _, _, kind in ARGUMENTS}}],
            output='screen', emulate_tty=True),
    ])
