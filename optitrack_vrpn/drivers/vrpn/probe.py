# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a VRPN server: both kinds of connection, its greeting, the names that it describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
import enum
from typing import Optional

from optitrack_vrpn.core.checks import CheckResult, fail, listed, ok, skip, Value, warn
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.probing import Heard, Place
from optitrack_vrpn.drivers.vrpn.codec import CONTROL_SENDER, PeerHello

_MOTIVE = (
    'is Motive running, is VRPN switched on in its streaming settings, with this port and this '
    "network's Local Interface?")
_HINTS = {
    'container': 'this is a container: a server cannot connect back into one unless it shares '
                 "the host's network (docker run --network host)",
    'WSL': 'this is WSL, whose network is behind NAT: a connect-back needs its networking mode '
           'mirrored',
    'ufw': 'ufw is enabled here',
    'firewalld': 'firewalld is active here',
}
#: For a server on this machine: no firewall or NAT is involved.
_HANGS = (
    'the server hangs, or another program uses its port (sudo ss -tulnp shows it): start it again')
_CREATE = 'create a rigid body in Motive and tick it for streaming; VRPN sends nothing else'


class ProbeOutcome(enum.Enum):
    """Outcome of an attempt to connect to the server."""

    OPEN = 'open'
    """Connected."""
    REFUSED = 'refused'
    """The server's machine answered that nothing listens there."""
    SILENT = 'silent'
    """No answer in time."""
    FAILED = 'failed'
    """The network or this machine's operating system refused."""


@dataclass
class Attempt:
    """
    One attempt to connect to the server.

    :ivar outcome: its outcome.
    :ivar detail: text of the error, or ''.
    :ivar took_s: duration (s).
    :ivar version: the peer's version of VRPN, (major, minor), once its cookie arrived.
    :ivar note: peculiarity of the version, or ''.
    :ivar fault: description of a peer that is not a VRPN server.
    :ivar other_program: True if it sent something else than this VRPN.
    """

    outcome: ProbeOutcome
    detail: str = ''
    took_s: float = 0.0
    version: Optional[tuple[int, int]] = None
    note: str = ''
    fault: str = ''
    other_program: bool = False

    def greeted(self, events: Iterable[object]) -> None:
        """Note the peer's greeting, if it is among these events."""
        for event in events:
            if isinstance(event, PeerHello):
                self.version, self.note = (event.major, event.minor), event.note


@dataclass
class VrpnProbeFacts:
    """
    What was found out about one server.

    :ivar place: where it is.
    :ivar port: its port.
    :ivar connection: 'auto', 'udp' or 'tcp', like the node's parameter.
    :ivar surroundings: some of the keys of ``_HINTS``.
    :ivar transport_reason: why the node uses UDP or TCP.
    :ivar remembered: what the client remembers of an unanswered request, or ''.
    :ivar udp: the request and the connect-back; None if not tried.
    :ivar tcp: the connection by ``tcp://``; None if not tried.
    :ivar unused: whether no machine of the local network answers for the address (ARP).
    :ivar peers: other addresses than the server's from which a connection came.
    :ivar tcp_poses: poses by TCP when none arrived by UDP; None if not tried.
    """

    place: Place
    port: int
    connection: str = 'auto'
    surroundings: tuple[str, ...] = ()
    transport_reason: str = ''
    remembered: str = ''
    udp: Optional[Attempt] = None
    tcp: Optional[Attempt] = None
    unused: bool = False
    peers: set[str] = field(default_factory=set)
    tcp_poses: Optional[int] = None

    @property
    def transport(self) -> str:
        """Return 'udp' or 'tcp', by which the server can be used; '' for none."""
        if self.udp is not None and self.udp.version:
            return 'udp'
        by_tcp = self.connection != 'udp' and self.tcp is not None and self.tcp.version
        return 'tcp' if by_tcp and not is_open(self.udp) else ''


def is_open(attempt: Optional[Attempt]) -> bool:
    """Return whether an attempt connected."""
    return attempt is not None and attempt.outcome is ProbeOutcome.OPEN


