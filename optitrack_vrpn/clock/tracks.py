# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The most plausible path under the minima of a whole recording, known from both sides.

The cost is that of ``path.py``. The estimator of the node must decide on load, bend or jump when
it has seen some seconds; here the minima after it are known as well:

1. Kalman filters of a straight line whose slope walks collect the minima that lie on one line each
   (*tracks*; several may run side by side, as in multi-target tracking, Blackman 1986).
2. Dynamic programming finds the chain of tracks of least cost. A minimum above the chain costs up
   to one block of load, one below it up to ``_MOST_BELOW``. From one track to the next the clock
   *runs on* as an oscillator does, *bends* where their lines meet, or *jumps*. So a swell of load
   costs its length where the track after it continues the one before it, and a slew that does not
   return costs its bends.
3. Beginning with that chain, the path is solved by reweighting over the whole recording
   (``banded.py``), with the slope free at bends and the path cut at jumps.

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
import math
from typing import NamedTuple

from optitrack_vrpn.clock.banded import smooth
from optitrack_vrpn.clock.path import (
    ABOVE_FLOOR, BELOW, FARTHEST_US, FASTEST, JUMP_BLOCKS, KNEE, LOAD, SPAN_S, WALK,
)
from optitrack_vrpn.clock.scatter import LEAST_US

BEND_PRICE = 45.0
"""
A bend costs as many blocks of load. Chosen: a swell (three bends) of up to 135 s is load, and a
clock disciplined every minute is followed; 20 takes swells of a minute for slews, 90 takes two
disciplined minutes for load.
"""
_TRACK_WALK = 0.1
"""
Random walk of the slope of a track (ppm in a second). Chosen: three times ``WALK``, since tracks
only collect minima and must follow thermal waves of 5 ppm in 10 min; ten times follows load.
"""
_SURE_US = 100.0
"""
A track is known to continue another one where its place is foretold as well as this (us). Chosen:
2 min of load on a wire; half of it breaks the path at swells of 2 min, five times as much takes
load of 1 ms for the clock.
"""
_SURPRISE = 8.0
"""
At most so surprising (in blocks of load) is it for an oscillator to run on. Chosen: seven standard
deviations, as thermal waves of 5 ppm in 10 min show during load; 30 takes bends of 5 ppm for it.
"""
_ENOUGH = 8
"""Minima of a track that may be part of the chain (as many as a scatter needs)."""
_MOST_BELOW = 20.0
_FARTHER = 3.0
"""Blocks of load that a minimum costs which lies higher than load usually lifts it."""
_NEW_SLOPE = 500.0
"""Standard deviation of the slope of a new track: half of the fastest slew (ppm)."""
_WIDER = (1.0, 4.0, 16.0, 64.0)
"""
Factors of the scatter that are tried, the least first, until minima lie on the path at least once
in ``SPAN_S``. Load does not last so long: the minima follow a pattern then, as those of frames
that are polled.
"""
_KINK_S = 3.0
"""Dips so close to a bend or a jump show its place, and not the depth of the floor."""
_ROUNDS = 5
_BIN = 60
"""Minima in which scatter and deepest dip are taken as constant: a minute."""
_NEVER = 1e-9


class Floor(NamedTuple):
    """The floor under the minima: straight lines between nodes."""

    t: list[float]
    z: list[float]

    def at(self, t: float) -> float:
        """Return the height at a time (us); the first and last line go on beyond the ends."""
        k = min(max(bisect_left(self.t, t), 1), len(self.t) - 1)
        begin, end = self.t[k - 1], self.t[k]
        return self.z[k - 1] + (self.z[k] - self.z[k - 1]) * (t - begin) / (end - begin)


class _Track:
    """Kalman filter of a line: height, slope and their covariance at the newest minimum."""

    def __init__(self, i: int, t: float, y: float, r: float, slope: float) -> None:
        self.hits = [i]
        self.t, self.x, self.v = t, y, slope
        self.xx, self.xv, self.vv = r, 0.0, _NEW_SLOPE * _NEW_SLOPE

    def foretell(self, t: float) -> tuple[float, float]:
        """Return height and variance at a time."""
        d = t - self.t
        return (self.x + self.v * d,
                self.xx + d * (2.0 * self.xv + d * (self.vv + _TRACK_WALK ** 2 * d / 3.0)))

    def add(self, i: int, t: float, y: float, r: float) -> None:
        """Take a minimum of variance ``r``."""
        d = t - self.t
        walk = _TRACK_WALK ** 2 * d
        x, xx = self.foretell(t)
        xv = self.xv + d * (self.vv + walk / 2.0)
        vv = self.vv + walk
        gain, turn = xx / (xx + r), xv / (xx + r)
        self.t, self.x, self.v = t, x + gain * (y - x), self.v + turn * (y - x)
        self.xx, self.xv, self.vv = (1.0 - gain) * xx, (1.0 - gain) * xv, vv - turn * xv
        self.hits.append(i)


