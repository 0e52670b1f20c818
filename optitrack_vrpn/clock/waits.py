# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Bounds of the clock where frames wait for polls that keep step with them.

Each frame waits for the next poll: by nothing at least, by one interval at most. Where polls have
nearly the rate of the frames, even the least wait of a second is anything between, and changes by
some microseconds a second until it steps by an interval. The floor is between each minimum and an
interval below it; a line through these bounds has a slope that each pair of minima bounds
(Zhang, Liu, Xia 2002, on both sides). The middle of the bounds has the least possible largest
error. Its half-width falls to that of the noise once two steps have been seen.

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from optitrack_vrpn.clock.cost import FASTEST

_POINTS, _APART_S = 300, 3.0
"""Minima that are kept, and time between them. Chosen: 900 s contain two steps of 10 ppm at 240
Hz; half of either misses rates below 20 ppm, twice as much doubles the time of a block or lets a
step move by 0.3 ms at 50 ppm."""
_RELAX = 0.002
"""How far the rate may change in a block (ppm). Measured: thermal waves change it by 0.0012; half
of it ends in contradictions, twice as much widens the bounds by 30 us in 170 s."""


class Waits:
    """
    Bounds of floor and rate.

    :ivar bounded: whether frames wait; otherwise the other attributes have no meaning.
    :ivar height: middle of the floor's bounds at the newest minimum.
    :ivar slope: middle of the rate's bounds.
    :ivar slope_off: half-width of the rate's bounds.
    :ivar off: half-width of the floor's bounds, from now until a second later.
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=_POINTS)
        self.bounded = False
        self.height = self.slope = self.slope_off = self.off = 0.0
        self._begin()

    def _begin(self) -> None:
        self._points.clear()
        self._lowest, self._highest = -FASTEST, FASTEST

    def update(self, t: float, y: float, longest: float) -> None:
        """
        Take the newest minimum.

        :param longest: longest wait; 0 where frames do not wait.
        """
        points = self._points
        if not points or t - points[-1][0] >= _APART_S:
            points.append((t, y))
        self.bounded = longest > 0.0
        if not self.bounded:
            return
        passed, heights = (np.array(points) * (-1.0, 1.0) + (t + 1e-9, 0.0)).T
        rate, either = (y - heights) / passed, longest / passed
        lowest = max(self._lowest - _RELAX, float((rate - either).max()))
        highest = min(self._highest + _RELAX, float((rate + either).min()))
        low = max(y, float((heights + lowest * passed).max())) - longest
        high = min(y, float((heights + highest * passed).min()))
        if lowest > highest or low > high:
            # Load, or a step of a clock.
            self._begin()
            self.update(t, y, longest)
            return
        self._lowest, self._highest = lowest, highest
        self.height, self.slope = (low + high) / 2.0, (lowest + highest) / 2.0
        self.slope_off = (highest - lowest) / 2.0
        self.off = (high - low) / 2.0 + self.slope_off
