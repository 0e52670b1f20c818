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

from bisect import bisect_right
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.clock.cost import KNEE, Node, SAME_TIME_S, solve
from optitrack_vrpn.clock.path import ABOVE_FLOOR, DEEPEST, SPAN_S
from optitrack_vrpn.clock.scatter import LEAST_US, second_differences
from optitrack_vrpn.clock.tracks import find_chain, Turn
from scipy import ndimage

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

    def at(self, t: Any) -> Any:
        """Return the heights at times (us); the first and last line continue beyond the ends."""
        before, after = ((self.z[i + 1] - self.z[i]) / (self.t[i + 1] - self.t[i])
                         for i in (0, -2))
        return (np.interp(t, self.t, self.z) + before * np.minimum(t - self.t[0], 0.0)
                + after * np.maximum(t - self.t[-1], 0.0))


def find_floor(times: Sequence[float], heights: Sequence[float]) -> Floor | None:
    """
    Find the floor under the minima of one run of the clocks.

    :param times: of the minima (s), rising, about one a second.
    :param heights: of them (us).
    :returns: None where they are too few.
    """
    t, y = np.array(times), np.array(heights)
    apart = np.diff(t, prepend=-math.inf) >= SAME_TIME_S
    t, y = t[apart], y[apart]
    if len(t) < 2 * _APART + 1:
        return None
    white = scatter(t, y)
    for factor in _WIDER:
        floor = _solve(t, y, white * factor, white)
        if floor is not None and factor == 1.0:
            # The lowest minima met no load: they bound the scatter (``most_scatter``).
            off = y - floor.at(t)
            fifth, twentieth = (
                ndimage.percentile_filter(off, share, size=3 * _BIN) for share in (5, 20))
            white = np.clip(1.5 * (twentieth - fifth) / 0.80, LEAST_US, white)
            return _solve(t, y, white, white) or floor
        if floor is not None:
            return floor
    return None


def scatter(t: Any, y: Any) -> Any:
    """Return the standard deviation expected of each minimum, from second differences (us)."""
    # The 30th percentile of a normal deviate's size is 0.385.
    near, far = (np.pad(ndimage.percentile_filter(
        second_differences(t, y, apart), 30, size=2 * _BIN) / 0.385, apart, 'edge')
        for apart in (1, _APART))
    return np.maximum(np.maximum(near, np.minimum(far, _MOST_RATIO * near)), LEAST_US)


def _solve(t: Any, y: Any, scale: Any, white: Any) -> Floor | None:
    """
    Find the floor for a given scatter.

    :param white: the part of the scatter that neighbours do not share.
    :returns: None if for longer than ``SPAN_S`` all minima are above the path.
    """
    chain = find_chain(t, y, scale)
    if not chain:
        return None
    pieces = [chain[:1]]
    for turn in chain[1:]:
        if turn.kind == 'jump':
            pieces.append([])
        pieces[-1].append(turn)
    borders = [0, *(int(np.searchsorted(t, piece[0].t)) for piece in pieces[1:]), len(t)]
    nodes: list[Node] = []
    for piece, begin, end in zip(pieces, borders, borders[1:], strict=False):
        nodes += _solve_piece(piece, t[begin:end], y[begin:end], scale[begin:end])
    data = [node for node in nodes if node.count]
    off, times, scale = np.array([(node.y - node.x, node.t, node.scale) for node in data]).T
    on_path = times[abs(off) < KNEE * scale]
    if np.diff(on_path, prepend=t[0], append=t[-1]).max() > SPAN_S:
        return None
    # The floor is below the path by the deepest dip of some minutes.
    deepest = ndimage.maximum_filter1d(-off, int(SPAN_S))
    depth = ndimage.uniform_filter1d(np.clip(deepest, 0.0, DEEPEST * scale), _BIN)
    t, x = np.array([(node.t, node.x) for node in nodes]).T
    z = x - ABOVE_FLOOR * (float(np.mean(white)) - LEAST_US) - np.interp(t, times, depth)
    return Floor(t.tolist(), z.tolist())


def _solve_piece(chain: list[Turn], t: Any, y: Any, scale: Any) -> list[Node]:
    """Find the path under minima without a jump."""
    line = np.searchsorted([turn.t for turn in chain[1:]], t, side='right')
    x = np.select([line == k for k in range(len(chain))], [turn.line.at(t) for turn in chain])
    nodes = [Node(*each) for each in zip(*map(np.ndarray.tolist, (t, y, x, scale)), strict=True)]
    for turn in chain[1:]:
        if turn.kind == 'run_on' or not t[0] < turn.t < t[-1]:
            continue
        node = min(nodes, key=lambda node: abs(node.t - turn.t))
        if abs(node.t - turn.t) > SAME_TIME_S:
            node = Node(turn.t, 0.0, 0.0, node.scale, 0.0)
            nodes.insert(bisect_right(nodes, turn.t, key=lambda node: node.t), node)
        node.free = True
    return solve(nodes, _ROUNDS).nodes if len(nodes) > 1 else nodes
