# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lifecycle node that converts the topics of one body to messages for one autopilot.

Configure opens the link, which exchanges heartbeats, TIMESYNC and parameters from then on.
Activate starts sending poses. The executor's thread receives the poses and decides which are sent;
the link has its own thread (``link_io.py``).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
import math
import time
from typing import Any, Optional, Sequence, Union

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TransformStamped
from nav_msgs.msg import Odometry
from optitrack_vrpn.control.armed import Claim
from optitrack_vrpn.control.armed_ros import ArmedPublisher
from optitrack_vrpn.control.participant_ros import MocapControl
from optitrack_vrpn.control.protocol import Command, Kind
from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.core.doubt import doubt_of
from optitrack_vrpn.core.errors import BackendUnavailableError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.guests.autopilot.gate import Gate, Output, Use
from optitrack_vrpn.guests.autopilot.link_io import LinkThread
from optitrack_vrpn.guests.autopilot.memory_io import SentMemory
from optitrack_vrpn.guests.autopilot.messages import (
    ardupilot_transform, convert, px4_odometry, VehicleState, VisionSample)
from optitrack_vrpn.guests.autopilot.report import (
    findings, LinkReport, OTHER_AXES, VisionSource, WHICH_ADVICE)
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, Plan, plan
from optitrack_vrpn.node.base.managed_node import entry, SettingsNode
from optitrack_vrpn.node.graph.reach import pose_reach
from optitrack_vrpn.node.graph.status_binding import StatusBinding
from optitrack_vrpn.node.graph.streams import TopicsBinding
from optitrack_vrpn.node.graph.streams_ros import describe, informed, pose_of, TICK_S
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: Default name of the node, and prefix of the names of its diagnostics, by which doctor and
#: ``--check`` find them.
NODE = 'mavlink_bridge'
#: Key of the value with the advice, which also ends the message.
ADVICE = 'advice'
#: Key of the value with the level of the finding: diagnostics have none for a skipped check.
LEVEL = 'level'


