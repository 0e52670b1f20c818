# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The newest frames of an epoch: sender times, stamps and delays."""

from __future__ import annotations

from bisect import bisect_left
import math
from typing import Final, NamedTuple

import numpy as np

HISTORY: Final = 512
"""Frames whose stamps are remembered at least: 2 s at 240 Hz, longer than a network reorders."""
NEVER: Final = -(1 << 70)
"""Before any time."""


class Stamped(NamedTuple):
    """
    A frame.

    :ivar time_ns: its time without the ticks and the jitter of the sender's clock.
    :ivar stamp_ns: its stamp.
    :ivar delay_ns: its arrival on the host's clock minus the stamp.
    """

    time_ns: int
    stamp_ns: int
    delay_ns: int


class FrameHistory:
    """
    Frames in order of their keys: sender time, and number of the frame within it.

    :ivar keys: (sender time, number from 0); a coarse clock gives several frames one time.
    :ivar frames: one record for each key.
    :ivar newest_ns: newest sender time, -1 before the first.
    :ivar stamp_ns: stamp of the first frame of this time; later than any arrival before it.
    :ivar last_ns: the newest stamp.
    :ivar trimmed: whether older frames have been removed.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all frames."""
        self.keys: list[tuple[int, int]] = []
        self.frames: list[Stamped] = []
        self.newest_ns = -1
        self.stamp_ns, self.last_ns = -NEVER, NEVER
        self.trimmed = False

    def append(self, key: tuple[int, int], frame: Stamped) -> None:
        """Add the newest frame."""
        if key[0] != self.newest_ns:
            self.newest_ns, self.stamp_ns = key[0], frame.stamp_ns
        self.last_ns = frame.stamp_ns
        self.keys.append(key)
        self.frames.append(frame)
        if len(self.keys) >= 2 * HISTORY:
            del self.keys[:HISTORY], self.frames[:HISTORY]
            self.trimmed = True

    def shift(self, step_ns: int) -> None:
        """Move all stamps: the clock on which they are has stepped."""
        self.frames = [frame._replace(stamp_ns=frame.stamp_ns + step_ns) for frame in self.frames]
        self.stamp_ns += step_ns
        self.last_ns += step_ns

    def find(self, key: tuple[int, int]) -> tuple[int, bool]:
        """Return the index of the first frame that is not older, and whether it is this frame."""
        at = bisect_left(self.keys, key)
        return at, at < len(self.keys) and self.keys[at] == key

    def jitter_s(self) -> tuple[float, float]:
        """Return standard deviation and 99th percentile of the delays (s); NaN without frames."""
        if not self.frames:
            return math.nan, math.nan
        delays = np.sort(np.array([frame.delay_ns for frame in self.frames], dtype=float)) / 1e9
        return float(delays.std()), float(delays[len(delays) * 99 // 100])
