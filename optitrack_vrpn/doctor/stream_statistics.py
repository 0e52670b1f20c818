# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Count how regularly frames came, all the while: what is well when one looks may not have been.

By the sender's times alone, which no network and no busy host of ours can disturb.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
import math
from typing import NamedTuple

from optitrack_vrpn.vrpn.messages import Quaternion, Vector

#: Steps between frames that are remembered, the latest.
_MOST_STEPS = 4096
#: A hole as long as this, or as so many frames, is a silence and no frames that got lost.
_SILENCE_S = 0.1
_SILENCE_FRAMES = 5
#: A time this much earlier, or later (s), is another clock's.
_RESTART_NS = 1_000_000_000
_OTHER_CLOCK_S = 60.0
#: Steps so near to a multiple of the frame interval fit it; fewer than this share, and nothing
#: can be said of what is missing.
_NEAR = 0.2
_MOST = 0.8


class Intervals(NamedTuple):
    """
    How regularly frames came.

    :ivar frames: frames with a time of their own.
    :ivar interval_s: from one to the next where none is missing (s), 0 where unknown.
    :ivar span_s: from the first to the last (s).
    :ivar missing: frames missing in holes too short to be silences, those that came late not
        among them.
    :ivar silences: longer holes.
    :ivar silent_s: those together (s).
    :ivar longest_s: the longest of them (s).
    :ivar doubled: frames that came again, the same in time and pose.
    :ivar stuck: poses with the time of the one before, but another place or attitude.
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
    """Take the poses of one body, or of all; memory is bounded."""

    __slots__ = (
        '_steps', '_first_ns', '_last_ns', '_pose', '_frames', '_doubled', '_stuck', '_late')

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_MOST_STEPS)
        self._first_ns = self._last_ns = 0
        self._pose: tuple[Vector, Quaternion] | None = None
        self._frames = self._doubled = self._stuck = self._late = 0

    def take(self, time_ns: int, position: Vector, quat_xyzw: Quaternion) -> None:
        """Take a pose and its sender time."""
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

    def pace(self) -> Intervals:
        """Sum up; where steps were forgotten, of those that are remembered."""
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
    Find the time from one frame to the next, be many of them missing.

    :param steps: times between those frames that came (s).
    :returns: it (s), 0 for no steps. The median, or the shorter steps where that is a multiple of
        them.
    """
    ordered = sorted(steps)
    if not ordered:
        return 0.0
    median = ordered[(len(ordered) - 1) // 2]
    least = ordered[len(ordered) // 10]
    short = [step for step in ordered if step <= 1.5 * least]
    single = short[(len(short) - 1) // 2]
    if single < median / 1.5 and _fitting(ordered, single) > _MOST:
        return single
    return median


def _fitting(steps: Sequence[float], interval: float) -> float:
    """Return the share of steps that are about a multiple of an interval."""
    fitting = sum(
        abs(step / interval - max(1, round(step / interval))) < _NEAR for step in steps)
    return fitting / len(steps)


def _missing(steps: Sequence[float], interval: float) -> int:
    """
    Count the frames that are missing.

    Both the holes and the count of frames in the whole time must say so: jitter makes holes that
    short steps make up for, and coarse times a count too small without holes.
    """
    if not steps or _fitting(steps, interval) < _MOST:
        return 0
    holes = sum(max(0, round(step / interval) - 1) for step in steps)
    return max(0, min(holes, round(math.fsum(steps) / interval) - len(steps)))