class MavlinkBridge(SettingsNode[BridgeSettings]):
    """
    Send the poses of one body to one autopilot.

    :param node_name: name before remapping.
    :param idle_s: time (s) without a sample after which the log states why. Chosen: heartbeats
        and the discovery of topics take up to 3 s.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = NODE, *, idle_s: float = 5.0, **kwargs: Any) -> None:
        self._idle_s = idle_s
        self._plan: Optional[Plan] = None
        self._gate: Optional[Gate] = None
        self._binding: TopicsBinding[Any] = TopicsBinding((), pose_reach)
        self._status_binding = StatusBinding()
        self._output: Union[LinkThread, DdsOutput, None] = None
        self._listeners: list[Any] = []
        self._watched_topics: tuple[str, ...] = ()
        self._sent_before = (time.monotonic(), 0)
        self._sent_at = math.inf
        self._said: Optional[Claim] = None
        self._forget()
        super().__init__(node_name, BridgeSettings, **kwargs)
        self._memory = SentMemory(self.get_fully_qualified_name())
        self._armed_publisher = ArmedPublisher(self)
        self.create_timer(TICK_S, self._tick, clock=self._steady)
        self._mocap_control = MocapControl(self, refusal=self._refuse_command)
        # The bridge publishes no topic that a recorder of the session needs, except with DDS.
        self._mocap_control.set_info_topics([])

    def _forget(self) -> None:
        """Set what is known of the body and its publishers to the initial state."""
        self._settings: Optional[BridgeSettings] = None
        self._source = VisionSource()
        self._odometry_at = -math.inf
        self._compared_ns = -1

    # -- transitions -------------------------------------------------------------------------

    def prepare(self, settings: BridgeSettings) -> None:
        """
        Open the link, and subscribe to the body's topics.

        :raises OptitrackVrpnError: if the settings do not fit, or a library is not installed.
        """
        chosen = plan(settings)
        for warning in chosen.warnings:
            self.get_logger().warning(warning)
        self._settings, self._plan = settings, chosen
        if settings.transport == 'dds':
            self._output = DdsOutput(self, settings, chosen)
        else:
            self._output = LinkThread(settings, chosen, self._log_event)
            self._output.start()
        self._mocap_control.set_info_topics([self._output.topic] if self._output.topic else [])
        self._listen(settings)
        self._binding = TopicsBinding(self._watched_topics[1:], pose_reach)
        self._status_binding = StatusBinding()
        self._gate = Gate(chosen, *self._memory.first(time.time()))

    def begin(self) -> None:
        """Start sending poses."""
        assert self._gate is not None
        self._gate.active = True
        self._sent_at = time.monotonic()
        self._sent_before = (self._sent_at, self._gate.sent)

    def end(self) -> None:
        """Stop sending poses; the link stays open."""
        if self._gate is not None:
            self._gate.end()
            self._gate.arm(self._guarded)
        if self._output is not None:
            self._output.clear()
        if self.armed:
            self.get_logger().error(
                'deactivated while the vehicle is armed: its estimator receives no more poses')

    def _refuse_command(self, msg: Command) -> str:
        """Refuse STOP while the vehicle is armed: its estimator would get no more poses."""
        claim = self._claim()
        return '' if msg.kind is not Kind.STOP or claim is None else claim.refusal

    def _claim(self) -> Optional[Claim]:
        """Return what this bridge says of its vehicle; None while it is unconfigured."""
        if self._settings is None or self._output is None or self._gate is None:
            return None
        armed: Optional[bool] = self.armed
        if self._output.vehicle is None and self._gate.active:
            armed = None
        return Claim(self.get_fully_qualified_name(), self._settings.body, armed,
                     self._settings.stop_while_armed)

    def _tick(self) -> None:
        """Say whether the vehicle is armed; ten times a second."""
        now_ns = time.monotonic_ns()
        self._binding.tick(now_ns)
        self._status_binding.tick(now_ns)
        claim = self._claim()
        if claim is not None:
            self._said = claim
        elif self._said is None:
            return
        self._armed_publisher.say(claim or self._said._replace(armed=False))

    def _listen(self, settings: BridgeSettings) -> None:
        """Subscribe to the body's topics."""
        # Best effort matches every publisher, and lost samples are not sent late.
        samples = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        latched = QoSProfile(
            depth=1, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL)
        # The executor takes them in this order: the state before the samples that it permits.
        for name, kind, callback, qos in (
                (settings.topic_status, DiagnosticStatus, self._take_status, latched),
                (settings.topic_odom, Odometry, informed(self._take_odometry), samples),
                (settings.topic_pose, PoseStamped, informed(self._take_pose), samples)):
            self._listeners.append(self.create_subscription(
                kind, name.replace('{body}', settings.body), callback, qos))
        self._watched_topics = tuple(one.topic_name for one in self._listeners)
        self._source.topics = ' or '.join(self._watched_topics[1:])

    def release(self) -> None:
        """Close the link and unsubscribe."""
        output, self._output = self._output, None
        if output is not None:
            output.close()
        for subscription in self._listeners:
            self.destroy_subscription(subscription)
        self._listeners.clear()
        self._plan = self._gate = None
        self._forget()

    # -- samples -----------------------------------------------------------------------------

    def _take_status(self, message: DiagnosticStatus) -> None:
        gate = self._gate
        if gate is None:
            return
        report = StatusReport.of(message)
        if not self._status_binding.accept(report.session, time.monotonic_ns()):
            return
        self._source.inactive = report.node if report.is_inactive else ''
        state = report.values.get('state', '')
        gate.status(state, report.count('resets'), doubt_of(report.values))
        if self._output is not None and not gate.tracked:
            self._output.clear()
        if state != self._source.status:
            severity = INFO if state == 'TRACKED' else WARN
            self._log(severity, f'the body is {state or "not followed any more"}',
                      ('status', state))
        self._source.status = state or 'not followed'

    def _take_odometry(self, message: Odometry, info: dict[str, Any]) -> None:
        twist = message.twist.twist
        self._offer(_sample(
            message.header.stamp, message.pose.pose, message.pose.covariance,
            (twist.linear.x, twist.linear.y, twist.linear.z),
            (twist.angular.x, twist.angular.y, twist.angular.z),
            message.twist.covariance), 1, message, info)

    def _take_pose(self, message: PoseStamped, info: dict[str, Any]) -> None:
        self._offer(_sample(message.header.stamp, message.pose), 2, message, info)

    def _offer(self, sample: VisionSample, index: int, message: Any, info: dict[str, Any]) -> None:
        """Send a sample, or compare the autopilot's attitude with it, as the gate decides."""
        gate, chosen, output = self._gate, self._plan, self._output
        if gate is None or chosen is None or output is None:
            return
        topic = self._watched_topics[index]
        guarded = self._guarded
        begins = self._binding.accept(topic, pose_of(message, info), time.monotonic_ns(),
                                      strict=guarded is not False)
        if begins is not None and index == 1:
            self._odometry_at = time.monotonic()
        # Chosen: more than ten frames at 30 Hz, the lowest camera rate in use.
        elif index == 2 and time.monotonic() - self._odometry_at <= 0.5:
            if begins:
                gate.interrupt()
            return
        if begins is not None:
            self._source.topic = topic
        gate.arm(guarded)
        use = gate.use(sample, begins, output.output(), time.time_ns(),
                       self._binding.changed)
        early = 0 <= sample.stamp_ns - self._compared_ns < chosen.period_ns
        if use is Use.NONE or (use is Use.COMPARE and early):
            return
        self._compared_ns = sample.stamp_ns
        state = convert(sample)
        if use is Use.SEND:
            trouble = self._memory.keep(
                gate.reset_counter, sample.quat_xyzw if guarded else None, time.time())
            if trouble:
                self._log(WARN, 'the reset counter and the attitude cannot be kept for a '
                          f'restart: {trouble}', 'memory')
            output.publish(sample.stamp_ns, state, gate.reset_counter)
        else:
            output.compare(state)

    def _report_publishers(self) -> None:
        """Log what is not followed, when that changes."""
        problem, others = describe(self, self._binding.several, self._binding.bound)
        if self._guarded is not False and self._binding.differing:
            problem, others = OTHER_AXES, ''
        source = self._source
        if (problem, others) != (source.problem, source.others):
            source.problem, source.others = problem, others
            self._log(ERROR if problem else WARN if others else INFO, (
                f'{problem}: no pose is sent; {WHICH_ADVICE}' if problem else
                f'{others}; stop the others' if others else 'one node publishes the poses'),
                ('one', problem, others))
        doubt, advice = ('', '') if self._gate is None else (
            self._gate.doubt, self._gate.doubt_advice)
        if doubt != source.doubt:
            source.doubt = doubt
            self._log(ERROR if doubt else INFO, (
                f'no pose is sent: {doubt}; {advice}'
                if doubt else 'the attitude of the body is followed again'), ('doubt', doubt))

    # -- reports -----------------------------------------------------------------------------

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Check rates and publishers, and return all findings."""
        if self._settings is None or self._gate is None:
            return ()
        now = time.monotonic()
        at, sent = self._sent_before
        gate = self._gate
        self._source.rate_hz = (gate.sent - sent) / max(now - at, 1e-3)
        self._sent_before = (now, gate.sent)
        self._source.publishers = max(
            (self.count_publishers(topic) for topic in self._watched_topics[1:]), default=0)
        self._report_publishers()
        found = self.findings()
        if self._source.rate_hz:
            self._sent_at = now
        elif gate.active and now - self._sent_at > self._idle_s:
            self._sent_at = math.inf        # one line for each such time
            causes = {one.check: one for one in found if one.severity in (WARN, ERROR)}
            # What 'sending' finds follows from the others, if they find anything.
            told = [causes[check] for check in ('input', 'link', 'autopilot') if check in causes]
            told = told or [causes[check] for check in ('sending',) if check in causes]
            self._log(ERROR, f'nothing was sent for {self._idle_s:g} s: ' + '; '.join(
                f'{one.found} ({one.advice})' if one.advice else one.found for one in told),
                'idle')
        return [entry(
            f'{self.get_fully_qualified_name()[1:]}: {NODE} {one.check}',
            one.severity or INFO, f'{one.found}; {one.advice}' if one.advice else one.found,
            {**one.values, ADVICE: one.advice, LEVEL: one.word},
            self._settings.connection)
            for one in found]

    def findings(self) -> list[CheckResult]:
        """Return all findings; empty while unconfigured."""
        gate, chosen, output = self._gate, self._plan, self._output
        if self._settings is None or gate is None or chosen is None or output is None:
            return []
        with output.lock:
            return findings(
                self._settings, chosen, replace(
                    self._source, doubt=gate.doubt, doubt_advice=gate.doubt_advice), gate,
                output.report(gate.age_ns or 0), output.vehicle, time.monotonic_ns())

    @property
    def armed(self) -> bool:
        """Return True if the autopilot reports the vehicle as armed."""
        output = self._output
        return output is not None and output.vehicle is not None and output.vehicle.armed

    @property
    def _guarded(self) -> Optional[bool]:
        """
        Return whether the vehicle must follow no attitude in doubt; None if that is not known yet.

        With transport dds this is never known: it counts as armed while poses are sent.
        """
        output, gate = self._output, self._gate
        if output is None or gate is None:
            return False
        if output.vehicle is None:
            return gate.active
        return output.vehicle.armed if output.vehicle.system else None

    @property
    def firmware(self) -> str:
        """Return the name of the autopilot's firmware, '' while unknown."""
        output = self._output
        return '' if output is None or output.vehicle is None else output.vehicle.firmware

    def _log_event(self, event: Event) -> None:
        """Log an event of the link, on its thread."""
        self._log(event.severity, event.text, event.key)


