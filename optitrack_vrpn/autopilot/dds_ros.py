# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Send poses to an autopilot over DDS: px4_msgs/VehicleOdometry to uXRCE-DDS, tf2_msgs to AP_DDS.

px4_msgs is released as source only and must match the firmware. It is therefore imported at run
time, and an error reports its absence.
"""

from __future__ import annotations

from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.autopilot.messages import ardupilot_transform, px4_odometry, State
from optitrack_vrpn.autopilot.settings import BridgeSettings, Plan
from optitrack_vrpn.errors import BackendUnavailableError
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: QoS of both agents' subscriptions: best effort, volatile, keep last.
_QOS = QoSProfile(
    depth=5, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE)
TOPICS = {'px4': '/fmu/in/vehicle_visual_odometry', 'ardupilot': '/ap/tf'}


class DdsOutput:
    """
    Publish samples for one autopilot.

    :param node: creates the publisher.
    :raises BackendUnavailableError: if px4_msgs is not installed, or is for PX4 before 1.14.
    """

    def __init__(self, node: Node, settings: BridgeSettings, plan: Plan) -> None:
        self._node = node
        self._plan = plan
        self._px4 = settings.autopilot == 'px4'
        self.topic = settings.dds_topic or TOPICS[settings.autopilot]
        self._type: Any = _vehicle_odometry() if self._px4 else TFMessage
        self._publisher = node.create_publisher(self._type, self.topic, _QOS)

    @property
    def readers(self) -> int:
        """Return the number of subscriptions: that of the agent, once it is connected."""
        return int(self._publisher.get_subscription_count())

    def send(self, state: State, reset_counter: int) -> None:
        """Publish one sample."""
        self._publisher.publish(
            self._odometry(state, reset_counter) if self._px4 else _transform(state))

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)

    def _odometry(self, state: State, reset_counter: int) -> Any:
        message = self._type()
        for name, value in px4_odometry(state, self._plan, reset_counter).items():
            setattr(message, name, value)
        return message


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
