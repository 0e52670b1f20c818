# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A line under the lags: offset and skew of a sender's clock from one-way data.

The lag of a frame is its arrival minus its sender time: the offset of the clocks and a delay that
is never negative. The line is the lower convex hull of the least lags of ``HULL_NS``, read at the
edge ``EDGE_NS`` ago (Moon, Skelly, Towsley 1999; Zhang, Liu, Xia 2002): load that lasts less
cannot lift it. A frame below the line pulls it down at once, since nothing arrives before it was
sent.
"""

from __future__ import annotations

from collections import deque
import math

from optitrack_vrpn.stream.clock.limits import (
    EDGE_NS, ERRORS, HULL_NS, LATE_NS, LIMIT_NS, MOST_SKEW, RESOLUTION_NS, SECOND_NS,
    WINDOW_NS)


class Line:
    """
    The least lag at any sender time.

    :ivar skew: arrival clock against sender's clock, less one (s/s).
    :ivar known: whether frames of ``EDGE_NS`` and more have shown it.
    :ivar span_ns: time from the begin of the line to that of its newest block (ns).
    :ivar end_ns: sender time at which the block ends.
    :ivar least_above_ns: how far the least lag of the block lies above the line (ns).
    :ivar above_ns: how far the newest least lags lie above the line (ns): load, or another route.
    :ivar above_since_ns: sender time since which they clearly do; -1 if they do not.
    :ivar uncertainty_ns: half-width that nearly always contains the error (ns), without that of
        the sender's times.
    :ivar pulled_ns: by how much frames pulled the line down in this block and the one before (ns).
    """

    def __init__(self) -> None:
        self.skew = 0.0
        self.known = False
        self.begin(0, 0)

    def begin(self, sender_ns: int, lag_ns: int, same: bool = False) -> None:
        """
        Begin anew, at a lag (ns) that is the least so far.

        :param same: whether the sender's clock is the same, whose skew may be known.
        """
        self.known = same and self.known
        self._zero_ns, self._lag_ns = sender_ns, lag_ns
        self._points: deque[tuple[float, float]] = deque()
        self._recent: deque[float] = deque(maxlen=ERRORS)
        self._slope = self.skew
        self._height = self.span_ns = self._pulled = self.above_ns = self.pulled_ns = 0.0
        self._least, self.least_above_ns = (0.0, 0.0), LIMIT_NS
        self.end_ns, self.above_since_ns = sender_ns + WINDOW_NS, -1
        self.uncertainty_ns = float(LATE_NS)

    def lag(self, sender_ns: int) -> int:
        """Return the height of the line, which is the least lag, at a sender time (ns)."""
        return self._lag_ns + int(self._height + self._slope * (
            (sender_ns - self._zero_ns) - self.span_ns))

    def add(self, sender_ns: int, lag_ns: int, above_ns: int) -> None:
        """
        Learn from a frame that is newer than those before.

        Other frames than those with the least lag of the block, and those that end it, need not
        be added: they change nothing.

        :param above_ns: how far its lag lies above the line; negative below it.
        """
        if above_ns < self.least_above_ns:
            if above_ns < 0:
                self._height += above_ns
                self.pulled_ns -= above_ns
                self._pulled -= above_ns
            self.least_above_ns = max(0, above_ns)
            self._least = (float(sender_ns - self._zero_ns), float(lag_ns - self._lag_ns))
        if sender_ns >= self.end_ns:
            self._end_block(float(sender_ns - self._zero_ns))

    def _end_block(self, x: float) -> None:
        """Add the block's least lag, and lay the line along the hull."""
        points = self._points
        points.append(self._least)
        while points[0][0] < x - HULL_NS:
            points.popleft()
        height = self._height + self._slope * (x - self.span_ns)
        goal = self._read_hull(x)
        self._judge(x, goal)
        # Blocks grow until they are a second long: 0.25, 0.5, 1, 2, 3 s.
        block = min(x, float(SECOND_NS))
        self._slope = self.skew + (goal - height) / block
        self._height, self.span_ns, self.end_ns = height, x, self._zero_ns + int(x + block)
        # A frame at the end of the block is the first of the next one.
        self.least_above_ns = LIMIT_NS
        self.pulled_ns, self._pulled = self._pulled, 0.0

    def _read_hull(self, x: float) -> float:
        """Find the slope at the lower hull's edge ``EDGE_NS`` ago; return its height at ``x``."""
        points = self._points
        hull: list[tuple[float, float]] = []
        for point in points:
            while len(hull) > 1 and (hull[-1][0] - hull[-2][0]) * (point[1] - hull[-2][1]) <= (
                    hull[-1][1] - hull[-2][1]) * (point[0] - hull[-2][0]):
                hull.pop()
            hull.append(point)
        span = points[-1][0] - points[0][0]
        if len(hull) > 1 and (span >= EDGE_NS or not self.known):
            at = points[-1][0] - min(float(EDGE_NS), 0.5 * span)
            edge = len(hull) - 2
            while edge and hull[edge][0] > at:
                edge -= 1
            hull = hull[edge:edge + 2]
            slope = (hull[1][1] - hull[0][1]) / (hull[1][0] - hull[0][0])
            if span >= EDGE_NS:
                self.known = True
            else:
                # What was assumed before has the weight of a second of data.
                slope = self.skew + span / (span + SECOND_NS) * (slope - self.skew)
            self.skew = min(max(slope, -MOST_SKEW), MOST_SKEW)
        return min(y + self.skew * (x - at) for at, y in hull)

    def _judge(self, x: float, goal: float) -> None:
        """Measure how far the newest least lags are above the line, and how they scatter."""
        # At most a hundred points are used. Load does not change their median, and lags that rise
        # for minutes do not change the lower quartile either.
        points = list(self._points)[::-1 - len(self._points) // 100]
        heights = [y - goal + self.skew * (x - at) for at, y in points]
        self._recent.append(heights[0])
        heights.sort()
        usual, scatter = heights[len(heights) // 4], heights[len(heights) // 2]
        # One early second is no change.
        self.above_ns = max(0.0, min(self._recent))
        if self.above_ns <= usual + RESOLUTION_NS:
            self.above_since_ns = -1
        elif self.above_since_ns < 0:
            self.above_since_ns = self._zero_ns + int(x)
        # The error of a mean of the minima, and what the skew may still be wrong by. Lags that
        # rise, by load or a slew, will have risen by as much again before the next change shows.
        young = LATE_NS * (SECOND_NS / (SECOND_NS + x)) ** 1.5
        rising = self.above_ns if self.above_since_ns < 0 else (
            2.0 * max(self._recent) - min(self._recent))
        width = max(rising, ERRORS * scatter / math.sqrt(len(self._points)))
        self.uncertainty_ns = width + RESOLUTION_NS + young
