# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The most plausible path of the clock under the arrivals.

Data are the least residuals of blocks of about a second. One cost decides on everything. It is
minus twice the logarithm of a likelihood:

- A minimum below the path costs by the square of its distance: nothing arrives before it is sent
  (Moon, Skelly, Towsley 1999). One above it costs at most ``LOAD``, however high it is (Geman,
  McClure 1987): there it met load.
- A change of the path's slope costs by its square, as for an oscillator whose frequency is a
  random walk of ``WALK``.

The path of least cost is found by reweighting and one banded solution a block (``banded.py``;
Black, Rangarajan 1996). It runs through the minima; the floor lies under it by their deepest dip.

Where that path leaves minima above or below it for some blocks, another hypothesis is tried, each
with a price of its own in blocks of load, and taken if its cost is less:

- *bend*: another slope since a moment ago, where a clock may be slewed (``slewable``);
- *fall*: the minima before lay higher, all by the same amount; free, since nothing can be early;
- *jump*: the floor rose, to stay (a clock or a route);
- *pattern*: the minima scatter by more than neighbours show, as polling makes them do, and the
  path is the lower convex hull's longest edge (Zhang, Liu, Xia 2002).

Times are seconds and residuals microseconds here, relative to zeros of the caller's;
``ClockPath``'s own arguments are nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
import math
from typing import NamedTuple

from optitrack_vrpn.clock.banded import smooth
from optitrack_vrpn.clock.scatter import LEAST_US, NO_DATA, Nodes, Scatter
from optitrack_vrpn.clock.treads import Corner, Treads

SPAN_S = 300.0
"""How long minima are remembered: two waves of load of 120 s and what lies between them."""
FINE_S = 64.0
COARSE_S = 4.0
"""Minima older than ``FINE_S`` are averaged over ``COARSE_S``: the cost of a block is bounded."""
WALK = 0.03
"""
Random walk of the frequency in a second (us/s = ppm). Measured clocks: 0.001 to 0.01; thermal
waves of 1 ppm in half an hour need 0.03. Three times as much follows load, a third of it lags.
"""
KNEE = 2.5
"""Standard deviations above the path from which a minimum costs as load does (Geman, McClure)."""
LOAD = KNEE * KNEE
BELOW = 2.0
"""Weight of a minimum below the path against one above: the scatter is one-sided."""
BEND_BLOCKS = 4.0
"""A bend costs as much as so many blocks of load; 2 bends with noise, 8 lag by 8 s."""
JUMP_BLOCKS = 85.0
"""A rise that stays costs as much as so many: load spikes of up to 80 s are seen through."""
FARTHEST_US = 1e4
"""A delay of load may be anything up to this (later frames are held up)."""
FASTEST = 1e3
"""No two clocks differ by more than this (ppm)."""
ABOVE_FLOOR = 0.5
"""In standard deviations: so far the floor lies below the deepest dip of minutes. For delays of
gamma and log-normal distribution 0.5 to 2, for exponential ones 0."""
RESOLUTION_US = 0.7
"""No error is smaller (us): sender times in whole microseconds, readings of the host's clock."""
_UNKNOWN_RATE, _KNOWN_RATE = 100.0, 1.0
_CORNER_RATE = 0.1
"""Standard deviation of the rate between two corners of treads (ppm): 20 us in 200 s."""
_GATE = 6.0
_GATE_US = 10.0
_LEAN = 0.02
"""The least of a block that leans by 1 us/s is that of fewer frames: scatter (us) to add."""
_FREE = 1e-6
_RECENT_S = 12.0
_AGAIN_S = 20.0


class _Fit(NamedTuple):
    """A path and its cost."""

    cost: float
    x: list[float]
    end: float
    var: float
    slope_var: float
    nodes: Nodes


