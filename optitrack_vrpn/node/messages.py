# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Fill ROS messages with plain numbers: positions in metres, quaternions x, y, z, w.

``cdr.py`` writes the same messages as bytes: it derives and verifies the layout with these
functions.
"""

from __future__ import annotations

from typing import Any, Sequence, TYPE_CHECKING

from builtin_interfaces.msg import Time
from geometry_msgs.msg import (
    AccelStamped, Pose, PoseStamped, PoseWithCovarianceStamped, TransformStamped, TwistStamped)
from optitrack_vrpn.motion import angles_from_quat, Quat, Vector
from optitrack_vrpn.ros import Fill, time_of, Write

if TYPE_CHECKING:    # imported by nodes that publish it
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
