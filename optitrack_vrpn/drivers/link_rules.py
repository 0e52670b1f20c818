# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What can be said of a connection: the sentences of log, /diagnostics and doctor.

The client finds the row when its state changes; the doctor uses the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeVar

from optitrack_vrpn.core.findings import Case, case, find, Finding, Rule
from optitrack_vrpn.core.severity import ERROR, INFO, WARN

F = TypeVar('F')

#: Why NatNet has no usable frame.
UNDECODABLE: Final = 'frames cannot be decoded as NatNet {version}: {undecodable}'
UNCONFIRMED: Final = (
    'Motive has not described its present list of bodies: poses are withheld because their names '
    'are not confirmed')
#: For how long (s) names may be unconfirmed; chosen: requests are answered within milliseconds.
UNCONFIRMED_S: Final = 1.0


class SilenceFacts(NamedTuple):
    """
    A connection without a pose.

    :ivar limit_s: for how long (s).
    :ivar posed: whether a pose arrived before.
    :ivar server, local: addresses of the server and of this computer.
    :ivar data_port: port of the frames, where they have one of their own; else 0.
    :ivar group: multicast group of the frames; '' for unicast.
    :ivar framed: whether a frame has arrived.
    """

    limit_s: float
    posed: bool = False
    server: str = ''
    local: str = ''
    data_port: int = 0
    group: str = ''
    framed: bool = False


class ChoiceFacts(NamedTuple):
    """
    What the choice among protocols did.

    :ivar used, best: titles of the protocol that is used and of the best one.
    :ivar merit: what the best one adds.
    :ivar why: why the best one is not used.
    :ivar ended_s: time without a pose (s), after which all are tried again; 0 if one is used.
    :ivar recording: 'start' or 'stop', for a recording that the protocol cannot make; else ''.
    """

    used: str
    best: str
    merit: str = 'what it adds'
    why: str = ''
    ended_s: float = 0.0
    recording: str = ''


def _silent(met: bool, facts: SilenceFacts) -> tuple[Case, ...]:
    return case(met, **facts._asdict())


def _chosen(met: bool, facts: ChoiceFacts) -> tuple[Case, ...]:
    return case(met and not facts.recording and not facts.ended_s, **facts._asdict())


#: Rows of silence; the first one that applies decides.
SILENCE: Final[tuple[Rule[SilenceFacts], ...]] = (
    Rule('no multicast', WARN, lambda facts: _silent(
        bool(facts.data_port and facts.group) and not facts.framed, facts),
         '{server} answers, but no frame arrives by multicast {group} port {data_port} on {local}',
         'is streaming (Broadcast Frame Data) on in Motive, and is it not paused? Set interface '
         'to the network card that Motive streams to (its Local Interface). Does a switch or '
         'firewall drop multicast? Are jumbo frames off on the network card of the Motive PC (MTU '
         'as here)?',
         explains=('*',)),
    Rule('no unicast', WARN, lambda facts: _silent(
        facts.data_port > 0 and not facts.framed, facts),
         '{server} answers, but no frame arrives by unicast at {local}',
         'is streaming (Broadcast Frame Data) on in Motive, and is it not paused? Does a NAT or '
         'firewall drop UDP from port {data_port} of {server}: start a container with --network '
         'host, set WSL2 to mirrored networking, or admit that port. Are jumbo frames off on the '
         'network card of the Motive PC (MTU as here)?', explains=('*',)),
    Rule('no pose yet', WARN, lambda facts: _silent(not facts.posed, facts),
         'no pose within {limit_s:g} s of the connection',
         'check that Motive is live, not paused or in edit mode, that a rigid body is ticked for '
         'streaming, and that the cameras see it', explains=('*',)),
    Rule('silent', WARN, lambda facts: _silent(True, facts), 'no pose for {limit_s:g} s',
         'check the network cables, whether Motive is paused or in edit mode, and whether the '
         'cameras see a body'))
#: Rows of the choice among protocols.
CHOICE: Final[tuple[Rule[ChoiceFacts], ...]] = (
    Rule('cannot record', ERROR, lambda facts: case(facts.recording, **facts._asdict()),
         'cannot {recording} a recording in Motive: {used} is used, which has no such command',
         'use NatNet (protocol: natnet)'),
    Rule('protocol ended', WARN, lambda facts: case(
        facts.ended_s and not facts.recording, **facts._asdict()),
         '{used} has had no pose for {ended_s:g} s', 'all protocols are tried again'),
    Rule('best protocol', INFO, lambda facts: _chosen(facts.used == facts.best, facts),
         '{used} is used: it streams bodies, with {merit}', ''),
    Rule('other protocol', WARN, lambda facts: _chosen(facts.used != facts.best, facts),
         '{used} is used: it streams poses, {best} does not: {why}',
         '{used} lacks {merit}: enable {best} at the server and start this node again'))


def first(rules: Iterable[Rule[F]], facts: F) -> Finding:
    """Return the finding of the first row that applies; one of them does."""
    return find(rules, facts)[0]