def check_udp(facts: VrpnProbeFacts) -> CheckResult:
    """Check the request by UDP."""
    attempt = facts.udp
    if attempt is None:
        return skip('udp', _why_not_tried(facts))
    where = f'UDP port {facts.port} of {facts.place.address}'
    outcome = attempt.outcome.value
    if attempt.outcome is ProbeOutcome.OPEN:
        return ok('udp', f'a request to {where} was answered', outcome=outcome)
    result = _fail_or_warn(facts)
    if attempt.outcome is ProbeOutcome.REFUSED and result is warn:
        return skip('udp', f'nothing takes requests on {where}: the node uses TCP')
    if attempt.outcome is ProbeOutcome.REFUSED:
        return result('udp', f'nothing listens on {where}: its machine refused the request',
                      _MOTIVE, outcome=outcome)
    if facts.unused:
        return skip('udp', 'no machine has the address')
    if attempt.outcome is ProbeOutcome.SILENT:
        # UDP has no acknowledgement: only the connect-back shows whether the request arrived.
        return ok('udp', f'a request to {where} was sent and not refused; whether it arrived is '
                  'not known', outcome=outcome)
    return result('udp', *_split(attempt.detail), outcome=outcome)


def check_connect_back(facts: VrpnProbeFacts) -> CheckResult:
    """Check whether the server connects back by TCP."""
    check, attempt, place = 'connect-back', facts.udp, facts.place
    if attempt is None and facts.remembered:
        found, _, remedy = facts.remembered.partition('. ')
        return warn(check, found, remedy)
    if attempt is None:
        return skip(check, _why_not_tried(facts))
    if attempt.outcome is ProbeOutcome.OPEN:
        return ok(check, f'{place.address} connected back to {place.local} within '
                         f'{attempt.took_s * 1e3:.0f} ms', took_s=round(attempt.took_s, 4))
    if attempt.outcome is not ProbeOutcome.SILENT or facts.unused:
        return skip(check, 'no request arrived')
    result = _fail_or_warn(facts)
    if facts.peers:
        others = ', '.join(sorted(facts.peers))
        return result(
            check, f'the connection came from {others}, not from {place.address}, and was '
            'refused', f'the server has several network cards: set server to {others}')
    if place.loopback:
        advice = f'{_HANGS}.'
    else:
        advice = (
            "does this machine's firewall drop it (it must admit inbound TCP from "
            f'{place.address}: sudo ufw allow from {place.address}), or the one there (inbound '
            f"UDP {facts.port})? Is Motive's Local Interface that of this network?")
        hints = [_HINTS[one] for one in facts.surroundings if one in _HINTS]
        if hints:
            advice += f' Note: {"; ".join(hints)}.'
    if is_open(facts.tcp):
        advice += ' Or set connection: tcp or auto, which need no connect-back'
    hazard = '' if place.loopback else (
        '. A VRPN server whose connection back is dropped serves no client meanwhile: once for '
        'about 20 s (Windows; 127 s on Linux)')
    return result(check, f'{place.address} did not connect back to {place.local} within '
                         f'{attempt.took_s:.3g} s{hazard}', advice)


def check_tcp(facts: VrpnProbeFacts) -> CheckResult:
    """Check the connection by ``tcp://``."""
    attempt = facts.tcp
    if attempt is None:
        return skip('tcp', 'there is no route to the server')
    where = f'TCP port {facts.port} of {facts.place.address}'
    needed = facts.connection == 'tcp' or not is_open(facts.udp)
    if attempt.outcome is ProbeOutcome.OPEN:
        hazard = (
            '. With poses by TCP, a VRPN server serves no other client while this computer does '
            'not read: node stopped, computer suspended, link lost' if needed else '')
        return ok('tcp', f'{where} accepts connections, within {attempt.took_s * 1e3:.0f} ms'
                  f'{hazard}', took_s=round(attempt.took_s, 4))
    result = fail if needed else warn
    if attempt.outcome is ProbeOutcome.REFUSED:
        return result('tcp', f'nothing listens on {where}: its machine refused the connection',
                      _MOTIVE if needed else
                      'a firewall refuses TCP, or the server takes requests by UDP only: the node '
                      'uses UDP')
    if facts.unused:
        return result('tcp', *facts.place.nobody())
    if attempt.outcome is ProbeOutcome.SILENT:
        return result(
            'tcp', f'{where} does not answer within {attempt.took_s:.3g} s',
            _HANGS if facts.place.loopback else
            'is the Motive PC on, and is this its address? Does its firewall admit inbound TCP '
            f'{facts.port}, also for networks that Windows classifies as public?')
    return result('tcp', *_split(attempt.detail))


