# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
State of the connection: next transport, pauses, silence, reason to give up; its settings.

Pure: the client reports what happened and when; the link returns which transport to try, how long
to wait, and when silence has lasted too long. VRPN has no timeout of its own: a stopped server or
a disconnected cable causes no error on either side.
"""

from dataclasses import dataclass
import enum
import math
from typing import Callable, Optional

from optitrack_vrpn.events import Event
from optitrack_vrpn.settings import checked, setting
from optitrack_vrpn.units import NS_PER_S


CONNECTIONS = ('auto', 'udp', 'tcp')
#: Timeout of connect() where a firewall drops the packets: 127 s with tcp_syn_retries = 6 on
#: Linux, 21 s with 2 retransmissions on Windows (their defaults). The VRPN library calls connect()
#: in the thread that serves all clients. The value is the longer timeout plus 3 s; a shorter one
#: sends requests that block the server again.
BLOCKED_S = 130.0

#: Chosen: wait until the next check where a deadline has passed (s); poll() counts in ms.
_PASSED_S = 0.001


class LinkState(enum.Enum):
    """States of the connection to the server."""

    STOPPED = 'stopped'
    RESOLVING = 'resolving'
    REQUESTING = 'requesting'
    CONNECTING = 'connecting'
    HANDSHAKING = 'handshaking'
    CONNECTED = 'connected'
    STREAMING = 'streaming'
    SILENT = 'silent'
    LOST = 'lost'
    REFUSED = 'refused'


@checked
@dataclass(frozen=True)
class LinkConfig:
    """
    When to retry, fall back to UDP, report silence and give up.

    :ivar attempt_s: timeout of a TCP connection (s). A handshake or connect-back that takes longer
        is reported, and the client waits for it up to ``blocked_s``. Chosen: a LAN answers within
        milliseconds, and TCP retransmits a lost SYN after 1 s and 3 s. Halved, one retransmission
        must arrive; doubled, an absent server is reported later.
    :ivar connect_back_s: with 'auto', time from a UDP request to the use of TCP (s). The server's
        SYN is retransmitted after 1 s.
    :ivar blocked_s: longest time for which a client that does not answer the connect-back blocks
        a server (s). Within this time the client sends no second request and does not abandon a
        handshake.
    :ivar retry_min_s: pause after the first failed attempt (s); it doubles up to ``retry_max_s``.
        Chosen.
    :ivar give_up_after_s: time without a connection (s) after which the client stops trying; 0 for
        never. For programs that use the client alone.
    :ivar silent_after_s: time without a pose (s) that is reported as silence; 0 for never. Chosen.
    :ivar reconnect_after_s: time without a pose (s) after which the client connects again,
        doubling up to 60 s while that does not help; 0 for never. Chosen.
    """

    connection: str = setting('auto', choices=CONNECTIONS, doc=(
        'connection to the server: tcp (outbound, passes NAT and firewalls), udp (a UDP request, '
        'the server connects back), or auto (udp where the server can be expected to connect '
        'back, else tcp)'))
    attempt_s: float = 3.0
    connect_back_s: float = 2.0
    blocked_s: float = BLOCKED_S
    retry_min_s: float = 0.25
    retry_max_s: float = setting(
        2.0, unit='s', low=0.01, high=600.0, name='connect.retry_max_s',
        doc='longest pause between attempts to connect')
    give_up_after_s: float = 0.0
    silent_after_s: float = 1.0
    reconnect_after_s: float = 10.0


def link_event(state: LinkState, text: str, severity: str) -> Event:
    """
    Return the event for a change of state, or for a message about a state that continues.

    Its key is 'link', and its data is the state.

    :param text: what happened and, for a fault, what to do.
    """
    return Event(severity, 'link', text, state)


class Link:
    """
    The state of one client's connection to its server.

    :ivar state: the current state.
    :ivar reason: its reason.
    :ivar since_ns: time of the last change of state (ns).
    :ivar transport: 'udp' or 'tcp', the transport of the current attempt or conversation.
    :ivar transport_reason: why this transport was chosen.
    :ivar takes_datagrams: whether a server that connects back is asked to send poses by UDP.
    :ivar sessions: number of conversations that received the server's cookie.
    :ivar failures: number of failed attempts since the last conversation.
    :ivar last_failure: reason of the last failure since the last conversation, or ''.
    """

    #: Chosen: longest pause between reconnections during silence (s).
    _LONGEST_SILENCE_S = 60.0
    #: Chosen: a shorter conversation (s) counts as a failure, so that a server that closes each
    #: connection immediately is not contacted more often than ``retry_max_s`` allows.
    _BRIEF_CONVERSATION_S = 2.0

    def __init__(self, config: LinkConfig, now_ns: int) -> None:
        self.config = config
        self.state = LinkState.STOPPED
        self.reason = 'not started'
        self.since_ns = now_ns
        self.transport = 'udp' if config.connection == 'udp' else 'tcp'
        self.transport_reason = ''
        self.takes_datagrams = True
        self.sessions = 0
        self.failures = 0
        self.last_failure = ''
        self._brief_conversations = 0
        self._searching_since_ns = now_ns
        self._last_pose_ns: Optional[int] = None
        self._established_ns = now_ns
        self._reconnect_after_s = config.reconnect_after_s
        self._reading_first = False

    def to(
        self, state: LinkState, reason: str, now_ns: int, severity: str = 'info',
    ) -> Optional[Event]:
        """
        Change the state.

        :returns: the event, or None if neither state nor reason changed.
        """
        if state is self.state and reason == self.reason:
            return None
        if state is not self.state:
            self.since_ns = now_ns
        self.state, self.reason = state, reason
        if state in (LinkState.LOST, LinkState.REFUSED):
            self.last_failure = reason
        return link_event(state, reason, severity)

    def message(self, text: str, severity: str) -> Event:
        """Return an event that changes neither the state nor its reason."""
        return link_event(self.state, text, severity)

    # -- attempts ------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """Record that the attempts to connect begin now."""
        self._searching_since_ns = now_ns

    def attempt_failed(self) -> float:
        """
        Record a failed attempt.

        :returns: pause before the next attempt (s).
        """
        self.failures += 1
        return self._pause_s()

    def _pause_s(self) -> float:
        exponent = min(max(self.failures + self._brief_conversations - 1, 0), 30)
        return min(self.config.retry_min_s * 2.0 ** exponent, self.config.retry_max_s)

    def time_left_s(self, now_ns: int) -> float:
        """Return the time left before giving up (s); infinite without ``give_up_after_s``."""
        if not self.config.give_up_after_s:
            return math.inf
        return self.config.give_up_after_s - (now_ns - self._searching_since_ns) / NS_PER_S

    def give_up_reason(self, now_ns: int) -> Optional[str]:
        """Return the reason to give up, or None to try again."""
        if self.time_left_s(now_ns) <= 0.0:
            searching_s = (now_ns - self._searching_since_ns) / NS_PER_S
            return (f'gave up after {searching_s:.1f} s without a connection '
                    '(give_up_after_s)')
        return None

    # -- a conversation ------------------------------------------------------------------------

    def established(self, now_ns: int) -> None:
        """Record that the server's cookie arrived and was accepted."""
        self.sessions += 1
        self.last_failure = ''
        self._established_ns = now_ns
        self._last_pose_ns = None

    def ended(self, now_ns: int) -> float:
        """
        Record the end of a conversation; the attempts to reconnect begin now.

        A conversation shorter than 2 s lengthens the pauses, so that the client does not flood a
        server that closes each connection immediately. Without a pose it also counts as a failed
        attempt.

        :returns: pause before the next attempt (s).
        """
        self._searching_since_ns = now_ns
        brief = now_ns - self._established_ns < self._BRIEF_CONVERSATION_S * NS_PER_S
        if brief and self._last_pose_ns is None:
            self.failures += 1
        else:
            self.failures = 0
            self._brief_conversations = self._brief_conversations + 1 if brief else 0
        return self._pause_s()

    def pose_received(self, now_ns: int) -> Optional[Event]:
        """Record that poses arrived."""
        self._last_pose_ns = now_ns
        if self.state is LinkState.STREAMING:
            return None  # the hot path
        self._reconnect_after_s = self.config.reconnect_after_s
        return self.to(LinkState.STREAMING, 'poses are arriving', now_ns)

    def due(self, now_ns: int, unread: Callable[[], object]) -> bool:
        """
        Return whether to check for silence now, or to read first.

        A process that was halted (a suspended computer, Ctrl-Z, a debugger) finds all deadlines
        passed, and the poses of the meantime unread: silence counts only after reading them.

        :param unread: returns whether a socket has unread data; called only if a deadline has
            passed, and not twice in a row, so that data without poses does not hide silence.
        """
        self._reading_first = (
            not self._reading_first and self.next_check_s(now_ns) <= _PASSED_S and bool(unread()))
        return not self._reading_first

    def check(self, now_ns: int) -> Optional[Event]:
        """
        Check whether no pose has arrived for ``silent_after_s``, or since the handshake.

        :returns: a change to SILENT, or None.
        """
        deadline_ns = self._silent_at_ns()
        if deadline_ns is None or now_ns < deadline_ns:
            return None
        limit = f'{self.config.silent_after_s:g} s'
        if self._last_pose_ns is None:
            return self.to(
                LinkState.SILENT,
                f'no pose within {limit} of the connection: check that Motive is live, that a '
                'rigid body is ticked for streaming, and that the cameras see it', now_ns, 'warn')
        return self.to(
            LinkState.SILENT,
            f'no pose for {limit}: check the network cables, whether Motive is paused or in edit '
            'mode, and whether the cameras see a body', now_ns, 'warn')

    def _silent_at_ns(self) -> Optional[float]:
        """Return when silence is reported unless a pose arrives; None if it is not."""
        if not self.config.silent_after_s or self.state not in (
                LinkState.STREAMING, LinkState.CONNECTED):
            return None
        return self._quiet_since_ns() + self.config.silent_after_s * NS_PER_S

    def _quiet_since_ns(self) -> int:
        """Return the time of the last pose, or of the handshake before the first (ns)."""
        return self._established_ns if self._last_pose_ns is None else self._last_pose_ns

    def must_reconnect(self, now_ns: int, datagrams: int = 0) -> Optional[str]:
        """
        Check whether silence has lasted so long that the client should reconnect.

        The time counts from the last pose, or from the handshake if no pose has arrived. With
        'auto', if a conversation by connect-back received no datagram, the next one uses TCP for
        poses: a firewall may admit the connect-back and drop UDP.

        :param datagrams: number of datagrams received in this conversation.
        :returns: the reason, or None. Each reconnection doubles the time to the next one.
        """
        if not self._reconnect_after_s:
            return None
        if now_ns - self._quiet_since_ns() < self._reconnect_after_s * NS_PER_S:
            return None
        reason = (f'no pose for {self._reconnect_after_s:g} s; reconnecting'
                  if self._last_pose_ns is not None else
                  f'connected, but no pose within {self._reconnect_after_s:g} s; reconnecting: '
                  'check that Motive streams rigid bodies and that the cameras see one')
        self._reconnect_after_s = min(2 * self._reconnect_after_s, max(
            self._LONGEST_SILENCE_S, self.config.reconnect_after_s))
        if (self.config.connection == 'auto' and self.transport == 'udp' and self.takes_datagrams
                and not datagrams):
            self.takes_datagrams = False
            reason += '; no datagram arrived: poses by TCP (a firewall here may drop UDP)'
        return reason

    def next_check_s(self, now_ns: int) -> float:
        """Return the longest wait before the next check for silence (s)."""
        deadlines = []
        silent_at_ns = self._silent_at_ns()
        if silent_at_ns is not None:
            deadlines.append(silent_at_ns)
        if self._reconnect_after_s:
            deadlines.append(self._quiet_since_ns() + self._reconnect_after_s * NS_PER_S)
        if not deadlines:
            return 1.0
        return min(max((min(deadlines) - now_ns) / NS_PER_S, _PASSED_S), 1.0)


