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

from optitrack_vrpn.stream.clock.limits import (
    EDGE_NS, HULL_NS, MOST_SKEW, RESOLUTION_NS, SECOND_NS, UNKNOWN_NS)


class Line:
    """
    The least lag at any sender time.

    :ivar skew: arrival clock against sender's clock, less one (s/s), as known from ``EDGE_NS`` and
        more; 0 before.
    :ivar known: whether the skew comes from this sender's earlier frames.
    :ivar rate: the same by the frames of this line so far.
    :ivar frames: frames learnt from since the line began.
    :ivar above_ns: how far the newest least lags lie above the line (ns): load, or another route.
    :ivar above_since_ns: sender time since which they do; -1 if they do not.
    :ivar noise_ns: scatter of the least lags (ns).
    :ivar uncertainty_ns: half-width that nearly always contains the error (ns), without that of
        the sender's times.
    :ivar pulled_ns: by how much frames pulled the line down in this block and the one before (ns).
    :ivar interval_ns: mean interval of the sender times in the last block (ns).
    """

    def __init__(self) -> None:
        self.skew = self.rate = 0.0
        self.known = False
        self.begin(0, 0)

    def begin(self, sender_ns: int, lag_ns: int, same: bool = False) -> None:
        """
        Begin anew, at a lag (ns) that is the least so far.

        :param same: whether the sender's clock is the same, whose skew is known.
        """
        self._same = same and self.known
        self._zero_ns, self._lag_ns = sender_ns, lag_ns
        self._points: deque[tuple[float, float]] = deque()
        self._height = self._from = self._least_above = 0.0
        self._slope = self.rate = self.skew
        self._least = (0.0, 0.0)
        self._end = SECOND_NS / 4.0
        self._block_from = self._pulled = 0.0
        self._recent: deque[float] = deque(maxlen=4)
        self._scatter: deque[float] = deque(maxlen=64)
        self.frames = self._count = 0
        self.above_ns = self.noise_ns = self.pulled_ns = self.interval_ns = 0.0
        self.above_since_ns = -1
        self.uncertainty_ns = float(UNKNOWN_NS)

    @property
    def learnt(self) -> bool:
        """Return whether the line has been averaged over some seconds."""
        return self._from >= 3.0 * SECOND_NS

    @property
    def young(self) -> bool:
        """Return whether the line has seen less than a minute."""
        return self._from < 60.0 * SECOND_NS

    def above(self, sender_ns: int, lag_ns: int) -> float:
        """Return how far a lag lies above the line (ns); negative below it."""
        return (lag_ns - self._lag_ns) - self._height - self._slope * (
            (sender_ns - self._zero_ns) - self._from)

    def lag(self, sender_ns: int) -> int:
        """Return the height of the line, which is the least lag, at a sender time (ns)."""
        return self._lag_ns + int(self._height + self._slope * (
            (sender_ns - self._zero_ns) - self._from))

    def add(self, sender_ns: int, lag_ns: int, above_ns: float) -> bool:
        """
        Learn from a frame that is newer than those before.

        :param above_ns: result of ``above``.
        :returns: whether a block has ended.
        """
        self.frames += 1
        x = float(sender_ns - self._zero_ns)
        if above_ns < self._least_above:
            if above_ns < 0.0:
                self._height += above_ns
                self.pulled_ns -= above_ns
                self._pulled -= above_ns
                above_ns = 0.0
            self._least_above = above_ns
            self._least = (x, float(lag_ns - self._lag_ns))
        if x < self._end:
            return False
        self._end_block(x)
        return True

    def _end_block(self, x: float) -> None:
        """Add the block's least lag, and lay the line along the hull."""
        points, least = self._points, self._least
        points.append(least)
        while points[0][0] < x - HULL_NS:
            points.popleft()
        block = float(SECOND_NS) if x > 3.0 * SECOND_NS else SECOND_NS / 4.0
        height = self._height + self._slope * (x - self._from)
        slope, goal = self._read_hull(x)
        self._judge(x, goal + slope * (least[0] - x), slope)
        self.rate = slope
        self._slope = slope + (goal - height) / block
        self._height, self._from = height, x
        # A frame at the end of the block is the first of the next one.
        self._least_above = float(UNKNOWN_NS) * 1e6
        self.interval_ns = (x - self._block_from) / (self.frames - self._count)
        self._count, self._block_from, self._end = self.frames, x, x + block
        self.pulled_ns, self._pulled = self._pulled, 0.0

    def _read_hull(self, x: float) -> tuple[float, float]:
        """Return slope and height (ns at ``x``) of the lower hull's edge ``EDGE_NS`` ago."""
        points = self._points
        hull: list[tuple[float, float]] = []
        for point in points:
            while len(hull) > 1 and (hull[-1][0] - hull[-2][0]) * (point[1] - hull[-2][1]) <= (
                    hull[-1][1] - hull[-2][1]) * (point[0] - hull[-2][0]):
                hull.pop()
            hull.append(point)
        if len(hull) < 2:
            return self.skew, hull[0][1] + self.skew * (x - hull[0][0])
        span = points[-1][0] - points[0][0]
        if self._same and span < EDGE_NS:
            return self.skew, min(y + self.skew * (x - at) for at, y in hull)
        at = points[-1][0] - min(EDGE_NS, 0.5 * span)
        edge = len(hull) - 2
        while edge and hull[edge][0] > at:
            edge -= 1
        (x1, y1), (x2, y2) = hull[edge], hull[edge + 1]
        # The skew known before has the weight of 20 s of data, an unknown one that of a second.
        prior = (20.0 if self.known else 1.0) * SECOND_NS
        slope = self.skew + span / (span + prior) * ((y2 - y1) / (x2 - x1) - self.skew)
        slope = min(max(slope, -MOST_SKEW), MOST_SKEW)
        if span > EDGE_NS:
            self.skew, self.known = slope, True
        return slope, min(y1 + slope * (x - x1), y2 + slope * (x - x2))

    def _judge(self, x: float, line: float, slope: float) -> None:
        """Measure how far the newest least lags are above the line, and how they scatter."""
        points, recent = self._points, self._recent
        recent.append(self._least[1] - line)
        if len(points) > 2:
            (x0, y0), (x1, y1), (x2, y2) = points[-3], points[-2], points[-1]
            self._scatter.append(abs(y1 - y0 - (y2 - y0) * (x1 - x0) / (x2 - x0)))
        ordered = sorted(self._scatter)
        self.noise_ns = ordered[len(ordered) * 3 // 4] if ordered else float(SECOND_NS // 1000)
        # The second largest of four: one late second is no change.
        self.above_ns = max(0.0, sorted(recent)[-2:][0])
        if min(recent) <= 3.0 * self.noise_ns + 4.0 * RESOLUTION_NS:
            self.above_since_ns = -1
        elif self.above_since_ns < 0:
            self.above_since_ns = self._zero_ns + int(x)
        # In the first minute, what the skew may still be wrong by within a block.
        young = max(0.0, 12.0 - 0.2 * x / SECOND_NS) * (0.4 if self.known else 2.0) * RESOLUTION_NS
        self.uncertainty_ns = self.above_ns + self.noise_ns + RESOLUTION_NS + young
