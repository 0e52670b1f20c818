# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the doctor finds on the way to the server and in its stream, beside the rows of a stream.

The rows of ``telling.rules`` that name a check are used with the facts that the doctor has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.findings import Case, case, rows_of, Rule
from optitrack_vrpn.core.names import Counted
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.table import AUTO, title, using
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.types import UNIX_EPOCH
from optitrack_vrpn.telling import rules
from optitrack_vrpn.telling.conditions import texts
from optitrack_vrpn.telling.doctor.results import Lift, ProbeResults, Tried
from optitrack_vrpn.telling.facts import StreamFacts

DoctorRule = Rule[ProbeResults]
Condition = Callable[[ProbeResults], Iterable[Case]]

#: An address that no computer of the local network has, and the remedy.
UNUSED = ('no computer in the network of {card} has the address {address}',
          'is the Motive PC on, is its cable in, and is this its address?')
_AGAIN = 'run with --lift again and lift one body straight up by half a metre, in view'


def skip(when: Condition, text: str) -> DoctorRule:
    """Make the row of a reason why a check is not made."""
    return Rule('skipped', INFO, when, text, '', skips=True)


def of_protocol(name: str, check: str, *rows: DoctorRule) -> tuple[DoctorRule, ...]:
    """Return the rows of a check of a protocol; the first one that applies decides."""
    def figures(probed: ProbeResults) -> dict[str, object]:
        return {'title': title(name), 'protocol': probed.protocol,
                'other': ' and '.join(map(title, probed.answering))}

    def tried(met: Callable[[ProbeResults, Tried], object]) -> Condition:
        return lambda probed: case(met(probed, probed.tried[name]), **figures(probed))
    return rows_of(
        check,
        skip(lambda probed: case(not probed.local, **figures(probed)),
             'there is no route to the server (protocol {protocol})'),
        skip(lambda probed: case(name not in probed.tried, **figures(probed)),
             '{title} is not checked (protocol {protocol})'),
        skip(tried(lambda probed, one: not one.wanted and not one.answered),
             '{title} does not answer either (protocol {protocol})'),
        # The node tries several (auto); usually only one of them is switched on.
        skip(tried(lambda probed, one: one.wanted and not one.answered and any(
            probed.tried[other].wanted for other in probed.answering)),
             '{title} does not answer; the node uses {other}'),
        *rows, decide=True)


def other_protocol(name: str) -> DoctorRule:
    """Return the row of a protocol that answers in place of the one that the node uses."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        one, others = probed.tried[name], probed.answering
        if one.wanted and not one.answered and others:
            yield Case((), {
                'title': title(name), 'other': title(others[0]), 'error': one.stream.ended,
                'values': ' or '.join(using(others[0]))})
    return Rule('other protocol', ERROR, when, '{other} answers, and {title} does not ({error})',
                'set protocol: {values}')


def silent(name: str, *rows: DoctorRule) -> tuple[DoctorRule, ...]:
    """Return the rows of a server that sends no pose; the first one that applies decides."""
    def only(when: Condition) -> Condition:
        return lambda probed: when(probed) if (
            probed.by == name and probed.stream is not None and not probed.stream.poses) else ()
    return rows_of('data', *(rule.by(only(rule.when)) for rule in rows), decide=True)


def _of_stream(when: Callable[[StreamFacts], Iterable[Case]]) -> Condition:
    """Return the condition of a rule of the stream for the facts of the doctor."""
    return lambda probed: when(probed.seen)


def _stream_rows(check: str) -> tuple[DoctorRule, ...]:
    """
    Return the rows of a stream for a check.

    A body that is not tracked prevents no pose of the others: that none is has a row of its own.
    """
    return tuple(
        replace(rule.by(_of_stream(rule.when)), severity=(
            WARN if check == 'bodies' and rule.code != 'one time' else rule.severity))
        for rule in rules.RULES if rule.check == check)


# -- conditions -----------------------------------------------------------------------------------
def _received(probed: ProbeResults) -> tuple[Case, ...]:
    stream = probed.seen
    return case(
        True, poses=Counted.of(stream.poses, 'pose'), transport=stream.link.transport,
        bodies=Counted.of(len(stream.bodies), 'body'), listened_s=stream.listened_s,
        first_ms=(stream.first_pose_s or 0.0) * 1e3)


def split(error: str, otherwise: str = 'check the address and the cable') -> dict[str, object]:
    """Split the text of an error into finding and advice: figures of a row."""
    found, _, advice = error.partition(': ')
    return {'found': found, 'advice': advice or otherwise}


def _tracked(probed: ProbeResults) -> tuple[int, int, bool]:
    """Return how many bodies are tracked, how many are not, and whether one of these was."""
    bad = [body for body in probed.seen.bodies if body.state is not State.TRACKED]
    return len(probed.seen.bodies) - len(bad), len(bad), any(body.returns for body in bad)


def _none_tracked(probed: ProbeResults) -> tuple[Case, ...]:
    good, bad, was_seen = _tracked(probed)
    return case(bad and not good and not was_seen)


def _returned(probed: ProbeResults) -> Iterator[Case]:
    for body in probed.seen.bodies:
        if body.returns:
            yield Case((body.name,), {'subject': body.name, 'times': {
                1: 'once', 2: 'twice'}.get(body.returns, f'{body.returns} times')})


def _lifted(met: Callable[[Lift], bool]) -> Condition:
    """Make the condition of a lift."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        lift = probed.lift
        if lift is not None and met(lift):
            yield Case((lift.body,), {
                'length': lift.length, 'along': lift.along, 'axis': lift.axis,
                'up_axis': lift.axis,
                'by': ', '.join(f'{value:+.2f}' for value in lift.displacement)})
    return when


