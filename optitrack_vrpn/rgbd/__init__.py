# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry and maps from a colour and depth camera; see docs/rgbd_odometry.md."""

from optitrack_vrpn.faces import lazy

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
__all__, __getattr__ = lazy(__name__, {
    'calibration':
        'ImageProcessor Rectifier Registration parse_extrinsics parse_intrinsics parse_warp '
        'read_storage unwarp',
    'camera_node_ros':
        'image_message info_message make_header pose_matrix pose_message stamp_ns',
    'cameras_ros': 'RgbdPlay RgbdSim',
    'features': 'FeatureSettings corner_contrast covariances_of depth_mixture find_features',
    'files_io':
        'Entry Sequence camera_of load_keyframes load_storage pair parse_list save_keyframes '
        'save_pcd',
    'geometry':
        'Intrinsics motion_of opencv pose_of rigid rigid_transform rotation_matrix '
        'rotation_vector transformed',
    'image_proc_ros': 'RgbdImageProc',
    'images':
        'COLOUR DEPTH ImageError Pairer StaticFrames check_sizes from_depth from_rgb grey_of '
        'pack_depth scaled_pair to_depth to_grey to_rgb',
    'loops':
        'CORRELATION FLOOR_M FLOOR_RAD LoopSettings Places View describe edge_information '
        'match_descriptors match_views ransac',
    'mapper': 'GraphSettings KeyframeSettings Mapper MapperSettings pcd_bytes voxel_means',
    'mapper_ros': 'RgbdMapper',
    'model':
        'IcpSettings LandmarkModel ModelSettings RefinementSettings align inverse_3x3 '
        'mahalanobis_squares refine',
    'odometry': 'Cause Odometry OdometrySettings Status',
    'odometry_ros': 'RgbdOdometry',
    'posegraph':
        'Edge KNEE diagonal_information inverse_right_jacobian optimise '
        'optimise_without_outliers',
    'room': 'Box Layout Room Sensor SensorConfig',
    'settings':
        'BASE ImageProcSettings INPUT MapperNodeSettings MountSettings NODE_ARGUMENTS ODOMETRY '
        'OUTPUT OdometryNodeSettings SCALE SimMountSettings SimSettings TF TOPICS',
    'trajectories':
        'BodyMotion FLU_FROM_OPTICAL Harmonic TRAJECTORIES Trajectory camera_on_body '
        'rotation_from_angles',
})
