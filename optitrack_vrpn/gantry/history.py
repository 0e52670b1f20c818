# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Earlier states of an axis: what was commanded at the time of a late measurement."""

from bisect import bisect_right
from collections import deque
from typing import Generic, NamedTuple, Optional, TypeVar

#: Time (s) for which commands are stored. Chosen: above the age at which a measurement counts as
#: none. Halved, measurements over slow networks correct nothing; doubled, memory only.
KEPT_S = 2.0
Entry = TypeVar('Entry', bound=NamedTuple)


class History(Generic[Entry]):
    """
    Store the entries of the last ``KEPT_S``.

    :ivar entries: named tuples of numbers, of which the first is the time (s); times rise.
    """

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Add an entry later than the last."""
        self.entries.append(entry)
        while entry[0] - self.entries[0][0] > KEPT_S:
            self.entries.popleft()

    def at(self, time: float) -> Optional[Entry]:
        """
        Return the entry for a time, interpolated linearly; the last one for a later time.

        :returns: None if the time is before the stored entries, or none are stored.
        """
        entries = self.entries
        i = bisect_right(entries, time, key=lambda each: each[0])
        if i == 0 or i == len(entries):
            return entries[-1] if i else None
        before, after = entries[i - 1], entries[i]
        share = (time - before[0]) / (after[0] - before[0])
        return before._make(a + share * (b - a) for a, b in zip(before, after))
