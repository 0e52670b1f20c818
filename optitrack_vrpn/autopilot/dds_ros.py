# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Send poses to an autopilot over DDS: px4_msgs/VehicleOdometry to uXRCE-DDS, tf2_msgs to AP_DDS.

px4_msgs is released as source only and must match the firmware. It is therefore imported at run
time, and an error reports its absence.
"""

from __future__ import annotations

import contextlib
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.autopilot.gate import Output
from optitrack_vrpn.autopilot.messages import ardupilot_transform, px4_odometry, State
from optitrack_vrpn.autopilot.report import LinkReport
from optitrack_vrpn.autopilot.settings import BridgeSettings, Plan
from optitrack_vrpn.errors import BackendUnavailableError
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: As of both agents' subscriptions: best effort, volatile, keep last.
_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
TOPICS = {'px4': '/fmu/in/vehicle_visual_odometry', 'ardupilot': '/ap/tf'}


class DdsOutput:
    """
    Publish samples for one autopilot, which cannot be queried; see ``LinkThread``.

    :param node: creates the publisher.
    :raises BackendUnavailableError: if px4_msgs is not installed, or is for PX4 before 1.14.
    """

    vehicle = None

    def __init__(self, node: Node, settings: BridgeSettings, plan: Plan) -> None:
        self.lock = contextlib.nullcontext()
        self._node = node
        self._plan = plan
        self._px4 = settings.autopilot == 'px4'
        self.topic = settings.dds_topic or TOPICS[settings.autopilot]
        self._publisher = node.create_publisher(
            _vehicle_odometry() if self._px4 else TFMessage, self.topic, _QOS)
        self._readers = self._interruptions = 0

    def output(self) -> Output:
        """Count each new subscription, that of the agent once it is connected, as interruption."""
        before, self._readers = self._readers, self._publisher.get_subscription_count()
        self._interruptions += bool(self._readers and not before)
        return Output(True, self._interruptions, 0)

    def publish(self, stamp_ns: int, state: State, reset_counter: int) -> None:
        """Publish one sample."""
        if not self._px4:
            self._publisher.publish(_transform(state))
            return
        message = self._publisher.msg_type()
        for name, value in px4_odometry(state, self._plan, reset_counter).items():
            setattr(message, name, value)
        self._publisher.publish(message)

    def compare(self, state: State) -> None:
        """Compare nothing: the autopilot does not report its attitude."""

    def clear(self) -> None:
        """Discard nothing: no sample waits."""

    def report(self, age_ns: int) -> LinkReport:
        """Return the state of the link; ``age_ns`` is that of the last sample."""
        readers = self._publisher.get_subscription_count()
        return LinkReport(
            True, '', f'{self.topic}, {readers} subscriptions' if readers else '', age_ns,
            {'readers': readers})

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)


def _vehicle_odometry() -> Any:
    try:
        from px4_msgs.msg import VehicleOdometry
    except ImportError as error:
        raise BackendUnavailableError(
            f'transport dds for px4 needs px4_msgs, which is not installed ({error}): build the '
            'branch of github.com/PX4/px4_msgs that matches the firmware in your workspace, or '
            'use transport mavlink') from None
    if 'position_variance' not in VehicleOdometry.get_fields_and_field_types():
        raise BackendUnavailableError(
            'px4_msgs is for PX4 before 1.14, whose VehicleOdometry is another message: build the '
            'branch that matches the firmware, or use transport mavlink')
    return VehicleOdometry


def _transform(state: State) -> TFMessage:
    pose = ardupilot_transform(state)
    moved = TransformStamped(child_frame_id='base_link')
    moved.header.frame_id = 'odom'
    moved.header.stamp = Time(
        sec=state.time_us // 1_000_000, nanosec=state.time_us % 1_000_000 * 1000)
    translation, rotation = moved.transform.translation, moved.transform.rotation
    translation.x, translation.y, translation.z = pose.position
    rotation.x, rotation.y, rotation.z, rotation.w = pose.quat_xyzw
    return TFMessage(transforms=[moved])
