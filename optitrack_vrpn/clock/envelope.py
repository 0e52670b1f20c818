# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lower envelope of the arrivals, from the smallest residual of each block of about a second.

A Kalman filter (level and rate, the rate a random walk) follows the minima, which lie some
microseconds above the floor; ``depth`` is how far the lowest of the last minutes dipped under the
filtered line. So the floor's shape comes from all minima, and its height from the lowest.

A filter alone would follow the network as readily as the clocks. What it may follow:

- Down: always. Nothing arrives before it is sent (Moon, Skelly, Towsley 1999).
- Up in a jump: not before ``LIFT_NS``. It is load, unless it stays. The line coasts.
- Up on a line that is steeper than an oscillator drifts: only where a clock may be slewed
  (``slewable``). Else it is load that swells.
- Up or down on a straight line of another slope: at once. It is a clock that is slewed or whose
  rate changed; load does not rise straight to within the noise, and where it wanders about, a
  rise must be far beyond what was usual.
- Where the line, after a wrong turn, lies under the lower convex hull of five minutes, read where
  load of up to ``LIFT_NS`` cannot have lifted it: back to the hull (Zhang, Liu, Xia 2002).

All times are nanoseconds as floats, relative to a zero of the caller's.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
import math

from optitrack_vrpn.clock.lines import edge_over, fit, longest_edge, low_spread, Point
from optitrack_vrpn.clock.noise import Noise

SPAN_NS = 300e9
"""How long minima are remembered."""
LIFT_NS = 90e9
"""How long a lifted floor is taken for load."""
_LIFT_AT_LEAST_NS = 10e9
_UNSTEADY_NS = 180e9
"""The same for a floor that has not stayed at one height: load that swells and ebbs."""
_DRIFT = 3e-6
"""The rate of two oscillators changes by no more than this in a minute or two (s/s): 1 ppm in
half an hour is measured, a fan that starts gives some more."""
FASTEST = 1e-3
"""No two clocks differ by more than this (s/s)."""
_WALK = 1e-8
"""Standard deviation by which the rate changes in a second (s/s)."""
_WALK_PER_NS = _WALK * _WALK / 1e9
_UNKNOWN_RATE = 100e-6
_KNOWN_RATE = 1e-6
_GATE = 6.0
_GATE_NS = 10e3
_RAISED = 1.8
_RAISE = 2.2
_LIFTED_STILL = 0.25
_BEND = 3.5
_BEND_BLOCKS = (10, 20, 40)
_STRAIGHT = 9.0
_MARGIN = 0.5
_WARM = 30
_UNHEARD = 6.0
_HEIGHTS_EVERY = 16
_HEIGHTS_FROM = 40


