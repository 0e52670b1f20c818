# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Interval statistics of frames during the whole time of the reception.

They use the sender's times only, on which the network and the load of this host have no effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
import math
from typing import NamedTuple

from optitrack_vrpn.vrpn.messages import Quaternion, Vector

#: Chosen: number of stored intervals, 17 s at 240 Hz; it bounds the memory. Halved, longer runs
#: use their end only.
_MOST_STEPS = 4096
#: A gap of this time (s) and this number of frames is a silence, a shorter one lost frames.
#: Chosen: networks lose single frames. Halved, bursts of losses are silences; doubled, short
#: occlusions count as losses.
_SILENCE_S = 0.1
_SILENCE_FRAMES = 5
#: A time that is this much earlier (ns) or later (s) is from another clock. Chosen as in the
#: validity gate; 60 s exceeds any pause of the reception. Halved or doubled: smaller or larger
#: steps only.
_RESTART_NS = 1_000_000_000
_OTHER_CLOCK_S = 60.0
#: An interval fits if it is this close to a multiple of the frame interval; if fewer than the
#: share ``_ENOUGH_FITTING`` fit, missing frames are not counted. Chosen. Halved, sender jitter
#: prevents the count; doubled, jitter is counted as missing frames.
_TOLERANCE = 0.2
_ENOUGH_FITTING = 0.8


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


class IntervalStatistics:
    """Collect the poses of one body, or of all, in bounded memory."""

    __slots__ = (
        '_steps', '_first_ns', '_last_ns', '_pose', '_frames', '_doubled', '_stuck', '_late')

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_MOST_STEPS)
        self._first_ns = self._last_ns = 0
        self._pose: tuple[Vector, Quaternion] | None = None
        self._frames = self._doubled = self._stuck = self._late = 0

    def take(self, time_ns: int, position: Vector, quat_xyzw: Quaternion) -> None:
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
        missing = _missing([step for step in steps if step <= longest], interval)
        return Intervals(
            self._frames, interval, math.fsum(steps), max(0, missing - self._late),
            len(silences), math.fsum(silences), max(silences, default=0.0), self._doubled,
            self._stuck, self._late, self._first_ns)


def frame_interval(steps: Iterable[float]) -> float:
    """
    Find the frame interval, even if many frames are missing.

    :param steps: intervals between received frames (s).
    :returns: the interval (s), 0 without steps: the median, or a shorter one of which most steps
        are multiples.
    """
    ordered = sorted(steps)
    if not ordered:
        return 0.0
    median = ordered[(len(ordered) - 1) // 2]
    least = ordered[len(ordered) // 10]
    short = [step for step in ordered if step <= 1.5 * least]
    single = short[(len(short) - 1) // 2]
    if single < median / 1.5 and _fitting(ordered, single) > _ENOUGH_FITTING:
        return single
    return median


def _fitting(steps: Sequence[float], interval: float) -> float:
    """Return the share of steps that are about a multiple of an interval."""
    fitting = sum(
        abs(step / interval - max(1, round(step / interval))) < _TOLERANCE for step in steps)
    return fitting / len(steps)


def _missing(steps: Sequence[float], interval: float) -> int:
    """
    Count the frames that are missing.

    The smaller of two counts: missing frames in gaps, and missing frames in the whole time. Jitter
    makes gaps that short intervals compensate; coarse times reduce the count without gaps.
    """
    if not steps or _fitting(steps, interval) < _ENOUGH_FITTING:
        return 0
    in_gaps = sum(max(0, round(step / interval) - 1) for step in steps)
    return max(0, min(in_gaps, round(math.fsum(steps) / interval) - len(steps)))
