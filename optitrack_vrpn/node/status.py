# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Report the state of the node on /diagnostics, and of each body on its status topic (REP 107).

If diagnostic_updater is installed, it publishes the diagnostics and has its usual parameters
(``diagnostic_updater.period``, ``diagnostic_updater.use_fqn``); otherwise a plain publisher does.
"""

import math
import secrets
import traceback
from typing import Any, Iterable, NamedTuple, Optional, Sequence, TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn import RUNS
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, INFO, STALE
from optitrack_vrpn.core.stats import Window
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.driver import Source
from optitrack_vrpn.drivers.table import own_settings
from optitrack_vrpn.node.base.managed_node import entry as diagnostic, StatusFields
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
from rclpy.node import Node

if TYPE_CHECKING:
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    from optitrack_vrpn.node.publishers import Publishers

#: Period (s) by the convention of REP 107.
PERIOD_S = 1.0
_PERIOD = 'diagnostic_updater.period'


class Diagnostics:
    """
    Publish entries on /diagnostics.

    :param node: creates the publisher; one instance per node, for its whole life.
    :ivar period_s: period of the entries (s): once a second, or that of the updater.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._hardware_id = ''
        self._updater: Any = None
        self._publisher: Any = None
        self.period_s = PERIOD_S

    def open(self, hardware_id: str) -> None:
        """
        Create the publisher.

        :param hardware_id: the server.
        :raises ConfigurationError: for a period that is no decimal from 0.01 to 3600.
        """
        self._hardware_id = hardware_id
        if self._publisher is not None:
            return
        # Not in the constructor: the client connects first.
        try:
            from diagnostic_updater import Updater
        except ImportError:
            self._publisher = self._node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        else:
            self._make_updater(Updater)

    def _make_updater(self, updater: Any) -> None:
        """Create the updater without its timer, and find the period."""
        given = given_at_start(self._node).get(_PERIOD, PERIOD_S)
        if self._node.has_parameter(_PERIOD):    # set by a user before the updater declares it
            given = self._node.get_parameter(_PERIOD).value
            self._node.undeclare_parameter(_PERIOD)
        if not isinstance(given, float) or not 0.01 <= given <= 3600.0:
            raise ConfigurationError(
                f'{_PERIOD} is {given!r}; allowed: a decimal number from 0.01 to 3600, as in 1.0 '
                '(s)')
        self._updater = updater(self._node, given)
        # A timer of the system clock stops for an hour when that clock is set back by an hour.
        self._updater.timer.cancel()
        self._publisher, self.period_s = self._updater.publisher, given

    @property
    def wanted(self) -> bool:
        """Return whether there are subscribers."""
        return bool(self._publisher.get_subscription_count())

    def fields(self, entry: StatusReport) -> StatusFields:
        """Return the fields of the message of one entry."""
        return (f'{self._node.get_name()}: {entry.subject}', entry.severity, entry.message,
                entry.values, self._hardware_id)

    def publish(self, entries: Iterable[StatusReport]) -> None:
        """Publish the messages of the entries."""
        statuses = [diagnostic(*self.fields(one)) for one in entries]
        if self._updater is not None:
            # Not as its tasks: it would announce each new one with level OK.
            for status in statuses:
                status.name = status.name.partition(': ')[2]    # it adds the node's name
            self._updater.publish(statuses)
            return
        message = DiagnosticArray(status=statuses)
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


