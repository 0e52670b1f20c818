# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check the stream of a connected server: handshake, poses, rates, axes, stamps."""

from __future__ import annotations

import math
from typing import Optional

from optitrack_vrpn.clock.types import UNIX_EPOCH
from optitrack_vrpn.doctor.bodies import results_of, with_time
from optitrack_vrpn.doctor.probe_results import Attempt, ProbeResults, Stream
from optitrack_vrpn.doctor.result import CheckResult, fail, ok, skip, Value, warn
from optitrack_vrpn.findings import (
    join_sentences, listed, merge, rate_findings, stamp_findings, stream_findings)
from optitrack_vrpn.names import counted, printable

#: Longest time from the handshake to the first pose (s). Chosen: two frames of the slowest
#: supported sender (1 Hz).
DATA_WITHIN_S = 2.0
#: Jitter of arrivals (99 %, s) that is reported. Chosen: one frame at 100 Hz.
_MUCH_JITTER_S = 0.010
#: Standstill of this computer (s) after which a restart of the clock estimate says nothing about
#: the sender. Chosen: several frames of any camera.
_STALLED_S = 0.3
#: Smallest displacement of a lift (m). Chosen: above noise and accidental motion.
_LEAST_LIFT = 0.1
#: Largest displacement along another axis, relative to the lift. Chosen: 27 degrees off vertical.
_STRAIGHT = 0.5
_NO_DATA = 'no data was received'
_CREATE = 'create a rigid body in Motive and tick it for streaming; VRPN sends nothing else'


def check_handshake(probed: ProbeResults) -> CheckResult:
    """Check the greeting and the version."""
    attempt = _handshake(probed)
    if attempt is None:
        return skip('handshake', 'there is no connection')
    if attempt.version is not None:
        major, minor = attempt.version
        note = f' ({attempt.note})' if attempt.note else ''
        return ok('handshake', f'VRPN {major:02d}.{minor:02d}{note}',
                  version=f'{major:02d}.{minor:02d}')
    if attempt.other_program:
        return fail('handshake', attempt.fault,
                    f'another program uses port {probed.port} there: give the port of VRPN in '
                    "Motive's streaming settings")
    fault = attempt.fault or 'the connection ended before the VRPN greeting'
    return fail('handshake', fault,
                f'another program uses port {probed.port} there, or Motive hangs: give the port '
                "of Motive's VRPN streaming. A client whose firewall drops Motive's connection "
                'blocks Motive for 21 s at a time (VRPN servers on Linux for 127 s): stop the '
                'other clients, wait, try again; then restart Motive')


def _handshake(probed: ProbeResults) -> Optional[Attempt]:
    if probed.stream is not None:
        return probed.stream.attempt
    if probed.tcp is not None and (probed.tcp.version or probed.tcp.fault):
        return probed.tcp
    return None


def check_senders(probed: ProbeResults) -> CheckResult:
    """Check which rigid bodies the server names."""
    stream = probed.established
    if stream is None or not stream.described:
        return skip('senders', _NO_DATA)
    if not stream.senders:
        return warn('senders', 'the server names no rigid body', _CREATE, count=0)
    without_pose = [name for name in stream.senders if not any(
        body.name == name or body.name.startswith(f'{name}/sensor') for body in stream.bodies)]
    hidden = [name for name in without_pose if name in stream.answered]
    echoes = [name for name in without_pose if name not in stream.answered]
    found = f'{counted(len(stream.senders), "sender")}: {listed(stream.senders)}'
    values: dict[str, Value] = {
        'count': len(stream.senders), 'answer_pings': len(stream.answered),
        'send_poses': len(stream.bodies)}
    if echoes:
        found += f'; neither poses nor an answer from {listed(echoes)}'
    if hidden and stream.bodies:
        return warn('senders', f'{found}; no pose of {listed(hidden)}',
                    'is it in view of the cameras, and ticked for streaming in Motive?', **values)
    return ok('senders', found, **values)


def check_data(probed: ProbeResults) -> CheckResult:
    """Check whether poses arrive, and how soon."""
    stream = probed.established
    if stream is None:
        return skip('data', _NO_DATA)
    counters = stream.counters
    values: dict[str, Value] = {
        'poses': stream.poses, 'transport': stream.transport,
        'listened_s': round(stream.listened_s, 3)}
    if stream.first_pose_s is None:
        return _check_silence(probed, stream, values)
    values['first_pose_s'] = round(stream.first_pose_s, 4)
    said = f'; {"; ".join(stream.texts)}' if stream.texts else ''
    found = (
        f'{counted(stream.poses, "pose")} of {counted(len(stream.bodies), "body")} by '
        f'{stream.transport.upper()} in {stream.listened_s:.1f} s, the first after '
        f'{stream.first_pose_s * 1e3:.0f} ms{said}')
    if stream.ended:
        return warn('data', f'{found}; then: {stream.ended}',
                    'does Motive keep running? Does another client block it?', **values)
    faults = {name: counters.get(name, 0) for name in (
        'malformed', 'bad_time', 'unknown_type', 'names_refused')}
    troubles = []
    if stream.more_bodies or any(faults.values()):
        values.update(faults)
        noted = [f'{count} {name}' for name, count in faults.items() if count]
        if stream.more_bodies:
            noted.append(f'{stream.more_bodies} poses of bodies beyond the limit')
        troubles.append((f'but also: {", ".join(noted)}',
                         'the node ignores these; check which program is the server'))
    troubles += [(with_time(one), one.remedy) for one in merge(stream_findings(stream))]
    values.update({
        name: counters[name] for name in ('udp_lost', 'udp_reordered', 'udp_repeated')
        if counters.get(name)})
    if troubles:
        return warn('data', '; '.join([found, *(one for one, _ in troubles)]),
                    join_sentences(advice for _, advice in troubles), **values)
    return ok('data', found, **values)


