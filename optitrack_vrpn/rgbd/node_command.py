# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the nodes rgbd_image_proc, rgbd_odometry and rgbd_mapper."""

from optitrack_vrpn.cli.fast_dds_io import use_profile
from optitrack_vrpn.ros.node_command import run_node_by_parameters


def image_proc() -> int:
    """Run the node rgbd_image_proc until it ends; return the exit code."""
    use_profile()
    return run_node_by_parameters(
        'rgbd_image_proc', 'optitrack_vrpn.rgbd.image_proc_ros:RgbdImageProc',
        'Rectify colour and depth images, and register the depth to the colour.',
        '-p extrinsics_file:=extr.yml', 'rgbd_odometry.md')


def odometry() -> int:
    """Run the node rgbd_odometry until it ends; return the exit code."""
    use_profile()
    return run_node_by_parameters(
        'rgbd_odometry', 'optitrack_vrpn.rgbd.odometry_ros:RgbdOdometry',
        'Estimate the motion of a colour and depth camera from its images.',
        '-p input.colour:=camera/color/image_raw', 'rgbd_odometry.md')


def mapper() -> int:
    """Run the node rgbd_mapper until it ends; return the exit code."""
    use_profile()
    return run_node_by_parameters(
        'rgbd_mapper', 'optitrack_vrpn.rgbd.mapper_ros:RgbdMapper',
        'Map a place with a colour and depth camera and odometry.', '-p odometry:=vo',
        'rgbd_mapping.md')
