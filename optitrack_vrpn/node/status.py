# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Report the state of the node on /diagnostics, and of each body on its status topic (REP 107).

If diagnostic_updater is installed, it publishes the diagnostics and has its usual parameters
(``diagnostic_updater.period``, ``diagnostic_updater.use_fqn``); otherwise a plain publisher does.
"""

import secrets
import time
import traceback
from typing import Any, Callable, NamedTuple, Optional, Sequence, TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn import RUNS
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, INFO, STALE
from optitrack_vrpn.core.stats import Window
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.drivers.driver import Source
from optitrack_vrpn.drivers.table import own_settings
from optitrack_vrpn.node.base.managed_node import entry as diagnostic
from optitrack_vrpn.node.base.node_parts import ThrottledLog
from optitrack_vrpn.node.base.settings_ros import given_at_start
from optitrack_vrpn.node.configuration import Configuration
from optitrack_vrpn.node.receiver import TurnLock
from optitrack_vrpn.node.report import (
    body_entry, clock_entry, frames_entry, link_entry)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import Sample, TrackedBody
from optitrack_vrpn.telling.facts import (
    BodyFacts, facts_of_body, facts_of_pipeline, GraphFacts, LossWindow, Twins)
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import of_entry, of_log
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

if TYPE_CHECKING:
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    from optitrack_vrpn.node.publishers import Publishers

#: Period (s) by the convention of REP 107.
PERIOD_S = 1.0
_PERIOD = 'diagnostic_updater.period'


class Diagnostics:
    """
    Publish entries on /diagnostics once a second, or with the updater's period.

    :param node: creates publisher and timer; one instance per node, for its whole life.
    :param collect: returns the present entries; empty while there is nothing to report.
    """

    def __init__(self, node: Node, collect: Callable[[], Sequence[StatusReport]]) -> None:
        self._node = node
        self._collect = collect
        self._hardware_id = ''
        self._updater: Any = None
        self._publisher: Any = None
        self._timer: Any = None

    def open(self, hardware_id: str) -> None:
        """
        Begin to publish.

        :param hardware_id: the server.
        :raises ConfigurationError: for a period that is no positive decimal.
        """
        self._hardware_id = hardware_id
        if self._timer is None:    # not in the constructor: the client connects first
            try:
                from diagnostic_updater import Updater
            except ImportError:
                period_s = PERIOD_S
                self._publisher = self._node.create_publisher(DiagnosticArray, '/diagnostics', 10)
            else:
                period_s = self._make_updater(Updater)
            # A timer of the system clock stops for an hour when that clock is set back by an hour.
            self._timer = self._node.create_timer(
                period_s, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.reset()

    def _make_updater(self, updater: Any) -> float:
        """Create the updater without its timer of the system clock; return its period (s)."""
        given = given_at_start(self._node).get(_PERIOD, PERIOD_S)
        if self._node.has_parameter(_PERIOD):    # set by a user before the updater declares it
            given = self._node.get_parameter(_PERIOD).value
            self._node.undeclare_parameter(_PERIOD)
        if not isinstance(given, float) or not given > 0.0:
            raise ConfigurationError(
                f'{_PERIOD} is {given!r}; allowed: a decimal number above 0, as in 1.0 (s)')
        self._updater = updater(self._node, given)
        self._updater.timer.cancel()
        return given

    def status(self, entry: StatusReport) -> DiagnosticStatus:
        """Return the message of one entry."""
        return diagnostic(f'{self._node.get_name()}: {entry.subject}', entry.severity,
                          entry.message, entry.values, self._hardware_id)

    def _publish(self) -> None:
        statuses = [self.status(entry) for entry in self._collect()]
        if not statuses:
            return
        if self._updater is not None:
            # Not as its tasks: it would announce each new one with level OK.
            for status in statuses:
                status.name = status.name.partition(': ')[2]    # it adds the node's name
            self._updater.publish(statuses)
        elif self._publisher.get_subscription_count():
            message = DiagnosticArray(status=statuses)
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._publisher.publish(message)


#: Chosen: bodies reported while the lock is held once, 0.06 ms each.
_AT_ONCE = 5


class _Sources(NamedTuple):
    """Sources of the reports of a configured node."""

    node: 'OptitrackVrpnNode'
    backend: Source
    pipeline: Pipeline
    publishers: 'Publishers'

    @property
    def configuration(self) -> Configuration:
        """Return the present settings, with the lock held."""
        assert self.node.configuration is not None
        return self.node.configuration


class LatencyStatistics:
    """
    Collect the latencies of some batches of samples.

    :ivar wait: time of datagrams in the kernel, before they are read (s).
    :ivar work: time from reading a datagram to publishing its poses (s).
    :ivar latency: time from the stamp of a frame to the publication of its poses (s).
    """

    def __init__(self) -> None:
        self.wait = Window()
        self.work = Window()
        self.latency = Window()

    def add(
        self, samples: Sequence[Sample], arrival_ns: int, host_minus_arrival_ns: int,
        begun_ns: int, done_ns: int,
    ) -> None:
        """
        Add a batch that has been published.

        :param arrival_ns: arrival (ns), on the arrival clock like the next two.
        :param begun_ns: time of reading (ns).
        :param done_ns: time after publishing (ns).
        """
        self.wait.add((begun_ns - arrival_ns) * 1e-9)
        self.work.add((done_ns - begun_ns) * 1e-9)
        for sample in samples:
            latency = (done_ns + host_minus_arrival_ns - sample.frame_ns) * 1e-9
            self.latency.add(latency)
            sample.channel.latency.add(latency)


class StatusReporter:
    """
    Report connection, clock, frames and bodies.

    :param node: creates publishers and timers.
    :param lock: guards pipeline and publishers; ``observe``, ``measure``, ``close`` and
        ``retire`` are called with it held, everything else without.
    :param log: the node's log.
    :ivar active: whether the node publishes poses.
    :ivar latency: latency of poses in the node.
    :ivar graph: facts of the ROS graph.
    """

    def __init__(
        self, node: Node, lock: TurnLock, log: ThrottledLog,
    ) -> None:
        self._lock = lock
        self._log = log
        self._clock = HostClock()
        self._diagnostics = Diagnostics(node, self._collect)
        self._loss = LossWindow()
        self._twins = Twins()
        self.graph = GraphFacts(node.get_fully_qualified_name())
        self._sources: Optional[_Sources] = None
        #: Distinguishes the statuses of this node from those of another one with its bodies.
        self._session = secrets.token_hex(4)
        self.active = False
        self.latency = LatencyStatistics()

    def open(self) -> None:
        """Start to publish on /diagnostics; call it after ``observe``."""
        assert self._sources is not None
        settings = self._sources.configuration.settings
        self._loss = LossWindow()
        self.latency = LatencyStatistics()    # not those of an earlier configuration
        own = own_settings(settings.sources, settings.protocol)
        port = (settings.client if own is None else own).port
        self._diagnostics.open(f'{settings.client.server}:{port}')
        self._log(INFO, f'the path of a pose runs {RUNS}', 'runs')

    def observe(
        self, node: 'OptitrackVrpnNode', backend: Source, pipeline: Pipeline,
        publishers: 'Publishers',
    ) -> None:
        """Set the sources of the reports, with the lock held."""
        self._sources = _Sources(node, backend, pipeline, publishers)
        # Topics, frames and names of bodies can be others than in the configuration before.
        self.graph = GraphFacts(self.graph.name)

    def measure(
        self, samples: Sequence[Sample], arrival_ns: int, host_minus_arrival_ns: int,
        begun_ns: int, done_ns: int,
    ) -> None:
        """Measure a batch that has been published, with the lock held; see ``latency.add``."""
        assert self._sources is not None
        if self._sources.configuration.pipeline.stamps.mode == 'sender':
            samples = ()    # their stamps are on the sender's clock
        self.latency.add(samples, arrival_ns, host_minus_arrival_ns, begun_ns, done_ns)

    def close(self) -> None:
        """Release the sources, with the lock held."""
        self._sources = None

    def publish(self, channels: Sequence[TrackedBody]) -> list[tuple[BodyFacts, StatusReport]]:
        """
        Publish the state of bodies on their own topics.

        The lock is acquired for a few bodies at a time, with a pause in between, so that no frame
        waits for a hundred messages. The topics are latched, so they are also published without
        subscribers.

        :returns: the facts of each, and its entry for /diagnostics.
        """
        found: list[tuple[BodyFacts, StatusReport]] = []
        fastest_hz: Optional[float] = None
        host_minus_arrival_ns = self._clock.host_minus_arrival_ns()
        for first in range(0, len(channels), _AT_ONCE):
            if first:
                # Chosen: pause between them (s), half a frame at 240 Hz, in which a frame can
                # acquire the lock at once.
                time.sleep(0.002)
            with self._lock:
                if self._sources is None:
                    break
                now_ns = self._clock.now_ns()
                if fastest_hz is None:
                    fastest_hz = max(
                        (body.gate.rate_hz for body in self._sources.pipeline.bodies), default=0.0)
                found += [
                    self._publish_body(
                        channel, self._sources, now_ns, host_minus_arrival_ns, fastest_hz)
                    for channel in channels[first:first + _AT_ONCE]]
        return found

    def _publish_body(
        self, channel: TrackedBody, sources: _Sources, now_ns: int, host_minus_arrival_ns: int,
        fastest_hz: float,
    ) -> tuple[BodyFacts, StatusReport]:
        """Publish the state of one body, with the lock held; return its facts and entry."""
        facts = facts_of_body(channel, now_ns, self._twins.of(channel.names.motive))
        entry = body_entry(
            channel.names.ros, facts, channel.dispositions(),
            host_minus_arrival_ns, channel.estimator.lowpass_delay_s,
            sources.configuration.settings.expected_rate_hz, fastest_hz,
            channel.latency.percentiles(), sources.pipeline.config.max_age_s,
            sources.configuration.settings.frames.world, channel.names.frames['body'])
        entry.values.update(
            node_state='active' if self.active else 'inactive', session=self._session)
        if sources.publishers.status_wanted(channel):
            sources.publishers.publish_status(channel, self._diagnostics.status(entry))
        return facts, entry

    def retire(self, channels: Sequence[TrackedBody], reason: str) -> None:
        """Publish the last status of bodies, with the lock held."""
        if self._sources is None:    # configure has failed before
            return
        publishers = self._sources.publishers
        for channel in channels:
            if publishers.status_wanted(channel):
                publishers.publish_status(channel, self._diagnostics.status(StatusReport(
                    f'body {channel.names.ros}', STALE, reason, {})))

    def _collect(self) -> list[StatusReport]:
        """Collect the entries for /diagnostics; on the executor thread."""
        try:
            return self._entries()
        except Exception:
            self._log(ERROR, f'bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')
            return []

    def _entries(self) -> list[StatusReport]:
        sources = self._sources
        if sources is None:
            return []
        link = sources.backend.status()
        now_ns = self._clock.now_ns()
        loss = self._loss.update(link.counters, link.queue.get('dropped_unread', 0), now_ns)
        entries = [link_entry(link.state, link.reason, {
            'transport': link.transport, 'transport_reason': link.transport_reason,
            'server': link.server, 'local': link.local,
            'state_since_s': f'{(now_ns - link.since_ns) / 1e9:.1f}',
            'sessions': link.sessions, 'failed_attempts': link.failures,
            'unexpected_peers_refused': link.unexpected_peers, **link.queue}, link.counters,
            loss, link.last_failure)]
        with self._lock:
            if self._sources is None:
                return []
            pipeline = self._sources.pipeline
            facts = facts_of_pipeline(pipeline, loss)
            facts.graph, facts.link = self.graph, link
            axes = sources.configuration.settings.axes
            facts.up_axis = axes.up_axis if axes.axes == 'enu' else axes.axes
            entries.append(clock_entry(
                pipeline.clock_status(), pipeline.ptp_minus_stamp_ns, of_entry('clock', facts),
                pipeline.config.stamps.latency_ms))
            entries.append(frames_entry(
                self.latency.work.percentiles(), self.latency.latency.percentiles(),
                self.latency.wait.percentiles(), pipeline.dropped, facts, RUNS))
            channels = pipeline.bodies
            self._twins.update(channels, now_ns)
        bodies = self.publish(channels)
        facts.bodies = tuple(body for body, _ in bodies)
        for line in problem_lines(self._log.repetition, of_log(facts), now_ns):
            self._log(line.severity, line.text, line.key)
        return entries + [entry for _, entry in bodies]
