# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that the launch files of cameras share, as rows of ``cli.launch_arguments``."""

from optitrack_vrpn.cli.launch_arguments import flag, number

_CAMERA = '/camera/camera/'
#: Topics of realsense2_camera, the defaults.
TOPICS = (
    ('colour', f'{_CAMERA}color/image_raw', 'topic of the colour images'),
    ('depth', f'{_CAMERA}aligned_depth_to_color/image_raw',
     'topic of depth that is aligned to the colour image'),
    ('info', f'{_CAMERA}color/camera_info', 'topic of its CameraInfo'))
SCALE = ('scale', '0.5', 'resize the images by this; 0.5 makes QVGA of VGA', number)
BASE = ('base_frame', 'camera_link', 'child frame of the odometry')
TF = ('tf', 'true', 'false: odometry publishes no transform; needed where base_frame has another '
      'parent, such as a body of mocap', flag)
ODOMETRY = (
    *TOPICS, ('rectified', 'false', 'true: the images have no distortion', flag), SCALE,
    ('mount', 'tf', 'tf: the camera on the base from /tf_static; parameters'), BASE,
    ('fixed_frame', 'odom', 'its parent'), TF)
NODES = (
    ('use_sim_time', 'false', 'true: with a recording', flag),
    ('activate', 'true', 'false: leave the nodes inactive, for mocap control', flag))
#: The argument that a parameter of odometry or mapper takes.
INPUT = {
    'input.colour': 'colour', 'input.depth': 'depth', 'input.info': 'info',
    'input.rectified': 'rectified', 'input.scale': 'scale', 'mount.source': 'mount',
    'use_sim_time': 'use_sim_time', 'activate': 'activate'}
OUTPUT = {
    'output.base_frame': 'base_frame', 'output.fixed_frame': 'fixed_frame', 'output.tf': 'tf'}
