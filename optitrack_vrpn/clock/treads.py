# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise arrivals that are polled at the rate of the frames.

Frames wait for the next poll. Where the polls have nearly the rate of the frames, the wait changes
by microseconds a second only: minima form treads of minutes, each as straight as a clock, and
step by one interval from tread to tread. Only the frames at a step do not wait. Two successive
steps of equal size and direction show the rate: the floor is the line through the two corners.

Times are seconds, heights microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from optitrack_vrpn.clock.cost import Nodes

_BESIDE = 3
"""Minima on each side of a step that must continue their tread. Chosen: half of it takes noise for
steps, twice as many delay the recognition by 3 s."""
_STILL = 0.05
"""Limit of the change of a tread between neighbouring minima, as a share of the step. Chosen: 50
ppm at 240 Hz is 0.012; half of it misses 360 Hz at 150 ppm, twice as much takes load for steps."""
_LEAST_US = 500.0
"""Smallest step. Chosen: half an interval of the fastest cameras; the path takes smaller ones for
scatter. Half of it takes load for steps, twice as much misses polling at 1000 Hz."""
_ALIKE = 0.03
"""Limit of the difference of two successive steps, as a share of the step. Chosen: a second on a
tread at 50 ppm; half of it misses treads of 30 s, twice as much takes load for steps."""
_LONGEST_S = 900.0
"""A step is forgotten if no second one follows in this time. Chosen: 5 ppm at 240 Hz take 830 s;
half of it misses rates below 10 ppm, twice as much extrapolates a line for half an hour."""


class Corner(NamedTuple):
    """Where a tread meets the floor."""

    t: float
    y: float
    step: float
    """Height of the step; negative where minima fall."""


class Treads:
    """
    The last steps of the minima.

    :ivar step: height up to which minima lie above the floor because they wait; 0 if unknown.
    :ivar deviation: distance of a corner from the floor at most, because blocks end anywhere on a
        tread (us).
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.step = self.deviation = 0.0
        self._last: Corner | None = None

    def update(self, nodes: Nodes) -> tuple[Corner, Corner] | None:
        """
        Examine the newest minima; return the last two corners if there is a new one.

        :param nodes: the minima, the newest last.
        """
        t, y = nodes.t, nodes.y
        n = len(t)
        k = n - _BESIDE
        if self._last is not None and t[-1] - self._last.t > _LONGEST_S:
            self._forget()
        if k <= _BESIDE or not all(nodes.counts[k - _BESIDE - 1:]):
            return None
        step = y[k] - y[k - 1]
        size = abs(step)
        if size < _LEAST_US:
            return None
        last = self._last
        if last is not None and step * last.step < 0.0:
            # Load ended or began.
            self._forget()
            last = None
        for i in range(k - _BESIDE, n):
            if i != k and abs(y[i] - y[i - 1]) > _STILL * size:
                return None
        at = k - 1 if step > 0.0 else k
        corner = Corner(t[at], y[at], step)
        alike = last is not None and abs(step - last.step) < _ALIKE * size
        self._forget()
        self._last = corner
        if last is None or not alike:
            return None
        self.step, self.deviation = size, 2.0 * size / (corner.t - last.t)
        return last, corner
