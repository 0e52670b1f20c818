# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fill ROS messages with plain numbers: positions in metres, quaternions x, y, z, w.

``cdr.py`` writes the messages of one body as bytes: it derives and verifies the layout with these
functions. Messages of other packages with all bodies or markers of a frame are imported where they
are used: ``mocap4r2_msgs`` is read by MOCAP4ROS2 and Aerostack2, ``mocap_interfaces`` is of the
draft REP on motion capture, ``motion_capture_tracking_interfaces`` is read by Crazyswarm2.
"""

from __future__ import annotations

from collections.abc import Sequence
import importlib
from typing import Any, NamedTuple, Optional, TYPE_CHECKING

from builtin_interfaces.msg import Time
from geometry_msgs.msg import (
    AccelStamped, Point, Pose, PoseArray, PoseStamped, PoseWithCovarianceStamped,
    TransformStamped, TwistStamped)
from optitrack_vrpn.core.rotation import angles_from_quat, Quat, Vector
from optitrack_vrpn.node.base.cdr import (
    Fill, time_of, transform_template, TransformWriter, Write)
from optitrack_vrpn.stream.roster import FrameTimes
from optitrack_vrpn.stream.server_data import FIELDS, INTEGERS, MarkerCloud, POINT

if TYPE_CHECKING:
    from nav_msgs.msg import Odometry


def keep(message: Any, fill: Fill) -> Write:
    """
    Return a function that fills and returns the same message object at each call.

    :returns: ``write(stamp, *groups)`` like those of ``cdr.serialisation_template``, but it
        returns an object.
    """
    def write(stamp: bytes, *groups: Sequence[float]) -> Any:
        fill(message, time_of(stamp), *groups)
        return message
    return write


def _set(vector: Any, values: Vector) -> None:
    vector.x, vector.y, vector.z = values


def set_pose(pose: Pose, position: Vector, quat: Quat) -> Pose:
    """Set position and attitude of a pose; return it."""
    _set(pose.position, position)
    (pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w) = quat
    return pose


def fill_pose(message: PoseStamped, stamp: Time, position: Vector, quat: Quat) -> None:
    """Write stamp, position and attitude into a pose."""
    message.header.stamp = stamp
    set_pose(message.pose, position, quat)


def fill_pose_cov(
    message: PoseWithCovarianceStamped, stamp: Time, position: Vector, quat: Quat,
    covariance: Sequence[float],
) -> None:
    """Write a pose and its covariance (36 numbers, REP 103's order) into a message."""
    message.header.stamp = stamp
    set_pose(message.pose.pose, position, quat)
    message.pose.covariance = covariance


def fill_pose_2d(message: Any, stamp: Time, position: Vector, quat: Quat) -> None:
    """Write position and heading (rad, about up) into a Pose2D, which has no stamp."""
    message.x, message.y = position[:2]
    _, _, message.theta = angles_from_quat(quat)


def fill_transform(
    message: TransformStamped, stamp: Time, position: Vector, quat: Quat,
) -> None:
    """Write stamp, translation and rotation into a transform."""
    message.header.stamp = stamp
    transform = message.transform
    _set(transform.translation, position)
    (transform.rotation.x, transform.rotation.y, transform.rotation.z,
     transform.rotation.w) = quat


def transform_writer(parent: str, child: str, as_bytes: bool) -> TransformWriter:
    """Return what writes a transform between two frames, as bytes or as an object."""
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    if as_bytes:
        return transform_template(message, fill_transform)
    write = keep(message, fill_transform)
    return TransformWriter(write, write)


def fill_twist(message: TwistStamped, stamp: Time, linear: Vector, angular: Vector) -> None:
    """Write stamp and velocities (m/s, rad/s) into a twist."""
    message.header.stamp = stamp
    _set(message.twist.linear, linear)
    _set(message.twist.angular, angular)


def fill_accel(message: AccelStamped, stamp: Time, linear: Vector, angular: Vector) -> None:
    """Write stamp and accelerations (m/s^2, rad/s^2) into a message."""
    message.header.stamp = stamp
    _set(message.accel.linear, linear)
    _set(message.accel.angular, angular)


def fill_odometry(
    message: Odometry, stamp: Time, position: Vector, quat: Quat,
    pose_covariance: Sequence[float], linear: Vector, angular: Vector,
    twist_covariance: Sequence[float],
) -> None:
    """
    Write an odometry (REP 147): pose in the world, velocities in the body's axes.

    :param twist_covariance: 36 numbers as ``pose_covariance``; zeros where unknown.
    """
    message.header.stamp = stamp
    set_pose(message.pose.pose, position, quat)
    message.pose.covariance = pose_covariance
    _set(message.twist.twist.linear, linear)
    _set(message.twist.twist.angular, angular)
    message.twist.covariance = twist_covariance


class Head(NamedTuple):
    """
    What messages of a frame have beside its data.

    :ivar number: of the message, from 1.
    :ivar stamp: time of capture.
    :ivar world: frame id.
    """

    number: int
    stamp: Time
    world: str


class Posed(NamedTuple):
    """
    A body of a frame.

    :ivar sender: its name at the sender, '' if it is not known.
    :ivar cloud: markers of the frame; None if they are not received.
    """

    name: str
    pose: Pose
    sender: str = ''
    cloud: Optional[MarkerCloud] = None


Poses = Sequence[Posed]


def make_pose_array(poses: Poses, times: Optional[FrameTimes], head: Head) -> PoseArray:
    """Make a PoseArray."""
    return PoseArray(poses=[one.pose for one in poses])


def make_poses(poses: Poses, times: Optional[FrameTimes], head: Head) -> Any:
    """Make a NamedPoseArray."""
    messages = importlib.import_module('motion_capture_tracking_interfaces.msg')
    return messages.NamedPoseArray(
        poses=[messages.NamedPose(name=one.name, pose=one.pose) for one in poses])


def make_poses_v2(poses: Poses, times: Optional[FrameTimes], head: Head) -> Any:
    """
    Make a NamedPoseArrayV2.

    Its time is that of exposure on the sender's clock; latencies are those of
    motion_capture_tracking: from exposure to the data at Motive, from there to their transmission.
    All in microseconds.

    :param times: None if they are not known; then the time is 0 and there are no latencies.
    """
    messages = importlib.import_module('motion_capture_tracking_interfaces.msg')
    found = messages.NamedPoseArrayV2(
        poses=[messages.NamedPose(name=one.name, pose=one.pose) for one in poses])
    if times is not None:
        found.timestamp = times.exposure_ns // 1000
        if times.camera_ns:
            found.latencies = [messages.LatencyInfo(source=source, latency=time_ns // 1000)
                               for source, time_ns in (
                                   ('Camera', times.camera_ns),
                                   ('Motive', times.processing_ns - times.camera_ns))]
    return found


def make_rigid_bodies(poses: Poses, times: Optional[FrameTimes], head: Head) -> Any:
    """Make RigidBodies of mocap4r2_msgs; the markers are in the world, by number."""
    messages = importlib.import_module('mocap4r2_msgs.msg')
    return messages.RigidBodies(frame_number=head.number & 0xffffffff, rigidbodies=[
        messages.RigidBody(rigid_body_name=one.name, pose=one.pose,
                           markers=_markers_of(one, messages.Marker)) for one in poses])


def make_rigid_body_array(poses: Poses, times: Optional[FrameTimes], head: Head) -> Any:
    """Make a RigidBodyArray of the draft REP, whose elements have the time of capture."""
    messages = importlib.import_module('mocap_interfaces.msg')
    found = messages.RigidBodyArray(seq=head.number & 0xffffffff, rigid_bodies=[
        messages.RigidBody(rigid_body_name=one.name, pose=one.pose,
                           markers=_markers_of(one, messages.Marker)) for one in poses])
    for body in found.rigid_bodies:
        for each in (body, *body.markers):
            each.header.stamp, each.header.frame_id = head.stamp, head.world
    return found


def _markers_of(body: Posed, make: Any) -> list[Any]:
    """Make the markers of a body that the cameras saw, in the order of their numbers."""
    if body.cloud is None or not body.sender:
        return []
    return sorted(_markers(body.cloud, make, body.sender), key=lambda one: one.marker_index)


def _markers(cloud: MarkerCloud, make: Any, owner: str = '') -> list[Any]:
    """
    Make markers: of bodies with name ``<body id>_<member>`` and index, others by index.

    :param owner: name of the body whose markers are wanted; '' for all.
    """
    found = []
    for (x, y, z, body, member, _, _), name in zip(
            POINT.iter_unpack(cloud.data), cloud.owners):
        if owner not in ('', name):
            continue
        index = member if member < 1 << 31 else member - (1 << 32)
        found.append(make(
            id_type=make.USE_BOTH if body else make.USE_INDEX, marker_index=index,
            marker_name=f'{body}_{member}' if body else '',
            translation=Point(x=x, y=y, z=z)))
    return found


def make_markers(cloud: MarkerCloud, head: Head) -> Any:
    """Make Markers of mocap4r2_msgs."""
    messages = importlib.import_module('mocap4r2_msgs.msg')
    return messages.Markers(
        frame_number=head.number & 0xffffffff, markers=_markers(cloud, messages.Marker))


def make_marker_array(cloud: MarkerCloud, head: Head) -> Any:
    """Make a MarkerArray of the draft REP, whose elements have the time of capture."""
    messages = importlib.import_module('mocap_interfaces.msg')
    found = messages.MarkerArray(
        seq=head.number & 0xffffffff, markers=_markers(cloud, messages.Marker))
    for one in found.markers:
        one.header.stamp, one.header.frame_id = head.stamp, head.world
    return found


def make_points(cloud: MarkerCloud, head: Head) -> Any:
    """Make a PointCloud2 of the places of markers alone."""
    return _cloud(cloud.places(), cloud.points, FIELDS[:3])


def make_cloud(cloud: MarkerCloud, head: Head) -> Any:
    """Make a PointCloud2 of all that is known of each marker."""
    return _cloud(cloud.data, cloud.points, FIELDS)


def _cloud(data: bytes, points: int, fields: Sequence[tuple[str, int]]) -> Any:
    """Make a message of points whose fields have 4 bytes each."""
    messages = importlib.import_module('sensor_msgs.msg')    # large; few nodes publish it
    size = 4 * len(fields)
    return messages.PointCloud2(
        height=1, width=points, is_bigendian=False, is_dense=True, data=data,
        point_step=size, row_step=points * size, fields=[
            messages.PointField(name=name, offset=offset, count=1, datatype=(
                messages.PointField.UINT32 if name in INTEGERS else messages.PointField.FLOAT32))
            for name, offset in fields])
