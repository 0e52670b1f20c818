# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Publish samples: the topics of each body, and the transforms of a frame in one message.

The last stages of a pose run on the client thread with the node's lock held: second check of its
age, pose message, transforms, other topics. They read the clock because the process can be
suspended at any line (by the scheduler, a debugger, or the migration of a virtual machine), and a
pose that became too old meanwhile must not be published. Messages are bytes (``ros/cdr.py``), or
objects if the encoding of the middleware is unknown. docs/performance.md lists the cost of each
step.
"""

from typing import Any, Callable, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.bodies import Disposition
from optitrack_vrpn.motion import (
    conjugate, MotionEstimate, pose_to_ned, QUAT_ENU_NED, rotate)
from optitrack_vrpn.node.body_output import (
    BodyOutput, message_type, sender, supports_raw_cdr)
from optitrack_vrpn.node.messages import fill_transform
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.shared_output import DRAFT_QOS, POSES_QOS, SharedOutput
from optitrack_vrpn.node.topic_kinds import KINDS, MODEL_KINDS, OWN_ODOMETRY
from optitrack_vrpn.pipeline import (
    FrameTimes, MarkerCloud, Pipeline, Sample, ServerMotion, TrackedBody)
from optitrack_vrpn.ros import (
    stamp_bytes, StaticTransformBroadcaster, tf_message, tf_publisher)
from optitrack_vrpn.throttle import FrameDecimator, period_ns
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

try:
    from rclpy.event_handler import PublisherEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, UnsupportedEventTypeError

#: An unknown covariance: all zeros, by the convention of sensor_msgs.
_UNKNOWN = (0.0,) * 36
#: No events: the executor checks every event of a publisher before each wait.
_NO_EVENTS = PublisherEventCallbacks(use_default_callbacks=False)


class Publishers:
    """
    Publish samples of all bodies.

    Not thread-safe; the node holds its lock around every call except ``prepare``.

    :param node: creates the publishers.
    :param settings: what is published.
    :param on_mismatch: called when a subscriber's quality of service does not match, with the
        resolved topic and the kind of the policy.
    :param destroy: retires publishers, from any thread.
    :param as_bytes: whether messages are published as bytes from serialisation templates; by
        default if the encoding of the middleware is known.
    :ivar settings: the present settings.
    """

    def __init__(
        self, node: LifecycleNode, settings: NodeSettings,
        on_mismatch: Callable[[str, int], None], destroy: Callable[[Any], None],
        as_bytes: Optional[bool] = None,
    ) -> None:
        self._node = node
        self._on_mismatch = on_mismatch
        self._destroy = destroy
        self._outputs: dict[TrackedBody, BodyOutput] = {}
        self._as_bytes = supports_raw_cdr() if as_bytes is None else as_bytes
        self._tf = tf_publisher(node)
        self._publish_tf = sender(self._tf, self._as_bytes)
        self._send_tf: Callable[[list[Any]], None] = (
            self._send_tf_bytes if self._as_bytes else self._send_tf_message)
        self._tf_heard = False
        self._tf_rates: dict[float, FrameDecimator] = {}
        self._view = FrameDecimator(period_ns(settings.rates.tf_view))
        self._static = StaticTransformBroadcaster(node)
        self._static_sent = False
        self._shared = SharedOutput(
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
        self._outputs[output.channel] = output

    def reconfigure(self, settings: NodeSettings) -> None:
        """Switch topics and transforms on or off, change rates, or nothing of it."""
        used = {settings.rates.tf, *(
            rates.get('rates.tf', 0.0) for rates in settings.body_rates.values())}
        self._tf_rates = {hz: one for hz, one in self._tf_rates.items() if hz in used}
        if settings.rates.tf_view != self.settings.rates.tf_view:
            self._view = FrameDecimator(period_ns(settings.rates.tf_view))
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
        self._shared.create_publishers(settings)
        if MODEL_KINDS.intersection(settings.outputs) or self._models is not None:
            if self._models is None:
                from optitrack_vrpn.skeletons import SkeletonOutput
                self._models = SkeletonOutput(
                    self._create, self._destroy, lambda kind: message_type(KINDS[kind]),
                    lambda kind: KINDS[kind].topic, lambda pieces: self._send_tf(pieces),
                    self._as_bytes)
            self._models.create_publishers(
                settings.outputs, settings.skeletons, settings.frames.world)
        for output in self._outputs.values():
            output.create_publishers(settings)

    def retain(self, channels: Sequence[TrackedBody]) -> None:
        """Close the publishers of all bodies but these."""
        for channel in [*self._outputs]:
            if channel not in channels:
                self._outputs.pop(channel).close()

    def listen(self) -> None:
        """Find the topics that have subscribers; call it about ten times a second."""
        self._shared.listen()
        self._tf_heard = self._tf.get_subscription_count() > 0
        if self._models is not None:
            self._models.listen(self._tf_heard, [
                frame for channel in self._outputs for frame in channel.names.frames.values()])
        for output in self._outputs.values():
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

    def publish(
        self, samples: Sequence[Sample], server_motions: Sequence[ServerMotion],
        clock: Callable[[], int], allowance_ns: int, times: Sequence[FrameTimes] = (),
    ) -> None:
        """
        Publish samples in order; the transforms of one frame go out in one message.

        :param clock: reads the present time (ns).
        :param allowance_ns: largest difference to a stamp (ns), see ``publish_samples``.
        :param times: when frames were exposed and sent, as far as known.
        """
        publish_samples(samples, self._outputs, self._send_tf, clock, allowance_ns)
        if self._shared.heard:
            if 'tf_view' in self._shared.heard:
                publish_view(
                    samples, self._outputs, self._view, self._send_view, clock, allowance_ns)
            self._shared.publish(samples, clock, allowance_ns, times)
        for moved in server_motions:
            output = self._outputs.get(moved.channel)
            if output is not None:
                publish_server_motion(output, moved, clock, moved.stamp_ns + allowance_ns)

    def publish_markers(
        self, cloud: MarkerCloud, clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """Publish the markers of a frame if outputs contain markers; arguments as ``publish``."""
        self._shared.publish_markers(cloud, clock, allowance_ns)

    def publish_extras(
        self, pipeline: Pipeline, clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """Publish skeletons and force plates of a frame; arguments as ``publish``."""
        models = self._models
        if models is not None and pipeline.extras is not None:
            models.publish(pipeline.extras, pipeline.config, clock, allowance_ns)
            for event in models.take_events():
                pipeline.reports.add(*event)

    def _send_tf_bytes(self, pieces: list[Any]) -> None:
        self._publish_tf(tf_message(pieces))

    def _send_tf_message(self, pieces: list[Any]) -> None:
        self._publish_tf(TFMessage(transforms=pieces))

    def _send_view(self, pieces: list[Any]) -> None:
        sender(self._shared.publishers['tf_view'], self._as_bytes)(
            tf_message(pieces) if self._as_bytes else TFMessage(transforms=pieces))

    def status_wanted(self, channel: TrackedBody) -> bool:
        """Return whether the state of a body is published."""
        output = self._outputs.get(channel)
        return output is not None and 'status' in output.publishers

    def publish_status(self, channel: TrackedBody, status: DiagnosticStatus) -> None:
        """Publish the state of one body; call it only if ``status_wanted``."""
        self._outputs[channel].publishers['status'].publish(status)

    def close(self) -> None:
        """Close every publisher."""
        self.retain([])
        self._shared.close()
        if self._models is not None:
            self._models.close()
        for publisher in (self._tf, self._static.pub_tf):
            self._destroy(publisher)

    def topics(self) -> list[str]:
        """Return the resolved names of all topics: transforms first, then those of every body."""
        models = self._models.topics if self._models is not None else []
        return [self._tf.topic_name, *self._shared.topics, *models, *(
            publisher.topic_name
            for output in self._outputs.values() for publisher in output.publishers.values())]

    def pose_topics(self, turn: int) -> list[str]:
        """Return the resolved names of one body's pose topics; each turn selects the next body."""
        if not self._outputs:
            return []
        publishers = [*self._outputs.values()][turn % len(self._outputs)].publishers
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
        of = settings.own if kind == 'own' else settings
        qos = QoSProfile(
            depth=of.depth, reliability=ReliabilityPolicy.RELIABLE
            if of.reliability == 'reliable' else ReliabilityPolicy.BEST_EFFORT)
        if kind == 'own':
            for name, seconds in (('deadline', settings.own.deadline_s),
                                  ('lifespan', settings.own.lifespan_s)):
                if seconds:
                    setattr(qos, name, Duration(nanoseconds=round(seconds * 1e9)))
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


