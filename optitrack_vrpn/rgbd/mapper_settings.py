# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the node rgbd_mapper."""

from dataclasses import dataclass

from optitrack_vrpn.mocap_control.lifecycle_settings import LifecycleSettings
from optitrack_vrpn.rgbd.mapper import MapperSettings
from optitrack_vrpn.rgbd.odometry_settings import InputSettings, MountSettings
from optitrack_vrpn.settings import Change, checked, section, setting


@checked
@dataclass(frozen=True)
class MapOutputSettings:
    """Published results."""

    map_frame: str = setting('map', doc='frame of the map; it equals the frame of the odometry at '
                                        'the first keyframe')
    tf: bool = setting(True, doc='publish the transform from map_frame to the frame of the '
                                 'odometry, with the stamp of each pose')


@checked
@dataclass(frozen=True)
class FileSettings:
    """Files of the services; set them before a call."""

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
class MapperNodeSettings(LifecycleSettings):
    """Settings of rgbd_mapper."""

    solve: bool = setting(
        True, doc='solve the graph at each new loop; false: only by the service solve_graph')
    odometry: str = setting('vo', doc='topic of the nav_msgs/Odometry, from any odometry')
    input: InputSettings = section(InputSettings(), doc='the camera')
    mount: MountSettings = section(MountSettings(), doc='pose of the camera on the base')
    output: MapOutputSettings = section(MapOutputSettings(), doc='the results')
    file: FileSettings = section(FileSettings(), doc='files of the services')
    method: MapperSettings = section(MapperSettings(), doc='the mapping method')
