# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The base of the nodes with images as input: subscriptions, publishers, static transforms."""

from typing import Any, TypeVar

from optitrack_vrpn.mocap_control.settings_node_ros import SettingsNode
from optitrack_vrpn.rgbd.mount import StaticFrames
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

S = TypeVar('S')

#: As drivers of cameras publish (REP 2003); a reliable publisher matches too. The depth bridges
#: short delays; a longer queue only delivers older images.
SENSOR_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
#: The last message is kept for later subscribers.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: As tf2_ros subscribes to /tf_static.
_STATIC_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class CameraNode(SettingsNode[S]):
    """
    Destroy the subscriptions at deactivation, and the publishers at cleanup.

    :param node_name: its name before any remapping.
    :param settings: the class of its settings.
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
        """Receive no more images."""
        for subscription in self._inputs:
            self.destroy_subscription(subscription)
        self._inputs.clear()

    def release(self) -> None:
        """Destroy the publishers."""
        for publisher in self._outputs.values():
            self.destroy_publisher(publisher)
        self._outputs.clear()
