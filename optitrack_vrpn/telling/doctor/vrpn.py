# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor finds of a VRPN server: both ways to it, its greeting, its senders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Optional

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.findings import Case, Rule
from optitrack_vrpn.core.names import Counted
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.driver import Attempt, Outcome
from optitrack_vrpn.drivers.link_rules import SILENCE
from optitrack_vrpn.drivers.vrpn.codec import CONTROL_SENDER
from optitrack_vrpn.telling.doctor.results import FIRST_POSE_S, ProbeResults
from optitrack_vrpn.telling.doctor.rules import (
    Condition, DoctorRule, of_protocol, other_protocol, silent, skip, split, UNUSED)

#: For a server on this machine: no firewall or NAT is involved.
_HANGS = (
    'the server hangs, or another program uses its port (sudo ss -tulnp shows it): start it '
    'again.')
_CREATE = 'create a rigid body in Motive and tick it for streaming; VRPN sends nothing else'
#: The sentence of the log, and its remedy.
_SILENT, _LOOK = next((rule.text, rule.remedy) for rule in SILENCE if rule.code == 'no pose yet')
_PORT = "give the port of VRPN in Motive's streaming settings"


class _VrpnFacts:
    """What the rows need to know of one server."""

    def __init__(self, probed: ProbeResults) -> None:
        one = probed.tried['vrpn']
        self.place, self.unused = probed.place, probed.unused
        self.port, self.connection = one.config.port, one.config.link.connection
        self.udp, self.tcp = one.attempts.get('udp'), one.attempts.get('tcp')
        self.stream, self.by_tcp, self.around = one.stream, one.by_tcp, one.around

    @property
    def version(self) -> str:
        """Return the version that the server stated; '' without a greeting."""
        other = self.by_tcp.link.known.stated_version if self.by_tcp is not None else ''
        return self.stream.link.known.stated_version or other

    @property
    def by_udp(self) -> bool:
        """Return whether the server connected back."""
        return is_open(self.udp)

    @property
    def instead(self) -> bool:
        """Return whether poses can arrive by TCP where the request has no answer."""
        return self.connection == 'auto' and is_open(self.tcp)

    @property
    def senders(self) -> dict[str, bool]:
        """Return the names that the server described, but its own; whether each answered."""
        return {name: answered for name, answered in self.stream.link.known.senders.items()
                if name != CONTROL_SENDER}

    def without_pose(self, answered: bool) -> list[str]:
        """Return the senders that sent no pose, of those that answered a ping or not."""
        names = [body.name for body in self.stream.bodies]
        return [name for name, pinged in self.senders.items() if pinged is answered and not any(
            body == name or body.startswith(f'{name}/sensor') for body in names)]

    def figures(self) -> dict[str, object]:
        """Return what all texts may contain."""
        place, peers = self.place, self.stream.link.refused
        return {
            'address': place.address, 'local': place.local, 'port': self.port,
            'limit_s': FIRST_POSE_S, 'card': place.card or place.local,
            'peers': ', '.join(sorted(peers)), 'version': self.version, 'ended': self.stream.ended,
            'remark': self.stream.link.known.remark and f' ({self.stream.link.known.remark})',
            'udp_ms': self.udp.took_s * 1e3 if self.udp else 0.0,
            'tcp_ms': self.tcp.took_s * 1e3 if self.tcp else 0.0,
            'reason': self.stream.link.transport_reason.removeprefix('auto: '),
            'by_tcp': ' Or set connection: tcp or auto, which need no connect-back' * is_open(
                self.tcp),
            'count': Counted.of(len(self.senders), 'sender'),
            'senders': listed(list(self.senders)),
            'tcp_poses': self.by_tcp.poses if self.by_tcp else 0}


def is_open(attempt: Optional[Attempt]) -> bool:
    """Return whether an attempt connected."""
    return attempt is not None and attempt.outcome is Outcome.OPEN


def _vrpn(
    met: Callable[[_VrpnFacts], object],
    figures: Callable[[_VrpnFacts], dict[str, object]] = lambda facts: {},
) -> Condition:
    """Make the condition of the facts of a VRPN server."""
    def when(probed: ProbeResults) -> Iterator[Case]:
        facts = _VrpnFacts(probed)
        if met(facts):
            yield Case((), {**facts.figures(), **figures(facts)})
    return when


def _in_case(met: Callable[[_VrpnFacts], object], rule: DoctorRule) -> tuple[DoctorRule, ...]:
    """Return a rule as a warning in one case, and as it is otherwise."""
    return (replace(rule, severity=WARN, when=lambda probed: (
        rule.when(probed) if met(_VrpnFacts(probed)) else ())), rule)