def _sample(
    stamp: Any, pose: Any, pose_covariance: Any = None, velocity: Any = None,
    angular_velocity: Any = None, twist_covariance: Any = None,
) -> VisionSample:
    position, orientation = pose.position, pose.orientation
    return VisionSample(
        stamp.sec * 1_000_000_000 + stamp.nanosec, (position.x, position.y, position.z),
        (orientation.x, orientation.y, orientation.z, orientation.w), pose_covariance, velocity,
        angular_velocity, twist_covariance)


# -- transport dds --------------------------------------------------------------------------------

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

    def publish(self, stamp_ns: int, state: VehicleState, reset_counter: int) -> None:
        """Publish one sample."""
        if not self._px4:
            self._publisher.publish(_transform(state))
            return
        message = self._publisher.msg_type()
        for name, value in px4_odometry(state, self._plan, reset_counter).items():
            setattr(message, name, value)
        self._publisher.publish(message)

    def compare(self, state: VehicleState) -> None:
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


def _transform(state: VehicleState) -> TFMessage:
    pose = ardupilot_transform(state)
    moved = TransformStamped(child_frame_id='base_link')
    moved.header.frame_id = 'odom'
    moved.header.stamp = Time(
        sec=state.time_us // 1_000_000, nanosec=state.time_us % 1_000_000 * 1000)
    translation, rotation = moved.transform.translation, moved.transform.rotation
    translation.x, translation.y, translation.z = pose.position
    rotation.x, rotation.y, rotation.z, rotation.w = pose.quat_xyzw
    return TFMessage(transforms=[moved])