class ClockPath:
    """Track the floor under the minima; ``line`` is where it is taken to be."""

    def __init__(self) -> None:
        self.rate = 0.0
        """Slope of the line (ns/ns); kept when it starts anew."""
        self.slewable = True
        """Whether one of the clocks may be slewed; else both are bare oscillators."""
        self._rate_known = False
        self._scatter = Scatter()
        self._depth = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin anew with the next minimum; rate, scatter and depth are kept."""
        self.blocks = 0
        self._nodes = Nodes([], [], [], [], [])
        self._x: list[float] = []
        if not self._rate_known:
            self.rate = 0.0
        self._slope = self._prior = self.rate * 1e6
        self._prior_weight = (_KNOWN_RATE if self._rate_known else _UNKNOWN_RATE) ** -2.0
        self._end = self._end_t = 0.0
        self._var = self._scatter.scale * self._scatter.scale
        self._slope_var = 1.0 / self._prior_weight
        self._lifted = self._loaded = 0
        self._lifted_from = 0.0
        self._falls: list[tuple[float, float]] = []
        # The line that another hypothesis replaced (slope, height at 0, end, deviation of the
        # slope), and until when it counts.
        self._shadow = self._line_before = (0.0, 0.0, 0.0, 0.0)
        self._shadow_to = 0.0
        self._lag = 0.0
        self._ratio = 1.0
        self._treads = Treads()

    def line(self, t_ns: float) -> float:
        """Return the floor's residual at a time (ns)."""
        return (self._end + self._slope * (t_ns * 1e-9 - self._end_t) - self._depth) * 1e3

    def rate_deviation(self) -> float:
        """Return the standard deviation of the rate (s/s)."""
        return math.sqrt(self._slope_var) * 1e-6

    def uncertainty(self) -> float:
        """Return the half-width in which the line's error lies nearly always (ns)."""
        if self.blocks < 4:
            return math.nan
        # The path to three deviations, and the height of the lowest minima above the floor, of
        # which few have been seen at first; more or less as minima surprise the path; its lag.
        young = 1.0 + 8.0 / self.blocks
        expected = 3.0 * math.sqrt(self._var) + 1.5 * self._scatter.scale * young
        ratio = max(self._ratio, 1.0) if self._treads.step else self._ratio
        return 1e3 * (RESOLUTION_US + math.sqrt(ratio) * expected + 2.0 * abs(self._lag)
                      + self._off_shadow() + self._treads.deviation)

    def _off_shadow(self) -> float:
        """Return the distance from the replaced line (us), which may be the right one."""
        if self._end_t > self._shadow_to:
            return 0.0
        slope, level, since, deviation = self._shadow
        rise = self._end - level - slope * self._end_t
        # At the end of the block that stamps are made in, the lines may be further apart.
        later = rise + self._slope - slope
        return max(abs(rise), abs(later)) + 3.0 * deviation * (self._end_t - since)

    def add(self, t_ns: float, y_ns: float, loaded: bool = False) -> None:
        """
        Learn from the least residual of a block.

        :param t_ns: when (ns), later than the one before; others are left out.
        :param y_ns: residual (ns).
        :param loaded: whether the block's delays scatter more than usual.
        """
        t, y = t_ns * 1e-9, y_ns * 1e-3
        nodes = self._nodes
        if nodes.t and t <= nodes.t[-1]:
            return
        expected = self._end + self._slope * (t - self._end_t) if nodes.t else y
        nodes.t.append(t)
        nodes.y.append(y)
        nodes.counts.append(1.0)
        nodes.dip.append(-math.inf)
        self._x.append(expected)
        self.blocks += 1
        self._forget(t)
        if len(nodes.t) < 2:
            self._end, self._end_t = y, t
            self._x[0] = y
            return
        off = y - expected
        self._scatter.watch(nodes, self._x, self.blocks)
        sigma = math.sqrt(self._var + self._scatter.scale ** 2)
        self._watch_surprise(off)
        if off < -_GATE * sigma - _GATE_US and self.blocks > 4:
            # Nothing is early: what came before lay higher.
            self._raise_before(off)
            self._falls.append((t, off))
        while self._falls and self._falls[0][0] < t - _RECENT_S:
            del self._falls[0]
        best = self._fit(nodes, self._x, 1)
        corners = self._treads.watch(nodes)
        other = self._polled(*corners) if corners else self._hypothesis(best, t)
        if other is None:
            self._take(best)
        else:
            self._turn(other)
        self._count_strays(loaded)
        self._rate_known = self._rate_known or self.blocks > 20

    # -- data ----------------------------------------------------------------------------------

    def _forget(self, t: float) -> None:
        """Average what is old, and drop what is older."""
        nodes, x = self._nodes, self._x
        times, y, count, dip = nodes.t, nodes.y, nodes.counts, nodes.dip
        while times[0] < t - SPAN_S:
            _drop(nodes, x, 0)
            if not self._treads.step:
                # What the slope was when the path began says nothing of the window's first slope.
                self._prior_weight = _UNKNOWN_RATE ** -2.0
        while nodes.bends and nodes.bends[0] <= times[0]:
            del nodes.bends[0]
        # The first node that stands for one minimum and is old joins the one before it.
        k = 0
        while k < len(times) and count[k] >= COARSE_S:
            k += 1
        if k + 1 >= len(times) or times[k + 1] > t - FINE_S:
            return
        if y[k] > 0.5 * NO_DATA or times[k] in nodes.bends or y[k + 1] > 0.5 * NO_DATA or (
                times[k + 1] in nodes.bends):
            count[k] = max(count[k], COARSE_S) if y[k] < 0.5 * NO_DATA else COARSE_S
            return
        dip[k] = max(dip[k], dip[k + 1], x[k] - y[k], x[k + 1] - y[k + 1])
        # Weighted as for the path: load says nothing beside a minimum that met none.
        total = count[k] + count[k + 1]
        first = count[k] * self._trust(y[k] - x[k])
        second = count[k + 1] * self._trust(y[k + 1] - x[k + 1])
        share = second / (first + second)
        times[k] += share * (times[k + 1] - times[k])
        y[k] += share * (y[k + 1] - y[k])
        x[k] += share * (x[k + 1] - x[k])
        count[k] = total
        del times[k + 1], y[k + 1], count[k + 1], dip[k + 1], x[k + 1]

    def _watch_surprise(self, off: float) -> None:
        """Learn how well the path foretells minima that met no load (``off`` in us)."""
        variance = self._var + self._scatter.scale ** 2
        limit = KNEE * math.sqrt(variance)
        if off < limit:
            off = max(off, -limit)
            gain = 1.0 / min(30, self.blocks)
            self._ratio += gain * (off * off / variance - self._ratio)
            self._lag += gain * (off - self._lag)

    def _raise_before(self, by: float) -> None:
        y, x = self._nodes.y, self._x
        for i in range(len(y) - 1):
            if y[i] < 0.5 * NO_DATA:
                y[i] += by
            x[i] += by

    def _count_strays(self, loaded: bool) -> None:
        """Count the last minima that lie above the path."""
        above = self._nodes.y[-1] - self._x[-1]
        if above > max(1.5 * KNEE * self._scatter.scale, 1.2 * self._treads.step):
            if not self._lifted:
                self._lifted_from = self._nodes.t[-1]
                self._line_before = self._line()
                self._loaded = 0
            self._lifted += 1
            self._loaded += loaded
        else:
            self._lifted = 0

    def _trust(self, off: float) -> float:
        """Return the weight of a minimum that lies so far above the path, 1 on it."""
        g = 1.0 + max(off, 0.0) ** 2 / (LOAD * self._scatter.scale * self._scatter.scale)
        return 1.0 / (g * g)

    # -- cost ----------------------------------------------------------------------------------

    def _fit(self, nodes: Nodes, x: list[float], rounds: int) -> _Fit:
        """Find the path of least cost from a first guess."""
        t, y, count = nodes.t, nodes.y, nodes.counts
        n = len(t)
        weight = 1.0 / (self._scatter.scale * self._scatter.scale)
        knee = weight / LOAD
        walk = 2.0 / (WALK * WALK)
        end_t = t[n - 1] + 1.0
        p = [_FREE] * n
        for i in range(1, n - 1):
            p[i] = walk / (t[i + 1] - t[i - 1])
        p[n - 1] = walk / (end_t - t[n - 2]) if n > 1 else 0.0
        for bend in nodes.bends:
            p[t.index(bend)] = _FREE
        end = var = slope_var = 0.0
        for _ in range(rounds):
            w = [0.0] * n
            for i in range(n):
                off = y[i] - x[i]
                if off < 0.0:
                    w[i] = BELOW * weight * count[i]
                else:
                    g = 1.0 + off * off * knee
                    w[i] = weight * count[i] / (g * g)
            x, end, var, slope_var = smooth(
                t, y, w, p, self._prior, self._prior_weight, end_t)
        return _Fit(0.0, x, end, var, slope_var, nodes)

    def _cost(self, fit: _Fit, scale: float, load: float) -> float:
        """Return what a path costs where minima scatter by ``scale`` and load costs ``load``."""
        t, y, count, _, bends = fit.nodes
        x = fit.x
        weight = 1.0 / (scale * scale)
        cost = 0.0
        for i in range(len(t)):
            if y[i] < 0.5 * NO_DATA:
                off = y[i] - x[i]
                square = off * off * weight
                cost += count[i] * (
                    BELOW * square if off < 0.0 else square / (1.0 + square / load))
        walk = 2.0 / (WALK * WALK)
        slope = (x[1] - x[0]) / (t[1] - t[0])
        for i in range(1, len(t) - 1):
            next_slope = (x[i + 1] - x[i]) / (t[i + 1] - t[i])
            if not bends or t[i] not in bends:
                change = next_slope - slope
                cost += walk * change * change / (t[i + 1] - t[i - 1])
            slope = next_slope
        return cost

    # -- hypotheses ----------------------------------------------------------------------------

    def _hypothesis(self, best: _Fit, t: float) -> _Fit | None:
        """Return a path of less cost than the best one, if another hypothesis gives it."""
        lifted, falls = self._lifted, self._falls
        found = None
        if self.slewable and t - self._nodes.t[0] > 10.0:
            if len(falls) >= 3 and falls[-1][0] == t and falls[-3][0] > t - 4.5:
                found = self._bend(best, falls[0][0], len(falls) * JUMP_BLOCKS)
            elif 3 <= lifted and (lifted <= 12 or lifted % 4 == 0):
                found = self._bend(best, self._lifted_from, 0.0)
        if found is None and lifted > JUMP_BLOCKS and lifted % 2 == 0:
            found = self._jump(best)
        if found is None and lifted >= 4 and lifted % 3 == 1 and 2 * self._loaded < lifted:
            found = self._scattered(best, t)
        return found

    def _bend(self, best: _Fit, since: float, spared: float) -> _Fit | None:
        """
        Suppose another slope since about the first node that strays.

        :param since: its time.
        :param spared: blocks of load that the other hypothesis costs beside its misfit.
        """
        now = self._nodes.t[-1]
        price = BEND_BLOCKS
        bends = self._nodes.bends
        if bends and since - bends[-1] < _AGAIN_S:
            # The last bend again, with what has come since.
            since, bends, price = bends[-1] + 1e-6, bends[:-1], 0.0
        t, y, count, dip, x = _with_data(self._nodes, best.x, bends)
        begin = bisect_left(t, since)
        last = begin - 1
        n = len(t) - begin
        if n < 3 or last < 2 or y[last] > 0.5 * NO_DATA:
            return None
        fallen = math.fsum(by for at, by in self._falls if at >= since)
        for i in range(begin):
            y[i] -= fallen
            x[i] -= fallen
        for at, by in self._falls:
            # What came between two falls was moved by the later ones only.
            for i in range(begin, len(t)):
                if t[i] < at:
                    y[i] -= by
        slope, mean_y = _line(t, y, begin, len(t), t[-1])
        mean_t = t[-1]
        old, level = _line(t, x, last - 2, last, t[last])
        bend = slope - old
        if abs(slope) > FASTEST or abs(bend) < 1.0:
            return None
        # A slewed clock leaves its old line where the new one meets it; load jumps off.
        at = t[last] + (level - mean_y - slope * (t[last] - mean_t)) / bend
        slack = 2.0 * self._scatter.scale / abs(bend)
        if not t[last - 1] - 1.0 - slack < at < t[begin] + 0.5 + slack:
            return None
        at = min(max(at, t[last - 2]), t[begin])
        k = last
        for i in range(last, begin):
            x[i] = level
        while t[k] > at:
            k -= 1
        for i in range(k + 1, len(t)):
            x[i] = mean_y + slope * (t[i] - mean_t)
        if at - t[k] > 0.02 and (k + 1 == len(t) or t[k + 1] - at > 0.02):
            k += 1
            t.insert(k, at)
            y.insert(k, NO_DATA)
            count.insert(k, 1.0)
            dip.insert(k, -math.inf)
            x.insert(k, mean_y + slope * (at - mean_t))
        elif at - t[k] > 0.02:
            k += 1
        scale = self._scatter.scale
        self._scatter.scale = math.hypot(scale, _LEAN * bend)
        found = self._fit(Nodes(t, y, count, dip, [*bends, t[k]]), x, 2)
        leaning, self._scatter.scale = self._scatter.scale, scale
        if abs(found.end - found.x[-1] - slope * (now + 1.0 - t[-1])) > 0.5 * abs(bend):
            return None
        saved = self._cost(best, leaning, LOAD) - self._cost(found, leaning, LOAD)
        return found if saved > (LOAD - 1.0) * (price - spared) else None

    def _polled(self, first: Corner, second: Corner) -> _Fit:
        """Suppose that minima wait for polls: the floor lies on the corners of their treads."""
        slope = (second.y - first.y) / (second.t - first.t)
        nodes = self._nodes
        # The corners may have been averaged with their treads: the slope is kept as the prior.
        self._prior, self._prior_weight = slope, _CORNER_RATE ** -2.0
        return self._fit(nodes._replace(bends=[]),
                         [second.y + slope * (t - second.t) for t in nodes.t], 2)

    def _jump(self, best: _Fit) -> _Fit | None:
        """Suppose that the floor rose where it was lifted, and stays."""
        t, y, count, dip, bends = self._nodes
        n = len(t)
        first = bisect_left(t, self._lifted_from - 1e-6)
        run = [i for i in range(first, n) if y[i] < 0.5 * NO_DATA]
        if len(run) < 8 or first < 1:
            return None
        x = best.x
        half = len(run) // 2
        low, i = sorted((y[i] - x[i], i) for i in run[:half])[half // 4]
        high, k = sorted((y[i] - x[i], i) for i in run[half:])[half // 4]
        slope = (high - low) / (t[k] - t[i])
        if abs(slope) > FASTEST:
            return None
        rise = low + slope * (t[first] - t[i])
        nodes = Nodes(
            t, [v + rise if v < 0.5 * NO_DATA else v for v in y[:first]] + y[first:], count, dip,
            [*bends, t[first]] if abs(slope) > 1.0 else bends)
        guess = [v + rise for v in x]
        for i in range(first, n):
            guess[i] += slope * (t[i] - t[first])
        found = self._fit(nodes, guess, 2)
        scale = self._scatter.scale
        saved = self._cost(best, scale, LOAD) - self._cost(found, scale, LOAD)
        return found if saved > (LOAD - 1.0) * JUMP_BLOCKS else None

    def _scattered(self, best: _Fit, now: float) -> _Fit | None:
        """Suppose that minima scatter by more: the path lies on the hull's longest edge."""
        t, y, count, dip, x = _with_data(self._nodes, best.x, [])
        n = len(t)
        if n < 8:
            return None
        hull = lower_hull(t, y)
        k = max(range(1, len(hull)), key=lambda i: t[hull[i]] - t[hull[i - 1]])
        a, b = hull[k - 1], hull[k]
        slope = (y[b] - y[a]) / (t[b] - t[a])
        above = [y[i] - y[a] - slope * (t[i] - t[a]) for i in range(n)]
        near = sorted(map(abs, above))[:max(3, n * 3 // 4)]
        mean = math.fsum(near) / len(near)
        scale = max(math.sqrt(math.fsum((v - mean) ** 2 for v in near) / len(near)), LEAST_US)
        rise = y[a] + slope * (now - t[a]) - x[-1]
        if (scale < 1.5 * self._scatter.scale or abs(slope) > FASTEST or scale > 0.3 * FARTHEST_US
                or rise < _GATE * math.sqrt(self._var + self._scatter.scale ** 2) + _GATE_US):
            return None
        before, self._scatter.scale = self._scatter.scale, scale
        found = self._fit(Nodes(t, y, count, dip, []),
                          [y[a] + mean + slope * (at - t[a]) for at in t], 2)
        # Wider scatter has its own price, and load may be anything up to the farthest.
        total = math.fsum(count)
        saved = (self._cost(best, before, 2.0 * math.log(FARTHEST_US / before))
                 - self._cost(found, scale, 2.0 * math.log(FARTHEST_US / scale))
                 - 2.0 * total * math.log(scale / before))
        if saved > 0.0:
            self._scatter.found_pattern(scale)
            return found
        self._scatter.scale = before
        return None

    # -- result --------------------------------------------------------------------------------

    def _take(self, fit: _Fit) -> None:
        """Go on with a path."""
        self._nodes, self._x = fit.nodes, fit.x
        t, y, dip = fit.nodes.t, fit.nodes.y, fit.nodes.dip
        self._end, self._end_t = fit.end, t[-1] + 1.0
        self._slope = min(max(fit.end - fit.x[-1], -FASTEST), FASTEST)
        self.rate = self._slope * 1e-6
        self._var, self._slope_var = fit.var, fit.slope_var
        deepest = 0.0
        for i in range(len(t)):
            deepest = max(deepest, fit.x[i] - y[i], dip[i])
        # A dip counts as far as the path is sure.
        scale = self._scatter.scale
        deepest -= 0.5 * min(math.sqrt(self._var), scale)
        below = ABOVE_FLOOR * (self._scatter.white - LEAST_US)
        self._depth = below + min(max(deepest, 0.0), 4.0 * scale)

    def _line(self) -> tuple[float, float, float, float]:
        """Return slope, height at 0, end and deviation of the slope."""
        return (self._slope, self._end - self._slope * self._end_t, self._end_t,
                math.sqrt(self._slope_var))

    def _turn(self, other: _Fit) -> None:
        """Go on with another hypothesis' path, and remember that it may be wrong."""
        line = self._line_before if self._lifted else self._line()
        slope, level, _, _ = line
        self._take(other)
        if self._end_t <= self._shadow_to or self._end > level + slope * self._end_t:
            if self._end_t > self._shadow_to or self._end_t > self._shadow[2] + SPAN_S:
                # A line is not extrapolated so far.
                self._shadow = line
            self._shadow_to = self._end_t + JUMP_BLOCKS
        self._falls = []
        self._lifted = 0
        self._lag = 0.0


def lower_hull(t: list[float], y: list[float]) -> list[int]:
    """Return the indices of the lower convex hull of points in order of time (monotone chain)."""
    hull: list[int] = []
    for i in range(len(t)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (t[i] - t[a]) < (y[i] - y[a]) * (t[b] - t[a]):
                break
            hull.pop()
        hull.append(i)
    return hull


def _line(
    t: list[float], y: list[float], first: int, end: int, at: float,
) -> tuple[float, float]:
    """Return slope, and height at a time, of the least-squares line through some nodes."""
    n = end - first
    mean_t = math.fsum(t[first:end]) / n
    mean_y = math.fsum(y[first:end]) / n
    slope = (math.fsum((t[i] - mean_t) * (y[i] - mean_y) for i in range(first, end))
             / math.fsum((t[i] - mean_t) ** 2 for i in range(first, end)))
    return slope, mean_y + slope * (at - mean_t)


def _with_data(
    nodes: Nodes, x: list[float], bends: list[float],
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """Copy times, heights, counts, dips and path of the nodes with data or a bend."""
    keep = [i for i in range(len(nodes.t)) if nodes.y[i] < 0.5 * NO_DATA or nodes.t[i] in bends]
    return ([nodes.t[i] for i in keep], [nodes.y[i] for i in keep],
            [nodes.counts[i] for i in keep], [nodes.dip[i] for i in keep], [x[i] for i in keep])


def _drop(nodes: Nodes, x: list[float], k: int) -> None:
    del nodes.t[k], nodes.y[k], nodes.counts[k], nodes.dip[k], x[k]
