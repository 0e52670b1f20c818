# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry on a colour and depth camera that delivers aligned depth."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.launch_arguments import flag, number
from optitrack_vrpn.cli.launch_file_ros import describe

_CAMERA = '/camera/camera/'
ARGUMENTS = (
    ('colour', f'{_CAMERA}color/image_raw', 'topic of the colour images'),
    ('depth', f'{_CAMERA}aligned_depth_to_color/image_raw',
     'topic of depth that is aligned to the colour image'),
    ('info', f'{_CAMERA}color/camera_info', 'topic of its CameraInfo'),
    ('rectified', 'false', 'true: the images have no distortion', flag),
    ('scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA', number),
    ('mount', 'tf', 'tf: the camera on the base from /tf_static; parameters'),
    ('base_frame', 'camera_link', 'child frame of the odometry'),
    ('fixed_frame', 'odom', 'its parent'),
    ('tf', 'true', 'false: publish no transform', flag),
    ('motion_constraint', 'none', 'none, level or planar'),
    ('use_sim_time', 'false', 'true: with a recording', flag),
    ('activate', 'true', 'false: leave the node inactive, for mocap control', flag),
)
#: The argument that a parameter of the node takes.
PARAMETERS = {
    'input.colour': 'colour', 'input.depth': 'depth', 'input.info': 'info',
    'input.rectified': 'rectified', 'input.scale': 'scale', 'mount.source': 'mount',
    'output.base_frame': 'base_frame', 'output.fixed_frame': 'fixed_frame', 'output.tf': 'tf',
    'method.motion_constraint': 'motion_constraint', 'use_sim_time': 'use_sim_time',
    'activate': 'activate'}


def make_all(given):
    """Make the node."""
    return [Node(
        package='optitrack_vrpn', executable='rgbd_odometry', name='rgbd_odometry',
        parameters=[{'autostart': True, **{
            parameter: given[name] for parameter, name in PARAMETERS.items()}}],
        output='screen', emulate_tty=True)]


def generate_launch_description():
    """Describe the node."""
    return describe(__file__, ARGUMENTS, make_all)
