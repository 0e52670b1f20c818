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
are not changed until ``_COLLECTED`` frames are on one again.

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

MEMORY = 2400
"""
Frames over which the line is averaged: 10 s at 240 Hz. Chosen: half of it makes 1.4 times the
error of jitter, twice as much follows a change of the clocks' rates half as fast.
"""
STEADY_NS = 30e3
"""
Times that scatter by less (standard deviation, ns) are left as they are. Chosen: three times the
9 us that steps of NatNet's exposure times scatter by; below it
there is little to gain. Half of it replaces such times, twice as much leaves 60 us in.
"""
_COLLECTED: Final = 128
"""Frames from which a line is begun. Chosen: 0.5 s at 240 Hz; half of it takes chance for a rate,
twice as many leave ticks in the stamps for 1 s."""
_LEAST_TICK_NS, _LONGEST_TICK_NS = 50e3, 100e6
"""Ticks that are recognised. Chosen: smaller ones disturb no stamp, and no clock has longer ones;
half or twice of either changes nothing for the clocks of computers (0.5 to 15.6 ms)."""
_RESOLUTION_NS = 10e3
"""Difference of a time from a multiple of the tick. Chosen: times are sent in whole microseconds,
and a tick need not be a whole number of them; half of it misses ticks of 15.625 ms over 16 frames,
twice as much takes jitter for ticks."""
_MOST_SCATTER = 0.15
"""Standard deviation (in intervals) beyond which times are on no line. Chosen: six of them are an
interval; half of it leaves jitter of 0.4 ms at 240 Hz in, twice as much counts frames wrongly."""
_MOST_CORRELATED = 0.5
"""Correlation of successive residuals beyond which they are no jitter: intervals change. Chosen:
jitter has 0; half of it takes chance for a trigger, twice as much never sees one."""
_TOLERANCE = 0.3
"""Distance (in intervals) from its tick within which a frame may be on the line before the count
is wrong. Chosen: the count is ambiguous from 0.5; half of it counts jitter as loss, twice as much
hides losses."""
_OUTSIDE = 6.0
"""Standard deviations off the line at which a time is not followed, and left unchanged. Chosen:
one in 10^9; half of it leaves one frame in 400 out, twice as much follows stalls of the sender."""
_CHANGED_NS: Final = 90e3
"""A step that differs from the interval by more shows that a sender without ticks and jitter may
have them now. Chosen: three times ``STEADY_NS``; half of it examines the times of NatNet all the
time, twice as much misses jitter of 50 us that begins later."""
_BAD, _BAD_MOST = 3, 60
"""Weight of a frame off the line against one on it, and the sum that ends the line. Chosen: 20
frames in a row, or one of four; half of the sum ends lines in a stall, twice as much keeps a wrong
rate for 40 frames."""
_LONGEST_GAP_NS: Final = 30_000_000_000
"""Gap after which the line begins again. Chosen: 10 ppm are a tenth of a frame then; half of it
begins again too often, twice as much may count frames wrongly."""


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
        self.newest_ns = self._placed = -1
        self._begin()

    def _begin(self) -> None:
        """Look for a line."""
        self.smoothing = False
        self.tick_ns = self.interval_ns = 0.0
        self.jitter_ns = math.nan
        self._seen: list[int] = []
        self._zero = 0
        self._phase = self._up = self._half = self._outside = self._var = 0.0
        self._frames = self._bad = 0
        # Whether the times have neither ticks nor jitter, and are only watched.
        self._quiet = False

    def reset(self) -> None:
        """Start again, because the sender's clock has restarted."""
        self.newest_ns = self._placed = -1
        self._begin()

    def uncertainty_ns(self) -> float:
        """Return the half-width that nearly always contains the error of a time (ns)."""
        if self.smoothing:
            # The newest end of a line has twice the deviation of a mean; to three deviations.
            # Ticks beat evenly where they are longer than an interval, and cancel sooner.
            wide = 1.6 if self.tick_ns > 0.5 * self.interval_ns else 3.0 if self.tick_ns else 6.0
            return wide * self.jitter_ns / math.sqrt(self._frames)
        return 3.0 * self.jitter_ns if self.interval_ns else self.tick_ns

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
        if (-_CHANGED_NS < passed - self.interval_ns < _CHANGED_NS and self._quiet
                and sender_ns > self._placed):
            self.newest_ns = self._placed = sender_ns
            return sender_ns
        self._quiet = False
        # Within a tick that is longer than an interval, lost frames cannot be counted.
        if self.newest_ns >= 0 and (passed > _LONGEST_GAP_NS or (
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
        placed = sender_ns
        if self.smoothing:
            placed = self._follow(sender_ns)
        elif self._collect(sender_ns):
            placed = self._on_line()
        # Never back, and not slower than an eighth of the pace while a line is left. The first
        # frame of a tick is one interval later than the last one of the tick before.
        pace = min(passed, int(self.interval_ns)) if self.smoothing else passed
        least = self._placed + max(1, pace >> 3)
        if placed < least:
            placed = least
        if passed or self.smoothing:
            self._placed = placed
        return placed

    def _on_line(self) -> int:
        return self._zero + round(self._phase + self._up)

    # -- with a line ---------------------------------------------------------------------------

    def _follow(self, sender_ns: int) -> int:
        """Count a frame, let the line follow it, and return the frame's time."""
        interval = self.interval_ns
        expected = self._phase + interval
        off = sender_ns - self._zero - expected
        recounted = 0
        half = self._half
        if self.tick_ns > interval:
            # The line is not yet where it will be.
            half += self.uncertainty_ns()
        if not -half <= off <= half:
            recounted = math.ceil((abs(off) - half) / interval)
            step = recounted * interval if off > 0.0 else -recounted * interval
            expected += step
            off -= step
        outside = abs(off) > (self._outside or _OUTSIDE * self.jitter_ns + 20e3)
        if outside or (recounted and self.tick_ns >= interval):
            self._bad += _BAD
            if self._bad > _BAD_MOST:
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
        return self._on_line()

    # -- without -------------------------------------------------------------------------------

    def _collect(self, sender_ns: int) -> bool:
        """Add a frame; fit a line to the last ones; return whether it takes their place."""
        seen = self._seen
        if seen and sender_ns - seen[-1] > 1_000_000_000:
            seen.clear()
        seen.append(sender_ns)
        if len(seen) == _COLLECTED:
            self._lay()
            self._quiet = self.interval_ns > 0.0 and not self.smoothing
            del seen[:len(seen) if self._quiet else _COLLECTED // 2]
        return self.smoothing

    def _lay(self) -> None:
        seen = self._seen
        self.interval_ns = 0.0
        times = np.array([float(time - seen[0]) for time in seen])
        steps = np.diff(times)
        rising = steps[steps > 0.0]
        if len(rising) < 4:
            return
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
            if np.ptp(off) > 1.15 * tick + 0.1e6 or tick > _LONGEST_TICK_NS:
                return
        elif deviation > _MOST_SCATTER * interval or 2.0 * abs(off).max() > interval:
            return
        elif deviation >= STEADY_NS and off[1:] @ off[:-1] > _MOST_CORRELATED * (off @ off):
            return
        self._zero = seen[0]
        self._phase, self.interval_ns = float(times[-1] - off[-1]), interval
        self._var, self.jitter_ns = deviation * deviation, deviation
        self._frames = len(seen)
        self._up = tick / 2.0 if ticks else float(off.max())
        self._half = max(interval / 2.0, tick / 2.0 + _TOLERANCE * interval if ticks else 0.0)
        # Times with ticks are within one tick of the line, for any deviation.
        self._outside = max(0.6 * tick + 0.1e6, self._half if tick > 0.4 * interval else 0.0) if (
            ticks) else 0.0
        self._bad = 0
        self.smoothing = deviation >= STEADY_NS


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
        if rest > _RESOLUTION_NS:
            step, at = rest, 0
        if step < _LEAST_TICK_NS:
            return 0.0
    return math.fsum(steps) / math.fsum(round(each / step) for each in steps)


def _beats(steps: Any, tick: float) -> bool:
    """
    Return whether steps of one and of two ticks alternate with a regular period.

    Frames at 60 Hz of a clock with 64 ticks a second do, evenly. Losses do not.
    """
    (long,) = np.nonzero(steps > 1.5 * tick)
    return bool(len(long) >= 4 and steps.max() <= 2.5 * tick and np.ptp(np.diff(long)) <= 1)
