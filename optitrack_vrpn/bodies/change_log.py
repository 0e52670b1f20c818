# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Report changes of the bodies' states, with one line for bodies that change together.

When the server is lost, all bodies become STALE within a few milliseconds, but possibly in two
successive ticks. So a change to STALE is reported one tick later, unless all bodies are STALE or
the body has changed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optitrack_vrpn.bodies.states import State, StateChange
from optitrack_vrpn.events import Event
from optitrack_vrpn.names import printable

MOST_NAMES = 5
"""Names listed in one line. Chosen: usual names then make fewer than 200 characters."""


class ChangeLog:
    """Turn changes of state into events."""

    def __init__(self) -> None:
        self._silent: list[StateChange] = []

    def take(self, changes: Sequence[StateChange], states: Iterable[State]) -> list[Event]:
        """
        Report the changes since the last tick.

        :param changes: the changes, oldest first.
        :param states: the present states of all bodies.
        :returns: one event for each kind of change; those to STALE may come with the next tick.
        """
        due = list(self._silent)
        silent: list[StateChange] = []
        wait = not (self._silent or all(state is State.STALE for state in states))
        last = {change.body: change for change in changes}
        for change in changes:
            held = wait and change.after is State.STALE and last[change.body] is change
            (silent if held else due).append(change)
        self._silent = silent
        # A change joins a line after the line with the previous change of its body, so that the
        # last line about a body is its present state.
        groups: list[list[StateChange]] = []
        line_of: dict[str, int] = {}
        for change in due:
            kind = change.before, change.after
            line = next((
                k for k in range(line_of.get(change.body, -1) + 1, len(groups))
                if (groups[k][0].before, groups[k][0].after) == kind), len(groups))
            if line == len(groups):
                groups.append([])
            groups[line].append(change)
            line_of[change.body] = line
        return [_event(group) for group in groups]


def _event(changes: list[StateChange]) -> Event:
    """Make one event of changes of the same kind."""
    first = changes[0]
    severity = 'info' if first.after in (State.TRACKED, State.NEW) else 'warn'
    names = list(dict.fromkeys(change.body for change in changes))
    shown = ', '.join(repr(printable(name)) for name in names[:MOST_NAMES])
    if len(names) == 1:
        subject, key = f'body {shown}', names[0]
    else:
        if len(names) > MOST_NAMES:
            shown += f' and {len(names) - MOST_NAMES} more'
        subject, key = f'{len(names)} bodies ({shown})', ''
    # A value in a detail is that of one body.
    whose = '' if all(change.detail == first.detail for change in changes) else (
        f'{printable(first.body)!r} ')
    return Event(severity, ('body state', key, first.before, first.after), (
        f'{subject}: {first.before.value} -> {first.after.value}: {whose}{first.detail}'),
        tuple(changes))
