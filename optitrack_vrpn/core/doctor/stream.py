# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Judge what the server says once it is connected: handshake, bodies, rates, stamps."""

from __future__ import annotations

from typing import Optional

from optitrack_vrpn.core.body.states import BodyStatus, State
from optitrack_vrpn.core.clock.types import UNIX_EPOCH
from optitrack_vrpn.core.doctor.facts import Attempt, Facts, Stream
from optitrack_vrpn.core.doctor.finding import (
    counted, fail, Finding, listed, ok, skip, Value, warn)
from optitrack_vrpn.core.names import printable

#: The server must send a pose this soon after the handshake (s).
DATA_WITHIN_S = 2.0
#: A body this much slower than the fastest, or than the cameras, is worth a word.
_TOO_SLOW = 0.9
_DISPLAY_HZ = (58.5, 61.5)
_MUCH_LOSS = 0.01
_MUCH_JITTER_S = 0.010
#: Nobody lifts a body by less (m); noise and a nudge stay below.
_LEAST_LIFT = 0.1
#: The other axes may show this share of the largest displacement.
_STRAIGHT = 0.5
_UNHEARD = 'nothing was heard'
#: Poses that must have come before unchanging sender times are held against the server.
_ENOUGH_POSES = 10

_CAUSES = {
    State.FROZEN: (
        'out of view, and Motive repeats its last pose (or a simulator without noise: then set '
        'truth.frozen_after_s: 0.0)'),
    State.ZEROED: 'out of view, and Motive fills in zeros',
    State.STALE: 'out of view, or deleted in Motive',
    State.JUMPED: 'look at its markers: do two bodies have the same arrangement?',
    State.INVALID: 'no pose at all: look at it in Motive',
    State.NEW: 'seen too briefly: listen longer (--seconds)',
}


def judge_handshake(facts: Facts) -> Finding:
    """Judge the greeting and the version."""
    attempt = _handshake(facts)
    if attempt is None:
        return skip('handshake', 'there is no connection')
    if attempt.version is not None:
        major, minor = attempt.version
        note = f' ({attempt.note})' if attempt.note else ''
        return ok('handshake', f'VRPN {major:02d}.{minor:02d}{note}',
                  version=f'{major:02d}.{minor:02d}')
    if attempt.version_refused:
        return fail('handshake', attempt.fault,
                    'no Motive speaks it: what listens on this port there?')
    fault = attempt.fault or 'the connection ended before a word of VRPN'
    return fail('handshake', fault,
                f'another program has port {facts.port} there, or Motive hangs: give the port of '
                "Motive's VRPN streaming, and restart Motive")


def _handshake(facts: Facts) -> Optional[Attempt]:
    if facts.stream is not None:
        return facts.stream.attempt
    if facts.tcp is not None and (facts.tcp.version or facts.tcp.fault):
        return facts.tcp
    return None


def judge_senders(facts: Facts) -> Finding:
    """Judge which rigid bodies the server names."""
    stream = _established(facts)
    if stream is None:
        return skip('senders', _UNHEARD)
    if not stream.senders:
        return warn(
            'senders', 'the server names no rigid body',
            'make a rigid body in Motive; only rigid bodies are streamed over VRPN', count=0)
    echoes = [name for name in stream.senders
              if name not in stream.answered
              and not any(body.name == name for body in stream.bodies)]
    found = f'{counted(len(stream.senders), "sender")}: {listed(stream.senders)}'
    values: dict[str, Value] = {
        'count': len(stream.senders), 'answer_pings': len(stream.answered),
        'send_poses': len(stream.bodies)}
    if echoes:
        found += f'; neither poses nor an answer from {listed(echoes)}'
    return ok('senders', found, **values)


def judge_data(facts: Facts) -> Finding:
    """Judge whether poses come, and soon."""
    stream = _established(facts)
    if stream is None:
        return skip('data', _UNHEARD)
    counters = stream.counters
    values: dict[str, Value] = {
        'poses': stream.poses, 'way': stream.way, 'listened_s': round(stream.listened_s, 3)}
    if stream.first_pose_s is None:
        return _judge_silence(facts, stream, values)
    values['first_pose_s'] = round(stream.first_pose_s, 4)
    said = f'; {"; ".join(stream.texts)}' if stream.texts else ''
    found = (
        f'{counted(stream.poses, "pose")} of {len(stream.bodies)} bodies by {stream.way.upper()} '
        f'in {stream.listened_s:.1f} s, the first after {stream.first_pose_s * 1e3:.0f} ms{said}')
    if stream.ended:
        return warn('data', f'{found}; then: {stream.ended}',
                    'does Motive stay up? Is another client in its way?', **values)
    faults = {name: counters.get(name, 0) for name in (
        'malformed', 'bad_time', 'unknown_type', 'names_refused')}
    if stream.more_bodies or any(faults.values()):
        told = [f'{count} {name}' for name, count in faults.items() if count]
        if stream.more_bodies:
            told.append(f'{stream.more_bodies} poses of bodies beyond bodies.max')
        return warn('data', f'{found}; but also: {", ".join(told)}',
                    'the node leaves these out; what server is that?', **values, **faults)
    lost = counters.get('udp_lost', 0)
    if lost:
        share = lost / (lost + max(stream.poses, 1))
        values['udp_lost'] = lost
        if share > _MUCH_LOSS:
            return warn(
                'data', f'{found}; {share:.1%} were lost on the way',
                'a cable in place of WLAN, a switch of its own; or connection: tcp, which loses '
                'nothing but comes late', **values)
    return ok('data', found, **values)


