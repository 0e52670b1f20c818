# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Faults on the way to the recorder: messages lost by the middleware, clock steps."""

from __future__ import annotations

#: A change of system clock less monotonic clock within a look that is a step, not slewing (ns):
#: chrony and ntpd slew by 0.5 ms a second at most, and a look is a second or less.
STEP_NS = 5_000_000
#: Chosen: stored clock steps; it bounds the memory.
_MOST_STEPS = 100


class SequenceWatch:
    """
    Count messages that the middleware lost, from the publication sequence numbers.

    They count per publisher: with several publishers on a topic nothing can be told.

    :ivar lost: messages that never came.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._last = -1

    def note(self, number: int | None) -> None:
        """Take the number of a message; None where the middleware gives none."""
        if number is None:
            return
        if 0 <= self._last < number:
            self.lost += number - self._last - 1
        # A smaller one is that of a new publisher, or a repeated one.
        self._last = number

    def forget(self) -> None:
        """Restart, as when publishers come and go."""
        self._last = -1


class ClockSteps:
    """
    Notice steps of the system clock.

    :ivar steps: (when on the system clock after it (ns), by how much (ns)).
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self._difference_ns: int | None = None

    def look(self, system_ns: int, monotonic_ns: int) -> int:
        """
        Compare the clocks; call it every second or more often.

        :returns: a step since the last look (ns), 0 for none.
        """
        difference = system_ns - monotonic_ns
        before, self._difference_ns = self._difference_ns, difference
        if before is None or abs(difference - before) < STEP_NS:
            return 0
        if len(self.steps) < _MOST_STEPS:
            self.steps.append((system_ns, difference - before))
        return difference - before