class Floor:
    """Track the floor; ``line`` is where it is believed to be."""

    def __init__(self) -> None:
        self.rate = 0.0
        """Slope of the line (ns/ns); kept when it starts anew."""
        self.slewable = True
        """Whether one of the clocks may be slewed; else both are bare oscillators."""
        self._rate_known = False
        self._noise = Noise()
        self._depth = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin anew with the next minimum; rate, noise and depth are kept."""
        self._noise.restart()
        self._points: deque[Point] = deque()
        self._dips: deque[Point] = deque()
        self._rises: deque[float] = deque(maxlen=300)
        self._before = [0.0] * 8
        self._lifted = 0
        self._lifted_from = self._lifted_by = self._lifted_first = 0.0
        self._lifted_loaded = 0
        self._since = 0.0
        self._fell = 0.0
        self._rose = self._rose_at = self._rose_slope = 0.0
        self.blocks = 0
        self._t = self._level = 0.0
        self._var_level = self._cov = 0.0
        self._var_rate = (_KNOWN_RATE if self._rate_known else _UNKNOWN_RATE) ** 2

    def line(self, t: float) -> float:
        """Return the floor's residual at ``t``."""
        return self._level + self.rate * (t - self._t) - self._depth

    def rate_deviation(self) -> float:
        """Return the standard deviation of the rate (s/s)."""
        return math.sqrt(max(self._var_rate, 0.0))

    def uncertainty(self) -> float:
        """Return the half-width in which the line's error lies nearly always (ns)."""
        if self.blocks < 4:
            return math.nan
        # The filtered line to three sigma, and the height: the lowest of the minima is above
        # the floor by no more than the minima scatter, or twice that.
        young = 1.0 + 8.0 / self.blocks
        return (3.0 * math.sqrt(max(self._var_level, 0.0)) + 2.0 * self._noise.scale * young
                + self._raised_by())

    def _raised_by(self) -> float:
        """Return how far the line went up lately (ns): it may have been load after all."""
        passed = self._t - self._rose_at
        if not self._rose_at or passed > LIFT_NS:
            return 0.0
        return max(0.0, self._rose + self._rose_slope * passed)

    def add(self, t: float, y: float, loaded: bool = False) -> None:
        """
        Learn from the least residual of a block.

        :param t: when (ns), later than the one before; others are left out.
        :param y: residual (ns).
        :param loaded: whether the block's delays scatter more than usual.
        """
        points = self._points
        if not points:
            points.append((t, y))
            self._since = self._t = t
            self._level = y
            self._var_level = 4.0 * self._noise.scale ** 2
            self.blocks = 1
            return
        passed = t - self._t
        if passed <= 0.0:
            return
        self._predict(t, passed)
        points.append((t, y))
        while points[0][0] < t - SPAN_NS:
            points.popleft()
        if len(points) >= _HEIGHTS_FROM and self.blocks % _HEIGHTS_EVERY == 0:
            self._noise.cap(low_spread(points))
        off = y - self._level
        sigma = math.sqrt(self._var_level + self._noise.scale ** 2)
        gate = _GATE * sigma + _GATE_NS
        self._rises.append(off)
        if abs(off) > _BEND * sigma and self.blocks > 10 and self._bend(t):
            return
        del self._before[0]
        self._before.append(off)
        if off > gate or self._is_raised(off, sigma):
            if self._lifted:
                self._lifted_by = max(off, self._lifted_by)
                self._lifted_loaded += loaded
            else:
                self._lifted_by = self._lifted_first = off
                self._lifted_loaded = int(loaded)
            self._lift(t)
            return
        self._lifted = 0
        self.blocks += 1
        if len(points) > 2:
            (t0, y0), (t1, y1) = points[-3], points[-2]
            self._noise.see_neighbours(y1 - y0 - (y - y0) * (t1 - t0) / (t - t0))
        if off < -gate:
            self._fall(y, off, passed)
        else:
            self._correct(t, y, off, passed)

    def _predict(self, t: float, passed: float) -> None:
        walk = _WALK_PER_NS * (1.0 if self._lifted else self._noise.agility)
        self._level += self.rate * passed
        self._var_level += (
            2.0 * passed * self._cov + passed * passed * (self._var_rate + walk * passed / 3.0))
        self._cov += passed * (self._var_rate + walk * passed / 2.0)
        self._var_rate += walk * passed
        self._t = t

    def _correct(self, t: float, y: float, off: float, passed: float) -> None:
        if self._fell:
            # It fell once and lies there: no slew.
            self._noise.see_fall(self._fell)
            self._fell = 0.0
        var = self._noise.see_innovation(off, self._var_level, passed)
        whole = self._var_level + var
        gain_level, gain_rate = self._var_level / whole, self._cov / whole
        self._level += gain_level * off
        self.rate = _clamped(self.rate + gain_rate * off)
        self._var_rate -= gain_rate * self._cov
        self._var_level *= 1.0 - gain_level
        self._cov *= 1.0 - gain_level
        self._rate_known = self._rate_known or self.blocks > 20
        # A dip counts as far as the line is sure.
        dip = self._level - y - _MARGIN * math.sqrt(max(self._var_level, 0.0))
        dips = self._dips
        while dips and dips[-1][1] <= dip:
            dips.pop()
        dips.append((t, dip))
        while dips[0][0] < t - SPAN_NS:
            dips.popleft()
        self._depth = min(max(dips[0][1], 0.0), 4.0 * self._noise.scale)

    def _fall(self, y: float, off: float, passed: float) -> None:
        """Go down to a minimum far below: the floor cannot lie above it."""
        if len(self._points) > 1:
            jump = self._points[-2][1] + self.rate * passed - y
            if jump > -0.5 * off and self.blocks > _WARM and off < -10.0 * self._noise.scale:
                self._fell = 0.0 if self._fell else off
        self._level = y + self._depth
        self._var_level, self._cov = self._noise.scale ** 2, 0.0
        self._noise.forget_before()

    def _is_raised(self, off: float, sigma: float) -> bool:
        """Tell whether four minima in a row lie above the line after a jump within the gate."""
        if self.blocks <= _WARM or off <= _RAISED * sigma:
            return False
        if self._lifted:
            # Not for being a little off: it has to be load still.
            return off > _LIFTED_STILL * self._lifted_by
        before, now = self._before[:4], self._before[4:]
        rise = math.fsum(now) - math.fsum(before)
        return min(now) > _RAISED * sigma and rise > 4.0 * _RAISE * sigma

    def _bend(self, t: float) -> bool:
        """Take over a straight line of another slope if the last minima lie on one."""
        scale = self._noise.scale
        for n in _BEND_BLOCKS:
            if len(self._points) < n:
                return False
            last = list(islice(reversed(self._points), n))
            line = fit(last, t)
            span = t - last[-1][0]
            if abs(line.slope) > FASTEST:
                continue    # frames that waited somewhere, and came all at once
            bend = line.slope - self.rate
            away = line.level - self._level
            # A jump within the span gives a ratio of 6 at most, a straight line any.
            if (abs(bend) * span < _STRAIGHT * max(line.residual, 0.7 * scale)
                    or abs(away) < 3.0 * scale or line.residual > 2.5 * scale + 5e3):
                continue
            # A rise must have begun on the old line; load that happens to lean did not.
            begun = self._lifted_from if self._lifted else last[-1][0]
            if abs(bend) > _DRIFT and self._rate_known and not self.slewable:
                continue    # load that swells or ebbs
            if away > 0.0 and (
                    abs(away - bend * (t - begun)) > 0.35 * away + 4.0 * scale
                    or away < _UNHEARD * self._usual_rise(n)):
                continue
            self._move(t, line.level, line.slope, 4.0 * scale * scale / n,
                       12.0 * scale * scale * line.slope_var)
            self._cov = 0.8 * math.sqrt(self._var_level * self._var_rate)
            return True
        return False

    def _usual_rise(self, last: int) -> float:
        """Return how far above the line nine of ten minima came, before the last ones (ns)."""
        older = sorted(islice(self._rises, max(0, len(self._rises) - max(last, self._lifted))))
        return older[len(older) * 9 // 10] if len(older) >= _HEIGHTS_FROM else 0.0

    def _lift(self, t: float) -> None:
        """Coast under a lifted floor; accept it when it stays, or when the hull says so."""
        if not self._lifted:
            self._lifted_from = t
        self._lifted += 1
        lasted = t - self._lifted_from
        # A young line may have been laid along a pattern of the arrivals, and is given up sooner,
        # unless the delays scatter as they do under load.
        loaded = 2 * self._lifted_loaded > self._lifted
        trusted = LIFT_NS if loaded else min(
            max(self._lifted_from - self._since, _LIFT_AT_LEAST_NS), LIFT_NS)
        swells = not self.slewable and self._lifted_first < 0.5 * self._lifted_by
        if lasted > trusted and self._lifted > 5 and (
                not swells or lasted > _UNSTEADY_NS or self._steady(t)):
            if len(self._points) < 2:
                return
            run = list(islice(reversed(self._points), self._lifted))[::-1]
            edge = longest_edge(run, t)
            doubt = ((edge.spread + 2e3) / edge.length) ** 2
            rate = self.rate + (edge.slope - self.rate) * (
                self._var_rate / (self._var_rate + doubt))
        elif self._lifted % 12 == 0:
            age = min(LIFT_NS, 0.6 * (t - self._points[0][0]))
            if age <= lasted and (swells or (loaded and age < LIFT_NS)):
                return    # the hull would be read where the floor is lifted
            edge = edge_over(self._points, t - age, t)
            margin = _GATE * self._noise.scale + 2.0 * _GATE_NS
            if edge.length < 15e9 or edge.level - self.line(t) < margin:
                return
            doubt = (edge.spread / edge.length) ** 2
            rate = edge.slope
        else:
            return
        self._noise.see_spread(edge.spread)
        self._depth = edge.mean
        self._move(t, edge.level + edge.mean, rate, edge.spread ** 2 + 1e6, doubt)

    def _steady(self, t: float) -> bool:
        """Tell whether the lifted floor has stayed where it is for the last two thirds."""
        heights = sorted(
            y - self._level - self.rate * (at - self._t) for at, y in self._points
            if at > t - LIFT_NS * 2.0 / 3.0)
        if not heights:
            return True
        count = len(heights)
        return heights[count * 8 // 10] - heights[count // 10] < (
            0.25 * self._lifted_by + _GATE * self._noise.scale + _GATE_NS)

    def _move(
        self, t: float, level: float, rate: float, var_level: float, var_rate: float,
    ) -> None:
        self._rose = self._raised_by() + level - self._level
        self._rose_slope = _clamped(rate) - self.rate + (
            self._rose_slope if self._rose_at and t - self._rose_at < LIFT_NS else 0.0)
        self._rose_at = t if self._rose > 0.0 else 0.0
        self._t, self._level, self.rate = t, level, _clamped(rate)
        self._var_level, self._var_rate, self._cov = var_level, var_rate, 0.0
        # Dips under the old line say nothing of the new one but how deep they are.
        self._dips = deque([(t, self._depth)])
        self._before = [0.0] * 8
        self._lifted = 0
        self._fell = 0.0
        self._noise.forget_before()


def _clamped(rate: float) -> float:
    return min(max(rate, -FASTEST), FASTEST)
