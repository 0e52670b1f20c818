# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Events of the pipeline for the user, changes of states, texts of the server."""

from collections.abc import Hashable
from typing import Optional

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import Severity
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
#: Different texts of the server that are kept of each TEXTS_NS (ns). Chosen: a server sends a few
#: when it starts; a hostile one then writes less than 100 MB a day into a log.
MOST_TEXTS = 20
TEXTS_NS = 10_000_000_000


class StreamReports:
    """
    Collect events for the user.

    :ivar events: events since the last ``take``, oldest first.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, severity: Severity, key: Hashable, text: str) -> None:
        """Add an event, unless the maximum number waits to be taken."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(Event(severity, key, text))

    def take(self) -> list[Event]:
        """Return and clear the events, oldest first."""
        events, self.events = self.events, []
        return events


class ServerTexts:
    """
    Keep the texts of the server for ``TEXTS_NS`` at least, and twice that at most.

    :ivar left_out: number of texts that were not kept because there were too many.
    :ivar too_many: whether some of these were among the last ones.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self.too_many = False
        self._present: dict[tuple[str, str], tuple[Severity, int]] = {}
        self._before: dict[tuple[str, str], tuple[Severity, int]] = {}
        self._left_out_before = self._from_ns = 0

    @property
    def last(self) -> dict[tuple[str, str], tuple[Severity, int]]:
        """
        Return the different texts.

        :returns: by subject and text: the severity, and the begin (ns) of the period in which the
            text first came. A text that comes again after it was forgotten is a new one.
        """
        return {**self._before, **self._present}

    def add(self, text: ServerText) -> None:
        """Process a text."""
        content = text.subject, text.text
        if content in self._present or len(self._present) < MOST_TEXTS:
            _, since_ns = self.last.get(content, (text.severity, self._from_ns))
            self._present[content] = text.severity, since_ns
        else:
            self.left_out += 1
            self.too_many = True

    def tick(self, now_ns: int) -> None:
        """Forget the texts that are old enough (ns)."""
        if now_ns - self._from_ns >= TEXTS_NS:
            self._from_ns = now_ns
            self._before, self._present = self._present, {}
            self.too_many = self.left_out > self._left_out_before
            self._left_out_before = self.left_out


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
