# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the path to the server, and the stream: poses, rates, bodies, axes, stamps, clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
import math
from typing import Optional

from optitrack_vrpn.core.checks import (
    CheckResult, fail, join_sentences, joined, listed, ok, skip, Value, warn)
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.drivers.frames import Frame, Item, Vector
from optitrack_vrpn.drivers.table import AUTO, title
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.types import UNIX_EPOCH
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import body_name, TrackedBody
from optitrack_vrpn.telling.doctor.results import Lift, ProbeResults, WatchedStream
from optitrack_vrpn.telling.facts import facts_of_pipeline, Observation, RateFacts, Twins
from optitrack_vrpn.telling.findings import Finding, merge
from optitrack_vrpn.telling.rules import of_check


def check_data(probed: ProbeResults) -> CheckResult:
    """Check whether poses arrive, and how soon."""
    stream = probed.stream
    if stream is None:
        return skip('data', 'no data was received')
    values: dict[str, Value] = {
        'poses': stream.poses, 'transport': stream.transport,
        'listened_s': round(stream.listened_s, 3)}
    if stream.silence is not None:
        return stream.silence._replace(values={**values, **stream.silence.values})
    first_s = stream.first_pose_s or 0.0
    values['first_pose_s'] = round(first_s, 4)
    found = (
        f'{counted(stream.poses, "pose")} of {counted(len(stream.bodies), "body")} by '
        f'{stream.transport.upper()} in {stream.listened_s:.1f} s, the first after '
        f'{first_s * 1e3:.0f} ms{"".join(f"; {text}" for text in stream.texts)}')
    if stream.more_bodies or any(stream.ignored.values()):
        values.update(stream.ignored)
    values.update({
        name: stream.counters[name] for name in ('udp_lost', 'udp_reordered', 'udp_repeated')
        if stream.counters.get(name)})
    return results_of('data', of_check('data', stream), values, found)


def check_also(probed: ProbeResults, protocol: str, other: WatchedStream) -> CheckResult:
    """Report what arrives by a protocol that answers too, beside the one of the stream."""
    bodies = {body.name for body in probed.stream.bodies} if probed.stream else set()
    others = {body.name for body in other.bodies}
    used = title(probed.by)
    found = (f'{title(protocol)} answers too: {counted(other.poses, "pose")} of '
             f'{counted(len(others), "body")} by {other.transport.upper()} in '
             f'{other.listened_s:.1f} s; the checks below are of {used}')
    if other.silence is not None:
        found += f'; {other.silence.found}'
    elif bodies ^ others:
        found += '; ' + ', '.join(
            f'only by {title(name)}: {listed(sorted(rest))}' for name, rest in (
                (probed.by, bodies - others), (protocol, others - bodies)) if rest)
    return ok('also', found, poses=other.poses, protocol=protocol)


def check_rate(probed: ProbeResults) -> CheckResult:
    """Check the frame rate of the bodies."""
    stream = probed.established
    if stream is None or not stream.rates:
        return skip('rate', 'too few poses')
    rates = stream.rates
    fastest = max(rates.values())
    values: dict[str, Value] = {'rate_hz': round(fastest, 2)}
    found = of_check('rate', replace(stream, rate=RateFacts(
        rates, probed.expected_rate_hz, unsent=stream.unsent_share)))
    if stream.unsent_share:
        values['missing_share'] = round(stream.unsent_share, 4)
    if found:
        values['slow_bodies'] = len(found[0].bodies)
    return results_of('rate', found, values, f'{fastest:.1f} Hz')


