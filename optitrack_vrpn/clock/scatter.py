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

from collections.abc import Sequence
from typing import Any

LEAST_US = 2.0
"""Smallest scatter (us). Measured: resolution of the times and of the host's readings; half of it
gives single minima of a quiet network too much weight, twice as much lags behind its drift."""


def second_differences(t: Any, y: Any, apart: int = 1) -> Any:
    """
    Return the distances of points from the lines through two others, in their deviations (us).

    :param t: times, an array.
    :param y: heights, an array.
    :param apart: number of places to the other two.
    """
    first, middle, last = (slice(0, -2 * apart), slice(apart, -apart), slice(2 * apart, None))
    share = (t[middle] - t[first]) / (t[last] - t[first])
    off = y[middle] - y[first] - (y[last] - y[first]) * share
    return abs(off) / (1.0 + share ** 2 + (1.0 - share) ** 2) ** 0.5


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
