# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the nodes with image input and of the simulated camera; launch arguments."""

from dataclasses import dataclass
import functools

import numpy as np
from optitrack_vrpn.cli.arguments import flag, number
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import Change, checked, LifecycleSettings, setting
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, rigid
from optitrack_vrpn.guests.rgbd.mapper import MapperSettings
from optitrack_vrpn.guests.rgbd.odometry import OdometrySettings
from optitrack_vrpn.guests.rgbd.room import camera_on_body, SensorConfig, TRAJECTORIES
from scipy.spatial.transform import Rotation

_at_start = functools.partial(setting, change=Change.START)


@dataclass(frozen=True)
class PairSettings:
    """Selection and units of pairs of images."""

    depth_unit_m: float = setting(
        0.001, unit='m', low=1e-5, high=0.1, doc='unit of 16-bit depth')
    tolerance_s: float = setting(
        0.02, unit='s', low=0.0, high=1.0, doc='greatest difference of the stamps of a pair')
    queue: int = setting(10, low=2, high=100, doc='images of each topic that wait for a partner')
    frozen_after_s: float = setting(
        0.5, unit='s', low=0.0, high=60.0,
        doc='time after which pairs with the same bytes are not used, because the driver repeats '
        'them; 0: never, for a simulated camera without noise')
    timeout_s: float = setting(
        1.0, unit='s', low=0.1, high=60.0,
        doc='time without a pair after which the diagnostics report an error')


@checked
@dataclass(frozen=True)
class CameraSettings(PairSettings, LifecycleSettings):
    """The topics of the camera, and its pose on the base."""

    colour: str = setting('rgbd/rgb', doc='topic of the colour or grey images')
    depth: str = setting('rgbd/depth', doc='topic of depth that is registered to the colour image')
    info: str = setting('rgbd/info', doc='topic of the CameraInfo of the colour camera')
    rectified: bool = setting(
        True, doc='the images have no distortion: use the matrix P of the CameraInfo; false: K '
        'and its distortion')
    scale: float = setting(
        1.0, low=0.05, high=1.0, doc='scale of the images; 0.5 leaves a quarter of the pixels')
    mount: str = setting(
        'parameters', choices=('parameters', 'tf'),
        doc='pose of the camera on the base; parameters: mount_position_m and mount_rpy_deg; tf: '
        '/tf_static, from the base to the frame of the images')
    mount_position_m: tuple[float, float, float] = setting(
        (0.0, 0.0, 0.0), unit='m', low=-100.0, high=100.0,
        doc='position of the optical frame in the base')
    mount_rpy_deg: tuple[float, float, float] = setting(
        (-90.0, 0.0, -90.0), unit='deg', low=-360.0, high=360.0,
        doc='roll, pitch and yaw of the optical frame in the base; -90, 0, -90: forward view')

    def base_from_camera(self) -> Floats:
        """Return the pose of the optical frame in the base, 4x4, from the parameters."""
        # about fixed axes, roll about x first
        return rigid(Rotation.from_euler('xyz', self.mount_rpy_deg, degrees=True).as_matrix(),
                     self.mount_position_m)


@checked
@dataclass(frozen=True)
class OdometryNodeSettings(OdometrySettings, CameraSettings):
    """Settings of rgbd_odometry."""

    odometry: str = setting('vo', doc='topic of the nav_msgs/Odometry')
    fixed_frame: str = setting(
        'odom', doc='frame of the odometry: the frame of the base at the first image')
    base_frame: str = setting('camera_link', doc='child frame of the odometry: the base')
    tf: bool = setting(True, doc='publish the transform from fixed_frame to base_frame')


@checked
@dataclass(frozen=True)
class MapperNodeSettings(MapperSettings, CameraSettings):
    """Settings of rgbd_mapper; folder, pcd and pattern are read by the services."""

    solve: bool = setting(
        True, doc='solve the graph at each new loop; false: only by the service solve_graph')
    odometry: str = setting('vo', doc='topic of the nav_msgs/Odometry, from any odometry')
    map_frame: str = setting('map', doc='frame of the map; it equals the frame of the odometry at '
                                        'the first keyframe')
    tf: bool = setting(True, doc='publish the transform from map_frame to the frame of the '
                                 'odometry, with the stamp of each pose')
    folder: str = setting(
        '', change=Change.ANY_TIME,
        doc='folder of save_keyframes and load_keyframes; an existing one is not overwritten')
    pcd: str = setting(
        '', change=Change.ANY_TIME, doc='file of save_pcd_map')
    pattern: str = setting(
        '.*', change=Change.ANY_TIME,
        doc='regular expression; publish_keyframes publishes the keyframes whose number matches')


