# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry and maps from a colour and depth camera; see docs/rgbd_odometry.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.rgbd.calibration import (
        ImageProcessor, parse_extrinsics, parse_intrinsics, parse_warp, read_storage, Rectifier,
        Registration, unwarp)
    from optitrack_vrpn.rgbd.camera_node_ros import (
        image_message, info_message, make_header, pose_matrix, pose_message, RgbdImageProc,
        stamp_ns)
    from optitrack_vrpn.rgbd.cameras_ros import RgbdPlay, RgbdSim
    from optitrack_vrpn.rgbd.features import (
        corner_contrast, CORRELATION, covariances_of, depth_mixture, describe, edge_information,
        FeatureSettings, find_features, FLOOR_M, FLOOR_RAD, LoopSettings, match_descriptors,
        match_views, Places, ransac, View)
    from optitrack_vrpn.rgbd.files_io import (
        camera_of, Entry, load_keyframes, load_storage, pair, parse_list, save_keyframes, save_pcd,
        Sequence)
    from optitrack_vrpn.rgbd.geometry import (
        Intrinsics, motion_of, opencv, pose_of, rigid, rigid_transform, rotation_matrix,
        rotation_vector, transformed)
    from optitrack_vrpn.rgbd.images import (
        check_sizes, COLOUR, DEPTH, from_depth, from_rgb, grey_of, ImageError, pack_depth, Pairer,
        scaled_pair, StaticFrames, to_depth, to_grey, to_rgb)
    from optitrack_vrpn.rgbd.mapper import (
        GraphSettings, KeyframeSettings, Mapper, MapperSettings, pcd_bytes, voxel_means)
    from optitrack_vrpn.rgbd.mapper_ros import RgbdMapper
    from optitrack_vrpn.rgbd.model import (
        align, IcpSettings, inverse_3x3, LandmarkModel, mahalanobis_squares, ModelSettings, refine,
        RefinementSettings)
    from optitrack_vrpn.rgbd.odometry import Cause, Odometry, OdometrySettings, Status
    from optitrack_vrpn.rgbd.odometry_ros import RgbdOdometry
    from optitrack_vrpn.rgbd.posegraph import (
        diagonal_information, Edge, inverse_right_jacobian, KNEE, optimise,
        optimise_without_outliers)
    from optitrack_vrpn.rgbd.room import (
        BodyMotion, Box, camera_on_body, FLU_FROM_OPTICAL, Harmonic, Layout, Room,
        rotation_from_angles, Sensor, SensorConfig, TRAJECTORIES, Trajectory)
    from optitrack_vrpn.rgbd.settings import (
        BASE, ImageProcSettings, INPUT, MapperNodeSettings, MountSettings, NODE_ARGUMENTS,
        ODOMETRY, OdometryNodeSettings, OUTPUT, SCALE, SimMountSettings, SimSettings, TF, TOPICS)
else:
    __all__, __getattr__ = lazy(globals())

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
)
NODES = (
    ('rgbd_image_proc', 'settings:ImageProcSettings'),
    ('rgbd_odometry', 'settings:OdometryNodeSettings'),
    ('rgbd_mapper', 'settings:MapperNodeSettings'),
    ('rgbd_sim', 'settings:SimSettings'),
)