def _clocks(*, epoch: bool) -> Condition:
    """Make the condition of sender times that count from the Unix epoch, or from a start."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        stream = probed.seen
        seconds = stream.newest_sender_ns / 1e9
        if stream.clock is not None and (stream.clock.sender_base == UNIX_EPOCH) is epoch:
            yield Case((), {'ahead_s': stream.ahead_s, 'age': (
                f'{seconds:.1f} s' if seconds < 600 else f'{seconds / 3600:.2f} hours')})
    return when


def _estimate(probed: ProbeResults) -> Iterator[Case]:
    clock = probed.seen.clock
    if clock is not None:
        yield Case((), {'offset_s': clock.offset_ns / 1e9, 'jitter_ms': clock.jitter_p99_s * 1e3,
                        'frames': Counted.of(clock.samples, 'frame')})


def _also(probed: ProbeResults) -> Iterator[Case]:
    """Find protocols that answer beside that of the stream."""
    for name, stream in probed.also.items():
        yield Case((), {
            'subject': name, 'protocol': title(name), 'used': title(probed.by),
            'poses': Counted.of(stream.poses, 'pose'), 'listened_s': stream.listened_s,
            'bodies': Counted.of(len(stream.bodies), 'body'),
            'transport': stream.link.transport})


def _only_by(probed: ProbeResults) -> Iterator[Case]:
    """Find bodies that one protocol sends and another that sends poses does not."""
    here = {body.name for body in probed.seen.bodies}
    for name, stream in probed.also.items():
        there = {body.name for body in stream.bodies}
        for by, rest in ((probed.by, here - there), (name, there - here)):
            if stream.poses and rest:
                yield Case(tuple(sorted(rest)), {'subject': by, 'protocol': title(by)})


# -- rows -----------------------------------------------------------------------------------------
ROUTE_RULES: Final[tuple[DoctorRule, ...]] = (
    *rows_of(
        'name', Rule(
            'no server', ERROR, lambda probed: case(not probed.server),
            'no server is named, and no running node from which to take it', 'give --server HOST'),
        Rule('no address', ERROR, lambda probed: case(probed.name_error, error=probed.name_error),
             '{error}', "give the Motive PC's IPv4 address as server (ipconfig shows it there)"),
        skip(lambda probed: case(not probed.addresses), 'not resolved'),
        Rule('several addresses', WARN, lambda probed: case(
            len(probed.addresses) > 1, server=probed.server, addresses=listed(probed.addresses),
            address=probed.place.address),
             '{server!r} has several addresses: {addresses}; {address} is checked',
             'give the one in the network of the cameras; the node tries them in turn'),
        Rule('own name', WARN, lambda probed: case(
            probed.place.local_host and probed.server not in (
                probed.place.address, 'localhost', AUTO),
            server=probed.server, address=probed.place.address),
             '{server!r} is {address}, which is this machine',
             'if Motive runs on another machine, correct /etc/hosts or give its address'),
        Rule('address', INFO, lambda probed: case(
            True, name='' if probed.server == probed.place.address else f'{probed.server!r} is ',
            address=probed.place.address, own=', this machine' * probed.place.local_host),
             '{name}{address}{own}', ''), decide=True),
    *rows_of(
        'route', Rule(
            'no interface', ERROR, lambda probed: case(
                probed.route_error.startswith('interface '), error=probed.route_error),
            '{error}', 'give one of its addresses or network cards: ip -br address lists them'),
        Rule('no route', ERROR, lambda probed: case(
            probed.route_error, **split(probed.route_error, 'look at ip addr and ip route')),
             '{found}', '{advice}'),
        skip(lambda probed: case(not probed.local), 'no address'),
        Rule('own address', WARN, lambda probed: case(
            probed.place.loopback and not probed.place.local_host, address=probed.place.address),
             '{address} is this computer',
             'if Motive runs on another computer, give the address of that one'),
        Rule('route', INFO, lambda probed: case(
            True, local=probed.local, card=probed.card or 'an unknown card',
            address=probed.place.address), 'from {local} on {card} to {address}', ''),
        decide=True))

STREAM_RULES: Final[tuple[DoctorRule, ...]] = (
    *rows_of(
        'data', Rule('no pose', ERROR, lambda probed: case(
            not probed.seen.poses, found=probed.seen.ended or 'no pose arrived'), '{found}',
                     'does the server send, and to this computer and port?',
                     explains=('data',)),
        Rule('received', INFO, _received, '{poses} of {bodies} by {transport} in '
             '{listened_s:.1f} s, the first after {first_ms:.0f} ms', ''),
        *_stream_rows('data')),
    *rows_of(
        'also', Rule('answers too', INFO, _also,
                     '{protocol} answers too: {poses} of {bodies} by {transport} in '
                     '{listened_s:.1f} s; the checks below are of {used}', ''),
        Rule('only by', INFO, _only_by, 'only by {protocol}: {bodies}', '')),
    *rows_of(
        'rate', skip(lambda probed: case(not probed.seen.rates), 'too few poses'),
        Rule('rate', INFO, lambda probed: case(
            True, rate_hz=probed.seen.rate.fastest_hz), '{rate_hz:.1f} Hz', ''),
        *_stream_rows('rate')),
    *rows_of(
        'bodies', skip(lambda probed: case(not probed.seen.bodies), 'no body sent a pose'),
        *(rule for rule in _stream_rows('bodies') if rule.code == 'one time'),
        Rule('of a take', ERROR, lambda probed: case(
            probed.seen.link.known.played == 'withheld'),
             'none is published: Motive plays a take (edit mode)',
             'switch Motive to live mode, or set natnet.playback: true', explains=('bodies',)),
        Rule('none tracked', ERROR, _none_tracked,
             'none is tracked, so that the node publishes none',
             'does Motive itself show one of them as tracked?', explains=('tracked',)),
        Rule('tracked', INFO, lambda probed: case(True, tracked=_tracked(probed)[0]),
             '{tracked} tracked at the end', ''),
        *(rule for rule in _stream_rows('bodies') if rule.code != 'one time'),
        Rule('came back', INFO, _returned, '{bodies} came back {times}', '')),
    *rows_of(
        'axes', skip(lambda probed: case(not probed.seen.bodies), 'no body sent a pose'),
        skip(lambda probed: case(probed.seen.lifts is None),
             'run with --lift and lift a body to learn which axis is up'),
        Rule('no lift', WARN, lambda probed: case(not probed.seen.lifts),
             'no body was tracked during the lift', _AGAIN),
        Rule('nothing lifted', WARN, _lifted(lambda lift: lift.short),
             'nothing was lifted: {bodies} moved most, by {length:.3f} m', _AGAIN),
        Rule('oblique lift', WARN, _lifted(lambda lift: lift.oblique),
             '{bodies} moved diagonally, by x, y, z = {by} m', _AGAIN),
        Rule('lift along x', WARN, _lifted(lambda lift: lift.axis == 'x'),
             '{bodies} moved by {along:+.2f} m along {axis}, which is never up in Motive', _AGAIN),
        Rule('downwards', WARN, _lifted(lambda lift: lift.along < 0.0),
             '{bodies} moved by {along:+.2f} m along {axis}, downwards', _AGAIN),
        Rule('up', INFO, _lifted(lambda lift: True),
             '{bodies} moved by {along:+.2f} m along {up_axis}: set up_axis: {up_axis}', ''),
        decide=True),
    *rows_of(
        'stamps', skip(lambda probed: case(not probed.seen.timed), 'no pose with a time'),
        *_stream_rows('stamps'),
        Rule('epoch', INFO, _clocks(epoch=True), 'sender times count from the Unix epoch, '
             "{ahead_s:+.3f} s from this host's clock", ''),
        Rule('start', INFO, _clocks(epoch=False),
             "sender times count from the sender's start, {age} ago", '')),
    *rows_of(
        'clock', skip(lambda probed: case(not probed.seen.timed), 'no pose with a time'),
        Rule('estimate', INFO, _estimate, 'host time is sender time {offset_s:+.6f} s; arrivals '
             'lag by up to {jitter_ms:.2f} ms (99 %), over {frames}', ''),
        *_stream_rows('clock')))
#: Rows of the check of data that come first: why none is received at all, words of the server.
FIRST_OF_DATA: Final[tuple[DoctorRule, ...]] = rows_of(
    'data', skip(lambda probed: case(probed.stream is None), 'no data was received'),
    skip(lambda probed: case(
        probed.by in probed.tried and probed.tried[probed.by].around is not None
        and not probed.seen.listened_s), 'there is no connection'),
    Rule('server says', INFO, lambda probed: islice(
        texts(INFO, WARN, ERROR)(probed.seen), 5), rules.SAYS, ''))
