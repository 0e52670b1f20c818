# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up the driver of a depth camera with aligned depth, and odometry on its images."""

from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare
from optitrack_vrpn.cli.arguments import flag, one_of
from optitrack_vrpn.cli.files_io import use_profile
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import SCALE, TF

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
    ('driver', 'realsense2', 'realsense2 or openni2', one_of(*DRIVERS)),
    ('odometry', 'true', 'false: the driver only', flag),
    SCALE,
    ('base_frame', 'camera_link', 'child frame of the odometry; its transform to the camera comes '
     'from the driver'),
    TF,
)


def include(package, name, arguments):
    """Include a launch file of a package."""
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(PathJoinSubstitution(
            [FindPackageShare(package), 'launch', name])),
        launch_arguments=arguments.items())


def make_all(given):
    """Make the actions once the arguments are known."""
    use_profile()    # for the driver too
    package, name, arguments, colour, depth, info = DRIVERS[given['driver']]
    actions = [include(package, name, arguments)]
    if given['odometry']:
        actions.append(include('optitrack_vrpn', 'rgbd_odometry.launch.py', {
            'colour': colour, 'depth': depth, 'info': info, 'scale': str(given['scale']),
            'base_frame': given['base_frame'], 'tf': str(given['tf'])}))
    return actions


def generate_launch_description():
    """Describe the driver and the odometry."""
    return describe(__file__, ARGUMENTS, make_all)