def check_bodies(probed: ProbeResults) -> CheckResult:
    """Check whether bodies are seen, as the node would."""
    stream = probed.established
    if stream is None or not stream.bodies:
        return skip('bodies', 'no body sent a pose')
    found = of_check('bodies', stream)
    if any(not one.bodies for one in found):    # of all bodies: it explains theirs
        return results_of('bodies', found, {})
    bad = [body for body in stream.bodies if body.state is not State.TRACKED]
    faulty = {name for one in found for name in one.bodies}
    good = len(stream.bodies) - len(bad)
    values: dict[str, Value] = {
        'tracked': good, 'not_tracked': len(bad), 'with_faults': len(faulty)}
    for body in bad[:20]:
        values[f'state of {printable(body.name, 48)}'] = body.state.value
    if not found:
        return ok('bodies', f'{good} tracked', **values)
    lines = [with_time(one) for one in merge(found)]
    lines += [f'{printable(body.name, 100)!r} came back {_times(body.returns)}'
              for body in stream.bodies if body.returns and body.name in faulty]
    shown = joined(lines, room=800)
    advice = join_sentences(one.remedy for one in found)
    if good or any(body.returns for body in bad):
        return warn('bodies', f'{good or "none"} tracked at the end, {"and" if bad else "but"} '
                    f'{shown}', advice, **values)
    return fail('bodies', f'none is tracked, so that the node publishes none: {shown}', advice,
                **values)


def check_axes(probed: ProbeResults) -> CheckResult:
    """Check which axis is up; only a body that the user lifted shows that."""
    stream = probed.established
    if stream is None or not stream.bodies:
        return skip('axes', 'no body sent a pose')
    if stream.lifts is None:
        return skip('axes', 'run with --lift and lift a body to learn which axis is up')
    again = 'run with --lift again and lift one body straight up by half a metre, in view'
    if not stream.lifts:
        return warn('axes', 'no body was tracked during the lift', again)
    lift = max(stream.lifts, key=lambda one: one.length)
    name = repr(printable(lift.body, 48))
    # Smallest displacement of a lift (m). Chosen: above noise and accidental motion.
    if lift.length < 0.1:
        return warn('axes', f'nothing was lifted: {name} moved most, by {lift.length:.3f} m',
                    again)
    sizes = [abs(value) for value in lift.displacement]
    axis = sizes.index(max(sizes))
    letter, along = 'xyz'[axis], lift.displacement[axis]
    moved = f'{name} moved by {along:+.2f} m along {letter}'
    # Largest displacement along another axis, relative to the lift. Chosen: 27 degrees off
    # vertical.
    if sorted(sizes)[1] > 0.5 * sizes[axis]:
        shown = ', '.join(f'{value:+.2f}' for value in lift.displacement)
        return warn('axes', f'{name} moved diagonally, by x, y, z = {shown} m', again)
    if letter == 'x':
        return warn('axes', f'{moved}, which is never up in Motive', again)
    if along < 0:
        return warn('axes', f'{moved}, downwards', again)
    return ok('axes', f'{moved}: set up_axis: {letter}', up_axis=letter)


def check_stamps(probed: ProbeResults) -> CheckResult:
    """Check the epoch of the sender's times."""
    stream = probed.established
    clock = stream.clock if stream else None
    if stream is None or clock is None or not clock.samples:
        return skip('stamps', 'no pose with a time')
    seconds = stream.newest_sender_ns / 1e9
    values: dict[str, Value] = {'base': clock.sender_base, 'sender_time_s': round(seconds, 6)}
    found = of_check('stamps', stream)
    if found:
        return results_of('stamps', found, values)
    if clock.sender_base == UNIX_EPOCH:
        values['ahead_s'] = round(stream.ahead_s, 6)
        return ok('stamps', 'sender times count from the Unix epoch, '
                  f"{stream.ahead_s:+.3f} s from this host's clock", **values)
    return ok('stamps', "sender times count from the sender's start, "
              f'{_ago(seconds)} ago', **values)


