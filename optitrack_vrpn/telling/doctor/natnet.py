# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor finds of a NatNet server: its command port, its frames, its clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
import math
from typing import Final

from optitrack_vrpn.core.findings import Case, Rule
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.link_rules import SILENCE
from optitrack_vrpn.drivers.natnet.messages import DATA_PORT, NEWEST, OLDEST
from optitrack_vrpn.telling.doctor.results import ProbeResults, Tried
from optitrack_vrpn.telling.doctor.rules import (
    Condition, DoctorRule, of_protocol, other_protocol, silent, skip, split, UNUSED)

_READABLE = f'set natnet.bitstream: "{NEWEST[0]}.{NEWEST[1]}" (unicast)'


def _frames(one: Tried) -> int:
    return one.stream.counters.get('messages', 0)


def _newer(one: Tried) -> bool:
    """Return whether the server's version is newer than the newest known one."""
    return tuple(map(int, one.stream.link.known.stated_version.split('.'))) > NEWEST


def _natnet(met: Callable[[ProbeResults, Tried], object]) -> Condition:
    """Make the condition of the facts of a NatNet server."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        one = probed.tried['natnet']
        if not met(probed, one):
            return
        stream, around = one.stream, one.around
        known, counters = stream.link.known, stream.counters
        yield Case((), {
            'address': probed.place.address, 'server': probed.place.address,
            'local': probed.place.local,
            'card': probed.place.card or probed.place.local, 'port': one.settings.port,
            'data_port': known.data_port or DATA_PORT, 'other_card': around.card,
            'source': around.source, 'name': known.name, 'version': known.stated_version,
            'how': f'multicast to {known.group}' if known.multicast else 'unicast',
            'group': known.group,
            'frames': counted(_frames(one), 'frame'), 'echoes': counters.get('echoes', 0),
            'malformed': counted(counters.get('malformed', 0), 'datagram'),
            'trip': f'round trip {1e3 * known.round_trip_s:.3f} ms at best of '
                    f'{counters.get("echoes", 0)}; ' * math.isfinite(known.round_trip_s),
            'processing_ms': 1e3 * stream.processing_s, **split(stream.ended)})
    return when


def _frameless(*, multicast: bool) -> Condition:
    """Make the condition of a server that answers and whose frames do not arrive."""
    return _natnet(lambda probed, one: not _frames(one) and (
        bool(one.stream.link.known.group) is multicast))


#: The sentences of the log.
_NO_MULTICAST, _NO_UNICAST, *_ = SILENCE
#: All rows of this file.
NATNET_RULES: Final[tuple[DoctorRule, ...]] = (
    *of_protocol(
        'natnet', 'natnet', other_protocol('natnet'),
        Rule('newer', WARN, _natnet(lambda probed, one: one.answered and _newer(one)),
             f'{{name}} uses NatNet {{version}}, {{how}}, newer than {NEWEST[0]}.{NEWEST[1]}',
             f'new fields are skipped; if frames cannot be read, {_READABLE}'),
        Rule('answers', INFO, _natnet(lambda probed, one: one.answered),
             '{name} uses NatNet {version}, {how}', ''),
        Rule('unused', ERROR, _natnet(lambda probed, one: probed.unused), *UNUSED),
        Rule('refused', ERROR, _natnet(lambda probed, one: one.around.refused),
             'nothing listens on UDP port {port} of {address}: its computer refused the request',
             'is Motive running, is NatNet on in its streaming settings, and is its Local '
             'Interface this network?'),
        Rule('too old', ERROR, _natnet(
            lambda probed, one: 'cannot be used' in one.stream.ended), '{found}: {advice}',
             f'is that Motive? NatNet {OLDEST[0]}.{OLDEST[1]} (Motive 1.7) or later is needed'),
        Rule('no answer', ERROR, _natnet(lambda probed, one: True), '{found}', '{advice}')),
    *of_protocol(
        'natnet', 'natnet-clock', skip(
            _natnet(lambda probed, one: not _frames(one)), 'no frame arrived'),
        Rule('no echo', WARN, _natnet(lambda probed, one: not one.stream.counters.get('echoes')),
             'no answer to echo requests: stamps are late by the smallest delay',
             'NatNet before 3.0 has none; otherwise does a firewall drop answers of port {port}? '
             'Set stamps.latency_ms'),
        Rule('no exposure', WARN, _natnet(lambda probed, one: not one.stream.processing_s),
             '{trip}{processing_ms:.1f} ms from exposure to transmission: the cameras send no '
             'exposure times',
             'stamps are times of transmission, late by the processing time of the cameras'),
        Rule('echoes', INFO, _natnet(lambda probed, one: True),
             '{trip}{processing_ms:.1f} ms from exposure to transmission', '')),
    *silent(
        'natnet', Rule('unreadable', ERROR, _natnet(
            lambda probed, one: not _frames(one) and one.stream.counters.get('malformed')),
            '{malformed} cannot be read', _READABLE + ' and report the version of Motive'),
        Rule('other source', ERROR, _natnet(
            lambda probed, one: not _frames(one) and one.around.source not in (
                '', probed.place.address)),
             'no frame from {address}, but frames from {source} on {other_card}',
             'if {source} is the Motive PC too, set server: {source}'),
        Rule('other card', ERROR, _natnet(
            lambda probed, one: not _frames(one) and one.around.card),
             'no frame on {local}, but frames on {other_card}',
             'the group is joined on the wrong network card: set interface: {other_card}'),
        replace(_NO_MULTICAST.by(_frameless(multicast=True)), severity=ERROR),
        replace(_NO_UNICAST.by(_frameless(multicast=False)), severity=ERROR),
        Rule('no body', ERROR, _natnet(lambda probed, one: True), '{frames} without a rigid body',
             'switch Rigid Bodies on in the streaming settings and create one in Motive')))
