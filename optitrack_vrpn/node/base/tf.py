# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Transforms: a publisher for dynamic transforms, tf2_ros's broadcaster for static ones.

A broadcaster of tf2_ros is a publisher of tf2_msgs/TFMessage that accepts message objects only,
while the hot path publishes bytes. PyPI does not have tf2_ros; the class below replaces its static
broadcaster there.
"""

from typing import Any, Sequence

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage


def tf_publisher(node: Node) -> Any:
    """Create the publisher of /tf with the quality of service of tf2_ros's broadcaster."""
    return node.create_publisher(TFMessage, '/tf', QoSProfile(depth=100))


try:
    from tf2_ros import StaticTransformBroadcaster
except ImportError:
    class StaticTransformBroadcaster:  # type: ignore[no-redef]
        """Publish transforms on /tf_static with transient local durability."""

        def __init__(self, node: Node) -> None:
            self.pub_tf = node.create_publisher(TFMessage, '/tf_static', QoSProfile(
                depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))

        def sendTransform(self, transform: Sequence[TransformStamped]) -> None:  # noqa: N802
            """Publish the complete set; late subscribers receive the last message."""
            self.pub_tf.publish(TFMessage(transforms=transform))

__all__ = ['StaticTransformBroadcaster', 'tf_publisher']
