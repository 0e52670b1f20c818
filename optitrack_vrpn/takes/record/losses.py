# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Faults before the recorder: messages lost by the middleware, steps of the system clock."""

from __future__ import annotations

#: A change (ns) of system clock minus monotonic clock between two calls that is a step. Linux
#: slews both clocks alike (clock_gettime(2)), so that slewing does not change the difference.
#: Chosen: several times the error of a reading.
STEP_NS = 5_000_000
#: Chosen: stored clock steps.
_MOST_STEPS = 100
#: Chosen: stored losses (topics times seconds); later ones are only counted.
_MOST_LOSSES = 2000


class SequenceWatch:
    """
    Count messages that the middleware lost, from the publication sequence numbers.

    The numbers count per publisher: with several publishers on a topic, losses cannot be counted.

    :ivar lost: messages that never came.
    :ivar next: the number that comes next if nothing is lost; -1 if it is not known.
    """

    def __init__(self) -> None:
        self.lost = 0
        self.next = -1

    def note(self, number: int | None) -> int:
        """
        Take the number of a message; None where the middleware gives none.

        :returns: how many messages were lost before it.
        """
        if number is None:
            return 0
        # A smaller one is that of a new publisher, or a repeated one.
        lost = number - self.next if 0 <= self.next < number else 0
        self.lost += lost
        self.next = number + 1
        return lost

    def forget(self) -> None:
        """Restart, as when publishers come and go."""
        self.next = -1


class LossTimes:
    """
    Add up losses per topic and second, so that a report can tell when they were.

    :ivar lost: number of lost messages by second of the Unix epoch and topic.
    """

    def __init__(self) -> None:
        self.lost: dict[tuple[int, str], int] = {}

    def note(self, topic: str, count: int, at_ns: int) -> None:
        """
        Take a loss.

        :param at_ns: arrival of the first message after it, ns since the Unix epoch.
        """
        key = (at_ns // 1_000_000_000, topic)
        if key in self.lost or len(self.lost) < _MOST_LOSSES:
            self.lost[key] = self.lost.get(key, 0) + count

    def text(self) -> str:
        """Return it as ``second topic count`` separated by commas, in the order of time."""
        return ', '.join(f'{second} {topic} {count}'
                         for (second, topic), count in sorted(self.lost.items()))


class ClockSteps:
    """
    Detect steps of the system clock.

    :ivar steps: pairs of system time after the step (ns) and size of the step (ns).
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self._difference_ns: int | None = None

    def look(self, system_ns: int, difference_ns: int) -> int:
        """
        Compare the clocks; call it every second or more often.

        :param difference_ns: system clock minus a monotonic clock, see ``clock.difference``.
        :returns: a step since the last look (ns), 0 for none.
        """
        before, self._difference_ns = self._difference_ns, difference_ns
        if before is None or abs(difference_ns - before) < STEP_NS:
            return 0
        if len(self.steps) < _MOST_STEPS:
            self.steps.append((system_ns, difference_ns - before))
        return difference_ns - before
