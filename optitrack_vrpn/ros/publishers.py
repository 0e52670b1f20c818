# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From samples to messages: poses in ENU and NED, and transforms, one message a frame."""

from typing import Any, Callable, Optional, Sequence

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, TransformStamped
from optitrack_vrpn.core.frames import (
    AxesConfig, frame_maps, FrameMaps, QUAT_ENU_NED, Quaternion, Vector)
from optitrack_vrpn.core.pipeline import Channel, frames_of, Sample
from optitrack_vrpn.ros.settings import PublishConfig
from optitrack_vrpn.ros.tf import StaticTransformBroadcaster, TransformBroadcaster
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile, ReliabilityPolicy

try:
    from rclpy.event_handler import PublisherEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, UnsupportedEventTypeError

_NS = 1_000_000_000


def time_message(stamp_ns: int) -> Time:
    """Turn nanoseconds since the Unix epoch into a ROS time."""
    return Time(sec=stamp_ns // _NS, nanosec=stamp_ns % _NS)


def fill_pose(message: PoseStamped, stamp: Time, position: Vector, quat: Quaternion) -> None:
    """Write stamp, position (m) and attitude (x, y, z, w) into a message."""
    message.header.stamp = stamp
    pose = message.pose
    pose.position.x, pose.position.y, pose.position.z = position
    (pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w) = quat


def fill_transform(
    message: TransformStamped, stamp: Time, position: Vector, quat: Quaternion,
) -> None:
    """Write stamp, translation (m) and rotation (x, y, z, w) into a message."""
    message.header.stamp = stamp
    transform = message.transform
    transform.translation.x, transform.translation.y, transform.translation.z = position
    (transform.rotation.x, transform.rotation.y, transform.rotation.z,
     transform.rotation.w) = quat


class WorldOutput:
    """
    What one body sends out in one world.

    :ivar publisher: of its poses.
    :ivar pose: the message, filled anew for every pose.
    :ivar transform: the transform from the world to the body, likewise.
    """

    def __init__(self, publisher: Any, world: str, child: str) -> None:
        self.publisher = publisher
        self.pose = PoseStamped()
        self.pose.header.frame_id = world
        self.transform = TransformStamped()
        self.transform.header.frame_id = world
        self.transform.child_frame_id = child


class BodyOutput:
    """The two worlds of one body; None for one that is switched off."""

    def __init__(self) -> None:
        self.enu: Optional[WorldOutput] = None
        self.ned: Optional[WorldOutput] = None


class Publishers:
    """
    Publish samples of all bodies.

    Not safe from several threads at once; the node holds its lock around every call.

    :param node: creates the publishers.
    :param config: what is published.
    :param axes: what Motive sends.
    :param on_mismatch: called with a topic when a subscriber's quality of service does not
        match.
    """

    def __init__(
        self, node: LifecycleNode, config: PublishConfig, axes: AxesConfig,
        on_mismatch: Callable[[str], None],
    ) -> None:
        self._node = node
        self._maps: FrameMaps = frame_maps(axes)
        self._on_mismatch = on_mismatch
        self._channels: list[Channel] = []
        self._tf = TransformBroadcaster(node)
        self._static = StaticTransformBroadcaster(node)
        self.config = config

    def add_body(self, channel: Channel) -> None:
        """Create a body's publishers and hang them on its channel."""
        channel.user = BodyOutput()
        self._channels.append(channel)
        self._equip(channel)

    def reconfigure(self, config: PublishConfig) -> None:
        """Switch worlds and transforms on or off."""
        self.config = config
        for channel in self._channels:
            self._equip(channel)

    def retain(self, channels: Sequence[Channel]) -> None:
        """Close the publishers of all bodies but these."""
        for channel in self._channels:
            if channel not in channels:
                self._close(channel)
        self._channels = [channel for channel in self._channels if channel in channels]

    def send_static(self) -> None:
        """Tell how the NED world lies in the ENU world, where both are broadcast."""
        if not (self.config.tf and self.config.ned):
            return
        message = TransformStamped()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.header.frame_id = self.config.world
        message.child_frame_id = self.config.world_ned
        fill_transform(message, message.header.stamp, (0.0, 0.0, 0.0), QUAT_ENU_NED)
        self._static.sendTransform([message])

    def publish(self, samples: Sequence[Sample]) -> None:
        """Publish samples in order; the transforms of one frame go out in one message."""
        maps = self._maps
        for group in frames_of(samples):
            stamp = time_message(group[0].stamp_ns)
            transforms: list[TransformStamped] = []
            for channel, _, position, quat in group:
                output = channel.user
                if output.enu is not None:
                    self._send(output.enu, stamp, maps.position_to_enu(position),
                               maps.quat_to_enu(quat), transforms)
                if output.ned is not None:
                    self._send(output.ned, stamp, maps.position_to_ned(position),
                               maps.quat_to_ned(quat), transforms)
            if self.config.tf and transforms:
                self._tf.sendTransform(transforms)

    @staticmethod
    def _send(
        output: WorldOutput, stamp: Time, position: Vector, quat: Quaternion,
        transforms: list[TransformStamped],
    ) -> None:
        fill_pose(output.pose, stamp, position, quat)
        output.publisher.publish(output.pose)
        fill_transform(output.transform, stamp, position, quat)
        transforms.append(output.transform)

    def close(self) -> None:
        """Close every publisher."""
        self.retain([])
        for broadcaster in (self._tf, self._static):
            self._node.destroy_publisher(broadcaster.pub_tf)

    def topics(self) -> list[str]:
        """List the resolved names of all topics with poses."""
        return [
            output.publisher.topic_name
            for channel in self._channels for output in (channel.user.enu, channel.user.ned)
            if output is not None]

    def _equip(self, channel: Channel) -> None:
        """Create or close a body's publishers, as the configuration wants it."""
        config, names, output = self.config, channel.names, channel.user
        output.enu = self._world(
            output.enu, config.enu, names.topics['pose'], config.world, names.frames['body'])
        output.ned = self._world(
            output.ned, config.ned, names.topics['pose_ned'], config.world_ned,
            names.frames['body_ned'])

    def _world(
        self, present: Optional[WorldOutput], wanted: bool, topic: str, world: str, child: str,
    ) -> Optional[WorldOutput]:
        if not wanted:
            if present is not None:
                self._node.destroy_publisher(present.publisher)
            return None
        if present is not None:
            return present
        qos = QoSProfile(
            depth=self.config.depth, reliability=ReliabilityPolicy.RELIABLE
            if self.config.reliable else ReliabilityPolicy.BEST_EFFORT)
        try:
            publisher = self._node.create_publisher(
                PoseStamped, topic, qos, event_callbacks=PublisherEventCallbacks(
                    incompatible_qos=lambda event: self._on_mismatch(topic)))
        except UnsupportedEventTypeError:    # a middleware that does not tell
            publisher = self._node.create_publisher(PoseStamped, topic, qos)
        return WorldOutput(publisher, world, child)

    def _close(self, channel: Channel) -> None:
        for output in (channel.user.enu, channel.user.ned):
            if output is not None:
                self._node.destroy_publisher(output.publisher)
        channel.user = None
