# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Tracks of minima on one line, and the chain of them of least cost over a whole recording.

1. Kalman filters of a straight line whose slope walks collect the minima that are on one line
   each (*tracks*; several may run side by side, as in multi-target tracking, Blackman 1986).
2. Dynamic programming finds the chain of tracks of least cost. A minimum above the chain costs up
   to one block of load, one below it by the square of its distance. From one track to the next the
   clock *runs on* as an oscillator does, *bends* where their lines meet, or *jumps*. So a swell of
   load costs its length where the track after it continues the one before it, and a slew that does
   not return costs its bends.

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from bisect import bisect_left
import math
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.clock.cost import BELOW, LOAD, Node, solve, WALK
from optitrack_vrpn.clock.hypotheses import FARTHEST_US, JUMP_BLOCKS
from optitrack_vrpn.clock.path import SPAN_S
from optitrack_vrpn.clock.scatter import LEAST_US

BEND_PRICE = 45.0
"""
A bend costs as many blocks of load. Chosen: a swell (three bends) of up to 135 s is load, and a
clock disciplined every minute is followed; half of it takes swells of a minute for slews, twice as
much takes two disciplined minutes for load.
"""
ENOUGH = 8
"""Minima of a track that may be part of the chain. Chosen: as many as a scatter needs; half
adds tracks of load, twice as many lose slews of 10 s."""
_TRACK_WALK = 0.1
"""
Random walk of the slope of a track (ppm in a second). Chosen: three times ``WALK``, since tracks
only collect minima and must follow thermal waves of 5 ppm in 10 min; half of it breaks tracks in
them, twice as much follows load.
"""
_SURE_US = 100.0
"""
A track continues another one where its place is predicted as well as this (us). Chosen: 2 min of
load on a wire; half of it breaks the path at swells of 2 min, twice as much takes load of 0.4 ms
for the clock.
"""
_SURPRISE = 8.0
"""
Most that it costs an oscillator to run on (blocks of load). Chosen: seven standard deviations, as
thermal waves of 5 ppm in 10 min show during load; half of it breaks the path there, twice as much
takes bends of 3 ppm for it.
"""
_FARTHER = 3.0
"""Blocks of load that a minimum costs which is higher than load usually raises it. Chosen: a clock
in a slew is followed rather than lost; half of it loses it, twice as much follows stalls."""
_NEW_SLOPE = 500.0
"""Standard deviation of the slope of a new track (ppm). Chosen: the fastest slew; half of it or
twice as much changes the first two minima alone."""
_NEAR_S = 10.0
"""The lines of two tracks meet within this time of the gap between them, or the clock jumps.
Chosen: the first minima of a slew belong to no track; half of it misses slews, twice as much takes
jumps for them."""


class Track:
    """
    Kalman filter of a line: height, slope and their covariance at the newest minimum.

    :ivar hits: indices of its minima.
    """

    def __init__(self, i: int, t: float, y: float, r: float, slope: float) -> None:
        self.hits = [i]
        self.t, self.x, self.v = t, y, slope
        self.xx, self.xv, self.vv = r, 0.0, _NEW_SLOPE * _NEW_SLOPE

    def predict(self, t: float) -> tuple[float, float]:
        """Return height and variance at a time."""
        d = t - self.t
        return (self.x + self.v * d,
                self.xx + d * (2.0 * self.xv + d * (self.vv + _TRACK_WALK ** 2 * d / 3.0)))

    def add(self, i: int, t: float, y: float, r: float) -> None:
        """Add a minimum of variance ``r``."""
        d = t - self.t
        walk = _TRACK_WALK ** 2 * d
        x, xx = self.predict(t)
        xv = self.xv + d * (self.vv + walk / 2.0)
        vv = self.vv + walk
        gain, turn = xx / (xx + r), xv / (xx + r)
        self.t, self.x, self.v = t, x + gain * (y - x), self.v + turn * (y - x)
        self.xx, self.xv, self.vv = (1.0 - gain) * xx, (1.0 - gain) * xv, vv - turn * xv
        self.hits.append(i)


class Line(NamedTuple):
    """A finished track: its path through its minima."""

    t: Any
    x: Any
    before: float
    """Slope at its start."""
    after: float
    """Slope at its end."""
    slope_var: float
    """Variance of these slopes."""
    cost: Any
    """Cost of all minima before each one under this path, in blocks of load."""

    def at(self, t: Any) -> Any:
        """Return the heights at times."""
        return (np.interp(t, self.t, self.x) + self.before * np.minimum(t - self.t[0], 0.0)
                + self.after * np.maximum(t - self.t[-1], 0.0))


