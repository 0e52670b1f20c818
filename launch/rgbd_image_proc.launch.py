# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Process raw images of a camera without aligned depth, and bring up odometry on the results."""

from launch_ros.actions import Node
from optitrack_vrpn.cli.arguments import flag, number
from optitrack_vrpn.cli.launch_file_ros import describe
from optitrack_vrpn.guests.rgbd.settings import NODE_ARGUMENTS

PROCESSING = (
    ('colour', 'camera/rgb/image_color', 'topic of the raw colour images'),
    ('depth', 'camera/depth/image_raw', 'topic of the raw depth images'),
    ('colour_info', 'camera/rgb/camera_info', 'topic of the CameraInfo of colour'),
    ('depth_info', 'camera/depth/camera_info', 'topic of the CameraInfo of depth'),
    ('colour_file', '', 'rgb.yml; empty: intrinsics from the topic'),
    ('depth_file', '', 'depth.yml; empty: intrinsics from the topic'),
    ('extrinsics_file', '', 'extr.yml, the transform between the cameras'),
    ('warp_file', '', 'warp.yml, correction of the depth of each pixel; empty: none'),
    ('aligned', 'false', 'true: the driver aligns the depth to the colour image', flag),
    ('scale', '0.5', 'size of the results; 0.5: QVGA of VGA', number),
)
ARGUMENTS = (*PROCESSING, *NODE_ARGUMENTS)


def make_all(given):
    """Make both nodes; every argument is a parameter of the first one."""
    common = {name: given[name] for name, *_ in NODE_ARGUMENTS}
    return [
        Node(
            package='optitrack_vrpn', executable=tool, name=tool,
            parameters=[{'autostart': True, **parameters}], output='screen', emulate_tty=True)
        for tool, parameters in (('rgbd_image_proc', given), ('rgbd_odometry', common))]


def generate_launch_description():
    """Describe both nodes."""
    return describe(__file__, ARGUMENTS, make_all)