def silent_handshake(server: str, waited_s: float, until_s: float) -> str:
    """
    Describe a server that accepted the TCP connection and then sent nothing.

    :param server: its address.
    :param waited_s: time without data so far (s).
    :param until_s: timeout (s).
    """
    return (
        f'{server} accepted the connection but sent no VRPN greeting within {waited_s:g} s: its '
        'VRPN server is probably blocked, by a client whose firewall drops the connection to it '
        '(Windows 21 s, Linux 127 s), or suspended; or another program uses the port' + (
            f'. Waiting for up to {until_s:g} s' if waited_s < until_s else ''))


def unanswered_request(
    server: str, host: str, port: int, waited_s: float, blocked_s: float,
) -> str:
    """
    Describe a UDP request after which the server did not connect back.

    :param server: its address.
    :param host: host in the request.
    :param port: TCP port in the request.
    :param waited_s: time without a connection so far (s).
    :param blocked_s: time from the request to the next one (s).
    """
    return (
        f'{server} did not connect back to {host} port {port} within {waited_s:g} s: admit '
        'inbound TCP here and UDP there, or set connection: tcp. A dropped connection blocks the '
        f'server for all clients: next request after {blocked_s:g} s')


def waiting_for_earlier_request(server: str, left_s: float) -> str:
    """
    Describe a server that an earlier, unanswered UDP request may still block.

    :param server: its address.
    :param left_s: time until the next request (s).
    """
    return (
        f'{server} has not answered the UDP request of an earlier configuration and may be '
        f'blocked by it: next request in {left_s:.0f} s. Check the firewall here for inbound '
        'TCP, or set connection: tcp')