def check_clock(probed: ProbeResults) -> CheckResult:
    """Check offset and jitter of the node's clock estimate."""
    stream = probed.established
    clock = stream.clock if stream else None
    if stream is None or clock is None or not (
            clock.samples or clock.withheld or clock.sender_fault):
        return skip('clock', 'no pose with a time')
    values: dict[str, Value] = {
        'offset_s': round(clock.offset_ns / 1e9, 9), 'frames': clock.samples,
        'jitter_p99_s': _figure(clock.jitter_p99_s), 'uncertainty_s': _figure(clock.uncertainty_s)}
    found = (
        f'host time is sender time {clock.offset_ns / 1e9:+.6f} s; arrivals lag by up to '
        f'{clock.jitter_p99_s * 1e3:.2f} ms (99 %), over {counted(clock.samples, "frame")}')
    return results_of('clock', of_check(
        'clock', replace(stream, loopback=probed.place.loopback)), values, found)


def _ago(seconds: float) -> str:
    return f'{seconds:.1f} s' if seconds < 600 else f'{seconds / 3600:.2f} hours'


def _figure(value: float) -> Value:
    return round(value, 9) if math.isfinite(value) else None


def results_of(
    check: str, found: Sequence[Finding], values: dict[str, Value], prefix: str = '',
) -> CheckResult:
    """Make one result of findings; without any it is OK."""
    found = merge(found)
    text = '; '.join([*([prefix] if prefix else []), *map(with_time, found)])
    if all(one.severity is INFO for one in found):
        return ok(check, text, **values)
    result = fail if any(one.severity is ERROR for one in found) else warn
    return result(check, text, join_sentences(one.remedy for one in found), **values)


def with_time(found: Finding) -> str:
    """Write a finding with the time of its begin, if that is known."""
    begin = f' (first after {found.begin_s:.1f} s)' if math.isfinite(found.begin_s) else ''
    return found.text + begin


def _times(count: int) -> str:
    return {1: 'once', 2: 'twice'}.get(count, f'{count} times')


def check_name(probed: ProbeResults) -> CheckResult:
    """Check the name resolution."""
    if not probed.server:
        return fail('name', 'no server is named, and no running node from which to take it',
                    'give --server HOST')
    if probed.name_error:
        return fail('name', probed.name_error,
                    "give the Motive PC's IPv4 address as server (ipconfig shows it there)")
    if not probed.addresses:
        return skip('name', 'not resolved')
    address = probed.place.address
    if len(probed.addresses) > 1:
        return warn(
            'name', f'{probed.server!r} has several addresses: {listed(probed.addresses)}; '
            f'{address} is checked',
            'give the one in the network of the cameras; the node tries them in turn',
            address=address)
    if address.startswith('127.') and probed.server not in (address, 'localhost', AUTO):
        return warn(
            'name', f'{probed.server!r} is {address}, which is this machine',
            'if Motive runs on another machine, correct /etc/hosts or give its address',
            address=address)
    own = ', this machine' if address.startswith('127.') else ''
    found = address if probed.server == address else f'{probed.server!r} is {address}'
    return ok('name', found + own, address=address)


def check_route(probed: ProbeResults) -> CheckResult:
    """Check the route and the local address."""
    if probed.route_error.startswith('interface '):
        return fail('route', probed.route_error,
                    'give one of its addresses or network cards: ip -br address lists them')
    if probed.route_error:
        found, _, advice = probed.route_error.partition(': ')
        return fail('route', found, advice or 'look at ip addr and ip route')
    if not probed.local:
        return skip('route', 'no address')
    place = probed.place
    card = f' ({place.card})' if place.card else ''
    if place.loopback and not place.address.startswith('127.'):
        return warn(
            'route', f'{place.address} is this computer',
            'if Motive runs on another computer, give the address of that one',
            local=place.local, card=place.card)
    return ok('route', f'from {place.local}{card} to {place.address}',
              local=place.local, card=place.card)


