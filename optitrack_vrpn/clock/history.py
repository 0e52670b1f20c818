# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The newest frames of an epoch: sender times, stamps and delays."""

from __future__ import annotations

from bisect import bisect_left
import math
from typing import Final

import numpy as np

HISTORY: Final = 512
"""Distinct sender times whose stamps are remembered at least. Chosen: 2 s at 240 Hz, longer than
a network reorders; half of it refuses frames that are 1 s late, twice as much costs 30 kB."""
NEVER: Final = -(1 << 70)
"""Before any time."""


class FrameHistory:
    """
    Frames in order of sender time; a coarse clock gives several of them one time.

    :ivar newest_ns: newest sender time, -1 before the first.
    :ivar stamp_ns: stamp of the first frame of this time; before there is one, later than any
        arrival.
    :ivar last_ns: stamp of the last frame of this time.
    :ivar further: (time, stamp) of the other frames of this time, None without a stamp.
    :ivar times: sender times as received (ns).
    :ivar placed: the same without the ticks and the jitter of the sender's clock (ns).
    :ivar stamps: stamps of the first frames of these times (ns).
    :ivar lasts: stamps of the last frames of these times (ns).
    :ivar delays: arrivals of the first frames on the host's clock minus their stamps (ns).
    :ivar trimmed: whether older frames have been removed.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all frames."""
        self.newest_ns = -1
        self.stamp_ns, self.last_ns = -NEVER, NEVER
        self.further: list[tuple[int, int] | None] = []
        self.times: list[int] = []
        self.placed: list[int] = []
        self.stamps: list[int] = []
        self.lasts: list[int] = []
        self.delays: list[int] = []
        self.trimmed = False

    def append(
        self, sender_time_ns: int, placed_ns: int, stamp_ns: int, host_arrival_ns: int,
    ) -> None:
        """Add the newest frame."""
        self.last_ns = stamp_ns
        if sender_time_ns == self.newest_ns:
            self.lasts[-1] = stamp_ns
            return
        self.newest_ns, self.stamp_ns = sender_time_ns, stamp_ns
        if self.further:
            self.further.clear()
        self.insert(len(self.times), sender_time_ns, placed_ns, stamp_ns, host_arrival_ns)

    def insert(
        self, at: int, sender_time_ns: int, placed_ns: int, stamp_ns: int, host_arrival_ns: int,
    ) -> None:
        """Add a frame at an index."""
        self.times.insert(at, sender_time_ns)
        self.placed.insert(at, placed_ns)
        self.stamps.insert(at, stamp_ns)
        self.lasts.insert(at, stamp_ns)
        self.delays.insert(at, host_arrival_ns - stamp_ns)
        if len(self.times) >= 2 * HISTORY:
            for column in (self.times, self.placed, self.stamps, self.lasts, self.delays):
                del column[:HISTORY]
            self.trimmed = True

    def shift(self, step_ns: int) -> None:
        """Move all stamps: the clock on which they are has stepped."""
        self.stamps = [stamp + step_ns for stamp in self.stamps]
        self.lasts = [stamp + step_ns for stamp in self.lasts]
        self.stamp_ns += step_ns
        self.last_ns += step_ns
        self.further.clear()

    def find(self, sender_time_ns: int) -> tuple[int, bool]:
        """Return the index of the first frame that is not older, and whether it is this frame."""
        at = bisect_left(self.times, sender_time_ns)
        return at, self.times[at] == sender_time_ns

    def jitter_s(self) -> tuple[float, float]:
        """Return standard deviation and 99th percentile of the delays (s); NaN without frames."""
        if not self.delays:
            return math.nan, math.nan
        delays = np.sort(np.array(self.delays, dtype=float)) / 1e9
        return float(delays.std()), float(delays[len(delays) * 99 // 100])