def _ended_as(way: str, *outcomes: Outcome) -> Condition:
    """Make the condition of an attempt that ended so; its figures are the text of its error."""
    def attempt(facts: _VrpnFacts) -> Attempt:
        return (facts.udp if way == 'udp' else facts.tcp) or Attempt(Outcome.OPEN)
    return _vrpn(lambda facts: attempt(facts).outcome in outcomes,
                 lambda facts: split(attempt(facts).error))


#: Reasons for the lack of a request.
_NO_REQUEST = (
    skip(_vrpn(lambda facts: facts.udp is None and facts.connection == 'tcp'),
         'not used with connection: tcp'),
    skip(_vrpn(lambda facts: facts.udp is None and facts.figures()['reason']),
         'not tried, as in the node: {reason}'),
    skip(_vrpn(lambda facts: facts.udp is None), 'there is no VRPN server'))

#: All rows of this file.
VRPN_RULES: Final[tuple[DoctorRule, ...]] = (
    *of_protocol(
        'vrpn', 'udp', *_NO_REQUEST,
        Rule('answered', INFO, _ended_as('udp', Outcome.OPEN),
             'a request to UDP port {port} of {address} was answered', ''),
        skip(_vrpn(lambda facts: facts.udp and facts.udp.outcome is Outcome.REFUSED
                   and facts.instead),
             'nothing takes requests on UDP port {port} of {address}: the node uses TCP'),
        skip(_vrpn(lambda facts: facts.unused), 'no computer has the address'),
        # UDP has no acknowledgement: only the connect-back shows whether the request arrived.
        Rule('sent', INFO, _ended_as('udp', Outcome.SILENT), 'a request to UDP port {port} of '
             '{address} was sent and not refused; whether it arrived is not known', ''),
        *_in_case(lambda facts: facts.instead, Rule(
            'refused', ERROR, _ended_as('udp', Outcome.REFUSED, Outcome.FAILED), '{found}',
            '{advice}'))),
    *of_protocol(
        'vrpn', 'connect-back', Rule('remembered', WARN, _vrpn(
            lambda facts: facts.udp is None and facts.around.remembered,
            lambda facts: dict(zip(('found', '', 'advice'), facts.around.remembered.partition(
                '. ')))), '{found}', '{advice}'),
        *_NO_REQUEST,
        Rule('connected back', INFO, _ended_as('udp', Outcome.OPEN),
             '{address} connected back to {local} within {udp_ms:.0f} ms', ''),
        skip(_vrpn(lambda facts: facts.unused or (
            facts.udp and facts.udp.outcome is not Outcome.SILENT)), 'no request arrived'),
        *_in_case(lambda facts: facts.instead, Rule(
            'other card there', ERROR, _vrpn(lambda facts: facts.stream.link.refused),
            'the connection came from {peers}, not from {address}, and was refused',
            'the server has several network cards: set server to {peers}')),
        *_in_case(lambda facts: facts.instead, Rule(
            'hangs', ERROR, _vrpn(lambda facts: facts.place.loopback, lambda facts: split(
                facts.udp.error if facts.udp else '')), '{found}', _HANGS + '{by_tcp}')),
        *_in_case(lambda facts: facts.instead, Rule(
            'no connect-back', ERROR, _ended_as('udp', Outcome.SILENT),
            '{found}. A VRPN server whose connection back is dropped serves no client meanwhile: '
            'once for about 20 s (Windows; 127 s on Linux)',
            "does this machine's firewall drop it (it must admit inbound TCP from {address}: sudo "
            'ufw allow from {address}), or the one there (inbound UDP {port})? Is '
            "Motive's Local Interface that of this network?{by_tcp}"))),
    *of_protocol(
        'vrpn', 'tcp', skip(_vrpn(lambda facts: facts.tcp is None), 'not tried'),
        Rule('accepts', INFO, _vrpn(lambda facts: is_open(facts.tcp) and facts.by_udp),
             'TCP port {port} of {address} accepts connections, within {tcp_ms:.0f} ms', ''),
        Rule('accepts alone', INFO, _vrpn(lambda facts: is_open(facts.tcp)),
             'TCP port {port} of {address} accepts connections, within {tcp_ms:.0f} ms. With '
             'poses by TCP, a VRPN server serves no other client while this computer does not '
             'read: node stopped, computer suspended, link lost', ''),
        other_protocol('vrpn'),
        *_in_case(lambda facts: facts.by_udp, Rule(
            'unused', ERROR, _vrpn(lambda facts: facts.unused), *UNUSED)),
        Rule('not needed', WARN, _vrpn(lambda facts: facts.by_udp, lambda facts: split(
            facts.tcp.error if facts.tcp else '')), '{found}',
             'a firewall refuses TCP, or the server takes requests by UDP only: the node uses '
             'UDP'),
        Rule('hangs', ERROR, _vrpn(
            lambda facts: facts.place.loopback and facts.tcp
            and facts.tcp.outcome is Outcome.SILENT, lambda facts: split(
                facts.tcp.error if facts.tcp else '')), '{found}', _HANGS),
        Rule('no TCP', ERROR, _ended_as(
            'tcp', Outcome.REFUSED, Outcome.SILENT, Outcome.FAILED), '{found}', '{advice}')),
    *of_protocol(
        'vrpn', 'handshake', skip(_vrpn(
            lambda facts: not (facts.by_udp or is_open(facts.tcp))), 'there is no connection'),
        Rule('greeting', INFO, _vrpn(lambda facts: facts.version), 'VRPN {version}{remark}', ''),
        Rule('other program', ERROR, _vrpn(
            lambda facts: facts.around.other_program or facts.stream.broken, lambda facts: {
                'found': facts.around.other_program or facts.stream.ended}), '{found}',
             'another program uses port {port} there: ' + _PORT),
        Rule('no greeting', ERROR, _vrpn(lambda facts: True, lambda facts: split(
            facts.stream.ended)), '{found}',
             'another program uses port {port} there, or Motive hangs: ' + _PORT + '. A client '
             "whose firewall drops Motive's connection blocks Motive for 21 s at a time (VRPN "
             'servers on Linux for 127 s): stop the other clients, wait, try again; then restart '
             'Motive')),
    *of_protocol(
        'vrpn', 'senders', skip(_vrpn(
            lambda facts: not facts.stream.link.known.senders), 'no data was received'),
        Rule('no sender', WARN, _vrpn(lambda facts: not facts.senders),
             'the server names no rigid body', _CREATE),
        Rule('hidden', WARN, _vrpn(
            lambda facts: facts.stream.bodies and facts.without_pose(True),
            lambda facts: {'hidden': listed(facts.without_pose(True))}),
             '{count}: {senders}; no pose of {hidden}',
             'is it in view of the cameras, and ticked for streaming in Motive?'),
        Rule('echoes', INFO, _vrpn(
            lambda facts: facts.without_pose(False),
            lambda facts: {'echoes': listed(facts.without_pose(False))}),
             '{count}: {senders}; neither poses nor an answer from {echoes}', ''),
        Rule('senders', INFO, _vrpn(lambda facts: True), '{count}: {senders}', '')),
    *silent(
        'vrpn', Rule('ended', ERROR, _vrpn(lambda facts: facts.stream.ended),
                     _SILENT + ': {ended}',
                     'check the messages of Motive, or of the program on that port'),
        Rule('no names here', ERROR, _vrpn(
            lambda facts: facts.place.loopback and not facts.stream.link.known.senders),
             _SILENT + ', nor the names that each VRPN server sends after its greeting', _HANGS),
        Rule('no names', ERROR, _vrpn(lambda facts: not facts.stream.link.known.senders),
             _SILENT + ', nor the names that each VRPN server sends after its greeting',
             'the network drops large packets: is a VPN, a tunnel or an overlay network of '
             'containers on the way? Try a smaller MTU here: sudo ip link set {card} mtu 1280'),
        Rule('hangs', ERROR, _vrpn(lambda facts: facts.place.loopback and facts.by_tcp
                                   and facts.by_tcp.poses),
             _SILENT + ' by UDP, but {tcp_poses} arrived by TCP', 'the server hangs, or sends its '
             'datagrams elsewhere: start it again, or set connection: tcp'),
        Rule('datagrams dropped', ERROR, _vrpn(
            lambda facts: facts.by_tcp and facts.by_tcp.poses),
             _SILENT + ' by UDP, but {tcp_poses} arrived by TCP',
             'a firewall drops the datagrams: admit inbound UDP from {address} (sudo ufw allow '
             'from {address}), or set connection: tcp'),
        Rule('other messages', ERROR, _vrpn(
            lambda facts: facts.stream.counters.get('datagrams')),
             _SILENT + ', only messages of another kind', 'is that Motive? Other VRPN servers '
             'send messages that this package ignores'),
        Rule('no body', ERROR, _vrpn(lambda facts: not facts.senders), _SILENT, _CREATE),
        Rule('no pose yet', ERROR, _vrpn(lambda facts: True), _SILENT, _LOOK)))