@checked
@dataclass(frozen=True)
class ImageProcSettings(PairSettings, LifecycleSettings):
    """Conversion of raw colour and depth images to rectified colour and registered depth."""

    colour: str = setting('camera/rgb/image_color', doc='topic of the raw colour images')
    depth: str = setting('camera/depth/image_raw', doc='topic of the raw depth images')
    colour_info: str = setting(
        'camera/rgb/camera_info', doc='topic of the CameraInfo of the colour camera')
    depth_info: str = setting(
        'camera/depth/camera_info', doc='topic of the CameraInfo of the depth camera')
    colour_file: str = setting(
        '', doc='rgb.yml, intrinsics of the colour camera; empty: from colour_info')
    depth_file: str = setting(
        '', doc='depth.yml, intrinsics of the depth camera; empty: from depth_info')
    extrinsics_file: str = setting(
        '', doc='extr.yml, with ir2rgb: colour camera from depth camera, in mm')
    warp_file: str = setting(
        '', doc='warp.yml, correction of the depth of each pixel; empty: none')
    aligned: bool = setting(
        False, doc='the depth is aligned to the raw colour image: no registration')
    scale: float = setting(
        1.0, low=0.05, high=1.0, doc='scale of the results; 0.5 makes QVGA from VGA')
    depth_encoding: str = setting(
        '16UC1', choices=('16UC1', '32FC1'),
        doc='encoding of rgbd/depth: 16UC1 in millimetres, 32FC1 in metres')

    def check(self) -> None:
        """Check the consistency of the fields."""
        if self.aligned and (self.extrinsics_file or self.depth_file):
            raise ConfigurationError(
                'aligned: depth that is aligned to the colour image has no extrinsics_file and no '
                'depth_file; leave them empty')


@checked
@dataclass(frozen=True)
class SimSettings(SensorConfig):
    """
    A simulated colour and depth camera on a simulated mocap body.

    The defaults are those of a Kinect at QVGA, a quarter of its pixels.
    """

    trajectory: str = _at_start('loop', choices=tuple(TRAJECTORIES), doc='motion of the body')
    seed: int = _at_start(
        0, low=0, high=2**31, doc="seed of the camera's noise; the same seed gives the same noise")
    body_frame: str = _at_start(
        '', doc='frame of the body, as published by the node; empty: the ROS name of the body')
    link_frame: str = _at_start('simulated_camera_link', doc='frame of the camera, z up')
    optical_frame: str = _at_start(
        'simulated_color_optical_frame',
        doc='frame of the images, z forward; it marks every image as simulated')
    width: int = _at_start(320, unit='px', low=16, high=4096, doc='width of the images')
    height: int = _at_start(240, unit='px', low=16, high=4096, doc='height of the images')
    fx: float = _at_start(
        262.5, unit='px', low=1.0, high=10000.0, doc='focal length along a row')
    fy: float = _at_start(
        262.5, unit='px', low=1.0, high=10000.0, doc='focal length along a column')
    cx: float = _at_start(
        159.5, unit='px', low=0.0, high=4096.0, doc='column of the principal point')
    cy: float = _at_start(119.5, unit='px', low=0.0, high=4096.0, doc='row of the principal point')
    rate_hz: float = _at_start(
        30.0, unit='Hz', low=0.1, high=240.0,
        doc='images per second; a computer that is too slow skips images')
    mount_position_m: tuple[float, float, float] = _at_start(
        (0.06, 0.02, 0.04), unit='m', low=-10.0, high=10.0,
        doc='position of the camera on the body: x forward, y left, z up; an evaluation '
        'estimates the mount')
    mount_rpy_deg: tuple[float, float, float] = _at_start(
        (2.0, 8.0, -3.0), unit='deg', low=-360.0, high=360.0,
        doc='roll, pitch and yaw of the camera on the body')

    def intrinsics(self) -> Intrinsics:
        """Return the camera without distortion."""
        return Intrinsics(self.width, self.height, self.fx, self.fy, self.cx, self.cy)

    def body_from_link(self) -> Floats:
        """Return the pose of the camera's link (x forward, y left, z up) on the body, 4x4."""
        return self.body_from_camera() @ np.linalg.inv(camera_on_body())

    def body_from_camera(self) -> Floats:
        """Return the pose of the optical frame on the body, 4x4."""
        return camera_on_body(self.mount_position_m, np.radians(self.mount_rpy_deg).tolist())


# -- arguments of the launch files of cameras, which are parameters of the nodes -----------------

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
NODE_ARGUMENTS = (
    ('use_sim_time', 'false', 'true: with a recording', flag),
    ('activate', 'true', 'false: leave the nodes inactive, for mocap control', flag))
#: Parameters of every node with image input.
INPUT = ('colour', 'depth', 'info', 'rectified', 'scale', 'mount', 'use_sim_time', 'activate')
