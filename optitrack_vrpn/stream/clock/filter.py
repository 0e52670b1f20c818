# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A switching Kalman filter over hypotheses: the lower envelope of (arrival - sender time).

The state is the offset (us) and the skew (us/s, ppm) of the envelope; the skew is a random walk.
The measurements are the minima of blocks of frames, with the spread of the delays in the block.
Each minimum extends each hypothesis by every explanation that fits. A hypothesis carries its
cost, minus twice the log likelihood of all its explanations; the best ones are kept
(multiple hypothesis tracking, Reid 1979; switching models as in Bar-Shalom, Li 2001, ch. 11).

| explanation | effect on the hypothesis | cost |
|---|---|---|
| clean | Kalman update; half the variance below the envelope | chi-squared; wide spread |
| queueing delay | none | ``LOAD``; more if such delays would have to spread more |
| earlier frames were delayed | the offset falls to the minimum | 2 ``LOAD`` |
| a clock was slewed | another skew since a part of this block | ``BEND`` |

Queueing spreads delays; a slewed clock and a longer route do not. Therefore the spread is part
of the likelihoods. Restarts, steps and longer routes are in ``estimator.py``.
"""

from __future__ import annotations

from collections import deque
import math
from typing import Final

LOAD: Final = 6.25
"""Cost of a block of queueing delay: that of a minimum 2.5 deviations away."""
BEND: Final = 4.0 * LOAD
"""Cost of a change of skew: a disciplined clock has one in some minutes."""
LARGE_BEND: Final = 1000.0
"""Change of skew that costs twice as much (ppm): ``adjtime`` slews by 500, w32time by less."""
PRICE: Final = 85.0 * LOAD
"""Price of another offset: load lasts for a minute, routes and runs of a clock for hours."""
SKEW_WALK: Final = 0.03
"""Random walk of the skew (ppm per square root of a second): quartz with thermal waves."""
ANY_SKEW, LARGE_SKEW, MOST_SKEW = 100.0, 700.0, 2000.0
"""Standard deviation of the skew of an unknown sender (ppm; 78 is the median of 20 000 hosts), of
the alternative at ``BEND`` (virtual machines), and the largest."""
KEPT: Final = 20
"""Number of hypotheses: below 12, events under load are lost (bench/clock.py)."""
WIDE, QUANTILE = 0.2, 1.34
"""Least standard deviation of the log of the spread of delays in a block; distance of its low
quantile (9 %) from the mean, in deviations."""
SPREAD_SHARE, SPREAD_LOG = 4.0, 0.5
"""Queueing delay is at most this many times the spread it causes; deviation of its log."""
OPEN_COST: Final = 45.0
"""Hypotheses within this of the best one count for the uncertainty."""
MEMORY_S, DRAIN_S = 200.0, 20.0
"""Time for which a minimum below the envelope, and a step, count: a poll of nearly the rate of
the frames, to 25 ppm, begins anew within it; time for which a queue that has drained for two
blocks may go on to drain (s)."""


class Hypothesis:
    """One history of explanations, with its state, covariance and cost."""

    __slots__ = ('cost', 'offset', 'skew', 'p00', 'p01', 'p11', 'bent', 'clean', 'delayed',
                 'falls', 'queue')

    def __init__(
        self, cost: float, offset: float, skew: float, p00: float, p01: float, p11: float,
        bent: float, clean: float, delayed: int = 0, falls: int = 1, queue: float = 0.0,
    ) -> None:
        self.cost = cost
        self.offset = offset
        self.skew = skew
        self.p00 = p00
        self.p01 = p01
        self.p11 = p11
        self.bent = bent            # time of the last change of skew; negative before the first
        self.clean = clean          # time of the last clean block
        self.delayed = delayed      # blocks of queueing delay in a row
        self.falls = falls          # blocks in a row that showed the ones before delayed
        self.queue = queue          # queueing delay that the last of them may still have (us)

    def copy(self, cost: float) -> Hypothesis:
        """Return a copy that costs so much more."""
        return Hypothesis(
            self.cost + cost, self.offset, self.skew, self.p00, self.p01, self.p11, self.bent,
            self.clean, self.delayed, self.falls, self.queue)

    def predict(self, dt: float, walk: float) -> None:
        """Advance by a time (s) with the variance of the skew's walk."""
        self.offset += self.skew * dt
        self.p00 += 2.0 * dt * self.p01 + dt * dt * self.p11 + walk * dt * dt * dt / 3.0
        self.p01 += dt * self.p11 + walk * dt * dt / 2.0
        self.p11 += walk * dt

    def update(self, t: float, residual: float, variance: float) -> None:
        """Take a minimum as clean; no frame is early, so that one below counts twice."""
        if residual < 0.0:
            variance *= 0.5
        total = self.p00 + variance
        gain0, gain1 = self.p00 / total, self.p01 / total
        self.cost += residual * residual / total
        self.offset += gain0 * residual
        self.skew += gain1 * residual
        self.p11 -= gain1 * self.p01
        self.p01 -= gain0 * self.p01
        self.p00 -= gain0 * self.p00
        self.clean, self.delayed = t, 0
        self.falls, self.queue = 0, 0.0

    def fall(self, t: float, dt: float, residual: float, variance: float) -> None:
        """Take a minimum far below as the envelope: the blocks before were delayed."""
        self.offset += residual
        self.p00, self.p01 = variance, 0.0
        self.clean, self.delayed = t, 0
        self.falls = self.falls + 1 if residual < -MOST_SKEW * dt else 0
        # Twice in a row, faster than any clock: a queue drains.
        self.queue = -residual * DRAIN_S / dt if self.falls > 1 else 0.0


