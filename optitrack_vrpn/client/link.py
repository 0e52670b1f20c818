# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How the way to the server stands, and what to try next.

Pure: the transport tells what happened and when, and is told which way in to try, how long to
wait, and when silence has lasted too long. VRPN itself never notices silence: a stopped server or
a cut cable raises nothing on either side.
"""

from dataclasses import dataclass
import enum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.settings import checked, setting

_NS = 1_000_000_000

CONNECTIONS = ('auto', 'udp', 'tcp')
#: How long connect() waits for an answer where a firewall drops the packets: 127 s with Linux's
#: tcp_syn_retries of 6, 21 s with Windows' default of 2 retransmissions. The VRPN library calls it
#: in the thread that serves all clients. 3 s more than the longer one.
BLOCKED_S = 130.0


class LinkState(enum.Enum):
    """Where the conversation with the server stands."""

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


class LinkChange(NamedTuple):
    """
    One change of state, or a remark on a state that goes on.

    :ivar state: the state now.
    :ivar reason: a sentence for people: what happened and, when it is bad, what to do.
    :ivar severity: 'info', 'warn' or 'error'.
    :ivar now_ns: when, on the host's monotonic clock.
    """

    state: LinkState
    reason: str
    severity: str
    now_ns: int


@checked
@dataclass(frozen=True)
class LinkConfig:
    """
    When to try again, fall back, report silence and give up.

    :ivar attempt_s: how long a connection may take. A handshake or connect-back that takes longer
        is reported, and waited for until ``blocked_s``.
    :ivar blocked_s: how long a server may be blocked by a client that does not answer its
        connect-back; no second request is sent, and no handshake is abandoned, before.
    :ivar retry_min_s: pause after the first failed attempt; doubles up to ``retry_max_s``.
    :ivar max_attempts: failed attempts in a row before giving up; 0 for never.
    """

    connection: str = setting('auto', choices=CONNECTIONS, doc=(
        'way to the server: tcp (connect out, passes NAT and firewalls), udp (one request by UDP, '
        'the server connects back), or auto (tcp; udp only where TCP is refused)'))
    attempt_s: float = 3.0
    blocked_s: float = BLOCKED_S
    retry_min_s: float = 0.25
    retry_max_s: float = setting(
        2.0, unit='s', low=0.01, high=600.0, name='connect.retry_max_s',
        doc='longest pause between attempts to connect')
    give_up_after_s: float = setting(
        0.0, unit='s', low=0.0, high=1e6, name='connect.give_up_after_s',
        doc='time without a connection after which the client stops trying; 0 for never')
    silent_after_s: float = setting(
        1.0, unit='s', low=0.0, high=3600.0, name='watchdog.silent_after_s',
        doc='time without a pose that is reported as silence; 0 for never')
    reconnect_after_s: float = setting(
        10.0, unit='s', low=0.0, high=3600.0, name='watchdog.reconnect_after_s', doc=(
            'time without a pose after which the client connects again, doubling up to 60 s '
            'while that does not help; 0 for never'))
    max_attempts: int = 0

    def check(self) -> None:
        """
        Check what is not a setting.

        :raises ConfigurationError: a time is not positive, or a number negative.
        """
        for name in ('attempt_s', 'blocked_s', 'retry_min_s'):
            if not 0 < getattr(self, name) < float('inf'):
                raise ConfigurationError(f'{name} is {getattr(self, name)}; it must be positive')
        if self.max_attempts < 0:
            raise ConfigurationError(f'max_attempts is {self.max_attempts}; 0 or more is allowed')


class Link:
    """
    The state of one client's way to its server.

    :ivar state: the present state.
    :ivar reason: why.
    :ivar since_ns: since when.
    :ivar way: 'udp' or 'tcp', the way of the present attempt or conversation.
    :ivar takes_datagrams: whether a server that connects back is asked to send poses by UDP.
    :ivar sessions: conversations that got as far as the server's cookie.
    :ivar failures: failed attempts since the last conversation.
    """

    _LONGEST_SILENCE_S = 60.0
    _BRIEF_CONVERSATION_S = 2.0

    def __init__(self, config: LinkConfig, now_ns: int) -> None:
        self.config = config
        self.state = LinkState.STOPPED
        self.reason = 'not started'
        self.since_ns = now_ns
        self.way = 'udp' if config.connection == 'udp' else 'tcp'
        self.takes_datagrams = True
        self.sessions = 0
        self.failures = 0
        self._brief = 0
        self._searching_since_ns = now_ns
        self._last_pose_ns: Optional[int] = None
        self._established_ns = now_ns
        self._patience_s = config.reconnect_after_s
        self._unanswered_ns: Optional[int] = None

    def to(
        self, state: LinkState, reason: str, now_ns: int, severity: str = 'info',
    ) -> Optional[LinkChange]:
        """
        Go to a state.

        :returns: the change, or None where neither state nor reason changed.
        """
        if state is self.state and reason == self.reason:
            return None
        if state is not self.state:
            self.since_ns = now_ns
        self.state, self.reason = state, reason
        return LinkChange(state, reason, severity, now_ns)

    def message(self, text: str, now_ns: int, severity: str) -> LinkChange:
        """Say something beside the state, which goes on for the reason that it had."""
        return LinkChange(self.state, text, severity, now_ns)

    # -- attempts ------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """Note that the search begins now."""
        self._searching_since_ns = now_ns

    def attempt_failed(self) -> float:
        """
        Note a failed attempt.

        :returns: the pause before the next attempt in seconds.
        """
        self.failures += 1
        return self._pause_s()

    def may_request(self, now_ns: int) -> bool:
        """
        Tell whether a request by UDP cannot block the server once more.

        The server answers a request with a connect() that blocks it until this host answers. While
        that may last, another request would only make it block again.
        """
        sent_ns = self._unanswered_ns
        return sent_ns is None or now_ns - sent_ns >= self.config.blocked_s * _NS

    def request_unanswered(self, sent_ns: int) -> None:
        """Note a request that was neither refused nor followed by a connection."""
        self._unanswered_ns = sent_ns

    def _pause_s(self) -> float:
        exponent = min(max(self.failures + self._brief - 1, 0), 30)
        return min(self.config.retry_min_s * 2.0 ** exponent, self.config.retry_max_s)

    def time_left_s(self, now_ns: int) -> float:
        """Tell how long the search may go on in seconds; infinite without ``give_up_after_s``."""
        if not self.config.give_up_after_s:
            return math.inf
        return self.config.give_up_after_s - (now_ns - self._searching_since_ns) / _NS

    def give_up_reason(self, now_ns: int) -> Optional[str]:
        """Tell why not to try again, or None to go on."""
        config = self.config
        if config.max_attempts and self.failures >= config.max_attempts:
            return f'gave up after {self.failures} failed attempts'
        if self.time_left_s(now_ns) <= 0.0:
            searching_s = (now_ns - self._searching_since_ns) / _NS
            return (f'gave up after {searching_s:.1f} s without a connection '
                    '(connect.give_up_after_s)')
        return None

    # -- a conversation ------------------------------------------------------------------------

    def established(self, now_ns: int) -> None:
        """Note that the server's cookie came and was accepted."""
        self.sessions += 1
        self._established_ns = now_ns
        self._last_pose_ns = None
        self._unanswered_ns = None

    def ended(self, now_ns: int) -> float:
        """
        Note that a conversation ended; the search for the next begins now.

        One that ends as soon as it began lengthens the pauses, so that a server that hangs up at
        once is not called in a frenzy; without a pose it counts as a failed attempt too.

        :returns: the pause before the next attempt in seconds.
        """
        self._searching_since_ns = now_ns
        brief = now_ns - self._established_ns < self._BRIEF_CONVERSATION_S * _NS
        if brief and self._last_pose_ns is None:
            self.failures += 1
        else:
            self.failures = 0
            self._brief = self._brief + 1 if brief else 0
        return self._pause_s()

    def pose_received(self, now_ns: int) -> Optional[LinkChange]:
        """Note that poses arrived."""
        self._last_pose_ns = now_ns
        if self.state is LinkState.STREAMING:
            return None  # the hot path
        self._patience_s = self.config.reconnect_after_s
        return self.to(LinkState.STREAMING, 'poses are arriving', now_ns)

    def check(self, now_ns: int) -> Optional[LinkChange]:
        """
        Look whether silence has become a state.

        :returns: a change to SILENT, or None.
        """
        if self.state is not LinkState.STREAMING or not self.config.silent_after_s:
            return None
        if now_ns - (self._last_pose_ns or 0) < self.config.silent_after_s * _NS:
            return None
        return self.to(
            LinkState.SILENT,
            f'no pose for {self.config.silent_after_s:g} s: is Motive paused, in edit mode, or '
            'is every body out of view?', now_ns, 'warn')

    def must_reconnect(self, now_ns: int, datagrams: int = 0) -> Optional[str]:
        """
        Look whether silence has lasted so long that a new conversation is worth a try.

        A server that never sent a pose in this conversation is as silent as one that stopped.
        Under 'auto' a connected-back conversation in which no datagram came is followed by one
        without datagrams: a firewall may let the connect-back in and nothing else.

        :param datagrams: how many came in this conversation.
        :returns: the reason, or None; after a reason the next silence may last twice as long.
        """
        if not self._patience_s:
            return None
        since = self._last_pose_ns if self._last_pose_ns is not None else self._established_ns
        if now_ns - since < self._patience_s * _NS:
            return None
        reason = (f'no pose for {self._patience_s:g} s; connecting anew'
                  if self._last_pose_ns is not None else
                  f'connected, but no pose within {self._patience_s:g} s; connecting anew: does '
                  'Motive stream rigid bodies, and are any in view?')
        self._patience_s = min(2 * self._patience_s, max(
            self._LONGEST_SILENCE_S, self.config.reconnect_after_s))
        if (self.config.connection == 'auto' and self.way == 'udp' and self.takes_datagrams
                and not datagrams):
            self.takes_datagrams = False
            reason += '; no datagram arrived, so poses by TCP (a firewall here may drop UDP)'
        return reason

    def next_check_s(self, now_ns: int) -> float:
        """Tell how long to wait at most before the next look at silence, in seconds."""
        deadlines = []
        if self.state is LinkState.STREAMING and self.config.silent_after_s:
            deadlines.append((self._last_pose_ns or 0) + self.config.silent_after_s * _NS)
        if self._patience_s:
            since = self._last_pose_ns if self._last_pose_ns is not None else self._established_ns
            deadlines.append(since + self._patience_s * _NS)
        if not deadlines:
            return 1.0
        return min(max((min(deadlines) - now_ns) / _NS, 0.001), 1.0)


def silent_handshake(server: str, waited_s: float, until_s: float) -> str:
    """
    Describe a server that accepted the TCP connection and then sent nothing.

    :param server: its address.
    :param waited_s: for how long it has been silent (s).
    :param until_s: for how long it is waited for in all (s).
    """
    return (
        f'{server} accepted the connection but sent no VRPN greeting within {waited_s:g} s: its '
        'VRPN server is probably blocked, by a client whose firewall drops the connection to it '
        '(Windows 21 s, Linux 127 s), or suspended; or another program uses the port' + (
            f'. Waiting for up to {until_s:g} s' if waited_s < until_s else ''))


def unanswered_request(
    server: str, host: str, port: int, waited_s: float, until_s: float,
) -> str:
    """
    Describe a request by UDP upon which the server did not connect back.

    :param server: its address.
    :param host: where it was asked to connect to.
    :param port: the TCP port there.
    :param waited_s: for how long no connection has arrived (s).
    :param until_s: for how long it is waited for in all (s).
    """
    return (
        f'{server} did not connect back to {host} port {port} within {waited_s:g} s: let TCP in '
        'here, UDP there; behind NAT or in a container set connection: tcp. If a firewall drops '
        f'it, the server is blocked for all: next request after {until_s:g} s')
