# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The tracking rule: a line under the arrivals, sender time to arrival clock.

Nothing arrives before it is sent, so every arrival bounds the line from above (Moon, Skelly,
Towsley 1999; Zhang, Liu, Xia 2002).
"""

from __future__ import annotations

import math

_BELOW_NS = 5e6
_LATE_NS = 10e6
_LATE_FOR_NS = 1_500_000_000
_LATE_COUNT = 20
_SPAN_NS = 300e9
_AGE_NS = 90e9


class TrackingRule:
    """
    Track offset and rate of a sender's clock for as long as it runs.

    :param max_gap_s: seconds without a frame after which it begins anew, with the rate kept.
    """

    def __init__(self, max_gap_s: float = 30.0) -> None:
        self._max_gap = round(max_gap_s * 1e9)
        self.restarted = ''
        self.learnt = False
        self.samples = 0
        self._slope = 0.0
        self._doubtful = False

    def start(self, keep_rate: bool) -> None:
        """Begin anew with the next frame."""
        self.learnt = False
        self.samples = 0
        if not keep_rate:
            self._slope = 0.0

    def doubt(self) -> None:
        """Start anew if the next frame does not fit."""
        self._doubtful = True

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> None:
        """Learn nothing: the first arrival of a frame is the tightest."""

    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return self._slope

    def uncertainty_s(self) -> float:
        """Return NaN for now."""
        return math.nan

    def read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the frame's place without learning."""
        if not self.samples:
            return arrival_ns
        t = sender_time_ns - self._d0
        return min(sender_time_ns + self._base + int(self._off + self._rate * t), arrival_ns)

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame and return its place."""
        if not self.samples:
            return self._begin(sender_time_ns, arrival_ns)
        t = sender_time_ns - self._d0
        r = arrival_ns - sender_time_ns - self._base
        line = self._off + self._rate * t
        lag = r - line
        if arrival_ns - self._last_a > self._max_gap:
            return self._restart('gap', sender_time_ns, arrival_ns)
        if self._doubtful:
            self._doubtful = False
            if not -_BELOW_NS < lag < 1e9:
                return self._restart('sender_restarted', sender_time_ns, arrival_ns)
        self._last_a = arrival_ns
        self.samples += 1
        if lag < 0.0:
            if lag < -_BELOW_NS:
                return self._restart('sender_restarted', sender_time_ns, arrival_ns)
            self._off = r - self._rate * t
            line = r
            lag = 0.0
        if lag > _LATE_NS:
            if not self._late:
                self._late_from = arrival_ns
            self._late += 1
            if self._late >= _LATE_COUNT and arrival_ns - self._late_from > _LATE_FOR_NS:
                return self._restart('sender_restarted', sender_time_ns, arrival_ns)
        elif self._late:
            self._late = 0
        if lag < self._least:
            self._least = lag
            self._least_t = t
            self._least_r = r
        if t >= self._block_end:
            self._close_block(t)
        return sender_time_ns + self._base + int(line)

    def _restart(self, reason: str, sender_time_ns: int, arrival_ns: int) -> int:
        self.restarted = reason
        return self._begin(sender_time_ns, arrival_ns)

    def _begin(self, sender_time_ns: int, arrival_ns: int) -> int:
        self.samples = 1
        self.learnt = True
        self._doubtful = False
        self._d0 = sender_time_ns
        self._base = arrival_ns - sender_time_ns
        self._off = 0.0
        self._rate = self._slope
        self._last_a = arrival_ns
        self._late = 0
        self._late_from = 0
        self._points: list[tuple[float, float]] = []
        self._least, self._least_t, self._least_r = 0.0, 0, 0
        self._block_end = 250_000_000
        return arrival_ns

    def _close_block(self, t: int) -> None:
        points = self._points
        points.append((float(self._least_t), float(self._least_r)))
        while points[0][0] < t - _SPAN_NS:
            points.pop(0)
        hull: list[tuple[float, float]] = []
        for p in points:
            while len(hull) > 1 and (
                    (hull[-1][1] - hull[-2][1]) * (p[0] - hull[-2][0])
                    >= (p[1] - hull[-2][1]) * (hull[-1][0] - hull[-2][0])):
                hull.pop()
            hull.append(p)
        at = max(t - _AGE_NS, points[0][0])
        now = self._off + self._rate * t
        step = 250e6 if t < 3e9 else 1e9
        if len(hull) > 1:
            k = 1
            while k < len(hull) - 1 and hull[k][0] < at:
                k += 1
            slope = (hull[k][1] - hull[k - 1][1]) / (hull[k][0] - hull[k - 1][0])
            if t < 20e9:
                slope = self._slope
            self._slope = slope
            aim = hull[k][1] + slope * (t + step - hull[k][0])
            self._rate = (aim - now) / step
        self._off = now - self._rate * t
        self._block_end = t + step
        self._least = math.inf
