# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Transform broadcasters: those of tf2_ros, or, where it is not installed, their few lines.

tf2_ros is no more than a publisher of tf2_msgs/TFMessage here; PyPI does not have it.
"""

from typing import Sequence

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

try:
    from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster
except ImportError:
    class TransformBroadcaster:  # type: ignore[no-redef]
        """Publish transforms on /tf with the quality of service that listeners expect."""

        def __init__(self, node: Node) -> None:
            self.pub_tf = node.create_publisher(TFMessage, '/tf', QoSProfile(depth=100))

        def sendTransform(self, transform: Sequence[TransformStamped]) -> None:  # noqa: N802
            """Publish all of one frame's transforms in one message."""
            self.pub_tf.publish(TFMessage(transforms=transform))

    class StaticTransformBroadcaster:  # type: ignore[no-redef]
        """Publish transforms on /tf_static, latched for those who come later."""

        def __init__(self, node: Node) -> None:
            self.pub_tf = node.create_publisher(TFMessage, '/tf_static', QoSProfile(
                depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))

        def sendTransform(self, transform: Sequence[TransformStamped]) -> None:  # noqa: N802
            """Publish the whole set; the last message is what late listeners get."""
            self.pub_tf.publish(TFMessage(transforms=transform))

__all__ = ['StaticTransformBroadcaster', 'TransformBroadcaster']
