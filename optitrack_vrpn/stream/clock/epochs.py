# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Count the epochs of the stamps, recognise the base of sender times, report clock changes."""

from __future__ import annotations

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.stream.clock.types import ClockChange, SENDER_START, UNIX_EPOCH, UNKNOWN_BASE

_UNIX_NS = 1_000_000_000_000_000_000
"""Sender times from here on (year 2001) count from the Unix epoch; no computer has been running
for 31 years."""
_MAX_EVENTS = 64
"""Events that wait for the reader at most: far more than a frame causes."""


class Epochs:
    """
    The epochs of one source, and the events that wait for the reader.

    :ivar number: of the present epoch, counted from 0.
    :ivar restarts: epochs ended, by reason.
    :ivar base: what the sender's times count from.
    :ivar learnt: whether the end of learning has been reported; None until the first frame.
    :ivar events: events since the reader took them; the list stays the same object.
    """

    def __init__(self) -> None:
        self.number = 0
        self.restarts: dict[str, int] = {}
        self.base = UNKNOWN_BASE
        self.learnt: bool | None = None
        self.events: list[Event] = []

    def end(self, reason: str, detail: str, fell: bool = False, run_ended: bool = False,
            moved_ns: int = 0) -> None:
        """
        Begin the next epoch.

        :param reason: one of ``types``.
        :param detail: the observation, for the log.
        :param fell: whether times or stamps of the new epoch begin in the past of the old one.
        :param run_ended: whether the sender's time jumped or fell.
        :param moved_ns: by how much stamps have moved (ns), where the run goes on.
        """
        self.number += 1
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        self.report('epoch_ended', reason, f'stamp epoch {self.number} begins: {detail}',
                    fell, run_ended, moved_ns, warn=True)
        if run_ended:
            self.learnt = None

    def recognise_base(self, sender_time_ns: int, host_arrival_ns: int) -> None:
        """Determine what the sender's times count from."""
        if sender_time_ns >= _UNIX_NS:
            base = UNIX_EPOCH
            ahead = (sender_time_ns - host_arrival_ns) / 1e9
            text = f'sender times count from the Unix epoch, {ahead:+.3f} s from this host'
        else:
            base = SENDER_START
            text = f'sender times count from its start, {sender_time_ns / 1e9:.3f} s ago'
        if base != self.base:
            self.base = base
            self.report('base_recognised', base, text)

    def report(self, kind: str, reason: str, text: str, fell: bool = False,
               run_ended: bool = False, moved_ns: int = 0, warn: bool = False) -> None:
        """Add an event, unless too many wait."""
        if len(self.events) < _MAX_EVENTS:
            self.events.append(Event(
                WARN if warn else INFO, ('clock', text), text,
                ClockChange(kind, reason, self.number, fell, run_ended, moved_ns)))

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self.events[:]
        self.events.clear()
        return events