class _Line(NamedTuple):
    """A finished track: its path through its minima."""

    t: list[float]
    x: list[float]
    before: float
    """Slope at its begin."""
    after: float
    """Slope at its end."""
    sure: float
    """Variance of these slopes."""
    cost: list[float]
    """Blocks of load that all minima before each one cost under this path."""

    def at(self, t: float) -> float:
        """Return the height at a time."""
        if t <= self.t[0]:
            return self.x[0] + self.before * (t - self.t[0])
        if t >= self.t[-1]:
            return self.x[-1] + self.after * (t - self.t[-1])
        k = bisect_left(self.t, t)
        share = (t - self.t[k - 1]) / (self.t[k] - self.t[k - 1])
        return self.x[k - 1] + share * (self.x[k] - self.x[k - 1])


class _Turn(NamedTuple):
    """Where the chain goes on with another track."""

    t: float
    kind: str
    """``start``, ``run_on``, ``bend`` or ``jump``."""
    price: float
    line: _Line


def find_floor(t: Sequence[float], y: Sequence[float]) -> Floor | None:
    """
    Find the floor under the minima of one run of the clocks.

    :param t: times of the minima (s), rising, about one a second.
    :param y: their heights (us).
    :returns: None where they are too few.
    """
    if len(t) < _ENOUGH:
        return None
    white = scatter(t, y)
    floor = None
    for factor in _WIDER:
        floor, longest = _fit(t, y, [each * factor for each in white], white)
        if floor is None or longest >= SPAN_S:
            continue
        closer = [min(pair) for pair in zip(white, _spread(floor, t, y), strict=True)]
        if factor == 1.0 and closer != white:
            better, longest = _fit(t, y, closer, closer)
            if longest < SPAN_S:
                return better
        return floor
    return None


def _fit(
    t: Sequence[float], y: Sequence[float], scale: list[float], white: list[float],
) -> tuple[Floor | None, float]:
    """Find the floor for a given scatter; see ``_solve``."""
    lines = [_finish(track, t, y, scale) for track in find_tracks(t, y, scale)]
    return _solve(_chain(lines, t), t, y, scale, white) if lines else (None, math.inf)