# -- the hot path --------------------------------------------------------------------------------

def publish_samples(
    samples: Sequence[Sample], outputs: dict[TrackedBody, BodyOutput],
    send_tf: Callable[[list[Any]], None], clock: Callable[[], int], allowance_ns: int,
) -> None:
    """
    Publish samples in order; the transforms of one frame go out in one message.

    Consecutive samples of the same ``frame_ns`` form a frame, until a body occurs twice: frames
    that arrive together can have the same stamp. Ages are computed from ``frame_ns``: the delay
    that a low-pass subtracts from a stamp is no waiting.

    :param outputs: publishers by body; those of a new body do not exist yet.
    :param send_tf: publishes the transforms of a frame.
    :param clock: reads the present time (ns).
    :param allowance_ns: largest difference between ``clock`` and the stamp of a frame (ns): the
        maximum age, minus the offset between the clock of the stamps and ``clock``.
    """
    present_ns = stamped_ns = -1
    stamp = b''
    transforms: list[Any] = []
    bodies: set[Any] = set()
    # Declared for mypyc; position and attitude are passed on unchanged.
    sample: tuple[Any, ...]
    channel: TrackedBody
    stamp_ns: int
    frame_ns: int
    output: Optional[BodyOutput]
    for sample in samples:
        channel, stamp_ns, frame_ns, position, quat, _ = sample
        output = outputs.get(channel)
        if output is None:
            channel.dropped[Disposition.NO_TOPICS] += 1
            continue
        if clock() > frame_ns + allowance_ns:
            channel.dropped[Disposition.TOO_OLD] += 1
            continue
        if frame_ns != present_ns or output in bodies:
            if transforms:
                if clock() <= present_ns + allowance_ns:
                    send_tf(transforms)
                transforms = []
            bodies.clear()
            present_ns = frame_ns
        if stamp_ns != stamped_ns:
            stamped_ns = stamp_ns
            stamp = stamp_bytes(stamp_ns)
        bodies.add(output)
        channel.published += 1
        if output.send_pose is not None:
            output.send_pose(output.write_pose(stamp, position, quat))
        if output.tf:
            first, other = output.write_tf
            transforms.append((other if transforms else first)(stamp, position, quat))
        if output.heard or output.tf_ned:
            _publish_more(output, sample, stamp, transforms, clock, frame_ns + allowance_ns)
    if transforms and clock() <= present_ns + allowance_ns:
        send_tf(transforms)


