# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The path of least cost under the minima of the last minutes, followed block by block.

Data are the least residuals of blocks of about a second. ``cost.py`` defines the cost of a path,
``hypotheses.py`` the other explanations that are tried where minima leave the path for some
blocks. One more costs nothing: a *fall*, a minimum below the path, shows that the earlier ones
were higher by the same amount, since nothing is early. Where frames wait for polls that keep step
with them, the minima are no more than bounds (``waits.py``).

The path runs through the minima; the floor is below it by their deepest dip.

Times are seconds, heights microseconds, slopes ppm here, relative to zeros of the caller's; the
arguments of ``ClockPath`` are nanoseconds.
"""

from __future__ import annotations

from collections import deque
import math
from typing import NamedTuple

from optitrack_vrpn.clock import hypotheses
from optitrack_vrpn.clock.cost import (
    FASTEST, Fit, fit, KNEE, Nodes, Prior, SAME_TIME_S, trust,
)
from optitrack_vrpn.clock.hypotheses import JUMP_BLOCKS
from optitrack_vrpn.clock.scatter import LEAST_US, Scatter
from optitrack_vrpn.clock.waits import Waits

SPAN_S = 300.0
"""Memory of the path. Chosen: two waves of load of 120 s and the time between them; half of it
follows load of 80 of 100 s, twice as much costs 75 nodes more and gains nothing."""
FINE_S, COARSE_S = 64.0, 4.0
"""Minima older than the first are averaged over the second, which bounds the cost of a block.
Chosen: load of a minute stays resolved; half of either solves 10 % more or fewer nodes, twice as
long a fine window doubles the cost of a block."""
ABOVE_FLOOR = 0.5
"""Distance of the floor below the deepest dip of minutes, in standard deviations. Measured: delays
of gamma and log-normal distribution 0.5 to 2, exponential ones 0. Without it the p99 of WiFi is a
quarter larger (half of it: half of that); twice as much lowers the line under exponential ones."""
DEEPEST = 4.0
"""Limit of that dip in standard deviations. Chosen: the deepest of 300 normal deviates is 3; half
of it is above the floor of WiFi, twice as much keeps dips of a noisier time for minutes."""
RESOLUTION_US = 0.7
"""Smallest uncertainty (us): sender times in whole microseconds, readings of the host's clock."""
_UNKNOWN_RATE, _KNOWN_RATE = 100.0, 1.0
"""Standard deviation of the first slope: of two unknown clocks, and after a restart of a sender
whose rate is known (ppm). Measured: skews of up to 75 ppm; temperature changes a rate by 1 ppm.
Half of the second trusts the old rate more than temperature allows, twice as much less than
needed."""
_UNKNOWN = Prior(0.0, _UNKNOWN_RATE ** -2.0)
_GATE, _GATE_US = 6.0, 10.0
"""A minimum is below the path by at least so many deviations and microseconds for a fall, by half
of it soon after another one. Chosen: one in 10^9 normal deviates; half of it falls with noise,
twice as much follows slews later."""
_RECENT_S = 12.0
"""Falls are remembered for so long. Chosen: a slew shows in 3 s; half of it or twice as much
changes nothing that was measured."""
_LATER = 20
"""Minima on one line that show a bend during load. Chosen: twelve may be on any line on WiFi; half
of it takes load on WiFi for bends, twice as many follow the temperature during load 20 s later."""
_GAP_BLOCKS = 16
"""Minima of which the lowest bounds the floor from above. Chosen: WiFi has a good one in 10; half
of it enlarges the uncertainty of WiFi, twice as much notices less noise 16 s later."""


class _Line(NamedTuple):
    """A line that another hypothesis replaced."""

    slope: float
    level: float
    """Height at time 0."""
    since: float
    slope_deviation: float


