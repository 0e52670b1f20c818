# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry and maps from a colour and depth camera; see docs/rgbd_odometry.md."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('rgbd_image_proc', 'command:image_proc',
     'raw colour and depth images to rectified and registered ones'),
    ('rgbd_odometry', 'command:odometry',
     'the lifecycle node that follows a colour and depth camera by its images'),
    ('rgbd_mapper', 'command:mapper',
     'the lifecycle node that maps a place with a colour and depth camera'),
    ('rgbd_play', 'command:play',
     'publish a sequence of the TUM RGB-D benchmark, with its ground truth'),
    ('rgbd_sim', 'command:sim',
     'a simulated depth camera, and a simulated Motive that sees the body it is on'),
    ('rgbd_demo', 'demo_command:main',
     'visual odometry of a simulated depth camera beside mocap, with its score'),
)
NODES = (
    ('rgbd_image_proc', 'settings:ImageProcSettings'),
    ('rgbd_odometry', 'settings:OdometryNodeSettings'),
    ('rgbd_mapper', 'settings:MapperNodeSettings'),
    ('rgbd_sim', 'settings:SimSettings'),
)
