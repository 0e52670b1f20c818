# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Keyframes: when one is due; packed image and depth; their points in space, PCD files."""

from dataclasses import dataclass
from typing import Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.features import depth_mixture
from optitrack_vrpn.rgbd.images import Bytes, unpack_depth
from optitrack_vrpn.rgbd.loops import View
from optitrack_vrpn.rgbd.transforms import motion_of
from optitrack_vrpn.settings import checked, setting

Floats = NDArray[np.float64]


@checked
@dataclass(frozen=True)
class KeyframeSettings:
    """Selection of keyframes."""

    distance_m: float = setting(
        0.25, unit='m', low=0.0, high=100.0,
        doc='a frame becomes a keyframe when the camera has moved farther since the last one')
    angle_rad: float = setting(
        0.35, unit='rad', low=0.0, high=3.2, doc='or has turned by more than this')
    most: int = setting(
        2000, low=2, high=100000,
        doc='most keyframes; each takes 0.4 MB at QVGA and 1.6 MB at VGA')


@checked
@dataclass(frozen=True)
class CloudSettings:
    """Selection of the pixels that become points."""

    max_range_m: float = setting(
        5.0, unit='m', low=0.1, high=100.0, doc='pixels farther away are left out')
    max_stdev_m: float = setting(
        0.03, unit='m', low=0.001, high=1.0,
        doc='pixels with a larger deviation of depth are left out, such as those at depth edges')
    depth_noise: float = setting(
        0.001425, unit='1/m', low=0.0, high=0.1,
        doc='standard deviation of the depth z is this times z squared')
    max_z_m: float = setting(
        100.0, unit='m', low=-1000.0, high=1000.0,
        doc='higher points of the map are left out, such as those of a ceiling')
    voxel_m: float = setting(
        0.01, unit='m', low=0.001, high=1.0,
        doc='the points of the map within a cube of this size are replaced by their mean')


@dataclass(eq=False)
class Keyframe:
    """
    A stored frame.

    :ivar number: index, from 0.
    :ivar odometry: 4x4, pose of the camera by odometry, in the frame of the odometry.
    :ivar variances: variances of that pose: of a coordinate (m2) and of a rotation (rad2).
    :ivar pose: 4x4, pose of the camera in the map.
    :ivar colour: (height, width, 3) RGB.
    :ivar depth: (height, width) uint16, millimetres, 0 for none; half the memory
        of float32.
    :ivar view: features for place recognition.
    :ivar joined: the motion since the previous keyframe is known from odometry.
    """

    number: int
    stamp_ns: int
    odometry: Floats
    variances: tuple[float, float]
    pose: Floats
    colour: Bytes
    depth: NDArray[np.uint16]
    camera: Intrinsics
    view: View
    joined: bool = True

    @property
    def correction(self) -> Floats:
        """Return map_from_odometry at this keyframe, 4x4."""
        corrected: Floats = self.pose @ np.linalg.inv(self.odometry)
        return corrected


def is_due(pose: Floats, last: Optional[Floats], settings: KeyframeSettings) -> bool:
    """
    Return True if a frame is far enough from the last keyframe.

    :param pose: 4x4, pose of the camera by odometry.
    :param last: pose of the last keyframe; None if there is none.
    """
    if last is None:
        return True
    moved, turned = motion_of(np.linalg.inv(last) @ pose)
    return moved > settings.distance_m or turned > settings.angle_rad


def points_of(keyframe: Keyframe, settings: CloudSettings) -> tuple[Floats, Bytes]:
    """
    Return the points of a keyframe in its optical frame.

    :returns: (N, 3) metres and (N, 3) RGB.
    """
    depth = unpack_depth(keyframe.depth)
    rows, columns = np.nonzero((depth > 0) & (depth <= settings.max_range_m))
    pixels = np.stack([columns, rows], axis=1).astype(float)
    mean, variance, valid = depth_mixture(depth, pixels, settings.depth_noise)
    valid &= (variance <= settings.max_stdev_m ** 2) & (mean <= settings.max_range_m)
    points: Floats = keyframe.camera.rays(pixels[valid]) * mean[valid][:, None]
    return points, keyframe.colour[rows[valid], columns[valid]]


def voxel_means(points: Floats, colours: Bytes, size_m: float) -> tuple[Floats, Bytes]:
    """
    Replace the points within each cube of a grid by their mean.

    :param size_m: edge length of the cubes.
    :returns: points (M, 3) and colours (M, 3), in the order of the cubes.
    """
    if not len(points):
        return points, colours
    cells = np.floor(points / size_m).astype(np.int64)
    cells -= cells.min(axis=0)
    extent = cells.max(axis=0) + 1
    keys = (cells[:, 0] * extent[1] + cells[:, 1]) * extent[2] + cells[:, 2]
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    means, tones = (np.stack([np.bincount(places, column) for column in columns.T], axis=1)
                    / counts[:, None] for columns in (points, colours))
    return means, np.rint(tones).astype(np.uint8)


def packed_colours(colours: Bytes) -> NDArray[np.float32]:
    """Return colours (N, 3) as 0x00RRGGBB in the bits of a float, (N,), the format of PCL."""
    red, green, blue = np.asarray(colours, np.uint32).reshape(-1, 3).T
    packed: NDArray[np.float32] = (red << 16 | green << 8 | blue).astype('<u4').view('<f4')
    return packed


def pcd_bytes(points: Floats, colours: Bytes) -> bytes:
    """
    Encode a cloud as a binary PCD file of version 0.7 with the fields x, y, z and rgb.

    Layout: Point Cloud Library, "The PCD file format"; rgb is 0x00RRGGBB in the bits of a float.

    :param points: (N, 3), metres.
    :param colours: (N, 3) RGB.
    """
    count = len(points)
    header = (
        '# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z rgb\n'
        f'SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH {count}\nHEIGHT 1\n'
        f'VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {count}\nDATA binary\n')
    rows = np.column_stack([points.astype('<f4'), packed_colours(colours)])
    return header.encode('ascii') + rows.tobytes()
