# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry and mapping on a colour and depth camera that delivers aligned depth."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

# The topics of realsense2_camera with align_depth.enable:=true, in its default namespaces.
_CAMERA = '/camera/camera/'
# Name, default, description, type; parameter of the odometry and of the mapper, '' for none.
ARGUMENTS = (
    ('colour', f'{_CAMERA}color/image_raw', 'topic of the colour images', str,
     'input.colour', 'input.colour'),
    ('depth', f'{_CAMERA}aligned_depth_to_color/image_raw',
     'topic of depth that is aligned to the colour image', str, 'input.depth', 'input.depth'),
    ('info', f'{_CAMERA}color/camera_info', 'topic of its CameraInfo', str,
     'input.info', 'input.info'),
    ('rectified', 'false', 'true: the images have no distortion', bool,
     'input.rectified', 'input.rectified'),
    ('scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA', float,
     'input.scale', 'input.scale'),
    ('mount', 'tf', 'tf: the camera on the base from /tf_static; parameters', str,
     'mount.source', 'mount.source'),
    ('base_frame', 'camera_link', 'child frame of the odometry', str, 'output.base_frame', ''),
    ('fixed_frame', 'odom', 'its parent', str, 'output.fixed_frame', ''),
    ('tf', 'true', 'false: odometry publishes no transform; needed where base_frame has another '
     'parent, such as a body of mocap', bool, 'output.tf', ''),
    ('map_frame', 'map', 'frame of the map', str, '', 'output.map_frame'),
    ('folder', '', 'folder of save_keyframes and load_keyframes', str, '', 'file.folder'),
    ('pcd', '', 'file of save_pcd_map', str, '', 'file.pcd'),
    ('use_sim_time', 'false', 'true: with a recording', bool, 'use_sim_time', 'use_sim_time'),
    ('activate', 'true', 'false: leave the nodes inactive, for mocap control', bool,
     'activate', 'activate'),
)


def node(name, column):
    """Describe one of the two nodes; its parameters are in a column of ``ARGUMENTS``."""
    return Node(
        package='optitrack_vrpn', executable=name, name=name,
        parameters=[{'autostart': True, **{
            argument[column]: ParameterValue(
                LaunchConfiguration(argument[0]), value_type=argument[3])
            for argument in ARGUMENTS if argument[column]}}],
        output='screen', emulate_tty=True)


def generate_launch_description():
    """Describe both nodes."""
    check_launch_arguments(
        sys.argv, ['rgbd_mapping.launch.py'], [argument[0] for argument in ARGUMENTS])
    return LaunchDescription([
        *(DeclareLaunchArgument(argument[0], default_value=argument[1], description=argument[2])
          for argument in ARGUMENTS),
        node('rgbd_odometry', 4), node('rgbd_mapper', 5)])
