# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Other paths under minima that leave the path, to be compared by the cost of ``cost.py``.

Each has a price in blocks of load and is accepted if its cost is less by that price:

- *bend*: another slope since a moment ago (a clock is slewed);
- *no bend*: the last bends were load, which ends now;
- *jump*: the floor rose permanently (a clock was set, or the route changed);
- *pattern*: the minima scatter by more than neighbours show, as with polling; the path is the
  longest edge of the lower convex hull (Zhang, Liu, Xia 2002).

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
import math
from operator import attrgetter
from statistics import linear_regression

from optitrack_vrpn.clock.cost import cost, FASTEST, LOAD, Node, Path, SAME_TIME_S, solve

BEND_BLOCKS = 4.0
"""Price of a bend in blocks of load. Chosen: half of it bends with noise, twice as much lags
behind a slew by 8 s."""
JUMP_BLOCKS = 85.0
"""Price of a jump in blocks of load. Chosen: load of up to 80 s does not move the path; half of
it follows load of 45 s, twice as much follows a jump after three minutes."""
FARTHEST_US = 1e4
"""Longest delay by load. Chosen: later frames are judged by ``tracking.py``; half of it or twice
as much changes the price of a pattern by a fifth."""
_time = attrgetter('t')


def bend(
    best: Path, since: float, falls: Sequence[tuple[float, float]], newest: int = 0,
) -> Path | None:
    """
    Suppose another slope since about the first minimum that leaves the path.

    :param since: time of that minimum; of the first one of all for another slope from there on
        (another computer sends, whose clock has not the rate that was known).
    :param falls: (time, change) of the earlier minima when later ones were below the path. They
        are undone: the slope explains them, and saves the price of a bend for each.
    :param newest: number of the newest minima that are on the new slope, those before them being
        load; 0 for all.
    """
    undone = [fall for fall in falls if fall[0] >= since]
    nodes = _before_falls(best, undone)
    begin = bisect_left(nodes, since, key=_time)
    last = begin - 1
    if newest:
        begin = max(begin, len(nodes) - newest)
    if len(nodes) - begin < 3 or (begin and (last < 2 or not nodes[last].count)):
        return None
    slope, level = linear_regression(
        [node.t for node in nodes[begin:]], [node.y for node in nodes[begin:]])
    if not begin:
        for node in nodes:
            node.x = level + slope * node.t
        return _cheaper(best, nodes, BEND_BLOCKS)
    first, second, third = nodes[last - 2:last + 1]
    before = (second.x - first.x) / (second.t - first.t)
    change = slope - before
    if abs(slope) > FASTEST or not change:
        return None
    # A slewed clock leaves its line where the new line meets it; load jumps.
    at = (second.x - before * second.t - level) / change
    slack = 2.0 * third.scale / abs(change)
    if not second.t - 1.0 - slack < at < nodes[begin].t + 0.5 + slack:
        return None
    at = min(max(at, first.t), nodes[begin].t)
    for node in nodes[last - 2:]:
        if node.t > at:
            node.x = level + slope * node.t
        elif node.t >= third.t:
            node.x = second.x + before * (node.t - second.t)
    node = min(nodes[last - 2:], key=lambda node: abs(node.t - at))
    if abs(node.t - at) > SAME_TIME_S:
        height = level + slope * at
        node = Node(at, height, height, third.scale, 0.0)
        nodes.insert(bisect_right(nodes, at, key=_time), node)
    node.free = True
    return _cheaper(best, nodes, BEND_BLOCKS * (1 - len(undone)))


def no_bend(
    best: Path, since: float, slope: float, level: float, falls: Sequence[tuple[float, float]],
) -> Path | None:
    """
    Suppose that the last bends were none: minima met load, which ends now.

    :param since: time from which bends are removed.
    :param slope: of the line before them.
    :param level: its height at time 0.
    :param falls: as for ``bend``.
    """
    nodes = [node for node in _before_falls(best, falls) if node.count or node.t < since]
    for node in nodes:
        if node.t >= since:
            node.free, node.x = False, level + slope * node.t
    return _cheaper(best, nodes, -BEND_BLOCKS * (1 + len(falls)))


