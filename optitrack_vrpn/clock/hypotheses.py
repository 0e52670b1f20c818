# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Other explanations of minima that leave the path, compared by the cost of ``cost.py``.

Each has a price in blocks of load and is accepted if its cost is less by that price:

- *bend*: another slope since a moment ago (a clock is slewed);
- *other rate*: another slope since the first minimum (another sender took the place of the one
  whose rate was known);
- *jump*: the floor rose permanently (a clock was set, or the route changed);
- *pattern*: the minima scatter by more than neighbours show, as with polling; the path is the
  longest edge of the lower convex hull (Zhang, Liu, Xia 2002).

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
import math

from optitrack_vrpn.clock.cost import cost, FASTEST, Fit, fit, LOAD, Nodes, Prior, SAME_TIME_S

BEND_BLOCKS = 4.0
"""Price of a bend in blocks of load. Chosen: half of it bends with noise, twice as much lags
behind a slew by 8 s."""
JUMP_BLOCKS = 85.0
"""Price of a jump in blocks of load. Chosen: load of up to 80 s does not move the path; half of
it follows load of 45 s, twice as much follows a jump after three minutes."""
FARTHEST_US = 1e4
"""Longest delay by load. Chosen: later frames are judged by ``tracking.py``; half of it or twice
as much changes the price of a pattern by a fifth."""


def bend(
    best: Fit, since: float, falls: list[tuple[float, float]], prior: Prior, newest: int = 0,
) -> Fit | None:
    """
    Suppose another slope since about the first minimum that leaves the path.

    :param best: the path without a bend.
    :param since: time of that minimum.
    :param falls: (time, change) of the earlier minima when later ones were below the path. They
        are undone: the slope explains them, and saves the price of a bend for each.
    :param newest: number of the newest minima that are on the new slope, those before them being
        load; 0 for all.
    """
    t, y, counts, dips, x = _with_data(best)
    begin = bisect_left(t, since)
    last = begin - 1
    if newest:
        begin = max(begin, len(t) - newest)
    if len(t) - begin < 3 or last < 2 or not counts[last]:
        return None
    undone = [fall for fall in falls if fall[0] >= since]
    _undo(undone, t, y, len(t))
    _undo(undone, t, x, last + 1)
    slope, end = _line(t, y, begin)
    before = (x[last - 1] - x[last - 2]) / (t[last - 1] - t[last - 2])
    level = x[last - 1] + before * (t[last] - t[last - 1])
    change = slope - before
    if abs(slope) > FASTEST or not change:
        return None

    def later(time: float) -> float:
        return end + slope * (time - t[-1])

    # A slewed clock leaves its line where the new line meets it; load jumps.
    at = t[last] + (level - later(t[last])) / change
    slack = 2.0 * best.scale / abs(change)
    if not t[last - 1] - 1.0 - slack < at < t[begin] + 0.5 + slack:
        return None
    at = min(max(at, t[last - 2]), t[begin])
    for i in range(last, begin):
        x[i] = level + before * (t[i] - t[last])
    k = bisect_right(t, at) - 1
    for i in range(k + 1, len(t)):
        x[i] = later(t[i])
    if at - t[k] > SAME_TIME_S:
        k += 1
        if t[k] - at > SAME_TIME_S:
            for values, value in ((t, at), (y, later(at)), (counts, 0.0), (dips, -math.inf),
                                  (x, later(at))):
                values.insert(k, value)
    found = fit(Nodes(t, y, counts, dips, [*best.nodes.bends, t[k]]), x, best.scale, prior, 2)
    price = BEND_BLOCKS * (1 - len(undone))
    return found if cost(best) - cost(found) > (LOAD - 1.0) * price else None


def other_rate(best: Fit, falls: list[tuple[float, float]], prior: Prior) -> Fit | None:
    """
    Suppose another slope since the first minimum: the known rate was that of another clock.

    :param falls: as for ``bend``.
    :param prior: one that does not constrain the slope.
    """
    t, y, counts, dips, _ = _with_data(best)
    _undo(falls, t, y, len(t))
    slope, newest = _line(t, y, 0)
    found = fit(Nodes(t, y, counts, dips, best.nodes.bends),
                [newest + slope * (at - t[-1]) for at in t], best.scale, prior, 2)
    price = BEND_BLOCKS * (1 - len(falls))
    return found if cost(best) - cost(found) > (LOAD - 1.0) * price else None