def publish_view(
    samples: Sequence[Sample], outputs: dict[TrackedBody, BodyOutput], frames: FrameDecimator,
    send: Callable[[list[Any]], None], clock: Callable[[], int], allowance_ns: int,
) -> None:
    """
    Publish the transforms of samples for viewers, in one message, if their frame is due.

    :param frames: selects frames.
    :param send: publishes the transforms.
    :param clock: reads the present time (ns).
    :param allowance_ns: largest difference to the stamp of a frame (ns), see ``publish_samples``.
    """
    oldest_ns = -1
    transforms: list[Any] = []
    sample: tuple[Any, ...]    # declared for mypyc
    stamp_ns: int
    frame_ns: int
    output: Optional[BodyOutput]
    for sample in samples:
        channel, stamp_ns, frame_ns, position, quat, _ = sample
        if not frames.take(frame_ns):
            continue
        output = outputs.get(channel)
        if output is not None:
            if not transforms or frame_ns < oldest_ns:
                oldest_ns = frame_ns
            first, other = output.write_tf
            transforms.append((other if transforms else first)(
                stamp_bytes(stamp_ns), position, quat))
    if transforms and clock() <= oldest_ns + allowance_ns:
        send(transforms)


def _publish_more(
    output: BodyOutput, sample: tuple[Any, ...], stamp: bytes, transforms: list[Any],
    clock: Callable[[], int], until_ns: int,
) -> None:
    """Publish outputs on demand, and those with a rate: NED, covariance, own pose, motion."""
    heard = output.heard
    every = not output.limited
    stamp_ns: int
    frame_ns: int
    motion: Optional[MotionEstimate]
    _, stamp_ns, frame_ns, position, quat, motion = sample
    if 'pose' in heard and output.due('pose', stamp_ns):
        write, send = heard['pose']
        message = write(stamp, position, quat)
        if clock() <= until_ns:
            send(message)
    for kind in ('own', 'pose_2d'):
        if kind in heard and (every or output.due(kind, stamp_ns)):
            write, send = heard[kind]
            message = write(stamp, position, quat)
            if clock() <= until_ns:
                send(message)
    tf_ned = output.tf_ned
    if ('tf' in heard or 'tf_ned' in heard) and output.frame_due(frame_ns):
        if 'tf' in heard:
            first, other = output.write_tf
            transforms.append((other if transforms else first)(stamp, position, quat))
        tf_ned = 'tf_ned' in heard
    pose_ned = 'pose_ned' in heard and (every or output.due('pose_ned', stamp_ns))
    if tf_ned or pose_ned:
        # Declared for mypyc: numbers of another type are made objects with each call.
        ned_position: Any
        ned_quat: Any
        ned_position, ned_quat = pose_to_ned(position, quat)
        if pose_ned:
            write, send = heard['pose_ned']
            message = write(stamp, ned_position, ned_quat)
            if clock() <= until_ns:
                send(message)
        if tf_ned:
            first, other = output.write_tf_ned
            transforms.append((other if transforms else first)(stamp, ned_position, ned_quat))
    if 'pose_cov' in heard and (every or output.due('pose_cov', stamp_ns)):
        write, send = heard['pose_cov']
        message = write(stamp, position, quat, output.channel.estimator.pose_covariance(quat))
        if clock() <= until_ns:
            send(message)
    if motion is None:
        return
    fields: tuple[Any, ...] = motion
    (stamp_ns, position, quat, velocity, acceleration, rate, change, body_velocity, body_rate,
     twist_covariance, pose_covariance) = fields
    # The motion estimate is of the measured pose: a low-pass changes the pose above and can change
    # its stamp.
    stamp = stamp_bytes(stamp_ns)
    for kind in ('odom', OWN_ODOMETRY.name):
        if kind in heard and (every or output.due(kind, stamp_ns)):
            write, send = heard[kind]
            message = write(stamp, position, quat, pose_covariance, body_velocity, body_rate,
                            twist_covariance)
            if clock() <= until_ns:
                send(message)
    if 'twist' in heard and (every or output.due('twist', stamp_ns)):
        write, send = heard['twist']
        message = write(stamp, velocity, rate)
        if clock() <= until_ns:
            send(message)
    if 'accel' in heard and (every or output.due('accel', stamp_ns)):
        write, send = heard['accel']
        message = write(stamp, acceleration, change)
        if clock() <= until_ns:
            send(message)


