# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The newest frames of an epoch: sender times, stamps and delays."""

from __future__ import annotations

from bisect import bisect_left
import math
from typing import Final

HISTORY: Final = 512
"""Distinct sender times whose stamps are remembered at least. Chosen: 2 s at 240 Hz, longer than
a network reorders; half of it refuses frames that are 1 s late, twice as much costs 30 kB."""
NEVER: Final = -(1 << 70)
"""Before any time."""


class FrameHistory:
    """
    Frames in order of sender time.

    :ivar newest_ns: newest sender time, -1 before the first.
    :ivar last_ns: its stamp.
    :ivar times: sender times (ns).
    :ivar stamps: their stamps (ns).
    :ivar delays: arrival on the host's clock minus stamp (ns).
    :ivar trimmed: whether older frames have been removed.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all frames."""
        self.newest_ns = -1
        self.last_ns = NEVER
        self.times: list[int] = []
        self.stamps: list[int] = []
        self.delays: list[int] = []
        self.trimmed = False

    def append(self, sender_time_ns: int, stamp_ns: int, host_arrival_ns: int) -> None:
        """Add the newest frame."""
        self.newest_ns = sender_time_ns
        self.last_ns = stamp_ns
        self.insert(len(self.times), sender_time_ns, stamp_ns, host_arrival_ns)

    def insert(
        self, at: int, sender_time_ns: int, stamp_ns: int, host_arrival_ns: int,
    ) -> None:
        """Add a frame at an index."""
        self.times.insert(at, sender_time_ns)
        self.stamps.insert(at, stamp_ns)
        self.delays.insert(at, host_arrival_ns - stamp_ns)
        if len(self.times) >= 2 * HISTORY:
            del self.times[:HISTORY], self.stamps[:HISTORY], self.delays[:HISTORY]
            self.trimmed = True

    def find(self, sender_time_ns: int) -> tuple[int, bool]:
        """Return the index of the first frame that is not older, and whether it is this frame."""
        at = bisect_left(self.times, sender_time_ns)
        return at, self.times[at] == sender_time_ns

    def jitter_s(self) -> tuple[float, float]:
        """Return standard deviation and 99th percentile of the delays (s); NaN without frames."""
        if not self.delays:
            return math.nan, math.nan
        ordered = sorted(self.delays)
        n = len(ordered)
        mean = sum(ordered) / n
        deviation = math.sqrt(sum((delay - mean) ** 2 for delay in ordered) / n)
        return deviation / 1e9, ordered[min(n - 1, n * 99 // 100)] / 1e9
