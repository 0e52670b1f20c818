# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The error of a pose's stamp as an error of the pose."""

from __future__ import annotations

from optitrack_vrpn.motion.estimator import MotionEstimate


def with_stamp_error(motion: MotionEstimate, deviation_s: float) -> MotionEstimate:
    """
    Add the error of a stamp to the covariance of the pose.

    A stamp that is off by e says where the body was e earlier: the pose is off by e times twist.
    The covariance of that is rank one, deviation^2 times the outer product of the twist (first
    order in e, rotations about fixed axes as in REP 103).

    :param motion: velocity in m/s, angular velocity in rad/s, both about the world's axes.
    :param deviation_s: standard deviation of the stamp (s).
    """
    twist = (*motion.velocity, *motion.angular_velocity)
    covariance = list(motion.pose_covariance)
    for i in range(6):
        scaled = deviation_s * deviation_s * twist[i]
        for k in range(6):
            covariance[6 * i + k] += scaled * twist[k]
    return motion._replace(pose_covariance=covariance)
