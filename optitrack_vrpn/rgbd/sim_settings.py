# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node rgbd_sim."""

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.sensor import SensorConfig
from optitrack_vrpn.rgbd.trajectories import camera_on_body, TRAJECTORIES
from optitrack_vrpn.settings import Change, checked, section, setting


@checked
@dataclass(frozen=True)
class SimCameraSettings:
    """The camera; the defaults are those of a Kinect at QVGA, a quarter of its pixels."""

    width: int = setting(320, unit='px', low=16, high=4096, change=Change.START,
                         doc='width of the images')
    height: int = setting(240, unit='px', low=16, high=4096, change=Change.START,
                          doc='height of the images')
    fx: float = setting(262.5, unit='px', low=1.0, high=10000.0, change=Change.START,
                        doc='focal length along a row')
    fy: float = setting(262.5, unit='px', low=1.0, high=10000.0, change=Change.START,
                        doc='focal length along a column')
    cx: float = setting(159.5, unit='px', low=0.0, high=4096.0, change=Change.START,
                        doc='column of the principal point')
    cy: float = setting(119.5, unit='px', low=0.0, high=4096.0, change=Change.START,
                        doc='row of the principal point')
    rate_hz: float = setting(30.0, unit='Hz', low=0.1, high=240.0, change=Change.START,
                             doc='images per second; a computer that is too slow skips images')

    def intrinsics(self) -> Intrinsics:
        """Return the camera without distortion."""
        return Intrinsics(self.width, self.height, self.fx, self.fy, self.cx, self.cy)


@checked
@dataclass(frozen=True)
class SimMountSettings:
    """Pose of the camera on the body; an evaluation estimates it."""

    xyz: tuple[float, float, float] = setting(
        (0.06, 0.02, 0.04), unit='m', low=-10.0, high=10.0, change=Change.START,
        doc='position of the camera on the body: x forward, y left, z up')
    rpy_deg: tuple[float, float, float] = setting(
        (2.0, 8.0, -3.0), unit='deg', low=-360.0, high=360.0, change=Change.START,
        doc='roll, pitch and yaw of the camera on the body')

    def body_from_link(self) -> NDArray[np.float64]:
        """Return the pose of the camera's link (x forward, y left, z up) on the body, 4x4."""
        return self.body_from_camera() @ np.linalg.inv(camera_on_body())

    def body_from_camera(self) -> NDArray[np.float64]:
        """Return the pose of the optical frame on the body, 4x4."""
        return camera_on_body(self.xyz, [math.radians(angle) for angle in self.rpy_deg])


@checked
@dataclass(frozen=True)
class SimSettings:
    """A simulated colour and depth camera on a simulated mocap body."""

    trajectory: str = setting(
        'loop', choices=tuple(TRAJECTORIES), change=Change.START, doc='motion of the body')
    seed: int = setting(0, low=0, high=2**31, change=Change.START,
                        doc="seed of the camera's noise; the same seed gives the same noise")
    body_frame: str = setting(
        '', change=Change.START,
        doc='frame of the body, as published by the node; empty: the ROS name of the body')
    link_frame: str = setting(
        'simulated_camera_link', change=Change.START, doc='frame of the camera, z up')
    optical_frame: str = setting(
        'simulated_color_optical_frame', change=Change.START,
        doc='frame of the images, z forward; it marks every image as simulated')
    camera: SimCameraSettings = section(SimCameraSettings(), doc='the camera')
    mount: SimMountSettings = section(SimMountSettings(), doc='pose of the camera on the body')
    sensor: SensorConfig = section(SensorConfig(), doc='errors of the camera')
