# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The path of least cost under the minima of a whole recording, known from both sides.

The cost is that of ``cost.py``. The estimator of the node must decide on load, bend or jump when
it has seen some seconds; here the minima after it are known as well. ``tracks.py`` finds a chain
of lines; beginning with it, the path is solved by reweighting over the whole recording, with the
slope free at bends and the path cut at jumps.

Times are seconds, heights microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
import math
from typing import NamedTuple

from optitrack_vrpn.clock.cost import KNEE, SAME_TIME_S, solve
from optitrack_vrpn.clock.path import ABOVE_FLOOR, DEEPEST, SPAN_S
from optitrack_vrpn.clock.scatter import (
    deviation, LEAST_US, most_scatter, second_difference,
)
from optitrack_vrpn.clock.tracks import ENOUGH, find_chain, first_slope, Turn

_APART = 8
"""Minima over which lasting patterns are measured, as of polling near the rate of the frames.
Chosen: teeth of 30 s show in a third of them; half of it sees less of them, twice as much takes
thermal waves for scatter."""
_MOST_RATIO = 20.0
"""Most that patterns scatter against neighbours. Chosen: more is load; half of it
cuts off the teeth of polling, twice as much lets waves of load in."""
_WIDER = (1.0, 4.0, 16.0, 64.0)
"""
Factors of the scatter that are tried, the least first, until minima are on the path at least once
in ``SPAN_S``: load does not last so long, so the minima follow a pattern, as those of frames that
are polled. Chosen: half or twice as wide steps change the time of the search alone.
"""
_ROUNDS = 5
"""Rounds of reweighting. Chosen: twice as many change nothing; half of them leave 0.2 ms of a
noisier time."""
_BIN = 60
"""Minima in which scatter and deepest dip are taken as constant. Chosen: a minute; half of it or
twice as much changes the place at which they change."""


class Floor(NamedTuple):
    """The floor under the minima: straight lines between nodes."""

    t: list[float]
    z: list[float]

    def at(self, t: float) -> float:
        """Return the height at a time (us); the first and last line continue beyond the ends."""
        k = min(max(bisect_left(self.t, t), 1), len(self.t) - 1)
        begin, end = self.t[k - 1], self.t[k]
        return self.z[k - 1] + (self.z[k] - self.z[k - 1]) * (t - begin) / (end - begin)


def find_floor(t: Sequence[float], y: Sequence[float]) -> Floor | None:
    """
    Find the floor under the minima of one run of the clocks.

    :param t: times of the minima (s), rising, about one a second.
    :param y: their heights (us).
    :returns: None where they are too few.
    """
    t, y = _apart(t, y)
    if len(t) < ENOUGH:
        return None
    white = scatter(t, y)
    for factor in _WIDER:
        floor, longest = _solve(t, y, [each * factor for each in white], white)
        if floor is None or longest >= SPAN_S:
            continue
        closer = [min(pair) for pair in zip(white, _most(floor, t, y), strict=True)]
        if factor == 1.0 and closer != white:
            better, longest = _solve(t, y, closer, closer)
            if longest < SPAN_S:
                return better
        return floor
    return None


