# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base class of the nodes with image input: subscriptions, publishers, static transforms."""

from typing import Any, TypeVar

from optitrack_vrpn.mocap_control.settings_node_ros import SettingsNode
from optitrack_vrpn.rgbd.mount import StaticFrames
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

S = TypeVar('S')

#: QoS of camera drivers (REP 2003); it matches reliable publishers too. The depth covers short
#: delays; a longer queue delivers older images.
SENSOR_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Later subscribers receive the last message.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: QoS of the subscription of tf2_ros to /tf_static.
_STATIC_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class CameraNode(SettingsNode[S]):
    """
    A node that destroys subscriptions at deactivation and publishers at cleanup.

    :param node_name: name before remapping.
    :param settings: settings class.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        self._inputs: list[Any] = []
        self._outputs: dict[str, Any] = {}
        self._frames = StaticFrames()
        super().__init__(node_name, settings, **kwargs)

    def _listen_to_static_frames(self) -> None:
        self._inputs.append(self.create_subscription(
            TFMessage, '/tf_static', self._on_static, _STATIC_QOS))

    def _on_static(self, message: TFMessage) -> None:
        for each in message.transforms:
            t, r = each.transform.translation, each.transform.rotation
            self._frames.add(each.header.frame_id, each.child_frame_id, (t.x, t.y, t.z),
                             (r.x, r.y, r.z, r.w))

    def end(self) -> None:
        """Destroy the subscriptions."""
        for subscription in self._inputs:
            self.destroy_subscription(subscription)
        self._inputs.clear()

    def release(self) -> None:
        """Destroy the publishers."""
        for publisher in self._outputs.values():
            self.destroy_publisher(publisher)
        self._outputs.clear()
