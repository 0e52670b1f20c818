# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Count the epochs of the stamps, recognise the base of sender times, report clock changes."""

from __future__ import annotations

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.stream.clock.types import (
    ClockChange, HOST_STEPPED, SENDER_RESTARTED, SENDER_START, UNIX_EPOCH, UNKNOWN_BASE)

_UNIX_NS = 1_000_000_000_000_000_000
"""Sender times from here on (year 2001) count from the Unix epoch; no computer has been running
for 31 years."""
_MAX_EVENTS = 64
"""Events that wait for the reader at most. Chosen: far more than a frame causes; half of it or
twice as much changes nothing while events are read."""
_TEXTS = {
    SENDER_RESTARTED: 'the sender restarted or its clock stepped',
    HOST_STEPPED: 'the clock of the arrivals stepped',
}


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

    def end(
        self, reason: str, detail: str = '', fell: bool = False,
    ) -> None:
        """
        Begin the next epoch.

        :param reason: one of ``types``.
        :param detail: the observation, for the log; the usual text of the reason if empty.
        :param fell: whether the sender's time fell.
        """
        self.number += 1
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        text = f'stamp epoch {self.number} begins: {detail or _TEXTS.get(reason, reason)}'
        self.report('epoch_ended', reason, text, fell)
        if reason != HOST_STEPPED:
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

    def report(
        self, kind: str, reason: str, text: str, fell: bool = False, warn: bool = False,
    ) -> None:
        """Add an event, unless too many wait."""
        if len(self.events) < _MAX_EVENTS:
            self.events.append(Event(
                'warn' if warn or kind == 'epoch_ended' else 'info', ('clock', text), text,
                ClockChange(kind, reason, self.number, fell)))

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self.events[:]
        self.events.clear()
        return events
