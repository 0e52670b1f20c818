# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rates, gaps and percentiles: of a running stream, of a window, of a set of values.

``Window`` keeps the last values; ``spread`` describes a set of values. ``frame_interval`` is the
one definition of the frame interval, ``missing_frames`` that of missing frames, and
``IntervalStatistics`` that of silences; ``bodies.FrameRate`` begins with them. ``usual_step`` is
the interval of what was received. numpy is imported by the functions for arrays only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
import math
from typing import Any, NamedTuple

GAP_INTERVALS = 1.5
"""
Frame intervals between two frames above which a frame is missing: the middle between one and two.
"""
_TOLERANCE = 0.2
"""Part of the frame interval by which a step may differ from a multiple of it."""
_ENOUGH_FITTING = 0.8
"""Share of the steps that must be such multiples; else missing frames are not counted. Chosen."""
_OTHER_CLOCK_S = 60.0
"""
Median age, or step forward, (s) above which stamps are on another clock. Chosen: larger than any
latency and any pause of the reception.
"""
_RESTART_NS = 1_000_000_000
"""Step back (ns) that means another clock. Chosen as in the validity gate."""
_SILENCE_S, _SILENCE_FRAMES = 0.1, 5
"""A gap of this time (s) and of these frames is a silence, a shorter one lost frames. Chosen."""


class Percentiles(NamedTuple):
    """Median, 99th percentile and largest value; NaN without values."""

    p50: float
    p99: float
    largest: float


