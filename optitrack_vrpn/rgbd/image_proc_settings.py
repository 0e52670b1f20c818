# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node rgbd_image_proc."""

from dataclasses import dataclass

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.mocap_control.lifecycle_settings import LifecycleSettings
from optitrack_vrpn.rgbd.pair_settings import PairSettings
from optitrack_vrpn.settings import checked, setting


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
        """
        Check the consistency of the fields.

        :raises ConfigurationError: with the name of the field and the remedy.
        """
        if self.aligned and (self.extrinsics_file or self.depth_file):
            raise ConfigurationError(
                'aligned: depth that is aligned to the colour image has no extrinsics_file and no '
                'depth_file; leave them empty')