def check_handshake(facts: VrpnProbeFacts, heard: Optional[Heard]) -> CheckResult:
    """Check the greeting and the version."""
    attempts = [one for one in (facts.udp, facts.tcp) if one and (one.version or one.fault)]
    if not attempts:
        return skip('handshake', 'there is no connection')
    attempt = attempts[0]
    if attempt.version is not None and (heard is None or heard.seconds or not heard.ended):
        version = '{:02d}.{:02d}'.format(*attempt.version)
        note = f' ({attempt.note})' if attempt.note else ''
        return ok('handshake', f'VRPN {version}{note}', version=version)
    if attempt.other_program:
        return fail('handshake', attempt.fault,
                    f'another program uses port {facts.port} there: give the port of VRPN in '
                    "Motive's streaming settings")
    fault = f'only the first time: {heard.ended}' if heard and attempt.version else attempt.fault
    return fail('handshake', fault,
                f'another program uses port {facts.port} there, or Motive hangs: give the port '
                "of Motive's VRPN streaming. A client whose firewall drops Motive's connection "
                'blocks Motive for 21 s at a time (VRPN servers on Linux for 127 s): stop the '
                'other clients, wait, try again; then restart Motive')


def check_senders(heard: Optional[Heard]) -> CheckResult:
    """Check which rigid bodies the server names."""
    described = heard.known.senders if heard is not None else {}
    if heard is None or not described:
        return skip('senders', 'no data was received')
    senders = [name for name in described if name != CONTROL_SENDER]
    if not senders:
        return warn('senders', 'the server names no rigid body', _CREATE, count=0)
    without_pose = [name for name in senders if not any(
        body == name or body.startswith(f'{name}/sensor') for body in heard.names)]
    hidden = [name for name in without_pose if described[name]]
    echoes = [name for name in without_pose if not described[name]]
    found = f'{counted(len(senders), "sender")}: {listed(senders)}'
    values: dict[str, Value] = {
        'count': len(senders), 'answer_pings': sum(described.values()),
        'send_poses': len(heard.names)}
    if echoes:
        found += f'; neither poses nor an answer from {listed(echoes)}'
    if hidden and heard.names:
        return warn('senders', f'{found}; no pose of {listed(hidden)}',
                    'is it in view of the cameras, and ticked for streaming in Motive?', **values)
    return ok('senders', found, **values)


def explain_silence(facts: VrpnProbeFacts, heard: Heard) -> CheckResult:
    """Explain why a connected server sent no pose."""
    place = facts.place
    if not heard.seconds:
        return skip('data', 'there is no connection')
    found = 'connected, but no pose within 2 s'
    if heard.said:
        found += f' ({"; ".join(heard.said)})'
    if heard.ended:
        return fail('data', f'{found}: {heard.ended}',
                    'check the messages of Motive, or of the program on that port')
    if not heard.known.senders:
        return fail(
            'data', f'{found}, nor the names that each VRPN server sends after its greeting',
            'the network drops large packets: is a VPN, a tunnel or an overlay network of '
            'containers on the way? Try a smaller MTU here: sudo ip link set '
            f'{place.card or "CARD"} mtu 1280')
    if facts.tcp_poses:
        return fail(
            'data', f'{found} by UDP, but {facts.tcp_poses} arrived by TCP',
            'the server hangs, or sends its datagrams elsewhere: start it again, or set '
            'connection: tcp' if place.loopback else
            f'a firewall drops the datagrams: admit inbound UDP from {place.address} (sudo ufw '
            f'allow from {place.address}), or set connection: tcp', tcp_poses=facts.tcp_poses)
    if heard.counters.get('datagrams'):
        return fail('data', f'{found}, only messages of another kind',
                    'is that Motive? Other VRPN servers send messages that this package ignores',
                    datagrams=heard.counters['datagrams'])
    return fail(
        'data', found,
        'is Motive live, not paused or in edit mode? Is a rigid body ticked for streaming and in '
        'view?' if set(heard.known.senders) - {CONTROL_SENDER} else _CREATE)


def _split(error: str) -> tuple[str, str]:
    """Split the text of an error into finding and remedy."""
    found, _, advice = error.partition(': ')
    return found, advice or 'check the address and the cable'


def _fail_or_warn(facts: VrpnProbeFacts) -> Callable[..., CheckResult]:
    """Return ``warn`` if poses can arrive over TCP instead, else ``fail``."""
    return warn if facts.connection == 'auto' and is_open(facts.tcp) else fail


def _why_not_tried(facts: VrpnProbeFacts) -> str:
    if facts.connection == 'tcp':
        return 'not used with connection: tcp'
    if facts.transport_reason and not (facts.tcp and facts.tcp.fault):
        return f'not tried, as in the node: {facts.transport_reason.removeprefix("auto: ")}'
    return 'there is no VRPN server'