#: The state of a body as it was published.
_Reported = tuple[BodyFacts, StatusReport]


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
        self._diagnostics = Diagnostics(node)
        self._loss = LossWindow()
        self._twins = Twins()
        self.graph = GraphFacts(node.get_fully_qualified_name())
        self._sources: Optional[_Sources] = None
        # Begin (ns) of the present part of a period, and what was reported in it.
        self._begun_ns = 0
        self._found: dict[TrackedBody, _Reported] = {}
        # Number of parts that have ended.
        self._parts = 0
        #: Distinguishes the statuses of this node from those of another one with its bodies.
        self._session = secrets.token_hex(4)
        self.active = False
        self.latency = LatencyStatistics()

    def open(self) -> None:
        """Begin to report; call it after ``observe``, before ``report``."""
        assert self._sources is not None
        settings = self._sources.configuration.settings
        self._loss, self._twins = LossWindow(), Twins()
        self._begun_ns, self._found, self._parts = self._clock.now_ns(), {}, 0
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

    @property
    def period_s(self) -> float:
        """Return the period of the reports (s)."""
        return self._diagnostics.period_s

    def report(
        self, bodies: Sequence[TrackedBody], changed: Sequence[TrackedBody], now_ns: int,
    ) -> None:
        """
        Publish the state of bodies on their own topics, and once a period all on /diagnostics.

        A period of more than a second is divided into parts of up to a second: in each part the
        state of each body is published once, and problems are logged.

        The bodies are spread over the part, and the lock is acquired for one at a time, so that
        no frame waits for a hundred messages. Their topics are latched, so they are also published
        without subscribers.

        :param bodies: all bodies.
        :param changed: those that have changed their state; the others follow in turn.
        :param now_ns: present time on the arrival clock (ns).
        """
        try:
            parts = math.ceil(self.period_s)
            part_ns = int(self.period_s * NS_PER_S) // parts
            elapsed_ns = now_ns - self._begun_ns
            share = len(bodies) * min(elapsed_ns, part_ns) // part_ns
            due = [body for body in bodies[:share] if body not in self._found]
            # Chosen: bodies that are reported together, so that the code of the report is in the
            # processor's caches: below a millisecond.
            if len(due) >= 5 or elapsed_ns >= part_ns:
                self._found.update(self._publish(due, bodies))
            if changed:
                # A body that has not been due yet is published again when it is.
                self._found.update({
                    body: reported for body, reported in self._publish(changed, bodies).items()
                    if body in self._found})
            if elapsed_ns >= part_ns:
                self._begun_ns += elapsed_ns // part_ns * part_ns
                found, self._found = self._found, {}
                self._parts += 1
                self._diagnose([found[body] for body in bodies if body in found], now_ns,
                               self._parts % parts == 0)
        except Exception:
            self._log(ERROR, f'bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')

    def _publish(
        self, channels: Sequence[TrackedBody], bodies: Sequence[TrackedBody],
    ) -> dict[TrackedBody, _Reported]:
        """Publish the state of some of all bodies; return what was reported of each."""
        found: dict[TrackedBody, _Reported] = {}
        fastest_hz = max((body.gate.rate_hz for body in bodies), default=0.0)
        host_minus_arrival_ns = self._clock.host_minus_arrival_ns()
        for channel in channels:
            with self._lock:
                sources = self._sources
                if sources is None:
                    break
                facts = facts_of_body(
                    channel, self._clock.now_ns(), self._twins.of(channel.names.motive))
                counts, config = channel.dispositions(), sources.pipeline.config
                settings = sources.configuration.settings
            # Without the lock: with caches that are cold it takes a tenth of a millisecond.
            entry = body_entry(
                channel.names.ros, facts, counts, host_minus_arrival_ns,
                channel.estimator.lowpass_delay_s, settings.expected_rate_hz, fastest_hz,
                channel.latency.percentiles(), config.max_age_s, settings.frames.world,
                channel.names.frames['body'])
            entry.values.update(
                node_state='active' if self.active else 'inactive', session=self._session)
            found[channel] = facts, entry
            with self._lock:
                if sources.publishers.status_wanted(channel):    # it is not retired meanwhile
                    sources.publishers.publish_status(channel, self._diagnostics.fields(entry))
        return found

    def retire(self, channels: Sequence[TrackedBody], reason: str) -> None:
        """Publish the last status of bodies, with the lock held."""
        if self._sources is None:    # configure has failed before
            return
        publishers = self._sources.publishers
        for channel in channels:
            if publishers.status_wanted(channel):
                publishers.publish_status(channel, self._diagnostics.fields(StatusReport(
                    f'body {channel.names.ros}', STALE, reason, {})))

    def _diagnose(self, bodies: Sequence[_Reported], now_ns: int, publish: bool) -> None:
        """Log the problems that begin and end, and publish all entries on /diagnostics if due."""
        sources = self._sources
        if sources is None:
            return
        link = sources.backend.status()
        loss = self._loss.update(link.counters, link.queue.get('dropped_unread', 0), now_ns)
        pipeline = sources.pipeline
        with self._lock:
            if self._sources is None:
                return
            facts = facts_of_pipeline(pipeline, loss)
            clock, ptp_minus_stamp_ns = pipeline.clock_status(), pipeline.ptp_minus_stamp_ns
            dropped = pipeline.dropped
            self._twins.update(pipeline.bodies, now_ns)
            axes = sources.configuration.settings.axes
        facts.graph, facts.link = self.graph, link
        facts.up_axis = axes.up_axis if axes.axes == 'enu' else axes.axes
        facts.bodies = tuple(of_body for of_body, _ in bodies)
        for line in problem_lines(self._log.repetition, of_log(facts), now_ns):
            self._log(line.severity, line.text, line.key)
        if publish and self._diagnostics.wanted:
            entries = (
                link_entry(link.state, link.reason, {
                    'transport': link.transport, 'transport_reason': link.transport_reason,
                    'server': link.server, 'local': link.local,
                    'state_since_s': f'{(now_ns - link.since_ns) / 1e9:.1f}',
                    'sessions': link.sessions, 'failed_attempts': link.failures,
                    'unexpected_peers_refused': link.unexpected_peers, **link.queue},
                    link.counters, loss, link.last_failure),
                clock_entry(
                    clock, ptp_minus_stamp_ns, of_entry('clock', facts),
                    pipeline.config.stamps.latency_ms),
                frames_entry(
                    self.latency.work.percentiles(), self.latency.latency.percentiles(),
                    self.latency.wait.percentiles(), dropped, facts, RUNS))
            self._diagnostics.publish([*entries, *(entry for _, entry in bodies)])