def _spread(floor: Floor, t: Sequence[float], y: Sequence[float]) -> list[float]:
    """Return the most that minima scatter by, from the lowest of them: these met no load (us)."""
    found: list[float] = []
    off = [height - floor.at(at) for at, height in zip(t, y, strict=True)]
    for begin in range(0, len(t), _BIN):
        near = sorted(off[max(0, begin - _BIN):begin + 2 * _BIN])
        n = len(near)
        # For normal noise the 5th and the 20th percentile are 0.80 deviations apart.
        most = 1.5 * (near[n * 20 // 100] - near[n * 5 // 100]) / 0.80
        found += [max(most, LEAST_US)] * min(_BIN, len(t) - begin)
    return found


def scatter(t: Sequence[float], y: Sequence[float]) -> list[float]:
    """Return the standard deviation expected of each minimum, from second differences (us)."""
    n = len(t)
    found: list[float] = []
    for middle in range(_BIN // 2, n + _BIN // 2, _BIN):
        begin, end = max(0, middle - _BIN), min(n, middle + _BIN)
        near = _second_differences(t, y, begin, end, 1)
        apart = _second_differences(t, y, begin, end, 8)
        found += [max(near, min(apart, 20.0 * near), LEAST_US)] * min(_BIN, n - len(found))
    return found


def _second_differences(
    t: Sequence[float], y: Sequence[float], begin: int, end: int, apart: int,
) -> float:
    """Return the standard deviation of minima from those ``apart`` before and after them."""
    seen = []
    for k in range(begin + apart, end - apart):
        share = (t[k] - t[k - apart]) / (t[k + apart] - t[k - apart])
        off = y[k] - y[k - apart] - (y[k + apart] - y[k - apart]) * share
        seen.append(abs(off) / math.sqrt(1.0 + share * share + (1.0 - share) * (1.0 - share)))
    if len(seen) < 3:
        return 0.0
    # The 30th percentile of a normal deviate's size is 0.385; load lifts most of the others.
    return sorted(seen)[len(seen) * 30 // 100] / 0.385


# -- tracks ------------------------------------------------------------------------------------

def find_tracks(t: Sequence[float], y: Sequence[float], scale: Sequence[float]) -> list[_Track]:
    """Collect the minima that lie on one line each."""
    running: list[_Track] = []
    done: list[_Track] = []
    slope = (y[-1] - y[0]) / (t[-1] - t[0])
    for i, (at, height) in enumerate(zip(t, y, strict=True)):
        r = scale[i] * scale[i]
        best, likely = None, math.inf
        for track in running:
            x, var = track.foretell(at)
            var += r
            off = (height - x) ** 2 / var
            if off < LOAD:
                # A track of a minimum or two takes nothing that another one foretells.
                off += math.log(var) + (0.0 if len(track.hits) > 2 else 1e3)
                if off < likely:
                    best, likely = track, off
        if best is None:
            running.append(_Track(i, at, height, r, slope))
        else:
            best.add(i, at, height, r)
        # A track ends when it foretells less than the minima scatter: what it would take then
        # may be load that comes near.
        ended = [track for track in running
                 if (track.foretell(at)[1] > r if len(track.hits) > 2 else at - track.t > 4.0)]
        if ended:
            done += ended
            running = [track for track in running if track not in ended]
    found = [track for track in done + running if len(track.hits) >= _ENOUGH]
    return sorted(found, key=lambda track: track.hits[0])


def _finish(
    track: _Track, t: Sequence[float], y: Sequence[float], scale: Sequence[float],
) -> _Line:
    """Smooth a track, and count what the minima cost under it."""
    at = [t[i] for i in track.hits]
    path = _smooth(at, [y[i] for i in track.hits], [scale[i] ** -2.0 for i in track.hits], ())
    before = (path[1] - path[0]) / (at[1] - at[0])
    sure = track.vv
    line = _Line(at, path, before, track.v, sure, [0.0])
    total = 0.0
    for i, (when, height) in enumerate(zip(t, y, strict=True)):
        far = max(at[0] - when, when - at[-1], 0.0)
        if far > SPAN_S:
            total += 1.0
        else:
            var = scale[i] * scale[i] + far * far * (sure + WALK * WALK * far / 3.0)
            off = height - line.at(when)
            square = off * off / (var * LOAD)
            # What is foretold badly is explained little better than by load.
            vague = math.log(var / (scale[i] * scale[i])) / LOAD
            total += (min(BELOW * square + vague, _MOST_BELOW) if off < 0.0 else
                      _FARTHER if off > FARTHEST_US else
                      min(square / (1.0 + square) + vague, 1.0))
        line.cost.append(total)
    return line


def _chain(lines: list[_Line], t: Sequence[float]) -> list[_Turn]:
    """Find the sequence of tracks of least cost."""
    cost: list[float] = []
    chains: list[list[_Turn]] = []
    for j, line in enumerate(lines):
        best, chain = 0.0, [_Turn(-math.inf, 'start', 0.0, line)]
        for i in range(j):
            turn = _meet(lines[i], line, t)
            if turn.t <= chains[i][-1].t:
                continue
            k = bisect_left(t, turn.t)
            after = cost[i] + lines[i].cost[k] - line.cost[k] + turn.price
            if after < best:
                best, chain = after, [*chains[i], turn]
        cost.append(best)
        chains.append(chain)
    last = min(range(len(lines)), key=lambda j: cost[j] + lines[j].cost[-1])
    return chains[last]


def _meet(first: _Line, second: _Line, t: Sequence[float]) -> _Turn:
    """Return where and how a track goes over into another one, at the least price."""
    begin = second.t[0]
    # Side by side for a while: the later one begins.
    end = min(first.t[-1], begin)
    slope = first.after if end == first.t[-1] else (first.at(end) - first.at(end - 5.0)) / 5.0
    bend = second.before - slope
    gap = second.x[0] - first.at(begin)
    away = begin - end
    variance = first.sure + second.sure + WALK * WALK * away
    place = LEAST_US * LEAST_US + away * away * variance
    surprise = gap * gap / place + bend * bend / variance
    if surprise < _SURPRISE * LOAD and place < _SURE_US * _SURE_US:
        return _Turn(begin - 1e-6, 'run_on', surprise / LOAD, second)
    if abs(bend) > 1e-3:
        at = begin - gap / bend
        if end - 10.0 < at < begin + 10.0:
            return _Turn(at, 'bend', BEND_PRICE, second)
    k = bisect_left(t, begin)
    k = min(range(max(k - 5, 1), min(k + 5, len(t))),
            key=lambda k: first.cost[k] - second.cost[k])
    return _Turn(t[k] - 1e-6, 'jump', JUMP_BLOCKS, second)


# -- path --------------------------------------------------------------------------------------

def _solve(
    chain: list[_Turn], t: Sequence[float], y: Sequence[float], scale: Sequence[float],
    white: Sequence[float],
) -> tuple[Floor, float]:
    """
    Solve for the path of least cost near a chain of tracks; cut it at jumps.

    :returns: the floor, and the longest time in which all minima lie above the path (s).
    """
    at: list[float] = []
    floor: list[float] = []
    begin, piece = 0, chain[:1]
    on_path = [t[0]]
    for turn in [*chain[1:], None]:
        if turn is None or turn.kind == 'jump':
            end = len(t) if turn is None else bisect_left(t, turn.t)
            if end - begin > 2:
                times, heights = _solve_piece(
                    piece, t[begin:end], y[begin:end], scale[begin:end], white[begin:end],
                    on_path)
                if at:
                    # The jump itself: half-way, within a microsecond.
                    middle = (t[begin - 1] + t[begin]) / 2.0
                    before = Floor(at, floor).at(middle)
                    at += [middle - 5e-7, middle + 5e-7]
                    floor += [before, Floor(times, heights).at(middle)]
                at += times
                floor += heights
                begin = end
            piece = []
        if turn is not None:
            piece.append(turn)
    on_path.append(t[-1])
    longest = max(after - before for before, after in zip(on_path, on_path[1:], strict=False))
    return Floor(at, floor), longest


def _solve_piece(
    chain: list[_Turn], t: Sequence[float], y: Sequence[float], scale: Sequence[float],
    white: Sequence[float], on_path: list[float],
) -> tuple[list[float], list[float]]:
    """Return times and heights of the floor under minima without a jump; add those on the path."""
    times, heights, spread = list(t), list(y), list(scale)
    data = [1.0] * len(times)
    bends = []
    for turn in chain[1:]:
        if turn.kind == 'run_on':
            continue
        k = bisect_left(times, turn.t)
        if not 0 < k < len(times):
            continue
        if min(turn.t - times[k - 1], times[k] - turn.t) > 0.02:
            for values, value in ((times, turn.t), (heights, 0.0), (spread, spread[k]),
                                  (data, 0.0)):
                values.insert(k, value)
        elif turn.t - times[k - 1] <= 0.02:
            k -= 1
        bends.append(k)
    path = []
    now = 0
    for when in times:
        while now + 1 < len(chain) and when >= chain[now + 1].t:
            now += 1
        path.append(chain[now].line.at(when))
    weights: list[float] = []
    for _ in range(_ROUNDS):
        weights = [_weight(height - x, each) * known for height, x, each, known in zip(
            heights, path, spread, data, strict=True)]
        path = _smooth(times, heights, weights, bends)
    on_path += [when for when, height, x, each, known in zip(
        times, heights, path, spread, data, strict=True)
        if known and abs(height - x) < KNEE * each]
    kinks = [t[0], *(turn.t for turn in chain[1:] if turn.kind == 'bend'), t[-1]]
    dips = [x - height if known and min(abs(when - kink) for kink in kinks) > _KINK_S else 0.0
            for when, height, x, known in zip(times, heights, path, data, strict=True)]
    depths = _depths(dips, spread, sum(white) / len(white))
    return times, [x - depth for x, depth in zip(path, depths, strict=True)]


def _weight(off: float, scale: float) -> float:
    """Return the weight of a minimum that lies so far above the path."""
    if off < 0.0:
        return BELOW / (scale * scale)
    g = 1.0 + (off / (KNEE * scale)) ** 2
    return 1.0 / (g * g * scale * scale)


def _smooth(
    t: list[float], y: list[float], w: list[float], bends: Sequence[int],
) -> list[float]:
    """Return the path through minima of given weights; its slope is free at bends."""
    walk = 2.0 / (WALK * WALK)
    n = len(t)
    p = [_NEVER, *(walk / (t[i + 1] - t[i - 1]) for i in range(1, n - 1)), 0.0]
    p[-1] = walk / (t[-1] + 1.0 - t[-2])
    for k in bends:
        p[k] = _NEVER
    slope = min(max((y[-1] - y[0]) / (t[-1] - t[0]), -FASTEST), FASTEST)
    return smooth(t, y, w, p, slope, FASTEST ** -2.0, t[-1] + 1.0).x


def _depths(dips: list[float], scale: list[float], white: float) -> list[float]:
    """Return how far the floor lies below the path: by the deepest dip of some minutes (us)."""
    deepest = [max(dips[k:k + _BIN]) for k in range(0, len(dips), _BIN)]
    reach = round(SPAN_S / 2.0 / _BIN)
    bins = []
    for k in range(len(deepest)):
        spread = scale[min(k * _BIN + _BIN // 2, len(scale) - 1)]
        most = max(deepest[max(0, k - reach):k + reach + 1])
        bins.append(min(max(most, 0.0), 4.0 * spread) + ABOVE_FLOOR * (white - LEAST_US))
    found = []
    for i in range(len(dips)):
        place = min(max(i / _BIN - 0.5, 0.0), len(bins) - 1.0)
        k = min(int(place), max(len(bins) - 2, 0))
        share = place - k
        found.append(bins[k] if len(bins) == 1 else bins[k] + share * (bins[k + 1] - bins[k]))
    return found
