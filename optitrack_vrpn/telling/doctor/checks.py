# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor: when each runs, its values for tools, and its result from the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import math
from typing import Final, NamedTuple

from optitrack_vrpn.core.checks import (
    CheckResult, cleaned, join_sentences, joined, Value)
from optitrack_vrpn.core.findings import find, Finding, merge
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.driver import ServerFacts
from optitrack_vrpn.drivers.vrpn.codec import CONTROL_SENDER
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.types import UNIX_EPOCH
from optitrack_vrpn.telling.doctor.graph import GRAPH_RULES
from optitrack_vrpn.telling.doctor.natnet import NATNET_RULES
from optitrack_vrpn.telling.doctor.reach import REACH_RULES
from optitrack_vrpn.telling.doctor.results import ProbeResults, WatchedStream
from optitrack_vrpn.telling.doctor.rules import (
    DoctorRule, FIRST_OF_DATA, ROUTE_RULES, STREAM_RULES)
from optitrack_vrpn.telling.doctor.vrpn import VRPN_RULES

Values = dict[str, Value]
#: All rows of the doctor, in the order in which a check reports them.
DOCTOR_RULES: Final[tuple[DoctorRule, ...]] = (
    *ROUTE_RULES, *FIRST_OF_DATA, *VRPN_RULES, *NATNET_RULES, *STREAM_RULES, *GRAPH_RULES,
    *REACH_RULES)
#: Chosen: findings of a check, and their length, so that a report stays readable.
_MOST, _ROOM = 6, 800


class Check(NamedTuple):
    """
    A check.

    :ivar stage: the stage after whose probes it runs.
    :ivar name: its name, that of its rows.
    :ivar values: its values for tools.
    """

    stage: str
    name: str
    values: Callable[[ProbeResults], Values] = lambda probed: {}

    def run(self, probed: ProbeResults) -> CheckResult:
        """Find what its rows say of the facts."""
        found = find([rule for rule in DOCTOR_RULES if rule.check == self.name], probed)
        return result_of(self.name, found, self.values(probed))


def result_of(check: str, found: Sequence[Finding], values: Values) -> CheckResult:
    """Make the result of a check of what was found: the worst severity, and all remedies."""
    found = merge(found)
    severity = max((one.severity for one in found), default=INFO)
    skipped = any(one.rule.skips for one in found)
    return cleaned(CheckResult(
        check, None if skipped else severity, joined(
            [with_time(one) for one in found] or ['nothing is wrong'], _MOST, _ROOM),
        join_sentences(one.remedy for one in found if one.remedy),
        {} if skipped else values))


def with_time(found: Finding) -> str:
    """Write a finding with the time of its begin, if that is known."""
    begin = f' (first after {found.begin_s:.1f} s)' if math.isfinite(found.begin_s) else ''
    return found.text + begin


def _name(probed: ProbeResults) -> Values:
    return {'address': probed.place.address} if probed.addresses else {}


def _route(probed: ProbeResults) -> Values:
    return {'local': probed.local, 'card': probed.card} if probed.local else {}


def _attempt(protocol: str, way: str) -> Callable[[ProbeResults], Values]:
    """Return the values of an attempt to connect."""
    def values(probed: ProbeResults) -> Values:
        tried = probed.tried.get(protocol)
        attempt = tried.attempts.get(way) if tried is not None else None
        return {} if attempt is None else {
            'outcome': attempt.outcome.value, 'took_s': round(attempt.took_s, 4)}
    return values


def _version(protocol: str) -> Callable[[ProbeResults], Values]:
    def values(probed: ProbeResults) -> Values:
        tried = probed.tried.get(protocol)
        return {} if tried is None else {
            'answered': tried.answered, 'version': tried.stream.link.known.stated_version}
    return values


def _senders(probed: ProbeResults) -> Values:
    known = probed.tried['vrpn'].stream.link.known if 'vrpn' in probed.tried else ServerFacts()
    return {'count': len(set(known.senders) - {CONTROL_SENDER}),
            'answer_pings': sum(known.senders.values()), 'send_poses': len(probed.seen.bodies)}


def _natnet_clock(probed: ProbeResults) -> Values:
    stream = probed.tried['natnet'].stream if 'natnet' in probed.tried else WatchedStream()
    return {'echoes': stream.counters.get('echoes', 0),
            'processing_ms': 1e3 * stream.processing_s,
            'round_trip_ms': _figure(1e3 * stream.link.known.round_trip_s)}