class Watch:
    """
    Receive the frames of one connection, in bounded memory.

    The node's pipeline with default settings validates bodies and makes stamps. It accepts a
    longer silence, because a delay of this machine does not mean a body out of view.

    :param stream: receives the results.
    :ivar first_pose_ns: arrival of the first pose (ns).
    :ivar last_pose_ns: arrival of the last (ns).
    :ivar taken_ns: when poses were first not withheld by the clock (ns); None before.
    :ivar lifting: whether displacements are measured.
    """

    def __init__(self, stream: WatchedStream) -> None:
        self._stream = stream
        self.first_pose_ns: Optional[int] = None
        self.last_pose_ns = 0
        self.taken_ns: Optional[int] = None
        self.lifting = False
        # Chosen: silence (s) that makes a body STALE here; the node's 0.1 s is within the delays
        # of a busy computer that runs the doctor.
        self._pipeline = Pipeline(PipelineConfig(body=BodyConfig(stale_min_s=0.5)))
        self._pipeline.reconnected()    # as the node does before its first connection
        self._observation = Observation(500)    # bodies, as many as the node has
        self._twins = Twins()
        self._from: dict[str, Vector] = {}
        self._lifts: dict[str, Lift] = {}

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process the items of one datagram or one read of the stream; see ``Sink``."""
        stream = self._stream
        for frame in items:
            if not isinstance(frame, Frame) or not frame.bodies:
                continue
            if self.first_pose_ns is None:
                self.first_pose_ns = arrival_ns
            self.last_pose_ns = arrival_ns
            stream.newest_sender_ns = frame.sender_time_ns
            stream.processing_s = frame.processing_ns / 1e9
            stream.ahead_s = (frame.sender_time_ns - arrival_ns - host_minus_arrival_ns) / 1e9
            stream.poses += len(frame.bodies)
            for body in frame.bodies:
                self._observation.add(
                    body_name(body.name, body.sensor), body.sender_time_ns, body.position,
                    body.quat_xyzw)
        samples = self._pipeline.process(items, arrival_ns, host_minus_arrival_ns).samples
        if self.lifting:
            for sample in samples:
                self._follow(sample.channel)
        for reported in self._pipeline.take_events():
            if reported.text.startswith('the server says') and len(stream.texts) < 5:
                stream.texts += (reported.text,)
        self._note_changes()

    def tick(self, now_ns: int) -> None:
        """Detect silent bodies; call it ten times a second, like the node."""
        self._pipeline.tick(now_ns)
        if self.taken_ns is None and self.first_pose_ns is not None and (
                not self._pipeline.clock_status().withheld):
            self.taken_ns = now_ns
        self._twins.update(self._pipeline.bodies, now_ns)
        self._note_changes()
        for channel in self._pipeline.bodies:
            if channel.gate.swapped_with:
                self._observation.exchanged(
                    channel.names.motive, channel.gate.swapped_with)

    def begin_lift(self) -> None:
        """Start to measure displacements, from the present positions."""
        self.lifting = True
        for channel in self._pipeline.bodies:
            self._follow(channel)

    def _note_changes(self) -> None:
        """Note the bodies that changed their state."""
        for change in self._pipeline.take_state_changes():
            self._observation.changed(change.body, change.after)

    def _follow(self, channel: TrackedBody) -> None:
        good = channel.gate.hypotheses.last_good
        if good is None:
            return
        name, position = channel.names.motive, good[1]
        start = self._from.setdefault(name, position)
        moved = Lift(name, (
            position[0] - start[0], position[1] - start[1], position[2] - start[2]))
        largest = self._lifts.setdefault(name, moved)
        if moved.length > largest.length:
            self._lifts[name] = moved

    def fill(self, now_ns: int) -> None:
        """Write the results that are known only at the end."""
        self.tick(now_ns)
        stream = self._stream
        pipeline = self._pipeline
        self._observation.fill(stream, pipeline.bodies, now_ns, self._twins)
        facts_of_pipeline(pipeline, facts=stream)
        stream.lifts = tuple(self._lifts.values()) if self.lifting else None
