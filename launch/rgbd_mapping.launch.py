# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bring up odometry and mapping on a colour and depth camera that delivers aligned depth."""

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
    ('tf', 'true', 'false: odometry publishes no transform; needed where base_frame has another '
     'parent, such as a body of mocap', flag),
    ('map_frame', 'map', 'frame of the map'),
    ('folder', '', 'folder of save_keyframes and load_keyframes'),
    ('pcd', '', 'file of save_pcd_map'),
    ('use_sim_time', 'false', 'true: with a recording', flag),
    ('activate', 'true', 'false: leave the nodes inactive, for mocap control', flag),
)
#: The argument that a parameter of a node takes.
BOTH = {
    'input.colour': 'colour', 'input.depth': 'depth', 'input.info': 'info',
    'input.rectified': 'rectified', 'input.scale': 'scale', 'mount.source': 'mount',
    'use_sim_time': 'use_sim_time', 'activate': 'activate'}
PARAMETERS = {
    'rgbd_odometry': {**BOTH, 'output.base_frame': 'base_frame',
                      'output.fixed_frame': 'fixed_frame', 'output.tf': 'tf'},
    'rgbd_mapper': {**BOTH, 'output.map_frame': 'map_frame', 'file.folder': 'folder',
                    'file.pcd': 'pcd'}}


def make_all(given):
    """Make both nodes."""
    return [Node(
        package='optitrack_vrpn', executable=tool, name=tool,
        parameters=[{'autostart': True, **{
            parameter: given[name] for parameter, name in parameters.items()}}],
        output='screen', emulate_tty=True) for tool, parameters in PARAMETERS.items()]


def generate_launch_description():
    """Describe both nodes."""
    return describe(__file__, ARGUMENTS, make_all)
