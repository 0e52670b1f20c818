# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Interval statistics of frames during the whole time of the reception.

They use the sender's times only, on which the network and the load of this host have no effect.
"""

from __future__ import annotations

from collections import deque
import math
from typing import NamedTuple

from optitrack_vrpn.sources import Quaternion, Vector
from optitrack_vrpn.stats import frame_interval, missing_frames

#: Chosen: number of stored intervals, 17 s at 240 Hz; it bounds the memory.
_MOST_STEPS = 4096
#: A gap of this time (s) and this number of frames is a silence, a shorter one lost frames.
#: Chosen: networks lose single frames.
_SILENCE_S = 0.1
_SILENCE_FRAMES = 5
#: A time that is this much earlier (ns) or later (s) is from another clock. Chosen as in the
#: validity gate; 60 s exceeds any pause of the reception.
_RESTART_NS = 1_000_000_000
_OTHER_CLOCK_S = 60.0


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
    """Collect the poses of one body, or of all, in bounded memory."""

    __slots__ = (
        '_steps', '_first_ns', '_last_ns', '_pose', '_frames', '_doubled', '_stuck', '_late')

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_MOST_STEPS)
        self._first_ns = self._last_ns = 0
        self._pose: tuple[Vector, Quaternion] | None = None
        self._frames = self._doubled = self._stuck = self._late = 0

    def update(self, time_ns: int, position: Vector, quat_xyzw: Quaternion) -> None:
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