class Turn(NamedTuple):
    """Where the chain continues with another track."""

    t: float
    kind: str
    """``start``, ``run_on``, ``bend`` or ``jump``."""
    price: float
    line: Line


def find_chain(t: Any, y: Any, scale: Any) -> list[Turn]:
    """
    Find the sequence of tracks of least cost; empty without any track.

    :param t: times of the minima (s), rising, about one a second; an array.
    :param y: their heights (us).
    :param scale: standard deviation of each (us).
    """
    lines = [_finish(track, t, y, scale) for track in find_tracks(t, y, scale)]
    costs: list[float] = []
    chains: list[list[Turn]] = []
    for j, line in enumerate(lines):
        best, chain = 0.0, [Turn(-math.inf, 'start', 0.0, line)]
        for i in range(j):
            turn = _meet(lines[i], line, t)
            if turn.t <= chains[i][-1].t:
                continue
            k = bisect_left(t, turn.t)
            after = costs[i] + lines[i].cost[k] - line.cost[k] + turn.price
            if after < best:
                best, chain = after, [*chains[i], turn]
        costs.append(best)
        chains.append(chain)
    if not lines:
        return []
    return chains[min(range(len(lines)), key=lambda j: costs[j] + lines[j].cost[-1])]


def find_tracks(t: Any, y: Any, scale: Any) -> list[Track]:
    """Collect the minima that are on one line each."""
    running: list[Track] = []
    done: list[Track] = []
    slope = (y[-1] - y[0]) / (t[-1] - t[0])
    rows = np.column_stack((t, y, scale ** 2)).tolist()
    for i, (at, height, r) in enumerate(rows):
        best, likely = None, math.inf
        for track in running:
            x, var = track.predict(at)
            var += r
            off = (height - x) ** 2 / var
            if off < LOAD and off + math.log(var) < likely:
                best, likely = track, off + math.log(var)
        if best is None:
            running.append(Track(i, at, height, r, slope))
        else:
            best.add(i, at, height, r)
        # A track ends when its prediction is less certain than a minimum: what it would collect
        # then may be load that comes near.
        ended = [track for track in running
                 if (track.predict(at)[1] > r if len(track.hits) > 2 else at - track.t > 4.0)]
        if ended:
            done += ended
            running = [track for track in running if track not in ended]
    found = [track for track in done + running if len(track.hits) >= ENOUGH]
    return sorted(found, key=lambda track: track.hits[0])


def _finish(track: Track, t: Any, y: Any, scale: Any) -> Line:
    """Smooth a track, and compute what the minima cost under it."""
    path = solve([Node(t[i], y[i], y[i], scale[i]) for i in track.hits], 1).nodes
    slope = (path[1].x - path[0].x) / (path[1].t - path[0].t)
    line = Line(np.array([node.t for node in path]), np.array([node.x for node in path]), slope,
                track.v, track.vv, ())
    away = np.maximum(np.maximum(line.t[0] - t, t - line.t[-1]), 0.0)
    var = scale ** 2 + away ** 2 * (track.vv + WALK ** 2 * away / 3.0)
    off = y - line.at(t)
    square = off ** 2 / (var * LOAD)
    # An uncertain prediction explains a minimum little better than load does.
    vague = np.log(var / scale ** 2) / LOAD
    cost = np.select(
        [away > SPAN_S, off < 0.0, off > FARTHEST_US],
        [1.0, BELOW * square + vague, _FARTHER],
        np.minimum(square / (1.0 + square) + vague, 1.0))
    return line._replace(cost=np.append(0.0, np.cumsum(cost)))


def _meet(first: Line, second: Line, t: Any) -> Turn:
    """Return where and how the chain goes from one track to another, at the least price."""
    begin = second.t[0]
    # If the tracks overlap, the later one begins.
    end = min(first.t[-1], begin)
    bend = second.before - first.after
    gap = second.x[0] - first.at(begin)
    away = begin - end
    variance = first.slope_var + second.slope_var + WALK * WALK * away
    place = LEAST_US * LEAST_US + away * away * variance
    surprise = gap * gap / place + bend * bend / variance
    if surprise < _SURPRISE * LOAD and place < _SURE_US * _SURE_US:
        return Turn(begin - 1e-6, 'run_on', surprise / LOAD, second)
    if abs(bend) > 1e-3:
        at = begin - gap / bend
        if end - _NEAR_S < at < begin + _NEAR_S:
            return Turn(at, 'bend', BEND_PRICE, second)
    # Between two minima near the start of the later track, where the cost is least.
    k = bisect_left(t, begin)
    k = min(range(max(k - 5, 1), min(k + 5, len(t))),
            key=lambda k: first.cost[k] - second.cost[k])
    return Turn(t[k] - 1e-6, 'jump', JUMP_BLOCKS, second)