class Window:
    """A sliding window over so many last values."""

    __slots__ = ('_values', '_size', '_next')

    def __init__(self, size: int = 512) -> None:
        self._values: list[float] = []
        self._size = size
        self._next = 0

    def add(self, value: float) -> None:
        """Add one value; it replaces the oldest in a full window."""
        if len(self._values) < self._size:
            self._values.append(value)
        else:
            self._values[self._next] = value
            self._next = (self._next + 1) % self._size

    def percentiles(self) -> Percentiles:
        """Compute the percentiles of the window (nearest rank)."""
        if not self._values:
            return Percentiles(math.nan, math.nan, math.nan)
        ordered = sorted(self._values)
        last = len(ordered) - 1
        return Percentiles(ordered[last // 2], ordered[math.ceil(0.99 * last)], ordered[last])


def frame_interval(steps: Iterable[float]) -> float:
    """
    Find the frame interval, even if many frames are missing.

    :param steps: intervals between received frames, none of them negative.
    :returns: the interval, 0 without steps: the median, or a shorter one of which most steps are
        multiples.
    """
    return _interval_of(sorted(steps), share_fitting)


def array_interval(steps: Any) -> float:
    """Find the frame interval of an array: ``frame_interval`` of millions of steps, by numpy."""
    import numpy as np

    def share_of_array(steps: Any, interval: float) -> float:
        ratio = steps / interval
        return float((np.abs(ratio - np.maximum(1.0, np.rint(ratio))) < _TOLERANCE).mean())
    ordered: Any = np.sort(np.asarray(steps, dtype=float))    # whole numbers are no floats
    return _interval_of(ordered, share_of_array)


def usual_step(stamps: Any) -> float:
    """
    Return the usual time from one received sample to the next: the median of an array's steps.

    It is that of the sender's frames unless most of them are lost. Gaps of what was received are
    longer than multiples of it.

    :returns: 0 for fewer than two samples.
    """
    import numpy as np
    return float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0


def _interval_of(
    ordered: Sequence[float], share: Callable[[Sequence[float], float], float],
) -> float:
    """Find the frame interval of steps in rising order; ``share`` is that of ``share_fitting``."""
    count = len(ordered)
    if not count:
        return 0.0
    median, least, long = ordered[(count - 1) // 2], ordered[count // 10], ordered[9 * count // 10]
    single = ordered[(bisect_right(ordered, 1.5 * least) - 1) // 2]
    # Half of the frames lost at random leave a quarter of the steps three intervals long or
    # longer; ticks of a coarse clock give steps of one and two ticks only.
    if 0.0 < single < median / 1.5 and long > 2.5 * single and (
            share(ordered, single) > _ENOUGH_FITTING):
        return single
    return median


def missing_frames(steps: Sequence[float], interval: float) -> int:
    """
    Count the frames that are missing.

    The smaller of two counts: missing frames in gaps, and missing frames in the whole time. Jitter
    makes gaps that short intervals compensate; coarse times reduce the count without gaps.

    :param steps: intervals between received frames.
    :param interval: the frame interval.
    """
    if not steps or share_fitting(steps, interval) < _ENOUGH_FITTING:
        return 0
    in_gaps = sum(max(0, round(step / interval) - 1) for step in steps)
    return max(0, min(in_gaps, round(math.fsum(steps) / interval) - len(steps)))


def share_fitting(steps: Sequence[float], interval: float) -> float:
    """Return the share of steps that are about a multiple of an interval."""
    fitting = sum(
        abs(step / interval - max(1, round(step / interval))) < _TOLERANCE for step in steps)
    return fitting / len(steps)


class Intervals(NamedTuple):
    """
    Interval statistics.

    :ivar frames: frames with distinct times.
    :ivar interval_s: interval of successive frames (s), 0 if unknown.
    :ivar span_s: time from the first to the last (s).
    :ivar missing: frames missing in short gaps, without those that arrived late.
    :ivar silences: number of longer gaps.
    :ivar silent_s: their sum (s).
    :ivar longest_s: the longest of them (s).
    :ivar doubled: frames that arrived again with equal time and pose.
    :ivar stuck: poses with the time of the one before, but another position or attitude.
    :ivar late: poses with an earlier time than the one before.
    :ivar first_ns: the first sender time (ns).
    :ivar silence_s: begin of the first silence (s, from the first frame); NaN without one.
    """

    frames: int = 0
    interval_s: float = 0.0
    span_s: float = 0.0
    missing: int = 0
    silences: int = 0
    silent_s: float = 0.0
    longest_s: float = 0.0
    doubled: int = 0
    stuck: int = 0
    late: int = 0
    first_ns: int = 0
    silence_s: float = math.nan


class IntervalStatistics:
    """Collect the sender's times of the poses of one body, or of all, in bounded memory."""

    __slots__ = (
        '_steps', '_first_ns', '_last_ns', '_pose', '_frames', '_doubled', '_stuck', '_late')

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=4096)    # 17 s at 240 Hz
        self._first_ns = self._last_ns = 0
        self._pose: tuple[Sequence[float], Sequence[float]] | None = None
        self._frames = self._doubled = self._stuck = self._late = 0

    def update(self, time_ns: int, position: Sequence[float], quat_xyzw: Sequence[float]) -> None:
        """Add a pose and its sender time."""
        pose = position, quat_xyzw
        step = time_ns - self._last_ns
        if self._frames and -_RESTART_NS <= step <= 0:
            if step:
                self._late += 1
            elif pose == self._pose:
                self._doubled += 1
            else:
                self._stuck += 1
                self._pose = pose
            return
        if not self._frames:
            self._first_ns = time_ns
        elif step > 0:
            self._steps.append(step)
        self._frames += 1
        self._last_ns, self._pose = time_ns, pose

    def intervals(self) -> Intervals:
        """Return the statistics of the stored intervals."""
        steps = [step * 1e-9 for step in self._steps if step < _OTHER_CLOCK_S * 1e9]
        interval = frame_interval(steps)
        longest = max(_SILENCE_S, _SILENCE_FRAMES * interval)
        silences = [step for step in steps if step > longest]
        missing = missing_frames([step for step in steps if step <= longest], interval)
        return Intervals(
            self._frames, interval, math.fsum(steps), max(0, missing - self._late),
            len(silences), math.fsum(silences), max(silences, default=0.0), self._doubled,
            self._stuck, self._late, self._first_ns,
            math.fsum(steps[:steps.index(silences[0])]) if silences else math.nan)


class Spread(NamedTuple):
    """Statistics of a set of values; all NaN for an empty set."""

    mean: float
    std: float
    minimum: float
    median: float
    p99: float
    maximum: float


def spread(values: Any) -> Spread:
    """Compute the statistics of a sequence or array of values."""
    import numpy as np
    values = np.asarray(values, dtype=float)
    if not len(values):
        return Spread(*[math.nan] * 6)
    return Spread(
        float(values.mean()), float(values.std()), float(values.min()), float(np.median(values)),
        float(np.percentile(values, 99)), float(values.max()))