def _check_silence(probed: ProbeResults, stream: Stream, values: dict[str, Value]) -> CheckResult:
    found = f'connected, but no pose within {DATA_WITHIN_S:g} s'
    if stream.texts:
        found += f' ({"; ".join(stream.texts)})'
    if stream.ended:
        return fail('data', f'{found}: {stream.ended}',
                    'check the messages of Motive, or of the program on that port', **values)
    if not stream.described:
        return fail(
            'data', f'{found}, nor the names that each VRPN server sends after its greeting',
            'the network drops large packets: is a VPN, a tunnel or an overlay network of '
            'containers on the way? Try a smaller MTU here: sudo ip link set '
            f'{probed.card or "CARD"} mtu 1280', **values)
    if probed.unexpected_peers:
        others = ', '.join(sorted(probed.unexpected_peers))
        return fail('data', f'{found}; messages from {others} were refused',
                    f'the server has several network cards: set server to {others}', **values)
    if probed.tcp_poses:
        values['tcp_poses'] = probed.tcp_poses
        return fail(
            'data', f'{found} by UDP, but {probed.tcp_poses} arrived by TCP',
            'the server hangs, or sends its datagrams elsewhere: start it again, or set '
            'connection: tcp' if probed.loopback else
            f'a firewall drops the datagrams: admit inbound UDP from {probed.address} (sudo ufw '
            f'allow from {probed.address}), or set connection: tcp', **values)
    if stream.counters.get('datagrams'):
        values['datagrams'] = stream.counters['datagrams']
        return fail('data', f'{found}, only messages of another kind',
                    'is that Motive? Other VRPN servers send messages that this package ignores',
                    **values)
    return fail(
        'data', found,
        'is Motive live, not paused or in edit mode? Is a rigid body ticked for streaming and in '
        'view?' if stream.senders else _CREATE,
        **values)


def check_rate(probed: ProbeResults) -> CheckResult:
    """Check the frame rate of the bodies."""
    stream = probed.established
    if stream is None or not stream.rates:
        return skip('rate', 'too few poses')
    rates = stream.rates
    fastest = max(rates.values())
    values: dict[str, Value] = {'rate_hz': round(fastest, 2)}
    found = rate_findings(rates, probed.expected_rate_hz, unsent=stream.unsent_share)
    if stream.unsent_share:
        values['missing_share'] = round(stream.unsent_share, 4)
    if found:
        values['slow_bodies'] = len(found[0].bodies)
        return results_of('rate', found, values, f'{fastest:.1f} Hz')
    return ok('rate', f'{fastest:.1f} Hz', **values)


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
    if lift.length < _LEAST_LIFT:
        return warn('axes', f'nothing was lifted: {name} moved most, by {lift.length:.3f} m',
                    again)
    sizes = [abs(value) for value in lift.displacement]
    axis = sizes.index(max(sizes))
    letter, along = 'xyz'[axis], lift.displacement[axis]
    moved = f'{name} moved by {along:+.2f} m along {letter}'
    if sorted(sizes)[1] > _STRAIGHT * sizes[axis]:
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
    found = stamp_findings(stream)
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
    if stream is None or clock is None or not clock.samples:
        return skip('clock', 'no pose with a time')
    values: dict[str, Value] = {
        'offset_s': round(clock.offset_ns / 1e9, 9), 'frames': clock.samples,
        'jitter_std_s': _figure(clock.jitter_std_s), 'jitter_p99_s': _figure(clock.jitter_p99_s),
        'uncertainty_s': _figure(clock.uncertainty_s)}
    found = (
        f'host time is sender time {clock.offset_ns / 1e9:+.6f} s; arrivals lag by up to '
        f'{clock.jitter_p99_s * 1e3:.2f} ms (99 %), std {clock.jitter_std_s * 1e3:.2f} ms, over '
        f'{counted(clock.samples, "frame")}')
    if clock.restarts and stream.stalled_s > _STALLED_S:
        return warn('clock', f'{found}; this computer stood still for {stream.stalled_s:.1f} s, '
                    'and the estimate started again', 'this computer is busy, or was suspended: '
                    'reduce its load and run the doctor again', **values)
    if clock.restarts:
        listed = ', '.join(f'{count} {name}' for name, count in clock.restarts.items())
        return warn('clock', f'{found}; started again: {listed}',
                    "did Motive restart just now? Do two programs send under this server's name?",
                    **values)
    if clock.jitter_p99_s > _MUCH_JITTER_S:
        return warn(
            'clock', found, ('this machine is busy: reduce its load' if probed.loopback else
                             'the network or this machine is busy: use a cable instead of WiFi, '
                             'and switch power saving off') + '; stamps.mode: tracking removes '
            'most of the jitter from the stamps, but poses arrive late', **values)
    return ok('clock', found, **values)


def _ago(seconds: float) -> str:
    return f'{seconds:.1f} s' if seconds < 600 else f'{seconds / 3600:.2f} hours'


def _figure(value: float) -> Value:
    return round(value, 9) if math.isfinite(value) else None
