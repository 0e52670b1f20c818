# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node rgbd_odometry."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.mocap_control.lifecycle_settings import LifecycleSettings
from optitrack_vrpn.rgbd.odometry import OdometrySettings
from optitrack_vrpn.rgbd.pair_settings import PairSettings
from optitrack_vrpn.rgbd.transforms import rigid
from optitrack_vrpn.settings import checked, section, setting
from scipy.spatial.transform import Rotation


@checked
@dataclass(frozen=True)
class InputSettings(PairSettings):
    """The topics of the camera."""

    colour: str = setting('rgbd/rgb', doc='topic of the colour or grey images')
    depth: str = setting('rgbd/depth', doc='topic of depth that is registered to the colour image')
    info: str = setting('rgbd/info', doc='topic of the CameraInfo of the colour camera')
    rectified: bool = setting(
        True, doc='the images have no distortion: use the matrix P of the CameraInfo; false: K '
        'and its distortion')
    scale: float = setting(
        1.0, low=0.05, high=1.0, doc='scale of the images; 0.5 leaves a quarter of the pixels')


@checked
@dataclass(frozen=True)
class OutputSettings:
    """Published results."""

    odometry: str = setting('vo', doc='topic of the nav_msgs/Odometry')
    fixed_frame: str = setting(
        'odom', doc='frame of the odometry: the frame of the base at the first image')
    base_frame: str = setting('camera_link', doc='child frame of the odometry: the base')
    tf: bool = setting(True, doc='publish the transform from fixed_frame to base_frame')


@checked
@dataclass(frozen=True)
class MountSettings:
    """Pose of the camera on the base."""

    source: str = setting(
        'parameters', choices=('parameters', 'tf'),
        doc='parameters: position_m and rpy_deg; tf: /tf_static, from base_frame to the frame of '
        'the images')
    position_m: tuple[float, float, float] = setting(
        (0.0, 0.0, 0.0), unit='m', low=-100.0, high=100.0,
        doc='position of the optical frame in the base')
    rpy_deg: tuple[float, float, float] = setting(
        (-90.0, 0.0, -90.0), unit='deg', low=-360.0, high=360.0,
        doc='roll, pitch and yaw of the optical frame in the base; -90, 0, -90: forward view')

    def base_from_camera(self) -> NDArray[np.float64]:
        """Return the pose of the optical frame in the base, 4x4, from the parameters."""
        # about fixed axes, roll about x first
        return rigid(Rotation.from_euler('xyz', self.rpy_deg, degrees=True).as_matrix(),
                     self.position_m)


@checked
@dataclass(frozen=True)
class OdometryNodeSettings(LifecycleSettings):
    """Settings of rgbd_odometry."""

    input: InputSettings = section(InputSettings(), doc='the camera')
    output: OutputSettings = section(OutputSettings(), doc='the topics of the results')
    mount: MountSettings = section(MountSettings(), doc='pose of the camera on the base')
    method: OdometrySettings = section(OdometrySettings(), doc='the odometry method')
