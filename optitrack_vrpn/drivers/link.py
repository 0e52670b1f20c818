# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
State of one connection: pauses between attempts, silence.

Pure: the client reports what happened and when; the link returns how long to wait, and when
silence has lasted too long. Neither protocol has a timeout of its own: a stopped server or a
disconnected cable causes no error on either side.
"""

import enum
from typing import Callable, Optional

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.findings import Finding
from optitrack_vrpn.core.severity import INFO, Severity
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.config import LinkConfig
from optitrack_vrpn.drivers.link_rules import first, SILENCE, SilenceFacts

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


def link_event(severity: Severity, text: str, state: Optional[LinkState] = None) -> Event:
    """
    Return the event for a change of state, or for a message about a state that continues.

    Its key is 'link', and its data is the state; a driver leaves a state that continues out.

    :param text: what happened and, for a fault, what to do.
    """
    return Event(severity, 'link', text, state)


class Link:
    """
    The state of one client's connection to its server.

    :ivar state: the current state.
    :ivar reason: its reason.
    :ivar since_ns: time of the last change of state (ns).
    :ivar transport: how the frames of the current attempt or conversation come, such as 'udp'.
    :ivar transport_reason: why this transport was chosen.
    :ivar sessions: number of conversations whose handshake succeeded.
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
        self.transport = ''
        self.transport_reason = ''
        self.sessions = 0
        self.failures = 0
        self.last_failure = ''
        self._brief_conversations = 0
        self._last_pose_ns: Optional[int] = None
        self._established_ns = now_ns
        self._reconnect_after_s = config.reconnect_after_s
        self._reading_first = False

    def to(
        self, state: LinkState, reason: str, now_ns: int, severity: Severity = INFO,
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
        return link_event(severity, reason, state)

    def message(self, text: str, severity: Severity) -> Event:
        """Return an event that changes neither the state nor its reason."""
        return link_event(severity, text, self.state)

    # -- attempts ------------------------------------------------------------------------------

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

    # -- a conversation ------------------------------------------------------------------------

    def established(self, now_ns: int) -> None:
        """Record that the handshake has succeeded."""
        self.sessions += 1
        self.last_failure = ''
        self._established_ns = now_ns
        self._last_pose_ns = None

    def ended(self, now_ns: int) -> float:
        """
        Record the end of a conversation.

        A conversation shorter than 2 s lengthens the pauses, so that the client does not flood a
        server that closes each connection immediately. Without a pose it also counts as a failed
        attempt.

        :returns: pause before the next attempt (s).
        """
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

    def check(
        self, now_ns: int, facts: Callable[[], SilenceFacts] = lambda: SilenceFacts(0.0),
    ) -> Optional[Event]:
        """
        Check whether no pose has arrived for ``silent_after_s``, or since the handshake.

        :param facts: returns what is known of the connection.
        :returns: a change to SILENT, or None.
        """
        deadline_ns = self._silent_at_ns()
        if deadline_ns is None or now_ns < deadline_ns:
            return None
        found = self._silence(facts, self.config.silent_after_s)
        return self.to(LinkState.SILENT, found.line, now_ns, found.severity)

    def _silence(self, facts: Callable[[], SilenceFacts], limit_s: float) -> Finding:
        return first(SILENCE, facts()._replace(
            limit_s=limit_s, posed=self._last_pose_ns is not None))

    def _silent_at_ns(self) -> Optional[float]:
        """Return when silence is reported unless a pose arrives; None if it is not."""
        if not self.config.silent_after_s or self.state not in (
                LinkState.STREAMING, LinkState.CONNECTED):
            return None
        return self._quiet_since_ns() + self.config.silent_after_s * NS_PER_S

    def _quiet_since_ns(self) -> int:
        """Return the time of the last pose, or of the handshake before the first (ns)."""
        return self._established_ns if self._last_pose_ns is None else self._last_pose_ns

    def must_reconnect(
        self, now_ns: int, facts: Callable[[], SilenceFacts] = lambda: SilenceFacts(0.0),
    ) -> Optional[str]:
        """
        Check whether silence has lasted so long that the client should reconnect.

        The time counts from the last pose, or from the handshake if no pose has arrived.

        :param facts: as for ``check``.
        :returns: the reason, or None. Each reconnection doubles the time to the next one.
        """
        if not self._reconnect_after_s:
            return None
        if now_ns - self._quiet_since_ns() < self._reconnect_after_s * NS_PER_S:
            return None
        found = self._silence(facts, self._reconnect_after_s)
        reason = f'{found.text}; reconnecting: {found.remedy}'
        self._reconnect_after_s = min(2 * self._reconnect_after_s, max(
            self._LONGEST_SILENCE_S, self.config.reconnect_after_s))
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
