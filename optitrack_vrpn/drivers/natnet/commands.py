# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of a NatNet client: one waits for its answer at a time."""

from collections import deque
from typing import Optional

from optitrack_vrpn.core.errors import LocalProtocolError
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.driver import NEVER_NS
from optitrack_vrpn.drivers.natnet import codec

#: Chosen: period (ns) and number of attempts of a command, and limit of waiting commands. A server
#: answers within milliseconds.
_REQUEST_NS = 500 * NS_PER_MS
_REQUEST_TRIES = 3
_MOST_REQUESTS = 32
#: Chosen: time (ns) after which an answer to a command no longer arrives. Answers that were 1.2 s
#: late have been seen.
_LATE_ANSWER_NS = 3 * NS_PER_S


class Commands:
    """Repeat each command until it is answered: an answer does not state its command."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._asked_ns: Optional[int] = None
        self._tries = 0
        #: No command is sent before this time, unless this number of answers has arrived: a
        #: command that was repeated or not answered can have late answers.
        self._quiet_ns = 0
        self._late_answers = 0

    def __contains__(self, command: str) -> bool:
        return command in self._waiting

    @property
    def next_due_ns(self) -> int:
        """Return when to call ``give_up`` and ``due`` (ns)."""
        if self._asked_ns is not None:
            return self._asked_ns + _REQUEST_NS
        return self._quiet_ns if self._waiting else NEVER_NS

    def request(self, command: str, first: bool = False) -> None:
        """
        Queue a command.

        :param first: whether it comes before the waiting ones.
        :raises LocalProtocolError: if the text is not a valid command, or too many commands wait.
        """
        codec.encode_request(command)
        if len(self._waiting) >= _MOST_REQUESTS:
            raise LocalProtocolError(
                f'{command!r} was not sent: {_MOST_REQUESTS} commands wait for an answer')
        if first:
            self._waiting.insert(0 if self._asked_ns is None else 1, command)
        else:
            self._waiting.append(command)

    def give_up(self, now_ns: int) -> str:
        """Remove and return the command that had no answer to any attempt; '' without one."""
        if self._tries < _REQUEST_TRIES or now_ns < self.next_due_ns:
            return ''
        return self._end(now_ns)

    def due(self, now_ns: int) -> Optional[bytes]:
        """Return the datagram that is to be sent now; None without one."""
        if now_ns < self.next_due_ns:
            return None
        self._asked_ns = now_ns
        self._tries += 1
        self._late_answers = self._tries
        return codec.encode_request(self._waiting[0])

    def answered(self, now_ns: int) -> Optional[str]:
        """Process an answer; return the command that it ends, None if none waits for one."""
        self._late_answers = max(0, self._late_answers - 1)
        if self._asked_ns is not None:
            return self._end(now_ns)
        if not self._late_answers:
            self._quiet_ns = now_ns
        return None

    def _end(self, now_ns: int) -> str:
        if self._late_answers:
            self._quiet_ns = (self._asked_ns or now_ns) + _LATE_ANSWER_NS
        self._asked_ns = None
        self._tries = 0
        return self._waiting.popleft()

    def close(self) -> list[str]:
        """Return and forget all commands."""
        commands = list(self._waiting)
        self._waiting.clear()
        self._asked_ns = None
        return commands
