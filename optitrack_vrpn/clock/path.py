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

import numpy as np
from optitrack_vrpn.clock import hypotheses
from optitrack_vrpn.clock.cost import FASTEST, KNEE, Node, Path, Prior, SAME_TIME_S, solve, UNKNOWN
from optitrack_vrpn.clock.hypotheses import JUMP_BLOCKS
from optitrack_vrpn.clock.scatter import deviation, LEAST_US, most_scatter, second_differences
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
_GATE, _GATE_US = 6.0, 10.0
"""A minimum is below the path by at least so many deviations and microseconds for a fall, by half
of it soon after another one. Chosen: one in 10^9 normal deviates; half of it falls with noise,
twice as much follows slews later."""
_RECENT_S = 12.0
"""Falls are remembered, and bends lie before they are found, for so long at most. Chosen: a slew
shows in 3 s; half of it or twice as much changes nothing that was measured."""
_LATER = 20
"""Minima on one line that show a bend during load. Chosen: twelve may be on any line on WiFi; half
of it takes load on WiFi for bends, twice as many follow the temperature during load 20 s later."""
_GAP_BLOCKS = 16
"""Minima of which the lowest bounds the floor from above. Chosen: WiFi has a good one in 10; half
of it enlarges the uncertainty of WiFi, twice as much notices less noise 16 s later."""
_KNOWN_RATE = 1.0
"""Standard deviation of the first slope after a restart (ppm). Measured: temperature changes a
rate by 1 ppm; half of it trusts the old rate more, twice as much less than needed."""
_UNKNOWN_US = 30.0
"""Scatter before any is known (us). Measured: that of WiFi in a few frames; half of it takes the
first minima of WiFi for load, twice as much delays the first estimate of a wire."""


