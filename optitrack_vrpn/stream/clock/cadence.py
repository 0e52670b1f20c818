# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The steady rate of the cameras in the sender's times, without its clock's ticks and its jitter.

Cameras expose at a constant rate. A sender whose clock advances in ticks, or whose software stamps
frames late by a random time, sends other times. A straight line of sender time over frame number,
followed by an alpha-beta filter with the gains of least squares (Benedict, Bordner 1962; the
memory grows to ``MEMORY`` frames), recovers the times: their error is that of one time
divided by the square root of the memory.

Frames are counted. A lost frame shows as a step of two intervals or, where a tick is longer than
an interval, as a frame whose time on the line is outside its tick. Where times are not on a
line (a triggered camera, a change of rate, a pause that the sender's clock does not show), they
are not changed until ``COLLECTED`` frames are on one again.

What is added to the times is never negative: the line is laid along their upper side. So the
least of (arrival - time) can only fall when the line is first used, and an estimator that takes
a rise for load follows a fall at once.

Times are integer nanoseconds; those on the line are floats relative to a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any, Final

import numpy as np

MEMORY, COLLECTED = 2400, 128
"""Frames over which the line is averaged (10 s at 240 Hz), and from which it is begun: fewer take
chance for a rate."""
STEADY_NS, NEAR_NS = 30e3, 90e3
"""Times that scatter by less (standard deviation, ns) are left as they are: steps of NatNet's
exposure times scatter by 9 us. Three deviations."""
SLOPE: Final = 140
"""A line over n frames of ticks of k intervals has a slope within 300 ppm from n = 140 sqrt(k)."""
LEAST_TICK_NS, LONGEST_TICK_NS, RESOLUTION_NS = 50e3, 100e6, 10e3
"""Ticks of the clocks of computers are 0.5 to 64 ms; resolution of the times (whole microseconds,
and ticks of 15.625 ms over 16 frames)."""
MOST_SCATTER, MOST_CORRELATED, TOLERANCE = 0.15, 0.5, 0.3
"""Deviation from the line (in intervals), and correlation of successive deviations, of jitter;
distance (in intervals) from its tick within which a frame may be on the line."""
OUTSIDE, BAD, BAD_MOST = 6.0, 3, 60
"""A time so many deviations off the line is not followed, and counts as so many against one on the
line, up to a sum that ends the line."""
GAP_NS: Final = 30_000_000_000
"""Gap after which the line begins again: 10 ppm are a tenth of a frame then (ns)."""


class Cadence:
    """
    Take ticks and jitter out of a sender's times.

    :ivar newest_ns: the newest sender time, -1 before the first.
    :ivar smoothing: whether times are replaced.
    :ivar tick_ns: how the sender's clock advances (ns); 0 where no tick is seen.
    :ivar jitter_ns: standard deviation of the times about the line (ns); NaN without a line.
    :ivar interval_ns: from frame to frame (ns); 0 without a line.
    """

    def __init__(self) -> None:
        self.tick_ns = 0.0
        self.reset()

    def reset(self) -> None:
        """Start again, because the sender's clock has restarted."""
        self.newest_ns = self._placed = -1
        self._begin()

    def _begin(self) -> None:
        """Look for a line."""
        self.smoothing = False
        # The largest step while it is not known whether the times have ticks.
        self._widest = int(self.tick_ns)
        self.tick_ns = self.interval_ns = 0.0
        self.jitter_ns = math.nan
        self._seen: list[int] = []
        self._needed = COLLECTED
        self._zero = 0
        self._phase = self._up = self._half = self._outside = self._var = 0.0
        # One interval while, after a loss, the times also fit another count of frames.
        self._open = 0.0
        self._frames = self._bad = 0
        # Whether the times have neither ticks nor jitter, and are only watched.
        self._quiet = False

    def uncertainty_ns(self, held_ns: float = 0.0) -> float:
        """
        Return the half-width that nearly always contains the error of a time (ns).

        :param held_ns: for how long the offset has not been measured with the times.
        """
        if self.smoothing:
            # The newest end of a line has twice the deviation of a mean; to three deviations.
            # Ticks beat evenly where they are longer than an interval, and cancel sooner.
            wide = 1.6 if self.tick_ns > 0.5 * self.interval_ns else 3.0 if self.tick_ns else 6.0
            # The slope of a line has sqrt(12) times the deviation of its mean, per length.
            return self._open + wide * self.jitter_ns / math.sqrt(self._frames) * (
                1.0 + 2.0 * held_ns / (self._frames * self.interval_ns))
        return 3.0 * self.jitter_ns if self.interval_ns else max(self.tick_ns, self._widest)

    def describe(self) -> tuple[str, str]:
        """Return what is removed from the times: a word for programs, and a text."""
        what, size = 'jitter', f'jitter of {self.jitter_ns / 1e3:.0f} µs'
        if self.tick_ns:
            what, size = 'ticks', f'ticks of {self.tick_ns / 1e6:.3g} ms'
        return what, (f"the sender's times have {size} about a steady rate of "
                      f'{1e9 / self.interval_ns:.2f} Hz; stamps follow that rate')

    def place(self, sender_ns: int) -> int:
        """
        Return a frame's time, later than that of the frame before.

        :param sender_ns: the time as received, later than that of the frame before.
        """
        passed = sender_ns - self.newest_ns
        if (self._quiet and -NEAR_NS < passed - self.interval_ns < NEAR_NS
                and sender_ns > self._placed):
            self.newest_ns = self._placed = sender_ns
            return sender_ns
        self._quiet = False
        # Within a tick that is longer than an interval, lost frames cannot be counted.
        if self.newest_ns >= 0 and (passed > GAP_NS or (
                passed > 3.0 * self.tick_ns > 3.0 * self.interval_ns)):
            self._begin()
        self.newest_ns = sender_ns
        return self._next(sender_ns, passed)

    def place_further(self) -> int | None:
        """Return the time of a further frame of the newest sender time; None without a line."""
        self._quiet = False
        placed = self._next(self.newest_ns, 0)
        return placed if self.smoothing else None

    def _next(self, sender_ns: int, passed: int) -> int:
        """Take the next frame."""
        placed = self._follow(sender_ns) if self.smoothing else self._collect(sender_ns)
        # Never back, and not slower than an eighth of the pace while a line is left. The first
        # frame of a tick is one interval later than the last one of the tick before.
        pace = min(passed, int(self.interval_ns)) if self.smoothing else passed
        placed = max(placed, self._placed + max(1, pace >> 3))
        if passed or self.smoothing:
            self._placed = placed
        return placed

    def _follow(self, sender_ns: int) -> int:
        """Count a frame, let the line follow it, and return the frame's time."""
        interval = self.interval_ns
        expected = self._phase + interval
        off = sender_ns - self._zero - expected
        half = self._half
        if self.tick_ns > interval:
            # The line is not yet where it will be.
            half += self.uncertainty_ns()
        recounted = max(0, math.ceil((abs(off) - half) / interval))
        step = math.copysign(recounted * interval, off)
        expected += step
        off -= step
        if abs(off) <= interval - half:
            self._open = 0.0
        elif recounted and half < interval:
            self._open = interval
        outside = abs(off) > (self._outside or OUTSIDE * self.jitter_ns + 20e3)
        if outside or (recounted and self.tick_ns >= interval):
            self._bad += BAD
            if self._bad > BAD_MOST:
                self._begin()
                return sender_ns
            if outside:
                self._phase = expected
                return sender_ns + round(self._up)
        elif self._bad:
            self._bad -= 1
        self._frames = frames = min(self._frames + 1, MEMORY)
        self._phase = expected + 2.0 * (2 * frames - 1) / (frames * (frames + 1)) * off
        self.interval_ns = interval + 6.0 / (frames * (frames + 1)) * off
        self._var += (off * off - self._var) / 512.0
        self.jitter_ns = math.sqrt(self._var)
        return self._zero + round(self._phase + self._up)

    def _collect(self, sender_ns: int) -> int:
        """Add a frame, and fit a line to the last ones; return the frame's time."""
        seen = self._seen
        if seen and sender_ns - seen[-1] > 1_000_000_000:
            seen.clear()
        if seen and sender_ns - seen[-1] > self._widest and self._needed:
            self._widest = min(sender_ns - seen[-1], int(LONGEST_TICK_NS))
        seen.append(sender_ns)
        if len(seen) < (self._needed or COLLECTED):
            return sender_ns
        self._needed = self._fit()
        if not self._needed:
            self._widest = 0
            self._quiet = self.interval_ns > 0.0 and not self.smoothing
            del seen[:len(seen) if self.interval_ns else len(seen) // 2]
        return self._zero + round(self._phase + self._up) if self.smoothing else sender_ns

    def _fit(self) -> int:
        """Fit a line to the frames that were collected; return how many are needed, 0 if done."""
        seen = self._seen
        self.interval_ns = 0.0
        times = np.array([float(time - seen[0]) for time in seen])
        steps = np.diff(times)
        rising = steps[steps > 0.0]
        if len(rising) < 4:
            return 0
        tick = common_step(rising.tolist())
        counted = np.arange(len(times))
        # With ticks from which single losses cannot be seen, frames are counted without gaps.
        if len(rising) == len(steps) and not (tick and _beats(steps, tick)):
            # ``np.median`` takes 10 ms when it is first called. Ticks of half an interval give
            # single steps of two and of three ticks.
            usual = float(np.sort(steps)[len(steps) // 2])
            single = steps[steps < 1.5 * usual + 0.1 * tick].mean()
            counted[1:] = np.cumsum(np.maximum(np.rint(steps / single), 1.0))
        # Least squares.
        number = counted - counted.mean()
        interval = float(number @ times / (number @ number))
        off = times - times.mean() - interval * number
        deviation = float(off.std())
        ticks = tick > 0.0 and deviation >= STEADY_NS
        self.tick_ns = tick if ticks else 0.0
        if ticks:
            if np.ptp(off) > 1.15 * tick + 0.1e6 or tick > LONGEST_TICK_NS:
                return 0
            if len(seen) < SLOPE * math.sqrt(tick / interval):
                return math.ceil(SLOPE * math.sqrt(tick / interval))
        elif (deviation > MOST_SCATTER * interval or 2.0 * abs(off).max() > interval or (
                deviation >= STEADY_NS and off[1:] @ off[:-1] > MOST_CORRELATED * (off @ off))):
            return 0
        self._zero = seen[0]
        self._phase, self.interval_ns = float(times[-1] - off[-1]), interval
        self._var, self.jitter_ns = deviation * deviation, deviation
        self._frames, self._bad = len(seen), 0
        self._up = tick / 2.0 if ticks else float(off.max())
        self._half = max(interval / 2.0, tick / 2.0 + TOLERANCE * interval if ticks else 0.0)
        # Times with ticks are within one tick of the line, for any deviation.
        self._outside = max(0.6 * tick + 0.1e6, self._half if tick > 0.4 * interval else 0.0) if (
            ticks) else 0.0
        self.smoothing = deviation >= STEADY_NS
        return 0


def common_step(steps: Sequence[float]) -> float:
    """
    Return the step of which all are multiples to within the resolution of the times (ns).

    :returns: 0 where there is none of at least 0.05 ms.
    """
    step = min(steps)
    at = 0
    while at < len(steps):
        rest = steps[at] % step
        rest = min(rest, step - rest)
        at += 1
        if rest > RESOLUTION_NS:
            step, at = rest, 0
        if step < LEAST_TICK_NS:
            return 0.0
    return math.fsum(steps) / math.fsum(round(each / step) for each in steps)


def _beats(steps: Any, tick: float) -> bool:
    """
    Return whether steps of one and of two ticks alternate with a regular period.

    Frames at 60 Hz of a clock with 64 ticks a second do, evenly. Losses do not.
    """
    (long,) = np.nonzero(steps > 1.5 * tick)
    return bool(len(long) >= 4 and steps.max() <= 2.5 * tick and np.ptp(np.diff(long)) <= 1)