def jump(best: Fit, since: float, prior: Prior) -> Fit | None:
    """
    Suppose that the floor rose permanently, perhaps to another slope.

    :param best: the path without a jump.
    :param since: time of the first minimum after it.
    """
    t, y, counts, dips, bends = best.nodes
    first = bisect_left(t, since - 1e-6)
    after = [i for i in range(first, len(t)) if counts[i]]
    if len(after) < 8 or first < 1:
        return None
    x = best.x
    # The lower quarter of either half: load may be among them.
    half = len(after) // 2
    low, i = sorted((y[i] - x[i], i) for i in after[:half])[half // 4]
    high, k = sorted((y[i] - x[i], i) for i in after[half:])[half // 4]
    slope = (high - low) / (t[k] - t[i])
    if abs(slope) > FASTEST:
        return None
    rise = low + slope * (t[first] - t[i])
    nodes = Nodes(t, [height + rise for height in y[:first]] + y[first:], counts, dips,
                  [*bends, t[first]])
    guess = [height + rise + slope * max(at - t[first], 0.0)
             for at, height in zip(t, x, strict=True)]
    found = fit(nodes, guess, best.scale, prior, 2)
    return found if cost(best) - cost(found) > (LOAD - 1.0) * JUMP_BLOCKS else None


def pattern(best: Fit, least_rise: float, prior: Prior) -> Fit | None:
    """
    Suppose that minima scatter by more: the path is the longest edge of the lower hull.

    :param best: the path with the present scatter.
    :param least_rise: smallest rise of the newest height for which it is tried.
    :returns: a fit of another ``scale``.
    """
    t, y, counts, dips, x = _with_data(best._replace(nodes=best.nodes._replace(bends=[])))
    n = len(t)
    if n < 8:
        return None
    hull = lower_hull(t, y)
    k = max(range(1, len(hull)), key=lambda i: t[hull[i]] - t[hull[i - 1]])
    a, b = hull[k - 1], hull[k]
    slope = (y[b] - y[a]) / (t[b] - t[a])
    above = [height - y[a] - slope * (at - t[a]) for at, height in zip(t, y, strict=True)]
    near = sorted(map(abs, above))[:max(3, n * 3 // 4)]
    mean = math.fsum(near) / len(near)
    scale = math.sqrt(math.fsum((v - mean) ** 2 for v in near) / len(near))
    # Less than 1.5 times the scatter is noise of its estimate, much more is load.
    if (not 1.5 * best.scale <= scale <= 0.3 * FARTHEST_US or abs(slope) > FASTEST
            or y[a] + slope * (t[-1] - t[a]) - x[-1] < least_rise):
        return None
    found = fit(Nodes(t, y, counts, dips, []),
                [y[a] + mean + slope * (at - t[a]) for at in t], scale, prior, 2)
    # A wider scatter has its own price, and load may delay by anything up to the farthest.
    saved = (cost(best, 2.0 * math.log(FARTHEST_US / best.scale))
             - cost(found, 2.0 * math.log(FARTHEST_US / scale))
             - 2.0 * math.fsum(counts) * math.log(scale / best.scale))
    return found if saved > 0.0 else None


def lower_hull(t: list[float], y: list[float]) -> list[int]:
    """Return the indices of the lower convex hull of points in order of time (monotone chain)."""
    hull: list[int] = []
    for i in range(len(t)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (t[i] - t[a]) < (y[i] - y[a]) * (t[b] - t[a]):
                break
            hull.pop()
        hull.append(i)
    return hull


def _undo(
    falls: list[tuple[float, float]], t: list[float], heights: list[float], end: int,
) -> None:
    """Raise heights before the node ``end`` by the falls after them."""
    for at, by in falls:
        for i in range(min(bisect_left(t, at), end)):
            heights[i] -= by


def _line(t: list[float], y: list[float], first: int) -> tuple[float, float]:
    """Return slope, and height at the last node, of the least-squares line from a node on."""
    n = len(t) - first
    mean_t = math.fsum(t[first:]) / n
    mean_y = math.fsum(y[first:]) / n
    slope = (math.fsum((t[i] - mean_t) * (y[i] - mean_y) for i in range(first, len(t)))
             / math.fsum((at - mean_t) ** 2 for at in t[first:]))
    return slope, mean_y + slope * (t[-1] - mean_t)


def _with_data(
    fit: Fit,
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """Copy times, heights, counts, dips and path of the nodes with data or a bend."""
    nodes = fit.nodes
    keep = [i for i in range(len(nodes.t)) if nodes.counts[i] or nodes.t[i] in nodes.bends]
    return ([nodes.t[i] for i in keep], [nodes.y[i] for i in keep],
            [nodes.counts[i] for i in keep], [nodes.dips[i] for i in keep],
            [fit.x[i] for i in keep])
