# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide between the two transports of VRPN, and what an unanswered UDP request means.

Each has a hazard for the other clients of a server. A client on TCP that stops reading, or whose
link dies, stops the server for all: its ``send()`` blocks. A client that asks by UDP behind a
firewall that drops the server's connection blocks the server once, until its ``connect()`` ends
(21 s on Windows, 127 s on Linux). UDP is used where that connection can be expected.
"""

from dataclasses import dataclass
import enum
from typing import NamedTuple, Optional


class Request(enum.Enum):
    """What is known of the last UDP request from this host to a server."""

    NONE = ''
    #: Sent, and neither answered nor known to be harmless.
    PENDING = 'pending'
    #: The server connected back to no request; no further one is sent by itself.
    UNANSWERED = 'unanswered'


@dataclass(frozen=True)
class HostFacts:
    """
    What decides whether a server can connect back to this host.

    :ivar own: the server's address is one of this host.
    :ivar direct: the route to the server has no gateway.
    :ivar firewall: name of the active firewall of this host, or ''.
    :ivar wsl: whether this is Linux inside Windows.
    :ivar request: the last UDP request to this server.
    :ivar since: when the request was sent, as text.
    """

    own: bool = False
    direct: bool = True
    firewall: str = ''
    wsl: bool = False
    request: Request = Request.NONE
    since: str = ''


@dataclass(frozen=True)
class TransportChoice:
    """
    The transport to use.

    :ivar transport: 'udp' or 'tcp'.
    :ivar reason: why, for log and diagnostics.
    """

    transport: str
    reason: str


def choose_transport(connection: str, facts: HostFacts) -> TransportChoice:
    """
    Choose the transport for a setting of ``connection``; the first rule that applies decides.

    :param connection: 'auto', 'udp' or 'tcp'.
    """
    if connection != 'auto':
        return TransportChoice(connection, f'connection: {connection}')
    rules = (
        (facts.request is Request.UNANSWERED, 'tcp',
         f'the server did not connect back after the UDP request of {facts.since}'),
        (facts.request is Request.PENDING, 'tcp',
         f'the UDP request of {facts.since} may still block the server'),
        (facts.own, 'udp', 'the server runs on this computer'),
        (not facts.direct, 'tcp', 'the server is not in a directly connected network'),
        (facts.wsl, 'tcp', 'this is WSL: the firewall of Windows drops connections to it'),
        (facts.firewall, 'tcp', f'the firewall {facts.firewall} of this computer is active'),
        (True, 'udp', 'the server is in a directly connected network; no firewall was found here'))
    return next(TransportChoice(transport, f'auto: {reason}')
                for applies, transport, reason in rules if applies)


class Seen(enum.Enum):
    """What a client observed of a server after a request by UDP."""

    CONNECT_BACK = 'connect-back'
    REFUSAL = 'refusal'
    UNREACHABLE = 'unreachable'
    GREETING = 'greeting'


class Remembered(NamedTuple):
    """The last UDP request from this host to a server, and when it was sent (system time, s)."""

    request: Request = Request.NONE
    time_s: float = 0.0

    def left_s(self, limit_s: float, now_s: float) -> float:
        """Return for how long (s) it may still be answered within a limit; 0 if it cannot."""
        left_s = self.time_s + limit_s - now_s
        return left_s if self.request is Request.PENDING and 0.0 < left_s <= limit_s else 0.0


NOTHING = Remembered()
#: Chosen: a server that greets later was blocked (s).
_PROMPT_S = 2.0


def remember(
    stored: Remembered, seen: Seen, sent_s: Optional[float] = None,
    before: Remembered = NOTHING, waited_s: float = 0.0,
) -> Remembered:
    """
    Return what to remember after an observation.

    A refusal by UDP shows that no server runs, an unreachable address that the request never left.
    A server greets by TCP after it has dealt with the request: without a connection back, that
    connection does not get through. Only a connection back disproves that.

    :param stored: what is remembered now; another client may have changed it.
    :param sent_s: when this client sent a request whose answer it still listens for (system time,
        s); None without one.
    :param before: what was remembered before that request.
    :param waited_s: time from the TCP connection to the greeting (s).
    """
    known = stored.request is not Request.NONE or sent_s is not None
    if not known:
        return stored
    time_s = stored.time_s if sent_s is None else sent_s
    if seen is Seen.CONNECT_BACK:
        return Remembered(Request.NONE, time_s)
    if stored.request is Request.UNANSWERED:
        return stored
    if before.request is Request.UNANSWERED:
        return before
    unanswered = seen is Seen.GREETING and (sent_s is not None or waited_s >= _PROMPT_S)
    return Remembered(Request.UNANSWERED if unanswered else Request.NONE, time_s)


def describe_request(request: Request, since: str, path: str) -> str:
    """Describe a remembered request for the user; '' if there is none."""
    if request is Request.NONE:
        return ''
    what = ('was not answered; auto uses TCP' if request is Request.UNANSWERED else
            'was sent, without a known answer')
    return (f'a UDP request of {since} {what}. Admit inbound TCP from the server, then connect '
            f'once with connection: udp, or delete {path}')


#: Unconditional verdicts that close a chain of nftables.
_CLOSING = ('drop', 'reject')


def closes_input(ruleset: object) -> bool:
    """
    Return whether an nftables ruleset drops or rejects unlisted incoming connections.

    :param ruleset: the decoded output of ``nft -j list ruleset``.
    """
    rows = ruleset.get('nftables', []) if isinstance(ruleset, dict) else []
    tables = set()
    for row in rows:
        chain = row.get('chain', {})
        if chain.get('hook') == 'input':
            if chain.get('policy') == 'drop':
                return True
            tables.add((chain.get('family'), chain.get('table')))
    return any(
        (rule.get('family'), rule.get('table')) in tables
        and len(verdicts := [one for one in rule.get('expr', []) if 'counter' not in one]) == 1
        and any(name in verdicts[0] for name in _CLOSING)
        for rule in (row.get('rule', {}) for row in rows))