def _judge_silence(facts: Facts, stream: Stream, values: dict[str, Value]) -> Finding:
    found = f'connected, but no pose within {DATA_WITHIN_S:g} s'
    if stream.texts:
        found += f' ({"; ".join(stream.texts)})'
    if stream.ended:
        return fail('data', f'{found}: {stream.ended}',
                    'look at what Motive, or the program on that port, says', **values)
    if facts.strangers:
        others = ', '.join(sorted(facts.strangers))
        return fail('data', f'{found}; but there is something from {others}, which is refused',
                    f'the server has several network cards: set server to {others}', **values)
    if facts.tcp_poses:
        values['tcp_poses'] = facts.tcp_poses
        return fail(
            'data', f'{found} by UDP, though {facts.tcp_poses} came by TCP',
            f'a firewall drops the datagrams: let UDP in from {facts.address} (sudo ufw allow '
            f'from {facts.address}), or set connection: tcp', **values)
    if stream.counters.get('datagrams'):
        values['datagrams'] = stream.counters['datagrams']
        return fail('data', f'{found}, only messages of another kind',
                    'is that Motive? Other VRPN servers send what this package does not use',
                    **values)
    return fail(
        'data', found,
        'is Motive live, not paused or in edit mode? Is a rigid body ticked for streaming and in '
        'view?' if stream.senders else 'make a rigid body in Motive and tick it for streaming',
        **values)


def judge_rate(facts: Facts) -> Finding:
    """Judge how fast bodies come."""
    stream = _established(facts)
    if stream is None or not stream.rates:
        return skip('rate', 'too few poses')
    rates = stream.rates
    fastest = max(rates.values())
    nominal = facts.expected_rate_hz or fastest
    slow = {name: rate for name, rate in rates.items() if rate < _TOO_SLOW * nominal}
    values: dict[str, Value] = {'rate_hz': round(fastest, 2), 'slow_bodies': len(slow)}
    advice = 'look at the camera rate in Motive and at the frame divisor of its streaming settings'
    if fastest < _TOO_SLOW * nominal:
        return warn('rate', f'{fastest:.1f} Hz where the cameras run at {nominal:g} Hz',
                    advice, **values)
    if slow:
        shown = ', '.join(f'{printable(name, 48)!r} {rate:.1f} Hz'
                          for name, rate in list(slow.items())[:4])
        return warn('rate', f'{fastest:.1f} Hz, but slower: {shown}',
                    'are these often out of view? Poses that get lost look alike', **values)
    if _DISPLAY_HZ[0] <= fastest <= _DISPLAY_HZ[1] and not facts.expected_rate_hz:
        return warn(
            'rate', f'{fastest:.1f} Hz: the rate of a display, which some installations are stuck '
            'at while their cameras run faster',
            f'{advice}; if 60 Hz is what you want, say --expect-rate 60', **values)
    return ok('rate', f'{fastest:.1f} Hz', **values)


def judge_bodies(facts: Facts) -> Finding:
    """Judge whether bodies are seen, as the node would."""
    stream = _established(facts)
    if stream is None or not stream.bodies:
        return skip('bodies', 'no body sent a pose')
    clock = stream.clock
    if clock is not None and clock.samples <= 1 and stream.poses >= _ENOUGH_POSES:
        return fail(
            'bodies', 'poses come, but their time stands still, so that the node takes them for '
            'repeats', 'set stamps.mode: arrival, which does without the times of the server')
    bad = [body for body in stream.bodies if body.state is not State.TRACKED]
    good = len(stream.bodies) - len(bad)
    values: dict[str, Value] = {'tracked': good, 'not_tracked': len(bad)}
    for body in bad[:20]:
        values[f'state of {printable(body.name, 48)}'] = body.state.value
    if not bad:
        return ok('bodies', f'{good} tracked', **values)
    shown = '; '.join(_described(body) for body in bad[:4])
    if len(bad) > 4:
        shown += f'; and {len(bad) - 4} more'
    states = list(dict.fromkeys(body.state for body in bad))
    advice = ' '.join(f'{state.value}: {_CAUSES[state]}.' for state in states if state in _CAUSES)
    if good:
        return warn('bodies', f'{good} tracked, but {shown}', advice, **values)
    return fail('bodies', f'none is tracked, so that the node publishes none: {shown}', advice,
                **values)


