# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The times of a body's frames: order, rate, silence."""

from __future__ import annotations

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.track import NEVER_NS
from optitrack_vrpn.stats import FrameRate, GAP_INTERVALS

UNKNOWN_SILENCE_NS = 2_000_000_000
"""
Silence (ns) that makes a body STALE before its rate is known. Chosen: two frames of the slowest
sender that is supported (1 Hz).
"""
EPOCH_STEP_NS = 1_000_000_000
"""
Decrease of the sender time (ns) that is a restart of its clock. Chosen: no network delays frames
by as much.
"""
ROLLBACK_FRAMES = 3
"""
Late frames in a row, in order among themselves, that mean a step back of the sender's clock.
Chosen.
"""
HELD_NS = 1_000_000_000
"""Time (ns) for which poses that have no place in time yet count as heard. Chosen: restarts of a
sender are recognised earlier."""


class FrameTimes:
    """
    Times of the frames of one body.

    :ivar rate: its frame rate by sender time.
    :ivar last_ns: sender time of the last frame (ns), ``-NEVER_NS`` before one.
    :ivar receive_ns: its arrival (ns).
    :ivar heard_ns: arrival (ns) of the last pose that had no place in time yet.
    :ivar good_ns: arrival (ns) of the last valid pose, as far as ``ValidityGate`` stores it.
    :ivar silence_ns: silence (ns) that makes the body STALE.
    :ivar steps_back: number of suspected steps back of the sender's clock that are smaller than a
        restart.
    :ivar late_run: number of late frames in a row, in order.
    :ivar fast_ns: time (ns) after the last pose within which the next may take the fast path of
        ``ValidityGate``; negative: none.
    """

    __slots__ = ('rate', 'last_ns', 'receive_ns', 'heard_ns', 'good_ns', 'silence_ns',
                 'steps_back', 'late_run', 'fast_ns', '_late_ns')

    def __init__(self) -> None:
        self.rate = FrameRate()
        self.last_ns = self.receive_ns = self.heard_ns = self.good_ns = -NEVER_NS
        self.silence_ns = UNKNOWN_SILENCE_NS
        self.steps_back = 0
        self.late_run = 0
        self.fast_ns = -1
        self._late_ns = -NEVER_NS

    def heard(self) -> int:
        """Return the arrival (ns) from which silence is measured."""
        return max(self.receive_ns, min(self.heard_ns, self.receive_ns + HELD_NS))

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

    def is_late(self, now: int) -> bool:
        """Return whether a frame that is not newer than the last one is late, and count it."""
        if self.last_ns - now > EPOCH_STEP_NS:
            return False
        self.late_run = self.late_run + 1 if now > self._late_ns else 1
        self._late_ns = now
        return True

    def ends_step_back(self) -> bool:
        """Return whether the late frames before this one were a step back of the clock."""
        stepped = self.late_run >= ROLLBACK_FRAMES
        self.steps_back += stepped
        self.late_run = 0
        return stepped
