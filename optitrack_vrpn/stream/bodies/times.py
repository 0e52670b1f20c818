# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The times of a body's frames: order, rate, gaps, missing frames, silence."""

from __future__ import annotations

import math
from typing import NamedTuple

from optitrack_vrpn.core.stats import (
    frame_interval, GAP_INTERVALS, missing_frames, share_fitting)
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import NEVER_NS

UNKNOWN_SILENCE_NS = 2_000_000_000
"""
Silence (ns) that makes a body STALE before its rate is known. Chosen: two frames of the slowest
sender that is supported (1 Hz).
"""
SETTLE_FRAMES = 16
"""
Frames after a gap until the frames missing in it are counted. Of 16 frames, each late by up to one
interval, at least one is late by less than half of it (in all but 0.002 % of cases).
"""
_FIRST_IRREGULAR = 64
"""Frames from which the interval of a sender without regular times is first measured."""
_RATE_GAIN = 1 / 64
"""Share of a correction of the phase by which the interval is corrected: damping 0.7."""


class Epoch(NamedTuple):
    """
    The begin of a sender's clock that was restarted or set.

    :ivar time_ns: a time of the new clock (ns).
    :ivar arrival_ns: arrival (ns) of the frame that has this time.
    """

    time_ns: int
    arrival_ns: int


class FrameRate:
    """
    Follow the frame interval of a stream, and count gaps and missing frames.

    It begins with ``core.stats.frame_interval`` and ``missing_frames`` of the first frames. From
    then on it corrects the interval with each frame: the gate needs it at once, and to compute it
    anew from many intervals would take longer than the rest of the gate.

    Frames are counted against time, not per interval: a frame is expected one interval after the
    last, and its lateness is the time since then. Frames that catch up bring the lateness back to
    0; lost ones do not. What is left of it after ``SETTLE_FRAMES`` is a number of lost frames, and
    a rest by which phase and interval are corrected. Without a gap there is no lost frame.

    Limits: at jitter above half an interval and losses above a few percent, or jitter from 0.08
    intervals on and losses above 20 percent, too few are counted; regular ticks that look like a
    faster sender with losses (60 Hz in ticks of 1/64 s) count as such; a sender that stalls among
    its first 64 frames can have a wrong interval for minutes.

    :ivar interval: mean frame interval (ns), 0 when not known yet.
    :ivar gaps: number of intervals longer than ``GAP_INTERVALS``.
    :ivar lost: number of missing frames, ``SETTLE_FRAMES`` later.
    """

    __slots__ = ('interval', 'gaps', 'lost', '_run', '_late', '_least', '_mark', '_age', '_open',
                 '_silent', '_first', '_spread')

    def __init__(self) -> None:
        self.interval = 0.0
        self.gaps = self.lost = 0
        self._start(0.0)

    def _start(self, interval: float) -> None:
        """Begin with an interval (ns)."""
        self.interval = interval
        self._run = 0    # gaps in a row
        # Lateness (ns): now, the least and the largest since the last correction.
        self._late = self._least = self._mark = 0.0
        # Frames since then.
        self._age = 0
        # Frames that fit into the gaps since, and those of them in which the sender was silent.
        self._open = self._silent = 0
        # Mean distance (intervals) of the frames after gaps from a multiple of the interval.
        self._spread = 0.0
        # The first intervals, until there are enough of them.
        self._first: list[float] | None = []

    @property
    def rate_hz(self) -> float:
        """Return the frame rate (Hz); 0 when not known yet."""
        return 1e9 / self.interval if self.interval > 0.0 else 0.0

    def follow(self, dt: int) -> None:
        """Process the time (ns) between two frames that is no gap."""
        self._run = 0
        if self._first is not None:
            self._first.append(float(dt))
            self.interval = frame_interval(self._first)
            if len(self._first) in (SETTLE_FRAMES, _FIRST_IRREGULAR):
                self._begin(self._first)
            return
        interval = self.interval
        late = self._late + (dt - interval)
        if late < 0.0:
            self.interval += _RATE_GAIN * late
            late = 0.0
        self._late = late
        if late < self._least:
            self._least = late
        if late > self._mark:
            self._mark = late
        elif late < self._mark - GAP_INTERVALS * interval:
            # Frames that were held arrive at once.
            self._mark = self._least = late
            self._age = 0
            return
        self._age += 1
        if self._age >= SETTLE_FRAMES:
            self._settle()

    def _begin(self, first: list[float]) -> None:
        """Take the interval from the first intervals (ns)."""
        interval = frame_interval(first)
        whole = math.fsum(first)
        if 2.0 * interval * len(first) > whole and share_fitting(first, interval) == 1.0:
            interval = whole / sum(max(1, round(step / interval)) for step in first)
        elif len(first) < _FIRST_IRREGULAR:
            return
        else:
            interval = whole / len(first)
        self.interval = interval
        self.lost += missing_frames(first, interval)
        self._first = None

    def _settle(self) -> None:
        """Divide the lateness into lost frames and a correction."""
        interval = self.interval
        lost = min(round(self._least / interval), self._open)
        silent = min(lost, self._silent)
        self.lost += lost - silent
        self._silent -= silent
        self._open -= lost
        # Share of the remaining lateness by which the phase is corrected.
        rest = 0.5 * (self._least - lost * interval)
        self._late -= lost * interval + rest
        if self._late < 0.5 * interval:
            self._open = self._silent = 0
        # Mean distance (intervals) from a multiple of the interval, after gaps, of regular times.
        if self._spread > 0.2:
            # Share of a lost frame by which a sender without regular times counts as slower: a
            # wrong interval then does not persist.
            rest += 0.1 * (lost - silent) * interval
        self.interval += _RATE_GAIN * min(rest, interval)
        self._least = self._mark = self._late
        self._age = 0

    def update(self, dt: int, good: int, longest_ns: float, silent: bool = False) -> bool:
        """
        Process the time between two frames.

        :param dt: time (ns).
        :param good: number of good frames so far.
        :param longest_ns: gaps of this time (ns) contain no frames that count as missing.
        :param silent: whether the sender was silent meanwhile; then no frame is missing.
        :returns: whether the interval has been set anew.
        """
        if self.interval <= 0.0 or (not good and 2.0 * dt < self.interval):
            # In the beginning the first interval may have been a gap.
            self._start(float(dt))
            return True
        if dt < GAP_INTERVALS * self.interval:
            self.follow(dt)
            return False
        run = self._run + 1
        if not silent:
            self.gaps += 1
        # Gaps in a row that mean a slower sender. Chosen: at 30 % loss, one run of 8 lost frames
        # in 15 000.
        if run >= 8:
            self._start(float(dt))
            return True
        silent = silent or dt >= longest_ns
        if self._first is None:
            frames = round(dt / self.interval) - 1
            self._open += frames
            if silent:
                self._silent += frames
            late = (self._late + dt) / self.interval
            # Weight of one gap in this mean.
            self._spread += 0.1 * (abs(late - round(late)) - self._spread)
        if self._first is None or not silent:
            self.follow(dt)
        self._run = run
        return False


