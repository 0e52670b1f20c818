# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Earlier commands of an axis: the set point at the time of a late measurement."""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple


class Commanded(NamedTuple):
    """
    A command for one time.

    :ivar time: time at which the machine reaches it (s).
    :ivar position: the set point without correction (unit).
    :ivar offset: the added correction (unit).
    """

    time: float
    position: float
    offset: float


#: Time (s) for which commands are stored. Chosen: above the age at which a measurement counts as
#: none. Halved, measurements over slow networks correct nothing; doubled, memory only.
KEPT_S = 2.0


class History:
    """Store the commands of the last ``KEPT_S``."""

    def __init__(self) -> None:
        self._entries: deque[Commanded] = deque()

    def add(self, entry: Commanded) -> None:
        """Add a command for a time later than the last."""
        self._entries.append(entry)
        while entry.time - self._entries[0].time > KEPT_S:
            self._entries.popleft()

    def clear(self) -> None:
        """Discard all commands, because the count of the position has changed."""
        self._entries.clear()

    def at(self, time: float) -> 'Commanded | None':
        """
        Return the command for a time, interpolated linearly between cycles.

        :returns: None if the time is before the stored commands, or none are stored.
        """
        entries = self._entries
        if not entries or time < entries[0].time:
            return None
        if time >= entries[-1].time:
            return entries[-1]
        i = bisect_right(entries, time, key=lambda each: each.time)
        before, after = entries[i - 1], entries[i]
        share = (time - before.time) / (after.time - before.time)
        return Commanded(
            time, before.position + share * (after.position - before.position),
            before.offset + share * (after.offset - before.offset))
