# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of all bodies and of what they share: created, changed and closed."""

from typing import Any, Callable, Optional, Sequence

from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.core.axes import QUAT_ENU_NED
from optitrack_vrpn.core.throttle import FrameDecimator, period_ns
from optitrack_vrpn.node.base.cdr import status_message, tf_message
from optitrack_vrpn.node.base.managed_node import entry, StatusFields
from optitrack_vrpn.node.base.tf import StaticTransformBroadcaster, tf_publisher
from optitrack_vrpn.node.body_output import BodyOutput, counter, sender, supports_raw_cdr, Way
from optitrack_vrpn.node.messages import fill_transform
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.shared_output import (
    DRAFT_QOS, OWN_QOS, POSES_QOS, SharedOutput)
from optitrack_vrpn.node.topic_kinds import MODEL_KINDS
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import StampedExtras, TrackedBody
from optitrack_vrpn.stream.server_data import MarkerCloud
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

try:
    from rclpy.event_handler import PublisherEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, UnsupportedEventTypeError

#: No events: the executor checks every event of a publisher before each wait.
_NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)


class Publishers:
    """
    The publishers of all bodies.

    Not thread-safe; the node holds its lock around every call except ``prepare``.

    :param node: creates the publishers.
    :param settings: what is published.
    :param on_mismatch: called when a subscriber's quality of service does not match, with the
        resolved topic and the kind of the policy.
    :param destroy: retires publishers, from any thread.
    :param as_bytes: whether messages are published as bytes from serialisation templates; by
        default if the encoding of the middleware is known.
    :ivar settings: the present settings.
    :ivar outputs: the publishers of each body.
    :ivar tf_way: joins the transforms of a frame to a message, and publishes it.
    :ivar view: selects frames for viewers.
    :ivar shared: publishes the frames of all bodies.
    """

    def __init__(
        self, node: LifecycleNode, settings: NodeSettings,
        on_mismatch: Callable[[str, int], None], destroy: Callable[[Any], None],
        as_bytes: Optional[bool] = None,
    ) -> None:
        self._node = node
        self._on_mismatch = on_mismatch
        self._destroy = destroy
        self.outputs: dict[TrackedBody, BodyOutput] = {}
        self._as_bytes = supports_raw_cdr() if as_bytes is None else as_bytes
        self._tf = tf_publisher(node)
        self.tf_way: Way = (
            tf_message if self._as_bytes else lambda pieces: TFMessage(transforms=pieces),
            sender(self._tf, self._as_bytes))
        self._tf_heard = False
        self._tf_rates: dict[float, FrameDecimator] = {}
        self.view = FrameDecimator(period_ns(settings.rates.tf_view))
        self._static = StaticTransformBroadcaster(node)
        self._static_sent = False
        self.shared = SharedOutput(
            self._create, destroy, lambda: node.get_clock().now().to_msg())
        self._models: Any = None    # the output of skeletons and plates, which imports numpy
        self.settings = settings
        try:
            self._create_publishers(settings)
        except Exception:
            self.close()
            raise

    def prepare(self, channel: TrackedBody) -> BodyOutput:
        """
        Create a body's publishers, which takes milliseconds; they publish nothing yet.

        :raises Exception: whatever the middleware raises; then every new publisher has been
            closed.
        """
        output = BodyOutput(
            channel, self._create, self._destroy, self._as_bytes, lambda: self._tf_heard,
            self._tf_rate)
        try:
            output.create_publishers(self.settings)
        except Exception:
            output.close()
            raise
        return output

    def _tf_rate(self, rate_hz: float) -> FrameDecimator:
        """Return what selects the frames of a rate for /tf, the same for all bodies."""
        return self._tf_rates.setdefault(rate_hz, FrameDecimator(period_ns(rate_hz)))

    def attach(self, output: BodyOutput) -> None:
        """Connect a body's publishers with its channel: its poses are published from now on."""
        if output.settings is not self.settings:    # changed since prepare
            output.create_publishers(self.settings)
        self.outputs[output.channel] = output

    def apply(self, settings: NodeSettings) -> None:
        """Switch topics and transforms on or off, change rates, or nothing of it."""
        used = {settings.rates.tf, *(
            rates.get('rates.tf', 0.0) for rates in settings.body_rates.values())}
        self._tf_rates = {hz: one for hz, one in self._tf_rates.items() if hz in used}
        if settings.rates.tf_view != self.settings.rates.tf_view:
            self.view = FrameDecimator(period_ns(settings.rates.tf_view))
        try:
            self._create_publishers(settings)
        except Exception:
            self._create_publishers(self.settings)
            raise
        self.settings = settings    # last: ``prepare`` reads it meanwhile
        if self._static_sent and not self._static_transforms():
            # Replaces the latched message: subscribers that join later must not receive an
            # outdated frame.
            self._static.pub_tf.publish(TFMessage())
            self._static_sent = False

    def _create_publishers(self, settings: NodeSettings) -> None:
        self.shared.create_publishers(settings)
        if MODEL_KINDS.intersection(settings.outputs) or self._models is not None:
            if self._models is None:
                from optitrack_vrpn.node.skeleton_output_ros import SkeletonOutput
                self._models = SkeletonOutput(
                    self._create, self._destroy, self._send_tf, self._as_bytes)
            self._models.create_publishers(
                settings.outputs, settings.skeletons, settings.frames.world)
        for output in self.outputs.values():
            output.create_publishers(settings)

    def retain(self, channels: Sequence[TrackedBody]) -> None:
        """Close the publishers of all bodies but these."""
        for channel in [*self.outputs]:
            if channel not in channels:
                self.outputs.pop(channel).close()

    def listen(self) -> None:
        """Find the topics that have subscribers; call it about ten times a second."""
        self.shared.listen()
        self._tf_heard = counter(self._tf)() > 0
        if self._models is not None:
            self._models.listen(self._tf_heard, [
                frame for channel in self.outputs for frame in channel.names.frames.values()])
        for output in self.outputs.values():
            output.listen()

    def send_static(self) -> None:
        """Publish the transforms between the world frames, in one message."""
        if transforms := self._static_transforms():
            self._static.sendTransform(transforms)
            self._static_sent = True

    def _static_transforms(self) -> list[TransformStamped]:
        """Make the NED world in the ENU world, and the world in its parent frame."""
        frames = self.settings.frames
        wanted = []
        if frames.parent:
            wanted.append((frames.parent, frames.world, (0.0, 0.0, 0.0, 1.0)))
        if 'tf_ned' in self.settings.outputs:
            wanted.append((frames.world, frames.world_ned, QUAT_ENU_NED))
        found = []
        for parent, child, quat in wanted:
            message = TransformStamped(child_frame_id=child)
            message.header.stamp = self._node.get_clock().now().to_msg()
            message.header.frame_id = parent
            fill_transform(message, message.header.stamp, (0.0, 0.0, 0.0), quat)
            found.append(message)
        return found

    def frames(self) -> dict[str, str]:
        """Return the parent of each frame that is broadcast, without those of skeletons."""
        of = self.settings.frames
        found = {one.child_frame_id: one.header.frame_id for one in self._static_transforms()}
        for kind, key, world in (('tf', 'body', of.world), ('tf_ned', 'body_ned', of.world_ned)):
            if kind in self.settings.outputs:
                found.update((channel.names.frames[key], world) for channel in self.outputs)
        return found

    def publish_markers(
        self, cloud: MarkerCloud, clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """Publish the markers of a frame if outputs contain markers; arguments as ``publish``."""
        self.shared.publish_markers(cloud, clock, allowance_ns)

    def publish_extras(
        self, extras: StampedExtras, pipeline: Pipeline, clock: Callable[[], int],
        allowance_ns: int,
    ) -> None:
        """
        Publish skeletons and force plates of a frame; other arguments as ``publish``.

        :param pipeline: has the settings, and takes the reports.
        """
        models = self._models
        if models is not None:
            models.publish(extras, pipeline.config, clock, allowance_ns)
            for event in models.take_events():
                pipeline.reports.add(*event)

    def _send_tf(self, pieces: list[Any]) -> None:
        join, send = self.tf_way
        send(join(pieces))

    def send_view(self, pieces: list[Any]) -> None:
        """Publish transforms for viewers."""
        sender(self.shared.publishers['tf_view'], self._as_bytes)(
            self.tf_way[0](pieces))

    def status_wanted(self, channel: TrackedBody) -> bool:
        """Return whether the state of a body is published."""
        output = self.outputs.get(channel)
        return output is not None and 'status' in output.publishers

    def publish_status(self, channel: TrackedBody, fields: StatusFields) -> None:
        """Publish the state of one body; call it only if ``status_wanted``."""
        write = status_message if self._as_bytes else entry
        sender(self.outputs[channel].publishers['status'], self._as_bytes)(write(*fields))

    def close(self) -> None:
        """Close every publisher."""
        self.retain([])
        self.shared.close()
        if self._models is not None:
            self._models.close()
        for publisher in (self._tf, self._static.pub_tf):
            self._destroy(publisher)

    def topics(self) -> list[str]:
        """Return the resolved names of all topics: transforms first, then those of every body."""
        models = self._models.topics if self._models is not None else []
        return [self._tf.topic_name, *self.shared.topics, *models, *(
            publisher.topic_name
            for output in self.outputs.values() for publisher in output.publishers.values())]

    def pose_topics(self, turn: int) -> list[str]:
        """Return the resolved names of one body's pose topics; each turn selects the next body."""
        if not self.outputs:
            return []
        publishers = [*self.outputs.values()][turn % len(self.outputs)].publishers
        return [publishers[kind].topic_name for kind in ('pose', 'pose_ned')
                if kind in publishers]

    def _create(self, message_type: Any, topic: str, kind: str) -> Any:
        if kind == 'status':
            # Latched: subscribers that join later receive the present state.
            return self._node.create_publisher(message_type, topic, QoSProfile(
                depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL), event_callbacks=_NO_EVENTS)
        if kind in ('poses', 'poses_v2'):
            return self._node.create_publisher(
                message_type, topic, POSES_QOS[self.settings.qos.poses])
        if kind in ('rigid_body_array', 'marker_array'):
            return self._node.create_publisher(message_type, topic, DRAFT_QOS)
        settings = self.settings.qos
        qos = OWN_QOS if kind == 'own' else QoSProfile(
            depth=settings.depth, reliability=ReliabilityPolicy.RELIABLE
            if settings.reliability == 'reliable' else ReliabilityPolicy.BEST_EFFORT)
        try:
            # The executor can call it before create_publisher returns.
            resolved = self._node.resolve_topic_name(topic)
            return self._node.create_publisher(
                message_type, topic, qos, event_callbacks=PublisherEventCallbacks(
                    incompatible_qos=lambda event: self._on_mismatch(
                        resolved, event.last_policy_kind),
                    use_default_callbacks=False))
        except UnsupportedEventTypeError:    # this middleware has no such event
            return self._node.create_publisher(
                message_type, topic, qos, event_callbacks=_NO_EVENTS)
