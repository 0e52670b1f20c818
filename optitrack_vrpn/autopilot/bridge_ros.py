# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lifecycle node that converts the topics of one body to messages for one autopilot.

Configure opens the link, which exchanges heartbeats, TIMESYNC and parameters from then on.
Activate starts sending poses. The executor's thread receives the poses and decides which are sent;
the link has its own thread (``link_io.py``).
"""

from __future__ import annotations

import math
import time
from typing import Any, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from optitrack_vrpn.autopilot import connection as addresses
from optitrack_vrpn.autopilot.dds_ros import DdsOutput
from optitrack_vrpn.autopilot.gate import Gate, GateConfig, valid
from optitrack_vrpn.autopilot.link_io import Batch, LinkThread
from optitrack_vrpn.autopilot.messages import convert, make, Sample, State
from optitrack_vrpn.autopilot.report import findings, LinkReport, Source
from optitrack_vrpn.autopilot.settings import BridgeSettings, Plan, plan
from optitrack_vrpn.autopilot.vehicle import Vehicle
from optitrack_vrpn.doctor.result import CheckResult, Level
from optitrack_vrpn.events import Event
from optitrack_vrpn.mocap_control.settings_node_ros import entry, SettingsNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

NODE = 'mavlink_bridge'
#: Prefix of the names of a bridge's diagnostics, by which doctor and ``--check`` find them.
DIAGNOSTIC = 'mavlink_bridge'
#: Key of the value with the advice, which also ends the message.
ADVICE = 'advice'
#: Key of the value with the level of the finding: diagnostics have none for a skipped check.
LEVEL = 'level'
#: Silence of odometry (s) after which poses are used instead. Chosen: more than ten frames at 30
#: Hz, the lowest camera rate in use. Halved, gaps switch the input; doubled, the autopilot waits
#: longer.
_NO_ODOMETRY_S = 0.5
#: Time (s) without a sample after which the log states why. Chosen: heartbeats and the discovery
#: of topics take up to 3 s. Halved, a normal start is reported; doubled, the reason comes later.
IDLE_S = 5.0
#: Findings without which nothing is sent.
_NEEDED = ('input', 'link', 'autopilot', 'sending')
_LEVELS = {Level.OK: 'ok', Level.SKIP: 'ok', Level.WARN: 'warn', Level.FAIL: 'error'}


class MavlinkBridge(SettingsNode[BridgeSettings]):
    """
    Send the poses of one body to one autopilot.

    :param node_name: name before remapping.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = NODE, **kwargs: Any) -> None:
        self._active = False
        self._settings: Optional[BridgeSettings] = None
        self._plan: Optional[Plan] = None
        self._gate: Optional[Gate] = None
        self._vehicle: Optional[Vehicle] = None
        self._link: Optional[LinkThread] = None
        self._dds: Optional[DdsOutput] = None
        self._listeners: list[Any] = []
        self._status = ''
        self._topic = ''
        self._sources: tuple[str, ...] = ()
        self._publisher_count = 0
        self._odometry_at = -math.inf
        self._compared_ns = -1
        self._flushed = self._readers = 0
        self._rate_hz = 0.0
        self._sent_before = (time.monotonic(), 0)
        self._sent_at = math.inf
        super().__init__(node_name, BridgeSettings, **kwargs)
        # The bridge publishes no topic that a recorder of the session needs.
        self.set_info_topics([])

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
        self._gate = Gate(GateConfig(
            chosen.period_ns, chosen.min_interval_ns, round(settings.max_age_ms * 1e6)))
        if settings.transport == 'dds':
            self._dds = DdsOutput(self, settings, chosen)
            self.set_info_topics([self._dds.topic])
        else:
            self._vehicle = Vehicle(settings, chosen)
            self._link = LinkThread(
                settings, addresses.parse(settings.connection), self._vehicle, self._log_event)
            self._link.start()
        self._listen(settings)

    def begin(self) -> None:
        """Start sending poses."""
        self._active = True
        self._sent_at = time.monotonic()
        self._sent_before = (self._sent_at, self._gate.sent if self._gate else 0)

    def end(self) -> None:
        """Stop sending poses; the link stays open."""
        self._active = False
        if self._gate is not None:
            self._gate.interrupt()
        if self._link is not None:
            self._link.clear()
        if self._vehicle is not None and self._vehicle.armed:
            self.get_logger().error(
                'deactivated while the vehicle is armed: its estimator receives no more poses')

    def _listen(self, settings: BridgeSettings) -> None:
        """Subscribe to the body's topics."""
        # Best effort matches every publisher, and lost samples are not sent late.
        samples = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        latched = QoSProfile(
            depth=1, reliability=ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL)
        topics = []
        # The executor takes them in this order: the state before the samples that it permits.
        for name, kind, callback, qos in (
                (settings.topic_status, DiagnosticStatus, self._take_status, latched),
                (settings.topic_odom, Odometry, self._take_odometry, samples),
                (settings.topic_pose, PoseStamped, self._take_pose, samples)):
            self._listeners.append(self.create_subscription(
                kind, name.replace('{body}', settings.body), callback, qos))
            topics.append(self._listeners[-1].topic_name)
        self._sources = tuple(topics[1:])

    def release(self) -> None:
        """Close the link and unsubscribe."""
        link, self._link = self._link, None
        if link is not None:
            link.stop()
        for subscription in self._listeners:
            self.destroy_subscription(subscription)
        self._listeners.clear()
        if self._dds is not None:
            self._dds.close()
            self._dds = None
        self._settings = self._plan = self._gate = self._vehicle = None
        self._status = self._topic = ''
        self._rate_hz = 0.0
        self._flushed = self._readers = 0
        self._odometry_at = -math.inf

    # -- samples -----------------------------------------------------------------------------

    def _take_status(self, message: DiagnosticStatus) -> None:
        if self._gate is None:
            return
        values = {pair.key: pair.value for pair in message.values}
        state = values.get('state', '')
        resets = values.get('resets', '')
        self._gate.status(
            state, int(resets) if resets.isdecimal() else None,
            values.get('publish_untracked', '') == 'true')
        if self._link is not None and not self._gate.tracked:
            self._link.clear()
        if state != self._status:
            severity = 'info' if state == 'TRACKED' else 'warn'
            self._log(severity, f'the body is {state or "not followed any more"}',
                      ('status', state))
        self._status = state or 'not followed'

    def _take_odometry(self, message: Odometry) -> None:
        self._odometry_at = time.monotonic()
        twist = message.twist.twist
        linear = (twist.linear.x, twist.linear.y, twist.linear.z)
        angular = (twist.angular.x, twist.angular.y, twist.angular.z)
        self._offer(_sample(
            message.header.stamp, message.pose.pose, message.pose.covariance,
            linear if all(map(math.isfinite, linear)) else None,
            angular if all(map(math.isfinite, angular)) else None,
            message.twist.covariance), 0)

    def _take_pose(self, message: PoseStamped) -> None:
        if time.monotonic() - self._odometry_at > _NO_ODOMETRY_S:
            self._offer(_sample(message.header.stamp, message.pose), 1)

    def _offer(self, sample: Sample, topic: int) -> None:
        """Send a sample if the gate accepts it."""
        gate, chosen = self._gate, self._plan
        if gate is None or chosen is None:
            return
        self._topic = self._sources[topic]
        vehicle, link = self._vehicle, self._link
        if not self._active or (vehicle is not None and not vehicle.may_send):
            if link is not None and gate.tracked and valid(sample) and (
                    not 0 <= sample.stamp_ns - self._compared_ns < chosen.period_ns):
                self._compare(link, convert(sample))
            return
        if self._dds is not None:
            before, self._readers = self._readers, self._dds.readers
            if self._readers and not before:
                gate.interrupt()
        if link is not None:
            gate.written(link.written_ns, sample.stamp_ns)
            if link.flushed != self._flushed:
                self._flushed = link.flushed
                gate.interrupt()
        if gate.offer(sample, time.time_ns()) is not None:
            return
        state = convert(sample)
        if self._dds is not None:
            self._dds.send(state, gate.reset_counter)
        if link is not None:
            link.send(Batch(sample.stamp_ns, make(state, chosen, gate.reset_counter)))
            self._compare(link, state)

    def _compare(self, link: LinkThread, state: State) -> None:
        """Compare the autopilot's own attitude with a sample."""
        self._compared_ns = state.time_us * 1000
        with link.lock:
            if self._vehicle is not None:
                self._vehicle.agreement.sent(state)

    # -- reports -----------------------------------------------------------------------------

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Check rates and publishers, and return all findings."""
        if self._settings is None or self._gate is None:
            return ()
        now = time.monotonic()
        at, sent = self._sent_before
        self._rate_hz = (self._gate.sent - sent) / max(now - at, 1e-3)
        self._sent_before = (now, self._gate.sent)
        self._publisher_count = max(
            (self.count_publishers(topic) for topic in self._sources), default=0)
        if self._publisher_count > 1:
            self._log('error', f'{self._publisher_count} publishers of {self._sources[0]} or '
                      f'{self._sources[1]}: their poses alternate; stop one of them',
                      'publishers')
        found = self.findings()
        if self._rate_hz:
            self._sent_at = now
        elif self._active and now - self._sent_at > IDLE_S:
            self._sent_at = math.inf        # one line for each such time
            self._log('error', f'nothing was sent for {IDLE_S:g} s: ' + '; '.join(
                f'{one.found} ({one.advice})' if one.advice else one.found for one in found
                if one.check in _NEEDED and one.level in (Level.WARN, Level.FAIL)), 'idle')
        return [entry(
            f'{self.get_fully_qualified_name()[1:]}: {DIAGNOSTIC} {one.check}',
            _LEVELS[one.level], f'{one.found}; {one.advice}' if one.advice else one.found,
            {**one.values, ADVICE: one.advice, LEVEL: one.level.name},
            self._settings.connection)
            for one in found]

    def findings(self) -> list[CheckResult]:
        """Return all findings; empty while unconfigured."""
        if self._settings is None or self._plan is None or self._gate is None:
            return []
        source = Source(
            self._topic, self._publisher_count, self._status, ' or '.join(self._sources),
            self._rate_hz)
        if self._link is None:
            return findings(
                self._settings, self._plan, source, self._gate, self._dds_report(), None,
                self._active, time.monotonic_ns())
        with self._link.lock:
            return findings(
                self._settings, self._plan, source, self._gate, self._link.report(),
                self._vehicle, self._active, time.monotonic_ns())

    @property
    def armed(self) -> bool:
        """Return True if the autopilot reports the vehicle as armed."""
        return self._vehicle is not None and self._vehicle.armed

    @property
    def firmware(self) -> str:
        """Return the name of the autopilot's firmware, '' while unknown."""
        return '' if self._vehicle is None else self._vehicle.firmware

    def _dds_report(self) -> LinkReport:
        assert self._dds is not None
        readers = self._dds.readers
        return LinkReport(
            True, '', f'{self._dds.topic}, {readers} subscriptions' if readers else '',
            (self._gate.age_ns or 0) if self._gate else 0, {'readers': readers})

    def _log_event(self, event: Event) -> None:
        """Log an event of the link, on its thread."""
        self._log(event.severity, event.text, event.key)


def _sample(
    stamp: Any, pose: Any, pose_covariance: Any = None, velocity: Any = None,
    angular_velocity: Any = None, twist_covariance: Any = None,
) -> Sample:
    position, orientation = pose.position, pose.orientation
    return Sample(
        stamp.sec * 1_000_000_000 + stamp.nanosec, (position.x, position.y, position.z),
        (orientation.x, orientation.y, orientation.z, orientation.w), pose_covariance, velocity,
        angular_velocity, twist_covariance)
