# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How much block minima scatter about the floor.

The scatter from one minimum to the next is the network's own; that of minima some seconds apart
shows patterns that last (polling near the frames' rate, load that wanders). Both are taken from
second differences, which need no path, and by a low percentile, since load lifts many. The least
heights above the path bound them: load has no part in these.

Times are seconds, heights microseconds.
"""

from __future__ import annotations

from collections import deque
import math
from typing import NamedTuple

LEAST_US = 2.0
"""Minima scatter by no less than this (us): resolution of the times, of the host's readings."""
_UNKNOWN_US = 30.0
"""Before any has been seen (us): that of WiFi in a few frames."""
NO_DATA = 1e18
"""Height of a node without data: a bend between two minima."""
_APART = 8
"""Blocks over which lasting patterns are seen: teeth of 30 s show in a third of them."""
_PATTERN_BLOCKS = 600.0
"""How long a pattern that was found is expected to last (blocks)."""


class Nodes(NamedTuple):
    """Minima and hypothesis, to be compared."""

    t: list[float]
    y: list[float]
    counts: list[float]
    """How many minima a node stands for."""
    dip: list[float]
    """How deep the deepest of these was under the path, where they have been averaged."""
    bends: list[float]


class Scatter:
    """Running scale of the minima."""

    def __init__(self) -> None:
        self.scale = _UNKNOWN_US
        """Standard deviation that a minimum is expected to have (us)."""
        self.white = LEAST_US
        """The part that neighbours do not share (us)."""
        self._wanted = _UNKNOWN_US
        self._most = math.inf
        self._pattern = 0.0
        self._near: deque[float] = deque(maxlen=60)
        self._apart: deque[float] = deque(maxlen=240)

    def watch(self, nodes: Nodes, path: list[float], blocks: int) -> None:
        """
        Learn from the newest minimum.

        :param path: the path's height at each node (us).
        :param blocks: how many have been seen.
        """
        _add(nodes, 1, self._near)
        _add(nodes, _APART, self._apart)
        if blocks % 8 == 0 or blocks < 24:
            near = _deviation(self._near, self.scale)
            self.white = max(_deviation(self._near, 0.0), LEAST_US)
            self._wanted = max(near, min(_deviation(self._apart, 0.0), 20.0 * near)) if (
                blocks > 40) else max(near, min(self.scale, 3.0 * near))
            off = [nodes.y[i] - path[i] for i in range(len(path))
                   if nodes.counts[i] == 1.0 and nodes.y[i] < 0.5 * NO_DATA]
            n = len(off)
            if n > 16:
                # For normal noise the 5th and 20th percentile are 0.80 deviations apart. Load
                # may lift three of four minima without a trace in it.
                off.sort()
                spread = (off[n * 20 // 100] - off[n * 5 // 100]) / 0.80
                self._most = max(1.5 * spread, 0.5 * near)
        self._pattern *= 1.0 - 1.0 / _PATTERN_BLOCKS
        self.scale = max(min(max(self._wanted, self._pattern), self._most), LEAST_US)

    def found_pattern(self, scale: float) -> None:
        """Take over the scatter about a path that was laid under a pattern (us)."""
        self.scale = self._pattern = self._most = scale


def _add(nodes: Nodes, apart: int, seen: deque[float]) -> None:
    """Note how far the last minimum that has a fellow ``apart`` on both sides lies off these."""
    t, y, count = nodes.t, nodes.y, nodes.counts
    k = len(t) - 1 - apart
    i, j = k - apart, k + apart
    if i < 0 or count[i] > 1.0 or max(y[i], y[k], y[j]) > 0.5 * NO_DATA:
        return
    share = (t[k] - t[i]) / (t[j] - t[i])
    off = y[k] - y[i] - (y[j] - y[i]) * share
    seen.append(abs(off) / math.sqrt(1.0 + share * share + (1.0 - share) * (1.0 - share)))


def _deviation(seen: deque[float], unknown: float) -> float:
    """Return the standard deviation from absolute values, most of which load may have lifted."""
    if len(seen) < 6:
        return unknown
    # The 30th percentile of a normal deviate's size is 0.385.
    return sorted(seen)[len(seen) * 30 // 100] / 0.385