def _apart(t: Sequence[float], y: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the minima with the lower one of each two that have the same time."""
    times: list[float] = []
    heights: list[float] = []
    for at, height in zip(t, y, strict=True):
        if not times or at - times[-1] >= SAME_TIME_S:
            times.append(at)
            heights.append(height)
        elif height < heights[-1]:
            times[-1], heights[-1] = at, height
    return times, heights


def scatter(t: Sequence[float], y: Sequence[float]) -> list[float]:
    """Return the standard deviation expected of each minimum, from second differences (us)."""
    n = len(t)
    found: list[float] = []
    for middle in range(_BIN // 2, n + _BIN // 2, _BIN):
        begin, end = max(0, middle - _BIN), min(n, middle + _BIN)
        near, apart = (
            deviation([second_difference(t, y, k - d, k, k + d)
                       for k in range(begin + d, end - d)], 0.0)
            for d in (1, _APART))
        found += [max(near, min(apart, _MOST_RATIO * near), LEAST_US)] * min(_BIN, n - len(found))
    return found


def _most(floor: Floor, t: Sequence[float], y: Sequence[float]) -> list[float]:
    """Return the most that minima scatter by, from the lowest of them (us)."""
    found: list[float] = []
    off = [height - floor.at(at) for at, height in zip(t, y, strict=True)]
    for begin in range(0, len(t), _BIN):
        most = max(most_scatter(off[max(0, begin - _BIN):begin + 2 * _BIN]), LEAST_US)
        found += [most] * min(_BIN, len(t) - begin)
    return found


def _solve(
    t: Sequence[float], y: Sequence[float], scale: list[float], white: list[float],
) -> tuple[Floor | None, float]:
    """
    Find the floor for a given scatter.

    :param white: the part of the scatter that neighbours do not share.
    :returns: the floor, and the longest time in which all minima are above the path (s).
    """
    chain = find_chain(t, y, scale)
    floor = Floor([], [])
    begin, piece = 0, chain[:1]
    on_path = [t[0]]
    for turn in [*chain[1:], None] if chain else []:
        if turn is None or turn.kind == 'jump':
            end = len(t) if turn is None else bisect_left(t, turn.t)
            if end - begin > 2:
                next_floor = _solve_piece(
                    piece, t[begin:end], y[begin:end], scale[begin:end], white[begin:end],
                    on_path)
                if floor.t:
                    # The jump itself: half-way, within a microsecond.
                    middle = (t[begin - 1] + t[begin]) / 2.0
                    floor.z.extend((floor.at(middle), next_floor.at(middle)))
                    floor.t.extend((middle - 5e-7, middle + 5e-7))
                floor.t.extend(next_floor.t)
                floor.z.extend(next_floor.z)
                begin = end
            piece = []
        if turn is not None:
            piece.append(turn)
    if not floor.t:
        return None, math.inf
    on_path.append(t[-1])
    return floor, max(b - a for a, b in zip(on_path, on_path[1:], strict=False))


def _solve_piece(
    chain: list[Turn], t: Sequence[float], y: Sequence[float], scale: Sequence[float],
    white: Sequence[float], on_path: list[float],
) -> Floor:
    """Find the floor under minima without a jump; add the times of those on the path."""
    times, heights, spread, counts = list(t), list(y), list(scale), [1.0] * len(t)
    bends = []
    for turn in chain[1:]:
        k = bisect_left(times, turn.t)
        if turn.kind == 'run_on' or not 0 < k < len(times):
            continue
        if min(turn.t - times[k - 1], times[k] - turn.t) > SAME_TIME_S:
            for values, value in ((times, turn.t), (heights, 0.0), (spread, spread[k]),
                                  (counts, 0.0)):
                values.insert(k, value)
        elif turn.t - times[k - 1] <= SAME_TIME_S:
            k -= 1
        bends.append(times[k])
    path = []
    now = 0
    for when in times:
        while now + 1 < len(chain) and when >= chain[now + 1].t:
            now += 1
        path.append(chain[now].line.at(when))
    path = solve(times, heights, counts, spread, bends, path, first_slope(times, heights),
                 _ROUNDS).x
    on_path += [when for when, height, x, each, count in zip(
        times, heights, path, spread, counts, strict=True)
        if count and abs(height - x) < KNEE * each]
    dips = [count and x - height
            for height, x, count in zip(heights, path, counts, strict=True)]
    depths = _depths(dips, spread, sum(white) / len(white))
    return Floor(times, [x - depth for x, depth in zip(path, depths, strict=True)])


def _depths(dips: list[float], scale: list[float], white: float) -> list[float]:
    """Return how far the floor is below the path: by the deepest dip of some minutes (us)."""
    deepest = [max(dips[k:k + _BIN]) for k in range(0, len(dips), _BIN)]
    reach = round(SPAN_S / 2.0 / _BIN)
    bins = []
    for k in range(len(deepest)):
        spread = scale[min(k * _BIN + _BIN // 2, len(scale) - 1)]
        most = max(deepest[max(0, k - reach):k + reach + 1])
        bins.append(min(max(most, 0.0), DEEPEST * spread) + ABOVE_FLOOR * (white - LEAST_US))
    found = []
    for i in range(len(dips)):
        place = min(max(i / _BIN - 0.5, 0.0), len(bins) - 1.0)
        k = min(int(place), max(len(bins) - 2, 0))
        share = place - k
        found.append(bins[k] if len(bins) == 1 else bins[k] + share * (bins[k + 1] - bins[k]))
    return found