def _data(probed: ProbeResults) -> Values:
    stream = probed.seen
    values: Values = {'poses': stream.poses, 'transport': stream.link.transport,
                      'listened_s': round(stream.listened_s, 3)}
    if stream.first_pose_s is not None:
        values['first_pose_s'] = round(stream.first_pose_s, 4)
    tried = probed.tried.get(probed.by)
    if not stream.poses and tried is not None and tried.by_tcp is not None:
        values['tcp_poses'] = tried.by_tcp.poses
    if stream.more_bodies or any(stream.ignored.values()):
        values.update(stream.ignored)
    return values | {
        name: stream.counters[name] for name in ('udp_lost', 'udp_reordered', 'udp_repeated')
        if stream.counters.get(name)}


def _also(probed: ProbeResults) -> Values:
    return {'poses': sum(one.poses for one in probed.also.values()),
            'protocol': ', '.join(probed.also)}


def _rate(probed: ProbeResults) -> Values:
    rate = probed.seen.rate
    values: Values = {'rate_hz': round(rate.fastest_hz, 2)}
    if rate.unsent:
        values['missing_share'] = round(rate.unsent, 4)
    return values | ({'slow_bodies': len(rate.slow)} if rate.slow else {})


def _bodies(probed: ProbeResults) -> Values:
    bodies = probed.seen.bodies
    bad = [body for body in bodies if body.state is not State.TRACKED]
    return {'tracked': len(bodies) - len(bad), 'not_tracked': len(bad), **{
        f'state of {printable(body.name, 48)}': body.state.value for body in bad[:20]}}


def _axes(probed: ProbeResults) -> Values:
    return {'up_axis': probed.lifted_up} if probed.lifted_up else {}


def _stamps(probed: ProbeResults) -> Values:
    stream = probed.seen
    base = stream.clock.sender_base if stream.clock is not None else ''
    values: Values = {'base': base, 'sender_time_s': round(stream.newest_sender_ns / 1e9, 6)}
    return values | ({'ahead_s': _figure(stream.ahead_s)} if base == UNIX_EPOCH else {})


def _clock(probed: ProbeResults) -> Values:
    clock = probed.seen.clock
    return {} if clock is None else {
        'offset_s': round(clock.offset_ns / 1e9, 9), 'frames': clock.samples,
        'jitter_p99_s': _figure(clock.jitter_p99_s), 'uncertainty_s': _figure(clock.uncertainty_s)}


def _figure(value: float) -> Value:
    return round(value, 9) if math.isfinite(value) else None


def _qos(probed: ProbeResults) -> Values:
    return {'topics': sum(node.topics for node in probed.nodes),
            'subscriptions': sum(node.subscribers for node in probed.nodes),
            'mismatches': sum(len(node.mismatches) for node in probed.nodes)}


def _lifecycle(probed: ProbeResults) -> Values:
    return {f'state of {printable(node.name)}': node.state for node in probed.nodes[:20]}


#: The checks in their order.
CHECKS: Final = (
    Check('name', 'name', _name),
    Check('route', 'route', _route),
    Check('protocol', 'udp', _attempt('vrpn', 'udp')),
    Check('protocol', 'connect-back', _attempt('vrpn', 'udp')),
    Check('protocol', 'tcp', _attempt('vrpn', 'tcp')),
    Check('protocol', 'handshake', _version('vrpn')),
    Check('protocol', 'senders', _senders),
    Check('protocol', 'natnet', _version('natnet')),
    Check('protocol', 'natnet-clock', _natnet_clock),
    Check('stream', 'data', _data),
    Check('stream', 'rate', _rate),
    Check('stream', 'bodies', _bodies),
    Check('stream', 'axes', _axes),
    Check('stream', 'stamps', _stamps),
    Check('stream', 'clock', _clock),
    Check('graph', 'qos', _qos),
    Check('graph', 'publishers', lambda probed: {'shared': len({
        topic for node in probed.nodes for topic in node.conflicting})}),
    Check('graph', 'frames', lambda probed: {
        'frames': len(probed.graph.parents) if probed.graph is not None else 0}),
    Check('graph', 'published', lambda probed: {
        'active': sum(node.heard is not None for node in probed.nodes),
        'silent': sum(node.heard == 0 for node in probed.nodes)}),
    Check('graph', 'lifecycle', _lifecycle),
    Check('graph', 'shell'),
    Check('graph', 'reach'),
    Check('graph', 'settings'),
)
#: The check of protocols that answer beside that of the stream.
ALSO: Final = Check('', 'also', _also)