def jump(best: Path, since: float) -> Path | None:
    """
    Suppose that the floor rose permanently, perhaps to another slope.

    :param since: time of the first minimum after it.
    """
    nodes = [node.copy() for node in best.nodes]
    begin = bisect_left(nodes, since - 1e-6, key=_time)
    after = [node for node in nodes[begin:] if node.count]
    if len(after) < 8 or begin < 1:
        return None
    # The lower quarter of either half: load may be among them.
    half = len(after) // 2
    low, high = (sorted(part, key=_height)[half // 4] for part in (after[:half], after[half:]))
    slope = (_height(high) - _height(low)) / (high.t - low.t)
    if abs(slope) > FASTEST:
        return None
    start = nodes[begin].t
    rise = _height(low) + slope * (start - low.t)
    for node in nodes:
        node.x += rise + slope * max(node.t - start, 0.0)
        if node.t < start:
            node.y += rise
    nodes[begin].free = True
    return _cheaper(best, nodes, JUMP_BLOCKS)


def pattern(best: Path, least_rise: float) -> Path | None:
    """
    Suppose that minima scatter by more: the path is the longest edge of the lower hull.

    :param least_rise: smallest rise of the newest height for which it is tried.
    """
    nodes = [node.copy() for node in best.nodes if node.count]
    n, white = len(nodes), nodes[-1].scale
    if n < 8:
        return None
    hull = lower_hull(nodes)
    low, high = max(zip(hull, hull[1:], strict=False), key=lambda edge: edge[1].t - edge[0].t)
    slope = (high.y - low.y) / (high.t - low.t)
    level = low.y - slope * low.t
    near = sorted(abs(node.y - level - slope * node.t) for node in nodes)[:max(3, n * 3 // 4)]
    mean = math.fsum(near) / len(near)
    scale = math.sqrt(math.fsum((each - mean) ** 2 for each in near) / len(near))
    # Less than 1.5 times the scatter is noise of its estimate, much more is load.
    if (not 1.5 * white <= scale <= 0.3 * FARTHEST_US or abs(slope) > FASTEST
            or level + slope * nodes[-1].t - best.nodes[-1].x < least_rise):
        return None
    for node in nodes:
        node.x, node.scale, node.free = level + mean + slope * node.t, scale, False
    found = solve(nodes, 2, best.prior)
    # A wider scatter has its own price, and load may delay by anything up to the farthest.
    saved = (cost(best.nodes, 2.0 * math.log(FARTHEST_US / white))
             - cost(nodes, 2.0 * math.log(FARTHEST_US / scale))
             - 2.0 * math.fsum(node.count for node in nodes) * math.log(scale / white))
    return found if saved > 0.0 else None


def lower_hull(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes on the lower convex hull (monotone chain, Andrew 1979)."""
    hull: list[Node] = []
    for node in nodes:
        while len(hull) > 1 and ((hull[-1].y - hull[-2].y) * (node.t - hull[-2].t)
                                 >= (node.y - hull[-2].y) * (hull[-1].t - hull[-2].t)):
            hull.pop()
        hull.append(node)
    return hull


def _before_falls(best: Path, falls: Sequence[tuple[float, float]]) -> list[Node]:
    """Return copies of the nodes, with falls undone."""
    nodes = [node.copy() for node in best.nodes]
    for when, by in falls:
        for node in nodes:
            if node.t < when:
                node.y -= by
                node.x -= by
    return nodes


def _cheaper(best: Path, nodes: list[Node], price: float) -> Path | None:
    """Return the path through other nodes if it costs less by a price in blocks of load."""
    found = solve(nodes, 2, best.prior)
    return found if cost(best.nodes) - cost(nodes) > (LOAD - 1.0) * price else None


def _height(node: Node) -> float:
    return node.y - node.x
