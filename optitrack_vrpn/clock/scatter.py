# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The scatter of the block minima about the floor: second differences, percentiles.

The scatter from one minimum to the next follows from second differences, which need no path, and
from a low percentile, since load raises many. The lowest heights above the path bound it: they
met no load.

Times are seconds, heights microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
import math

from optitrack_vrpn.clock.cost import Nodes

LEAST_US = 2.0
"""Smallest scatter (us). Measured: resolution of the times and of the host's readings; half of it
gives single minima of a quiet network too much weight, twice as much lags behind its drift."""
_UNKNOWN_US = 30.0
"""Scatter before any is known (us). Measured: that of WiFi in a few frames; half of it takes the
first minima of WiFi for load, twice as much delays the first estimate of a wire."""
_NEAR_BLOCKS = 60
"""Second differences that are kept. Chosen: the path's fine window; half of them make the scale
1.4 times as noisy, twice as many follow a change half as fast."""


class Scatter:
    """
    Running scale of the minima.

    :ivar scale: standard deviation that a minimum is expected to have (us).
    :ivar white: the part that neighbours show (us).
    """

    def __init__(self) -> None:
        self.scale = self.white = _UNKNOWN_US
        self._most = math.inf
        self._pattern = 0.0
        self._near: deque[float] = deque(maxlen=_NEAR_BLOCKS)

    def update(self, nodes: Nodes, path: Sequence[float], blocks: int) -> None:
        """
        Learn from the newest minimum.

        :param path: the path's height at each node (us).
        :param blocks: minima so far.
        """
        t, y, counts = nodes.t, nodes.y, nodes.counts
        i, k, j = len(t) - 3, len(t) - 2, len(t) - 1
        if i >= 0 and counts[i] == counts[k] == counts[j] == 1.0:
            self._near.append(second_difference(t, y, i, k, j))
        if blocks % 8 == 0 or blocks < 24:
            self.white = max(deviation(self._near, self.white), LEAST_US)
            off = [y[i] - path[i] for i in range(len(path)) if counts[i] == 1.0]
            if len(off) > 16:
                self._most = max(most_scatter(off), 0.5 * self.white)
        self.scale = max(min(max(self.white, self._pattern), self._most), LEAST_US)

    def set_pattern(self, scale: float) -> None:
        """Take the scatter about a path that was laid under a pattern (us)."""
        self.scale = self._pattern = self._most = scale


def second_difference(
    t: Sequence[float], y: Sequence[float], i: int, k: int, j: int,
) -> float:
    """Return the distance of point k from the line through i and j, in its deviations (us)."""
    share = (t[k] - t[i]) / (t[j] - t[i])
    off = y[k] - y[i] - (y[j] - y[i]) * share
    return abs(off) / math.sqrt(1.0 + share * share + (1.0 - share) * (1.0 - share))


def deviation(sizes: Sequence[float], unknown: float) -> float:
    """Return the standard deviation from absolute values, most of which load may have raised."""
    if len(sizes) < 6:
        return unknown
    # The 30th percentile of a normal deviate's size is 0.385.
    return sorted(sizes)[len(sizes) * 30 // 100] / 0.385


def most_scatter(heights: Sequence[float]) -> float:
    """Return the most that minima scatter by, from the lowest of them above the path (us)."""
    ordered = sorted(heights)
    n = len(ordered)
    # For normal noise the 5th and 20th percentile are 0.80 deviations apart. Load may raise three
    # of four minima without a trace in it.
    return 1.5 * (ordered[n * 20 // 100] - ordered[n * 5 // 100]) / 0.80