class BodyTimes:
    """
    Times of the frames of one body.

    :ivar rate: its frame rate by sender time.
    :ivar last_ns: sender time of the last frame (ns), ``-NEVER_NS`` before one.
    :ivar receive_ns: its arrival (ns).
    :ivar heard_ns: arrival (ns) of the last pose that had no place in time yet.
    :ivar good_ns: arrival (ns) of the last valid pose, as far as ``Tracker`` stores it.
    :ivar silence_ns: silence (ns) that makes the body STALE.
    :ivar fast_ns: time (ns) after the last pose within which the next may take the fast path of
        ``Tracker``; negative: none.
    """

    __slots__ = ('rate', 'last_ns', 'receive_ns', 'heard_ns', 'good_ns', 'silence_ns',
                 'fast_ns')

    def __init__(self) -> None:
        self.rate = FrameRate()
        self.last_ns = self.receive_ns = self.heard_ns = self.good_ns = -NEVER_NS
        self.silence_ns = UNKNOWN_SILENCE_NS
        self.fast_ns = -1

    def heard(self) -> int:
        """Return the arrival (ns) from which silence is measured."""
        # Time (ns) for which poses that have no place in time yet count as heard. Chosen: restarts
        # of a sender are recognised earlier.
        return max(self.receive_ns, min(self.heard_ns, self.receive_ns + 1_000_000_000))

    def measure_silence(self, config: BodyConfig) -> None:
        """Determine the silence that makes the body STALE."""
        interval = self.rate.interval
        if config.stale_after_s > 0:
            self.silence_ns = round(max(config.stale_after_s * 1e9, GAP_INTERVALS * interval))
        elif config.stale_frames <= 0:
            self.silence_ns = NEVER_NS
        elif interval > 0.0:
            self.silence_ns = round(
                max(config.stale_min_s * 1e9, config.stale_frames * interval))
        else:
            self.silence_ns = UNKNOWN_SILENCE_NS
