# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Events of the pipeline for the user: states, server's texts."""

from collections.abc import Hashable
from typing import Any, Optional

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import ServerText
from optitrack_vrpn.stream.bodies.hypotheses import SwapCandidate
from optitrack_vrpn.stream.bodies.poses import TimedPose
from optitrack_vrpn.stream.bodies.states import ChangeLog, State, StateChange
from optitrack_vrpn.stream.bodies.swap import find_swap, review
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.roster import Roster

#: Maximum number of events that are kept until they are taken, as a limit for hostile servers.
#: Chosen: two events for each of 128 new bodies.
_MOST_EVENTS = 256
#: Different texts of the server that are reported in TEXTS_NS (ns). Chosen: a server sends a few
#: when it starts; a hostile one then writes less than 100 MB a day.
MOST_TEXTS = 20
TEXTS_NS = 10_000_000_000


class StreamReports:
    """
    Collect events for the user.

    :ivar events: events since the last ``take``, oldest first.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        # Different texts of the server since the time below, and the number of those left out.
        self._texts: set[tuple[str, str]] = set()
        self._texts_from_ns = 0
        self._left_out = 0

    def add(self, severity: Severity, key: Hashable, text: str, data: Any = None) -> None:
        """Add an event, unless the maximum number waits to be taken."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(Event(severity, key, text, data))

    def take(self) -> list[Event]:
        """Return and clear the events, oldest first."""
        events, self.events = self.events, []
        return events

    def server_text(self, report: ServerText) -> None:
        """Report a text of the server, unless it sends too many different ones."""
        content = report.subject, report.text
        if content not in self._texts:
            if len(self._texts) >= MOST_TEXTS:
                self._left_out += 1
                return
            self._texts.add(content)
        if len(self.events) >= _MOST_EVENTS:
            return    # saves the conversion of the text
        text = (f'the server says for {printable(report.subject)!r}: '
                f'{printable(report.text, 300)}')
        self.add(report.severity, text, text)

    def limit_texts(self, now_ns: int) -> None:
        """Admit new texts of the server after some time; report how many were left out."""
        if now_ns - self._texts_from_ns < TEXTS_NS:
            return
        if self._left_out:
            self.add(WARN, 'server texts', (
                f'the server sends too many texts: {self._left_out} of the last '
                f'{TEXTS_NS / NS_PER_S:g} s are not logged'))
        self._texts.clear()
        self._texts_from_ns, self._left_out = now_ns, 0


class StateMonitor:
    """
    Follow the validity gates of all bodies.

    :param roster: the bodies.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._changes: list[StateChange] = []
        self._unreported: list[StateChange] = []
        self._log = ChangeLog()

    @property
    def _gates(self) -> list[Tracker]:
        return [channel.gate for channel in self._roster.bodies]

    def follow(self, gate: Tracker) -> None:
        """Collect the changes of state of one body; check for a swap after a jump."""
        changes = gate.take_changes()
        self._changes += changes
        self._unreported += changes
        if any(change.after is State.JUMPED for change in changes):
            review(self._gates)

    def find_swap(self, gate: Tracker, seen: TimedPose) -> Optional[SwapCandidate]:
        """Find a body whose place a jumping body may have taken."""
        return find_swap(gate, self._gates, seen)

    def tick(self, now_ns: int) -> list[Event]:
        """
        Detect silent bodies; return the reports of all changes since the last call.

        :param now_ns: present time on the arrival clock (ns).
        """
        gates = self._gates
        for gate in gates:
            gate.tick(now_ns)
            if gate.changes:
                self.follow(gate)
        review(gates)
        changes, self._unreported = self._unreported, []
        return list(self._log.take(changes, (gate.state for gate in gates)))

    def take_changes(self) -> list[StateChange]:
        """Return and clear the bodies' changes of state, oldest first."""
        changes, self._changes = self._changes, []
        return changes