def publish_server_motion(
    output: BodyOutput, moved: ServerMotion, clock: Callable[[], int], until_ns: int,
) -> None:
    """
    Publish a velocity or acceleration that the server itself sent.

    :param clock: reads the present time (ns).
    :param until_ns: time (ns) after which it is too old.
    """
    heard, stamp_ns = output.heard, moved.stamp_ns
    stamp = stamp_bytes(stamp_ns)
    if not moved.is_velocity:
        if 'accel' in heard and output.due('accel', stamp_ns):
            write, send = heard['accel']
            message = write(stamp, moved.linear, moved.angular)
            if clock() <= until_ns:
                send(message)
        return
    if 'twist' in heard and output.due('twist', stamp_ns):
        write, send = heard['twist']
        message = write(stamp, moved.linear, moved.angular)
        if clock() <= until_ns:
            send(message)
    for kind in ('odom', OWN_ODOMETRY.name):
        if kind in heard and output.due(kind, stamp_ns):
            write, send = heard[kind]
            quat = moved.quat_xyzw
            body_from_world = conjugate(quat)
            message = write(
                stamp, moved.position, quat, output.channel.estimator.pose_covariance(quat),
                rotate(body_from_world, moved.linear), rotate(body_from_world, moved.angular),
                _UNKNOWN)
            if clock() <= until_ns:
                send(message)