def queueing_cost(residual: float, spread: float) -> float:
    """
    Return the cost of queueing delay in a block.

    :param residual: the least delay of the block (us).
    :param spread: mean difference of successive delays (us).
    """
    narrow = max(0.0, math.log(max(residual, 1.0) / (SPREAD_SHARE * spread)) / SPREAD_LOG)
    return LOAD + narrow * narrow


class EnvelopeFilter:
    """
    Estimate the lower envelope of the arrivals of one run of a sender's clock.

    :param skew: skew of the same sender before (ppm).
    :param skew_variance: its variance (ppm^2).
    :ivar blocks: number of minima.
    :ivar cost: that of the best hypothesis: minus twice its log likelihood.
    :ivar scatter: standard deviation of the minima (us).
    :ivar uncertainty: half-width that nearly always contains the error of the line (us).
    :ivar steady: the same, if the steps that are remembered were no queueing delay.
    :ivar depth: how far below the envelope stamps are, for the deepest minima (us).
    """

    def __init__(self, skew: float = 0.0, skew_variance: float = ANY_SKEW ** 2) -> None:
        self._skew, self._skew_variance = skew, skew_variance
        self._hypotheses: list[Hypothesis] = []
        self._minima: deque[tuple[float, float]] = deque(maxlen=64)
        self._heights: deque[float] = deque(maxlen=64)
        self._recent: deque[float] = deque(maxlen=16)
        self._dips: deque[tuple[float, float]] = deque()
        # The last block without queueing, and the last step of such blocks.
        self._calm = (0.0, 0.0)
        self._step, self._stepped = 0.0, -math.inf
        self.depth = 0.0
        self._fit, self._lag = 1.0, 0.0
        self._usual = self._level = self._change = 0.0
        self.time = 0.0
        self.blocks = 0
        self.cost = 0.0
        self.scatter = 30.0
        self.steady = self.uncertainty = math.nan

    @property
    def known(self) -> bool:
        """Return whether there is a state."""
        return bool(self._hypotheses)

    @property
    def best(self) -> Hypothesis:
        """Return the best hypothesis, at ``time``."""
        return self._hypotheses[0]

    def predict(self, t: float) -> float:
        """Return the envelope's height at a time (us)."""
        best = self._hypotheses[0]
        return best.offset + best.skew * (t - self.time) - self.depth

    def deviation(self, t: float) -> float:
        """Return the standard deviation of the height at a time (us)."""
        best, dt = self._hypotheses[0], t - self.time
        return math.sqrt(best.p00 + 2.0 * dt * best.p01 + dt * dt * best.p11
                         + SKEW_WALK ** 2 * dt ** 3 / 3.0)

    def queueing(self, spread: float) -> float:
        """Return the cost of a spread of delays (us) without queueing, at most ``LOAD``."""
        deviation = 0.886 * self._change
        wide = max(0.0, math.log(spread) - self._usual - QUANTILE * deviation)
        wide /= max(WIDE, deviation)
        return min(wide * wide, LOAD)

    def skew_prior(self) -> tuple[float, float]:
        """Return skew and variance with which the same sender restarts."""
        if self.blocks < 6:
            return self._skew, self._skew_variance
        best = self._hypotheses[0]
        return best.skew, 1.0 + 9.0 * best.p11

    def begin(self, t: float, height: float, deviation: float) -> None:
        """Begin at a height of a standard deviation (us) at a time (s)."""
        variance = deviation * deviation
        self.time, self._calm = t, (t, height)
        self._hypotheses.append(Hypothesis(
            0.0, height, self._skew, variance, 0.0, self._skew_variance, -math.inf, t))
        for other in (ANY_SKEW, LARGE_SKEW):
            if other ** 2 > 2.0 * self._skew_variance:
                self._hypotheses.append(Hypothesis(
                    BEND, height, 0.0, variance, 0.0, other ** 2, -1e9 * other, t))
        self.steady = self.uncertainty = 3.0 * deviation

    def update(self, t: float, height: float, spread: float) -> None:
        """
        Add the minimum of a block.

        :param t: its time (s).
        :param height: its arrival minus sender time (us).
        :param spread: mean difference of successive delays in the block (us).
        """
        self.blocks += 1
        self._minima.append((t, height))
        self._measure_scatter(spread)
        variance = self.scatter * self.scatter
        if self.blocks == 1:
            self._usual = self._level = math.log(spread)
        if not self._hypotheses:
            self.begin(t, height, self.scatter)
            self.steady = self.uncertainty = 3.0 * math.hypot(spread, LARGE_SKEW)
            return
        dt = t - self.time
        if dt <= 0.0:
            return
        self.time = t
        wide = self.queueing(spread)
        # Low quantile of the log of the spread, and its mean change from block to block, which
        # lasting load does not raise: 0.886 times that is the deviation.
        level = math.log(spread)
        self._usual += 0.005 if level > self._usual else -0.05
        change = min(abs(level - self._level), 1.0)
        self._change += (change - self._change) / min(30, max(1, self.blocks - 1))
        self._level = level
        before = self._hypotheses[0]
        self._extend(t, dt, height, variance, spread, wide)
        self._follow_steps(t, height, spread, wide, before.skew)
        if self._hypotheses[0].falls > 1:
            # The minima so far were of a queue that drains.
            self._minima.clear()
            self._heights.clear()
            self._dips.clear()
        cost = self._hypotheses[0].cost
        self.cost += cost
        for each in self._hypotheses:
            each.cost -= cost
        self._measure_fit(t, height, before, variance)

    def _extend(
        self, t: float, dt: float, height: float, variance: float, spread: float, wide: float,
    ) -> None:
        """Extend each hypothesis by each explanation, and keep the best ones."""
        found: list[Hypothesis] = []
        for each in self._hypotheses:
            each.predict(dt, SKEW_WALK * SKEW_WALK)
            residual = height - each.offset
            total = each.p00 + variance
            low = residual < -(6.0 * math.sqrt(total) + 10.0)
            if not low:
                clean = each.copy(wide)
                clean.update(t, residual, variance)
                low = clean.skew < -MOST_SKEW
                if abs(clean.skew) < MOST_SKEW:
                    found.append(clean)
            if low:
                fallen = each.copy(2.0 * LOAD)
                fallen.fall(t, dt, residual, variance)
                found.append(fallen)
            if residual > 0.0:
                delayed = each.copy(queueing_cost(residual, spread))
                delayed.delayed += 1
                delayed.falls, delayed.queue = 0, 0.0
                found.append(delayed)
            if residual * residual > LOAD * total and self.blocks > 4:
                self._bend(each, found, t, dt, residual, variance, wide)
        self._prune(found)

    def _bend(
        self, each: Hypothesis, found: list[Hypothesis], t: float, dt: float, residual: float,
        variance: float, wide: float,
    ) -> None:
        """Add hypotheses of another skew since a part of the block, or the last clean one."""
        spans = [0.25 * dt, 0.75 * dt]
        if each.delayed > 2:
            spans.append(t - each.clean - 0.5 * dt)
        for since in spans:
            change = (residual / since) ** 2
            # A slewed clock does not widen the spread.
            bent = each.copy(0.0)
            bent.p00 += change * (since * since + dt * dt / 192.0)
            bent.p01 += change * since
            bent.p11 += change
            bent.update(t, residual, variance)
            # The change of skew has been fitted to this minimum: its residual costs nothing.
            bent.cost = each.cost + 4.0 * wide + BEND * (
                1.0 + abs(bent.skew - each.skew) / LARGE_BEND)
            if abs(bent.skew) < MOST_SKEW:
                bent.bent = t
                found.append(bent)

    def _prune(self, found: list[Hypothesis]) -> None:
        """Keep the best hypotheses, those alike once, few of each change of skew."""
        found.sort(key=_cost)
        apart = 0.4 * self.scatter + 0.5
        kept: list[Hypothesis] = []
        suspected = False
        for each in found:
            alike = 0
            for other in kept:
                if (abs(other.offset - each.offset) < apart
                        and abs(other.skew - each.skew) < 0.1 * apart):
                    alike = 4
                elif other.bent == each.bent:
                    alike += 1
            suspects = bool(kept) and suspected_queue(each, kept[0]) and (
                each.cost < kept[0].cost + PRICE)
            if (alike < 4 and len(kept) < KEPT) or (suspects and not suspected):
                kept.append(each)
                suspected = suspected or suspects
        self._hypotheses = kept

    def _measure_scatter(self, spread: float) -> None:
        """
        Measure the deviation of minima from second differences, most of which load raised.

        The deviation is that of normal deviates with the same percentile.
        """
        count = len(self._minima)
        if self.blocks % 8 and count > 24:
            return
        found, minima = [0.0], list(self._minima)
        for apart in (1, 7, 16):
            sizes = []
            for (t0, y0), (t1, y1), (t2, y2) in zip(
                    minima, minima[apart:], minima[2 * apart:], strict=False):
                share = (t1 - t0) / (t2 - t0)
                sizes.append(abs(y1 - y0 - (y2 - y0) * share) / math.sqrt(
                    1.0 + share * share + (1.0 - share) ** 2))
            if len(sizes) >= 6:
                # Of few minima, low percentiles are too low by chance.
                sizes.sort()
                found.append(sizes[len(sizes) * 60 // 100] / 0.842 if count < 24
                             else sizes[len(sizes) * 30 // 100] / 0.385)
        scatter = max(found) or 0.25 * spread
        if len(self._heights) >= 24 and len(found) > 1:
            # The lowest met no load: normal percentiles 5 and 20 are 0.8 apart, 5 and 40 1.39.
            low = sorted(self._heights)
            many = len(low) >= 48
            gap = low[len(low) // 5 if many else 2 * len(low) // 5] - low[len(low) // 20]
            scatter = min(scatter, 1.5 * gap / (0.8 if many else 1.39))
        # The times are resolved to 1 us; the scatter of few minima is hardly known.
        self.scatter = max(20.0 if count < 12 else 2.0, scatter)

    def _follow_steps(
        self, t: float, height: float, spread: float, wide: float, skew: float,
    ) -> None:
        """
        Remember a step of the minima that neither queueing delay nor a slew explains.

        Frames that wait in step with a poll make such steps when the wait begins anew: the same
        wait may be in the stamps for some time before and after. A longer route makes one.
        Time in which delays spread counts for no slew: near a poll, frames wait for either of two.
        """
        before, height_before = self._calm
        size = abs(height - height_before - skew * (t - before))
        if wide >= LOAD or self._hypotheses[0].falls > 1:
            height = height_before + skew * (t - before)
        elif (size > LARGE_BEND * (t - before) and len(self._minima) > 12
                and queueing_cost(size, spread) > 2.0 * LOAD):
            self.remember(size)
        self._calm = (t, height)

    def remember(self, size: float) -> None:
        """Remember a step of that size (us), which may be queueing delay after all."""
        self._step, self._stepped = max(size, self.remembered()), self.time

    def remembered(self) -> float:
        """Return the size of the latest steps (us)."""
        return self._step if self.time < self._stepped + MEMORY_S else 0.0

    def _measure_fit(
        self, t: float, height: float, before: Hypothesis, variance: float,
    ) -> None:
        """Follow how deep minima are below the envelope, and how well it predicts them."""
        best, dips = self._hypotheses[0], self._dips
        dip = best.offset - height if not best.delayed else -math.inf
        while dips and dips[-1][1] <= dip:
            dips.pop()
        dips.append((t, dip))
        while dips[0][0] < t - MEMORY_S:
            dips.popleft()
        deepest = dips[0][1] - 0.5 * min(math.sqrt(best.p00), self.scatter)
        self.depth = 0.5 * (self.scatter - 2.0) + min(max(deepest, 0.0), 4.0 * self.scatter)
        self._heights.append(height - best.offset)
        if not best.delayed:
            deviation = math.sqrt(before.p00 + variance)
            gain = 1.0 / min(30, self.blocks)
            missed = max(-2.5 * deviation, min(2.5 * deviation, height - before.offset))
            self._fit += gain * ((missed / deviation) ** 2 - self._fit)
            self._lag += gain * (missed - self._lag)
            self._recent.append(height - best.offset)
        # The line may lie below the recent minima, for an earlier deep one.
        below = self.depth + min(self._recent, default=0.0)
        apart = self._distance()
        width = 0.7 + 1.5 * self.scatter * math.sqrt(max(self._fit, 0.05)) + 2.0 * abs(self._lag)
        self.steady = max(below, width + apart)
        self.uncertainty = max(below, width + max(apart, self.remembered()))

    def _distance(self) -> float:
        """Return how far the line may be off until the end of the next block (us)."""
        best, fit = self._hypotheses[0], math.sqrt(max(self._fit, 0.05))
        distance = best.queue
        for each in self._hypotheses:
            deviations = 3.0 * math.sqrt(max(0.0, 1.0 - each.cost / OPEN_COST))
            if suspected_queue(each, best):
                deviations = max(deviations, 0.1)
            if deviations:
                apart = each.offset - best.offset
                later = apart + 2.0 * (each.skew - best.skew)
                distance = max(distance, max(abs(apart), abs(later)) + (
                    deviations * fit * math.sqrt(each.p00 + 2.0 * each.p01 + each.p11)))
        return distance


def suspected_queue(each: Hypothesis, best: Hypothesis) -> bool:
    """Return whether frames were delayed where the best hypothesis sees another skew."""
    return each.delayed > 0 and each.bent < best.bent and best.bent >= 0.0


def _cost(hypothesis: Hypothesis) -> float:
    return hypothesis.cost