class ClockPath:
    """
    Track the floor under the minima; ``line`` is its estimate.

    :ivar blocks: minima since the start.
    :ivar nodes: those of the path.
    :ivar rate: slope of the line (ns/ns); kept by a restart.
    :ivar slewable: whether one of the clocks may be slewed; else both are free-running.
    :ivar wait_ns: longest wait of the frames for polls that keep step with them; 0 without.
    """

    def __init__(self) -> None:
        self.rate = 0.0
        self.blocks = 0
        self.slewable = True
        self.wait_ns = 0.0
        self._prior = UNKNOWN
        # Scatter that minima are expected to have, the part of it that neighbours show, and that
        # of a pattern; the most that the lowest minima allow.
        self._scale = self._white = _UNKNOWN_US
        self._pattern, self._most = 0.0, math.inf
        self._depth = 0.0
        self.restart()

    def restart(self) -> None:
        """Start again with the next minimum; rate, scatter and depth are kept."""
        if self.blocks > 20:
            self._prior = Prior(self.rate * 1e6, _KNOWN_RATE)
        self.blocks = 0
        self.nodes: list[Node] = []
        self._slope = self._prior.slope
        self.rate = self._slope * 1e-6
        self._end = self._end_t = 0.0
        self._var = self._scale * self._scale
        self._slope_var = self._prior.deviation ** 2
        # Minima in a row that are above the path, and the time of the first.
        self._lifted = 0
        self._lifted_from = 0.0
        # (time, change) of the last falls.
        self._falls: list[tuple[float, float]] = []
        # The line that another hypothesis replaced: slope, height at time 0, since when, deviation
        # of the slope; and the time until which it may be right.
        self._replaced = (0.0, 0.0, 0.0, 0.0)
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
        before, last = self.nodes[-2:]
        slope = (last.y - before.y) / (last.t - before.t)
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
            return 1e3 * (RESOLUTION_US + self._waits.off + 1.5 * self._scale)
        fit = math.sqrt(self._ratio)
        path = 3.0 * math.sqrt(self._var) * fit
        total = path + 1.5 * self._scale * fit + 2.0 * abs(self._lag) + self._off_replaced()
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
        nodes = self.nodes
        if nodes and t < nodes[-1].t + SAME_TIME_S:
            return
        expected = self._end + self._slope * (t - self._end_t) if nodes else y
        nodes.append(Node(t, y, expected, self._scale))
        self.blocks += 1
        self._forget(t)
        if len(nodes) < 2:
            self._end, self._end_t = y, t
            return
        off = y - expected
        self._measure_scatter()
        sigma = math.sqrt(self._var + self._scale ** 2)
        self._watch_innovation(off, sigma)
        least = _GATE * sigma + _GATE_US
        # The first minimum after a load need not be without it: smaller falls follow.
        again = self._falls and self._falls[-1][0] > t - _RECENT_S
        if off < (-0.5 if again else -1.0) * least and self.blocks > 4:
            self._fall(t, off)
        best = solve(nodes, 1, self._prior)
        other = self._hypothesis(best, t, least)
        if other is None:
            self._accept(best)
        else:
            self._replace(other)
        self._count_lifted(t)
        self._waits.update(t, y, self.wait_ns * 1e-3)
        if self._waits.bounded:
            self.rate = self._waits.slope * 1e-6

    # -- data ----------------------------------------------------------------------------------

    def _forget(self, now: float) -> None:
        """Remove nodes that are too old; average the oldest pair of single minima."""
        nodes = self.nodes
        while nodes[0].t < now - SPAN_S:
            del nodes[0]
            # The slope at the start of the path is not the first slope of the window.
            self._prior = UNKNOWN
        for k in range(len(nodes) - 1):
            first, second = nodes[k], nodes[k + 1]
            if second.t > now - FINE_S:
                return
            if 0.0 < first.count < COARSE_S and second.count and not (first.free or second.free):
                break
        else:
            return
        first.dip = max(first.dip, second.dip, first.x - first.y, second.x - second.y)
        # Weighted as for the path: load has no information beside a minimum without it.
        share = second.weight(1.0) / (first.weight(1.0) + second.weight(1.0))
        first.t += share * (second.t - first.t)
        first.y += share * (second.y - first.y)
        first.x += share * (second.x - first.x)
        first.count += second.count
        del nodes[k + 1]

    def _measure_scatter(self) -> None:
        """Determine the scatter of the minima."""
        if self.blocks % 8 == 0 or self.blocks < 24:
            single = [node for node in self.nodes if node.count == 1.0]
            t, y = np.array([(node.t, node.y) for node in single]).T
            self._white = max(
                LEAST_US, deviation(second_differences(t, y).tolist(), self._white))
            if len(single) > 16:
                self._most = max(most_scatter([node.y - node.x for node in single]),
                                 0.5 * self._white)
        self._scale = max(min(max(self._white, self._pattern), self._most), LEAST_US)
        for node in self.nodes:
            node.scale = self._scale

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
        for node in self.nodes[:-1]:
            node.y += by
            node.x += by
        self._falls = [each for each in self._falls if each[0] >= t - _RECENT_S]
        self._falls.append((t, by))

    def _count_lifted(self, t: float) -> None:
        """Count the last minima that are above the path."""
        height = self.nodes[-1].y - self.nodes[-1].x
        limit = 1.5 * KNEE * self._scale
        if height < limit:
            self._recent.append(height)
            self._lifted = 0
        else:
            if not self._lifted:
                self._lifted_from = t
            self._lifted += 1

    # -- hypotheses ----------------------------------------------------------------------------

    def _hypothesis(self, best: Path, t: float, least: float) -> Path | None:
        """Return a path of less cost than the best one, if another hypothesis gives it."""
        lifted, falls, since = self._lifted, self._falls, self._lifted_from
        slewable = self.slewable
        found = None
        bends: list[tuple[float, int]] = []
        if falls and falls[-1][0] == t and self._end_t < self._replaced_to:
            slope, level, until, _ = self._replaced
            found = hypotheses.no_bend(best, until - _RECENT_S, slope, level, falls)
        # Three falls in less than five seconds, or three minima above the path.
        if len(falls) >= 3 and falls[-1][0] == t and falls[-3][0] > t - 4.5:
            bends = [(falls[0][0], 0)] if slewable else []
        elif 3 <= lifted and (lifted <= 12 or lifted % 4 == 0):
            if self._prior is not UNKNOWN:
                bends.append((best.nodes[0].t, 0))
            if slewable:
                # Before or within the first lifted block, or during load.
                bends += [(since, 0), (since + SAME_TIME_S, 0), (since, _LATER)]
        for begin, newest in bends:
            if found is None and (newest < lifted or not newest):
                found = hypotheses.bend(best, begin, falls, newest)
        if found is None and lifted > JUMP_BLOCKS and lifted % 2 == 0:
            found = hypotheses.jump(best, since)
        if found is None and lifted >= 4 and lifted % 3 == 1:
            found = hypotheses.pattern(best, least)
            if found is not None:
                self._scale = self._pattern = self._most = found.nodes[0].scale
        return found

    # -- result --------------------------------------------------------------------------------

    def _accept(self, path: Path) -> None:
        """Continue with a path."""
        nodes = self.nodes = path.nodes
        last = nodes[-1]
        self._slope = min(max(path.end - last.x, -FASTEST), FASTEST)
        self._end, self._end_t = last.x + self._slope, last.t + 1.0
        self.rate = self._slope * 1e-6
        self._var, self._slope_var = path.var, path.slope_var
        deepest = max(max(node.dip, node.x - node.y if node.count else 0.0) for node in nodes)
        # A dip counts as far as the path is known.
        deepest -= 0.5 * min(math.sqrt(self._var), self._scale)
        self._depth = (ABOVE_FLOOR * (self._white - LEAST_US)
                       + min(max(deepest, 0.0), DEEPEST * self._scale))

    def _replace(self, other: Path) -> None:
        """Continue with another hypothesis' path; the present one may still be right."""
        if self._end_t > self._replaced_to or self._end_t > self._replaced[2] + SPAN_S:
            # A line is not extrapolated further.
            self._replaced = (self._slope, self._end - self._slope * self._end_t, self._end_t,
                              math.sqrt(self._slope_var))
        self._accept(other)
        self._replaced_to = self._end_t + JUMP_BLOCKS
        self._falls = []
        self._lifted = 0
        self._lag = 0.0
