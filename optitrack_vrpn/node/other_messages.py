# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Messages of other packages with all bodies or markers of a frame; imported where they are used.

``mocap4r2_msgs`` is read by MOCAP4ROS2 and Aerostack2, ``mocap_interfaces`` is of the draft REP on
motion capture, ``motion_capture_tracking_interfaces`` is read by Crazyswarm2.
"""

from __future__ import annotations

from collections.abc import Sequence
import importlib
from typing import Any

from geometry_msgs.msg import Point, Pose
from optitrack_vrpn.pipeline import MarkerCloud, POINT

#: Names of bodies and their poses.
Poses = Sequence[tuple[str, Pose]]


def make_poses(poses: Poses) -> Any:
    """Make a NamedPoseArray."""
    messages = importlib.import_module('motion_capture_tracking_interfaces.msg')
    return messages.NamedPoseArray(
        poses=[messages.NamedPose(name=name, pose=pose) for name, pose in poses])


def make_rigid_bodies(poses: Poses, number: int) -> Any:
    """Make RigidBodies of mocap4r2_msgs, without the markers of the bodies."""
    messages = importlib.import_module('mocap4r2_msgs.msg')
    return messages.RigidBodies(frame_number=number & 0xffffffff, rigidbodies=[
        messages.RigidBody(rigid_body_name=name, pose=pose) for name, pose in poses])


def make_rigid_body_array(poses: Poses, number: int, stamp: Any, world: str) -> Any:
    """
    Make a RigidBodyArray of the draft REP.

    :param number: the sequence number.
    :param stamp: time of capture, that of each element; the header of the array is the caller's.
    """
    messages = importlib.import_module('mocap_interfaces.msg')
    found = messages.RigidBodyArray(seq=number & 0xffffffff, rigid_bodies=[
        messages.RigidBody(rigid_body_name=name, pose=pose) for name, pose in poses])
    for one in found.rigid_bodies:
        one.header.stamp, one.header.frame_id = stamp, world
    return found


def _markers(cloud: MarkerCloud, make: Any) -> list[Any]:
    """Make markers: of bodies with name ``<body id>_<member>`` and index, others by index."""
    found = []
    for x, y, z, body, member, _, _ in POINT.iter_unpack(cloud.data):
        index = member if member < 1 << 31 else member - (1 << 32)
        found.append(make(
            id_type=make.USE_BOTH if body else make.USE_INDEX, marker_index=index,
            marker_name=f'{body}_{member}' if body else '',
            translation=Point(x=x, y=y, z=z)))
    return found


def make_markers(cloud: MarkerCloud, number: int) -> Any:
    """Make Markers of mocap4r2_msgs."""
    messages = importlib.import_module('mocap4r2_msgs.msg')
    return messages.Markers(
        frame_number=number & 0xffffffff, markers=_markers(cloud, messages.Marker))


def make_marker_array(cloud: MarkerCloud, number: int, stamp: Any, world: str) -> Any:
    """Make a MarkerArray of the draft REP; arguments as ``make_rigid_body_array``."""
    messages = importlib.import_module('mocap_interfaces.msg')
    found = messages.MarkerArray(
        seq=number & 0xffffffff, markers=_markers(cloud, messages.Marker))
    for one in found.markers:
        one.header.stamp, one.header.frame_id = stamp, world
    return found