class ClockPath:
    """
    Track the floor under the minima; ``line`` is its estimate.

    :ivar blocks: minima since the start.
    :ivar rate: slope of the line (ns/ns); kept by a restart.
    :ivar slewable: whether one of the clocks may be slewed; else both are free-running.
    :ivar wait_ns: longest wait of the frames for polls that keep step with them; 0 without.
    """

    def __init__(self) -> None:
        self.rate = 0.0
        self.slewable = True
        self.wait_ns = 0.0
        self._rate_known = False
        self._scatter = Scatter()
        self._depth = 0.0
        self.restart()

    def restart(self) -> None:
        """Start again with the next minimum; rate, scatter and depth are kept."""
        self.blocks = 0
        self._nodes = Nodes([], [], [], [], [])
        self._x: list[float] = []
        if not self._rate_known:
            self.rate = 0.0
        self._slope = self.rate * 1e6
        self._prior = Prior(self._slope, _KNOWN_RATE ** -2.0) if self._rate_known else _UNKNOWN
        self._end = self._end_t = 0.0
        self._var = self._scatter.scale * self._scatter.scale
        self._slope_var = 1.0 / self._prior.weight
        # Minima in a row that are above the path, and the time of the first.
        self._lifted = 0
        self._lifted_from = 0.0
        # (time, change) of the last falls.
        self._falls: list[tuple[float, float]] = []
        # The line that another hypothesis replaced, and the time until which it may be right.
        self._replaced = _Line(0.0, 0.0, 0.0, 0.0)
        self._replaced_to = 0.0
        # Innovations: mean, and mean square against the expected one; latest heights on the path.
        self._lag = 0.0
        self._ratio = 1.0
        self._recent: deque[float] = deque(maxlen=_GAP_BLOCKS)
        self._waits = Waits()

    def line(self, t_ns: float) -> float:
        """Return the floor's residual at a time (ns)."""
        waits = self._waits
        if waits.bounded:
            return (waits.height + waits.slope * (t_ns * 1e-9 - self._end_t + 1.0)) * 1e3
        return (self._end + self._slope * (t_ns * 1e-9 - self._end_t) - self._depth) * 1e3

    def course(self) -> float:
        """
        Return the slope along which the least of the next block is to be sought (ns/ns).

        It is that of the last two minima if they left the path: along any other slope, the least
        of a block of a slewed clock would be one of its first frames or of its last.
        """
        if self._lifted < 2:
            return self.rate
        t, y = self._nodes.t, self._nodes.y
        slope = (y[-1] - y[-2]) / (t[-1] - t[-2])
        return min(max(slope, -FASTEST), FASTEST) * 1e-6

    def rate_deviation(self) -> float:
        """Return the standard deviation of the rate (s/s)."""
        waits = self._waits
        return (waits.slope_off if waits.bounded else math.sqrt(self._slope_var)) * 1e-6

    def uncertainty(self) -> float:
        """
        Return the half-width that nearly always contains the line's error (ns).

        The sum of: the path to three deviations and the distance of the floor from its minima,
        both scaled by how well minima fit the path; the lag of the path; the distance from a
        replaced line. It is no less than the distance from the lowest of
        the latest minima plus the path's, since the floor may be as high. Where frames wait for
        polls, it is the half-width of the floor's bounds and the scatter.
        """
        if self.blocks < 4:
            return math.nan
        if self._waits.bounded:
            return 1e3 * (RESOLUTION_US + self._waits.off + 1.5 * self._scatter.scale)
        fit = math.sqrt(self._ratio)
        path = 3.0 * math.sqrt(self._var) * fit
        total = (path + 1.5 * self._scatter.scale * fit + 2.0 * abs(self._lag)
                 + self._off_replaced())
        above = self._depth + min(self._recent, default=0.0)
        return 1e3 * (RESOLUTION_US + max(total, path + above))

    def _off_replaced(self) -> float:
        """Return the distance from the replaced line (us), which may be the right one."""
        if self._end_t > self._replaced_to:
            return 0.0
        slope, level, since, deviation = self._replaced
        off = self._end - level - slope * self._end_t
        # At the end of the block in which stamps are made, the lines may be further apart.
        later = off + self._slope - slope
        return max(abs(off), abs(later)) + 3.0 * deviation * (self._end_t - since)

    def add(self, t_ns: float, y_ns: float) -> None:
        """
        Learn from the least residual of a block.

        :param t_ns: when (ns), later than the one before by ``SAME_TIME_S``; others are left out.
        :param y_ns: residual (ns).
        """
        t, y = t_ns * 1e-9, y_ns * 1e-3
        nodes = self._nodes
        if nodes.t and t < nodes.t[-1] + SAME_TIME_S:
            return
        expected = self._end + self._slope * (t - self._end_t) if nodes.t else y
        for values, value in zip(nodes, (t, y, 1.0, -math.inf), strict=False):
            values.append(value)
        self._x.append(expected)
        self.blocks += 1
        self._forget(t)
        if len(nodes.t) < 2:
            self._end, self._end_t = y, t
            self._x[0] = y
            return
        off = y - expected
        self._scatter.update(nodes, self._x, self.blocks)
        sigma = math.sqrt(self._var + self._scatter.scale ** 2)
        self._watch_innovation(off, sigma)
        least = _GATE * sigma + _GATE_US
        # The first minimum after a load need not be without it: smaller falls follow.
        again = self._falls and self._falls[-1][0] > t - _RECENT_S
        if off < (-0.5 if again else -1.0) * least and self.blocks > 4:
            self._fall(t, off)
        best = fit(nodes, self._x, self._scatter.scale, self._prior, 1)
        other = self._hypothesis(best, t, least)
        if other is None:
            self._accept(best)
        else:
            self._replace(other)
        self._count_lifted(t)
        self._waits.update(t, y, self.wait_ns * 1e-3)
        if self._waits.bounded:
            self.rate = self._waits.slope * 1e-6
        self._rate_known = self._rate_known or self.blocks > 20

    # -- data ----------------------------------------------------------------------------------

    def _forget(self, now: float) -> None:
        """Remove nodes that are too old; average the oldest pair of single minima."""
        nodes, x = self._nodes, self._x
        t, y, counts, dips, bends = nodes
        while t[0] < now - SPAN_S:
            del t[0], y[0], counts[0], dips[0], x[0]
            # The slope at the start of the path is not the first slope of the window.
            self._prior = _UNKNOWN
        while bends and bends[0] <= t[0]:
            del bends[0]
        k = 0
        while k + 1 < len(t) and t[k + 1] <= now - FINE_S:
            if (0.0 < counts[k] < COARSE_S and counts[k + 1] and t[k] not in bends
                    and t[k + 1] not in bends):
                break
            k += 1
        else:
            return
        dips[k] = max(dips[k], dips[k + 1], x[k] - y[k], x[k + 1] - y[k + 1])
        # Weighted as for the path: load has no information beside a minimum without it.
        first, second = (counts[i] * trust(max(y[i] - x[i], 0.0), self._scatter.scale)
                         for i in (k, k + 1))
        share = second / (first + second)
        for values in (t, y, x):
            values[k] += share * (values[k + 1] - values[k])
        counts[k] += counts[k + 1]
        del t[k + 1], y[k + 1], counts[k + 1], dips[k + 1], x[k + 1]

    def _watch_innovation(self, off: float, sigma: float) -> None:
        """Learn how well the path predicts minima without load (``off`` in us)."""
        limit = KNEE * sigma
        if off < limit:
            off = max(off, -limit)
            gain = 1.0 / min(30, self.blocks)
            self._ratio += gain * (off * off / (sigma * sigma) - self._ratio)
            self._lag += gain * (off - self._lag)

    def _fall(self, t: float, by: float) -> None:
        """Lower all minima but the newest: nothing is early, so they were too high."""
        y, x = self._nodes.y, self._x
        for i in range(len(y) - 1):
            y[i] += by
            x[i] += by
        self._falls = [each for each in self._falls if each[0] >= t - _RECENT_S]
        self._falls.append((t, by))

    def _count_lifted(self, t: float) -> None:
        """Count the last minima that are above the path."""
        height = self._nodes.y[-1] - self._x[-1]
        limit = 1.5 * KNEE * self._scatter.scale
        if height < limit:
            self._recent.append(height)
            self._lifted = 0
        else:
            if not self._lifted:
                self._lifted_from = t
            self._lifted += 1

    # -- hypotheses ----------------------------------------------------------------------------

    def _hypothesis(self, best: Fit, t: float, least: float) -> Fit | None:
        """Return a path of less cost than the best one, if another hypothesis gives it."""
        lifted, falls = self._lifted, self._falls
        found = None
        # Three falls in less than five seconds, or three minima above the path.
        falling = len(falls) >= 3 and falls[-1][0] == t and falls[-3][0] > t - 4.5
        rising = 3 <= lifted and (lifted <= 12 or lifted % 4 == 0)
        if (falling or rising) and self._prior.weight > _UNKNOWN.weight:
            found = hypotheses.other_rate(best, falls, _UNKNOWN)
            if found is not None:
                self._prior = _UNKNOWN
        if found is None and self.slewable:
            if falling:
                found = hypotheses.bend(best, falls[0][0], falls, self._prior)
            elif rising:
                found = self._bend(best)
        if found is None and lifted > JUMP_BLOCKS and lifted % 2 == 0:
            found = hypotheses.jump(best, self._lifted_from, self._prior)
        if found is None and lifted >= 4 and lifted % 3 == 1:
            found = hypotheses.pattern(best, least, self._prior)
            if found is not None:
                self._scatter.set_pattern(found.scale)
        return found

    def _bend(self, best: Fit) -> Fit | None:
        """Return a path with a bend before or within the first lifted block, or during load."""
        since = self._lifted_from
        for begin, newest in ((since, 0), (since + SAME_TIME_S, 0), (since, _LATER)):
            if newest < self._lifted:
                found = hypotheses.bend(best, begin, self._falls, self._prior, newest)
                if found is not None:
                    return found
        return None

    # -- result --------------------------------------------------------------------------------

    def _accept(self, path: Fit) -> None:
        """Continue with a path."""
        self._nodes, self._x = path.nodes, path.x
        t, y, counts, dips, _ = path.nodes
        self._end, self._end_t = path.end, t[-1] + 1.0
        self._slope = min(max(path.end - path.x[-1], -FASTEST), FASTEST)
        self.rate = self._slope * 1e-6
        self._var, self._slope_var = path.var, path.slope_var
        deepest = max(0.0, max(dips), *(
            at - height for at, height, count in zip(path.x, y, counts, strict=True) if count))
        # A dip counts as far as the path is known.
        scale = self._scatter.scale
        deepest -= 0.5 * min(math.sqrt(self._var), scale)
        self._depth = (ABOVE_FLOOR * (self._scatter.white - LEAST_US)
                       + min(max(deepest, 0.0), DEEPEST * scale))

    def _replace(self, other: Fit) -> None:
        """Continue with another hypothesis' path; the present one may still be right."""
        if self._end_t > self._replaced_to or self._end_t > self._replaced.since + SPAN_S:
            # A line is not extrapolated further.
            self._replaced = _Line(
                self._slope, self._end - self._slope * self._end_t, self._end_t,
                math.sqrt(self._slope_var))
        self._accept(other)
        self._replaced_to = self._end_t + JUMP_BLOCKS
        self._falls = []
        self._lifted = 0
        self._lag = 0.0
