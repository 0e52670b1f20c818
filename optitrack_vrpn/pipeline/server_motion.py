# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Velocities and accelerations sent by the server, for the pose before them."""

import math
from typing import Optional, Union

from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.motion.frames import FrameMaps
from optitrack_vrpn.motion.lever_arm import acceleration_at, velocity_at
from optitrack_vrpn.motion.quaternion import Quat, rotate
from optitrack_vrpn.motion.server_rate import angular_rate
from optitrack_vrpn.pipeline.channel import Channel, ServerMotion
from optitrack_vrpn.vrpn.messages import AccelerationReport, VelocityReport

NO_TWIST = (
    'a velocity without an angular rate (a rotation over no time): neither twist nor odometry is '
    'published')
NO_ACCEL = (
    'an acceleration without an angular one (a rotation over no time): none is published')
NO_ARM = (
    'an acceleration, but no velocity before it: that of the base, which is away from the body, '
    'cannot be known and is not published')


def server_motion(
    channel: Channel, event: Union[VelocityReport, AccelerationReport], maps: FrameMaps,
    turn: Quat,
) -> Union[ServerMotion, str, None]:
    """
    Make a motion of the base from what the server sends for the rigid body.

    Server velocities come in the tracker's world, and so does the rotation over dt, which turns
    the attitude from the left. The base is on an arm.

    :param channel: the body.
    :param event: what the server sends.
    :param maps: from Motive's axes to ENU.
    :param turn: attitude of ENU in the user's world.
    :returns: the motion; or what the user should know, where half of it is missing; or None where
        the pose before it was not handed on.
    """
    if (channel.last_sender_ns != event.sender_time_ns
            or channel.gate.state is not State.TRACKED):
        return None
    estimator = channel.estimator
    placed = (channel.last_stamp_ns, channel.last_position, channel.last_quat)
    if not estimator.idle:
        placed = estimator.placed
    stamp_ns, _, quat = placed
    is_velocity = isinstance(event, VelocityReport)
    vector, quat_xyzw, dt = event[3:]
    if stamp_ns == channel.moved_ns[is_velocity]:
        return None
    linear = rotate(turn, maps.position_to_enu(vector))
    angular: Optional[tuple[float, float, float]] = angular_rate(quat_xyzw, dt)
    if angular is None:
        # Messages cannot say that half of them is unknown, and zero would be taken for a value.
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
