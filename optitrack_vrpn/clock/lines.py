# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Straight lines through and under points (time, residual), all in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

Point = tuple[float, float]


class Fit(NamedTuple):
    """A least-squares line."""

    level: float
    """At the time asked for (ns)."""
    slope: float
    residual: float
    """Standard deviation of the points about it (ns)."""
    slope_var: float
    """Variance of the slope for points of unit variance (1/ns^2)."""


def fit(points: Sequence[Point], at: float) -> Fit:
    """
    Fit a line by least squares.

    :param points: three or more, at different times.
    :param at: the time at which its level is wanted (ns).
    """
    n = len(points)
    mean_t = sum(p[0] for p in points) / n
    mean_y = sum(p[1] for p in points) / n
    spread = sum((p[0] - mean_t) ** 2 for p in points)
    slope = sum((p[0] - mean_t) * (p[1] - mean_y) for p in points) / spread
    left = sum((p[1] - mean_y - slope * (p[0] - mean_t)) ** 2 for p in points)
    return Fit(mean_y + slope * (at - mean_t), slope, math.sqrt(left / (n - 2)), 1.0 / spread)


def lower_hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the lower convex hull of points in order of time (monotone chain)."""
    hull: list[Point] = []
    for p in points:
        while len(hull) > 1:
            (t0, y0), (t1, y1) = hull[-2], hull[-1]
            if (y1 - y0) * (p[0] - t0) < (p[1] - y0) * (t1 - t0):
                break
            hull.pop()
        hull.append(p)
    return hull


class Edge(NamedTuple):
    """One edge of a lower hull, and how the points lie above it."""

    level: float
    """At the time asked for (ns)."""
    slope: float
    length: float
    """From corner to corner (ns)."""
    mean: float
    spread: float
    """Mean and standard deviation of the points above the edge, the highest quarter left out:
    these met an obstacle of their own (ns)."""


def edge_above(points: Sequence[Point], first: Point, last: Point, at: float) -> Edge:
    """Describe the edge from ``first`` to ``last`` under ``points``."""
    slope = (last[1] - first[1]) / (last[0] - first[0])
    above = sorted(p[1] - first[1] - slope * (p[0] - first[0]) for p in points)
    above = above[:max(3, len(above) * 3 // 4)]
    mean = sum(above) / len(above)
    spread = math.sqrt(sum((a - mean) ** 2 for a in above) / len(above))
    return Edge(first[1] + slope * (at - first[0]), slope, last[0] - first[0], mean, spread)


def longest_edge(points: Sequence[Point], at: float) -> Edge:
    """Return the longest edge of the lower hull."""
    hull = lower_hull(points)
    i = max(range(1, len(hull)), key=lambda k: hull[k][0] - hull[k - 1][0])
    return edge_above(points, hull[i - 1], hull[i], at)


def edge_over(points: Sequence[Point], time: float, at: float) -> Edge:
    """Return the edge of the lower hull that spans ``time``, or the one next to it."""
    hull = lower_hull(points)
    i = 1
    while i < len(hull) - 1 and hull[i][0] < time:
        i += 1
    return edge_above(points, hull[i - 1], hull[i], at)


def low_spread(points: Sequence[Point]) -> float:
    """
    Return the standard deviation of the points near the floor, however far others are lifted.

    From the 5th and 30th percentile of the heights above the lower hull, which lie 1.12 standard
    deviations apart for normal noise. Load may lift half of the points without a trace in it.
    """
    hull = lower_hull(points)
    found = []
    k = 1
    for t, y in points:
        while t > hull[k][0]:
            k += 1
        (ta, ya), (tb, yb) = hull[k - 1], hull[k]
        found.append(y - ya - (yb - ya) * ((t - ta) / (tb - ta)))
    found.sort()
    return (found[len(found) * 30 // 100] - found[len(found) * 5 // 100]) / 1.12
