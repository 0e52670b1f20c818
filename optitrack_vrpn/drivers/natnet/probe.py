# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a NatNet server: command port, frames, clock."""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Optional

from optitrack_vrpn.core.checks import CheckResult, fail, ok, skip, warn
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.natnet.messages import DATA_PORT, NEWEST, OLDEST, ServerInfo
from optitrack_vrpn.drivers.probing import Heard, Place

_READABLE = f'set natnet.bitstream: "{NEWEST[0]}.{NEWEST[1]}" (unicast)'


@dataclass
class NatNetProbeFacts:
    """
    What was found out about one server.

    :ivar place: where it is.
    :ivar port: command port.
    :ivar info: the server's answer; None without one.
    :ivar refused: whether its machine answered that nothing listens on the port.
    :ivar fault: why an answer cannot be used, or ''.
    :ivar unused: whether no machine of the local network answers for the address (ARP).
    :ivar held_port, held_by: data port, and the program of this computer that has it and does not
        share it.
    :ivar other_card, other_source: another network card on which frames arrive, and the address
        that they come from.
    """

    place: Place
    port: int
    info: Optional[ServerInfo] = None
    refused: bool = False
    fault: str = ''
    unused: bool = False
    held_port: int = 0
    held_by: str = ''
    other_card: str = ''
    other_source: str = ''


def check_port(facts: NatNetProbeFacts) -> CheckResult:
    """Check whether the command port answers, and with which version."""
    where, info = f'UDP port {facts.port} of {facts.place.address}', facts.info
    if facts.held_by:
        return fail(
            'natnet', f'UDP port {facts.held_port} of this computer, on which NatNet sends, '
            f'belongs to {facts.held_by}, which does not share it',
            f'end that program (sudo ss -ulnp sport = :{facts.held_port} shows it), or set '
            'natnet.transport: unicast if Motive sends unicast', answered=False)
    if facts.fault:
        return fail(
            'natnet', f'the answer of {where} cannot be used: {facts.fault}',
            f'is that Motive? NatNet {OLDEST[0]}.{OLDEST[1]} (Motive 1.7) or later is needed',
            answered=True)
    if info is not None:
        version = '.'.join(map(str, info.version))
        how = f'multicast to {info.group}' if info.multicast else 'unicast'
        found = f'{info.name} uses NatNet {version}, {how}'
        if info.version > NEWEST:
            return warn(
                'natnet', f'{found}, newer than {NEWEST[0]}.{NEWEST[1]}',
                f'new fields are skipped; if frames cannot be read, {_READABLE}',
                answered=True, version=version)
        return ok('natnet', found, answered=True, version=version)
    if facts.unused:
        return fail('natnet', *facts.place.nobody(), answered=False)
    advice = ('is Motive running, is NatNet on in its streaming settings, and is its Local '
              'Interface this network?')
    if facts.refused:
        return fail('natnet', f'nothing listens on {where}: its machine refused the request',
                    advice, answered=False)
    return fail('natnet', f'no answer on {where}', f'{advice} Does a firewall drop UDP ports '
                f'{facts.port} and {DATA_PORT}?', answered=False)


def check_echoes(facts: NatNetProbeFacts, heard: Optional[Heard]) -> CheckResult:
    """Check round trips and exposure times."""
    check = 'natnet-clock'
    if heard is None or not heard.counters.get('messages'):
        return skip(check, 'no frame arrived')
    echoes = heard.counters.get('echoes', 0)
    if not echoes:
        return warn(
            check, 'no answer to echo requests: stamps are late by the smallest delay',
            'NatNet before 3.0 has none; otherwise does a firewall drop answers of port '
            f'{facts.port}? Set stamps.latency_ms', echoes=0)
    trip_ms, processing_ms = 1e3 * heard.known.round_trip_s, 1e3 * heard.processing_s
    trip = f'round trip {trip_ms:.3f} ms at best of {echoes}; ' if math.isfinite(trip_ms) else ''
    found = f'{trip}{processing_ms:.1f} ms from exposure to transmission'
    values = {'echoes': echoes, 'processing_ms': processing_ms,
              'round_trip_ms': trip_ms if math.isfinite(trip_ms) else None}
    if not processing_ms:
        return warn(
            check, f'{found}: the cameras send no exposure times',
            'stamps are times of transmission, late by the processing time of the cameras',
            **values)
    return ok(check, found, **values)


def explain_silence(facts: NatNetProbeFacts, heard: Heard) -> CheckResult:
    """Explain why a server that answers sent no pose."""
    frames, malformed = heard.counters.get('messages', 0), heard.counters.get('malformed', 0)
    multicast, group = (facts.info.multicast, facts.info.group) if facts.info else (None, '')
    if not frames and malformed:
        return fail('data', f'{counted(malformed, "datagram")} cannot be read',
                    f'{_READABLE} and report the version of Motive', malformed=malformed)
    if not frames and facts.other_source not in ('', facts.place.address):
        return fail(
            'data', f'no frame from {facts.place.address}, but frames from {facts.other_source} '
            f'on {facts.other_card}',
            f'if {facts.other_source} is the Motive PC too, set server: {facts.other_source}')
    if not frames and facts.other_card:
        return fail(
            'data', f'no frame on {facts.place.local}, but frames on {facts.other_card}',
            f'the group is joined on the wrong network card: set interface: {facts.other_card}')
    if not frames and multicast is False and heard.counters.get('echoes'):
        return fail(
            'data', 'the server answers echo requests, but none of its frames arrives by unicast',
            'is streaming (Broadcast Frame Data) on in Motive? If so, a NAT or firewall drops UDP '
            f'from port {facts.info.data_port if facts.info else DATA_PORT} of the Motive PC: '
            'start a container with --network host, set WSL2 to mirrored networking, or admit '
            'that port', nat=True)
    if not frames:
        return fail(
            'data', f'the server answers, but sends no frame{heard.ended and f": {heard.ended}"}',
            'is streaming (Broadcast Frame Data) on in Motive, and is it not paused? Are jumbo '
            'frames off on the network card of the Motive PC (MTU as here)?' + (
                '' if multicast is False else ' By multicast, does a firewall or switch drop '
                f'{group or "the group"}?'))
    if heard.counters.get('unnamed'):
        return fail(
            'data', f'{counted(frames, "frame")}, but the names of their bodies do not arrive',
            'does the network drop large datagrams? Are jumbo frames off on the network card of '
            'the Motive PC (MTU as here)?')
    return fail(
        'data', f'{counted(frames, "frame")} without a rigid body',
        'switch Rigid Bodies on in the streaming settings and create one in Motive')