def _described(body: BodyStatus) -> str:
    return f'{printable(body.name, 48)!r} is {body.state.value} ({printable(body.detail, 90)})'


def judge_axes(facts: Facts) -> Finding:
    """Judge which axis is up, from a body that the user lifted and from nothing else."""
    stream = _established(facts)
    if stream is None or not stream.bodies:
        return skip('axes', 'no body sent a pose')
    if stream.lifts is None:
        return skip('axes', 'run with --lift and lift a body to learn which axis is up')
    again = 'say --lift again and lift one body straight up by half a metre, in view'
    if not stream.lifts:
        return warn('axes', 'no body was tracked while it was to be lifted', again)
    lift = max(stream.lifts, key=lambda one: one.length)
    name = repr(printable(lift.body, 48))
    if lift.length < _LEAST_LIFT:
        return warn('axes', f'nothing was lifted: {name} moved most, by {lift.length:.3f} m',
                    again)
    sizes = [abs(value) for value in lift.displacement]
    axis = sizes.index(max(sizes))
    letter, along = 'xyz'[axis], lift.displacement[axis]
    moved = f'{name} moved by {along:+.2f} m along {letter}'
    if sorted(sizes)[1] > _STRAIGHT * sizes[axis]:
        shown = ', '.join(f'{value:+.2f}' for value in lift.displacement)
        return warn('axes', f'{name} moved aslant, by x, y, z = {shown} m', again)
    if letter == 'x':
        return warn('axes', f'{moved}, which is never up in Motive', again)
    if along < 0:
        return warn('axes', f'{moved}, downwards', again)
    return ok('axes', f'{moved}: set up_axis: {letter}', up_axis=letter)


def judge_stamps(facts: Facts) -> Finding:
    """Judge what the sender's times count from."""
    stream = _established(facts)
    clock = stream.clock if stream else None
    if stream is None or clock is None or not clock.samples:
        return skip('stamps', 'no pose with a time')
    seconds = stream.newest_sender_ns / 1e9
    values: dict[str, Value] = {'base': clock.sender_base, 'sender_time_s': round(seconds, 6)}
    if clock.sender_base == UNIX_EPOCH:
        values['ahead_s'] = round(stream.ahead_s, 6)
        return ok('stamps', 'sender times count from the Unix epoch, '
                  f"{stream.ahead_s:+.3f} s from this host's clock", **values)
    return ok('stamps', "sender times count from the sender's start, "
              f'{_ago(seconds)} ago', **values)


def judge_clock(facts: Facts) -> Finding:
    """Judge offset and jitter as the node's estimator sees them."""
    stream = _established(facts)
    clock = stream.clock if stream else None
    if clock is None or not clock.samples:
        return skip('clock', 'no pose with a time')
    values: dict[str, Value] = {
        'offset_s': round(clock.offset_ns / 1e9, 9), 'frames': clock.samples,
        'jitter_std_s': _figure(clock.jitter_std_s), 'jitter_p99_s': _figure(clock.jitter_p99_s),
        'uncertainty_s': _figure(clock.uncertainty_s)}
    found = (
        f'host time is sender time {clock.offset_ns / 1e9:+.6f} s; arrivals lag by up to '
        f'{clock.jitter_p99_s * 1e3:.2f} ms (99 %), std {clock.jitter_std_s * 1e3:.2f} ms, over '
        f'{counted(clock.samples, "frame")}')
    if clock.restarts:
        told = ', '.join(f'{count} {name}' for name, count in clock.restarts.items())
        return warn('clock', f'{found}; began anew: {told}',
                    "did Motive restart just now? Do two programs send under this server's name?",
                    **values)
    if clock.jitter_p99_s > _MUCH_JITTER_S:
        return warn(
            'clock', found, 'the network or this machine is busy: a cable in place of WLAN, and '
            'power saving off; stamps.mode: tracking takes most of it out of the stamps, but '
            'poses come late', **values)
    return ok('clock', found, **values)


def _ago(seconds: float) -> str:
    return f'{seconds:.1f} s' if seconds < 600 else f'{seconds / 3600:.2f} hours'


def _figure(value: float) -> Value:
    return round(value, 9) if value == value else None


def _established(facts: Facts) -> Optional[Stream]:
    """Give the conversation, if it got past the handshake."""
    stream = facts.stream
    return stream if stream is not None and stream.attempt.version is not None else None
