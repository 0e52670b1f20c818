# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert arrays to ROS messages; large arrays are copied as bytes, not value by value."""

import array
from typing import Any, Mapping, Optional

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, TransformStamped
import numpy as np
from optitrack_vrpn.rgbd.geometry import Floats, Intrinsics, pose_of
from optitrack_vrpn.rgbd.images import Bytes
from optitrack_vrpn.rgbd.mapper import packed_colours
from optitrack_vrpn.units import NS_PER_S
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField
from std_msgs.msg import Header


def stamp_ns(header: Header) -> int:
    """Return the stamp of a header in nanoseconds."""
    return int(header.stamp.sec) * NS_PER_S + int(header.stamp.nanosec)


def make_header(time_ns: int, frame: str) -> Header:
    """Make a header."""
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return Header(stamp=Time(sec=seconds, nanosec=nanoseconds), frame_id=frame)


def byte_array(data: bytes) -> Any:
    """Make an array that rclpy accepts for uint8[] without a check of each value."""
    made = array.array('B')
    made.frombytes(data)
    return made


def image_message(header: Header, fields: Mapping[str, Any]) -> Image:
    """Make an Image from the fields that ``images.from_rgb`` or ``from_depth`` return."""
    return Image(header=header, **{**fields, 'data': byte_array(fields['data'])})


def info_message(header: Header, camera: Intrinsics) -> CameraInfo:
    """Make a CameraInfo."""
    return CameraInfo(header=header, **camera.info_values())


def pose_message(transform: Floats) -> Pose:
    """Convert a 4x4 transform to a Pose."""
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = transform[:3, 3].tolist()
    quat = Rotation.from_matrix(transform[:3, :3]).as_quat().tolist()
    pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = quat
    return pose


def pose_matrix(pose: Pose) -> Floats:
    """Convert a Pose to a 4x4 transform."""
    p, q = pose.position, pose.orientation
    return pose_of((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def transform_message(header: Header, child: str, pose: Pose) -> TransformStamped:
    """Make a transform from the pose of the child in the frame of the header."""
    transform = TransformStamped(header=header, child_frame_id=child)
    p, t = pose.position, transform.transform.translation
    t.x, t.y, t.z = p.x, p.y, p.z
    transform.transform.rotation = pose.orientation
    return transform


def cloud_message(
    header: Header, points: Floats, rgb: Optional[Bytes] = None,
) -> PointCloud2:
    """
    Make a cloud with the fields x, y, z (float32) and rgb in the format of rviz.

    :param points: (N, 3), metres.
    :param rgb: (N, 3), red, green and blue of each point.
    """
    columns = [np.ascontiguousarray(points, '<f4').reshape(-1, 3)]
    if rgb is not None:
        columns.append(packed_colours(rgb)[:, None])
    data = np.concatenate(columns, axis=1)
    fields = [PointField(name=name, offset=4 * place, datatype=PointField.FLOAT32, count=1)
              for place, name in zip(range(data.shape[1]), ('x', 'y', 'z', 'rgb'))]
    return PointCloud2(
        header=header, height=1, width=len(data), fields=fields, is_bigendian=False,
        point_step=data.shape[1] * 4, row_step=data.nbytes, data=byte_array(data.tobytes()),
        is_dense=bool(np.isfinite(columns[0]).all()))
