# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up the driver of a depth camera with aligned depth, and odometry on its images."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.launch_arguments import check_launch_arguments

# Package and launch file of a driver, its arguments, and its topics of colour, aligned depth and
# CameraInfo. Checked against the drivers' own launch files and documents; not run with a camera.
DRIVERS = {
    'realsense2': (
        'realsense2_camera', 'rs_launch.py',
        {'align_depth.enable': 'true', 'enable_sync': 'true'},
        '/camera/camera/color/image_raw', '/camera/camera/aligned_depth_to_color/image_raw',
        '/camera/camera/color/camera_info'),
    # its launch file sets depth_registration; depth/image is in metres (32FC1)
    'openni2': (
        'openni2_camera', 'camera_only.launch.py', {'namespace': 'camera'},
        '/camera/rgb/image_raw', '/camera/depth/image', '/camera/rgb/camera_info'),
}
ARGUMENTS = (
    ('driver', 'realsense2', 'realsense2 or openni2'),
    ('odometry', 'true', 'false: the driver only'),
    ('scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA'),
    ('base_frame', 'camera_link', 'child frame of the odometry; its transform to the camera comes '
     'from the driver'),
    ('tf', 'true', 'false: odometry publishes no transform; needed where base_frame has another '
     'parent, such as a body of mocap'),
)


def include(package, name, arguments):
    """Include a launch file of a package."""
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(PathJoinSubstitution(
            [FindPackageShare(package), 'launch', name])),
        launch_arguments=arguments.items())


def make_all(context):
    """Make the actions once the arguments are known."""
    check_launch_arguments(
        sys.argv, ('rgbd_device.launch.py',), [name for name, *_ in ARGUMENTS])
    given = {name: LaunchConfiguration(name).perform(context) for name, *_ in ARGUMENTS}
    if given['driver'] not in DRIVERS:
        raise ValueError(f'driver:={given["driver"]} is none of {", ".join(DRIVERS)}')
    if given['odometry'] not in ('true', 'false'):
        raise ValueError(f'odometry:={given["odometry"]} is neither true nor false')
    package, name, arguments, colour, depth, info = DRIVERS[given['driver']]
    actions = [include(package, name, arguments)]
    if given['odometry'] == 'true':
        actions.append(include('optitrack_vrpn', 'rgbd_odometry.launch.py', {
            'colour': colour, 'depth': depth, 'info': info, 'scale': given['scale'],
            'base_frame': given['base_frame'], 'tf': given['tf']}))
    return actions


def generate_launch_description():
    """Describe the driver and the odometry."""
    return LaunchDescription([
        *(DeclareLaunchArgument(name, default_value=default, description=what)
          for name, default, what in ARGUMENTS),
        OpaqueFunction(function=make_all),
    ])
