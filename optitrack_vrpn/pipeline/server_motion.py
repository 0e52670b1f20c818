# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert velocities and accelerations that the server sends for the preceding pose."""

import math
from typing import Optional, Union

from optitrack_vrpn.motion import (
    acceleration_at, angular_rate, FrameMaps, Quat, rotate, velocity_at)
from optitrack_vrpn.pipeline.tracked_body import ServerMotion, TrackedBody
from optitrack_vrpn.sources import Motion

NO_TWIST = (
    'velocities without an angular rate (a rotation over no time): neither twist nor odometry is '
    'published')
NO_ACCEL = (
    'accelerations without an angular acceleration (a rotation over no time): none is published')
NO_ARM = (
    'accelerations without a preceding velocity: the acceleration of the base, which has an '
    "offset from the body's origin, cannot be computed and is not published")


def server_motion(
    channel: TrackedBody, event: Motion, maps: FrameMaps, turn: Quat,
) -> Union[ServerMotion, str, None]:
    """
    Compute the motion of the base from the motion that the server sends for the rigid body.

    The vector and the rotation over dt are in the tracker's world; the rotation is multiplied from
    the left. The base has a lever arm to the origin of the body.

    :param channel: the body.
    :param event: what the server sends.
    :param maps: conversions from Motive's axes to ENU.
    :param turn: rotation from ENU of the mocap world to the user's world.
    :returns: the motion; or a text for the user if one half of it is missing; or None if the
        preceding pose did not become a sample.
    """
    if channel.last_sender_ns != event.sender_time_ns:
        return None
    estimator = channel.estimator
    placed = (channel.last_stamp_ns, channel.last_position, channel.last_quat)
    if not estimator.idle:
        placed = estimator.placed
    stamp_ns, _, quat = placed
    is_velocity, vector, quat_xyzw, dt = event[3:]
    if stamp_ns == channel.moved_ns[is_velocity]:
        return None
    linear = rotate(turn, maps.position_to_enu(vector))
    angular: Optional[tuple[float, float, float]] = angular_rate(quat_xyzw, dt)
    if angular is None:
        # Messages cannot mark one half as unknown, and zero would be read as a value.
        return NO_TWIST if is_velocity else NO_ACCEL
    angular = rotate(turn, maps.position_to_enu(angular))
    if any(estimator.lever):
        arm = rotate(quat, estimator.lever)
        if is_velocity:
            linear = velocity_at(arm, linear, angular)
        elif stamp_ns == channel.moved_ns[True]:
            linear = acceleration_at(arm, linear, channel.moved_rate, angular)
        else:
            return NO_ARM
    if not all(map(math.isfinite, linear + angular)):
        return None
    channel.moved_ns[is_velocity] = stamp_ns
    if is_velocity:
        channel.moved_rate = angular
    return ServerMotion(channel, *placed, is_velocity, linear, angular)
