# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a body's frame rate, and count missing frames and discontinuities."""

from __future__ import annotations

from optitrack_vrpn.bodies.config import BodyConfig

NEVER_NS = 1 << 62
"""Longer than any time (ns); negated, earlier than any time."""
UNKNOWN_SILENCE_NS = 2_000_000_000
"""
Silence (ns) that makes a body STALE before its rate is known. Chosen: two frames of the slowest
sender that is supported (1 Hz). Halved, such a sender is STALE between its first frames; doubled,
a body that is lost at once is noticed later.
"""
GAPS_TO_NEW_RATE = 8
"""
Gaps in a row that mean a slower sender. Chosen: at 30 % loss, one run of 8 lost frames in 15 000.
Halved, heavy loss changes the rate; doubled, a slower sender is STALE for twice as long.
"""
RATE_GAIN = 0.1
"""
Weight of a new interval in the mean, for frames that take the full check. Chosen: a mean over ten
frames. Halved, the rate follows more slowly; doubled, it has more noise.
"""
GAP_INTERVALS = 1.5
"""
Frame intervals between two frames above which a frame is missing: the middle between one and two.
Halved, each frame follows a gap; doubled, single lost frames are not counted.
"""


class FrameStatistics:
    """
    Statistics of the frames of one body.

    :ivar config: the thresholds.
    :ivar resets: discontinuities so far, see ``BodyStatus``.
    :ivar good: poses that passed so far.
    """

    __slots__ = (
        'config', 'resets', 'good', '_fast_ns', '_silence_ns', '_interval', '_gaps', '_lost',
        '_gap_run', '_gap_at')

    def __init__(self, config: BodyConfig) -> None:
        self.config = config
        self.resets = 0
        self.good = 0
        # Time (ns) after the last pose within which the next may take the fast path; negative: no.
        self._fast_ns = -1
        self._silence_ns = UNKNOWN_SILENCE_NS
        self._interval = 0.0
        self._gaps = self._lost = self._gap_run = 0
        self._gap_at = -2

    @property
    def rate_hz(self) -> float:
        """Return the body's own frame rate by sender time (Hz); 0 when not known yet."""
        return 1e9 / self._interval if self._interval > 0.0 else 0.0

    def _measure_silence(self) -> None:
        """Determine the silence (ns) that makes the body STALE."""
        config = self.config
        if config.stale_after_s > 0:
            self._silence_ns = round(
                max(config.stale_after_s * 1e9, GAP_INTERVALS * self._interval))
        elif config.stale_frames <= 0:
            self._silence_ns = NEVER_NS
        elif self._interval > 0.0:
            self._silence_ns = round(
                max(config.stale_min_s * 1e9, config.stale_frames * self._interval))
        else:
            self._silence_ns = UNKNOWN_SILENCE_NS
        if self._fast_ns >= 0:
            self._fast_ns = self._silence_ns

    def _measure_interval(self, dt: int, silent: bool = False) -> None:
        """
        Update the frame interval from a frame that took the full check; count missing frames.

        :param dt: time since the frame before (ns).
        :param silent: whether the body was silent meanwhile; then no frame is counted as missing.
        """
        if self._interval <= 0.0 or (not self.good and 2.0 * dt < self._interval):
            # Until the body is TRACKED: the first interval may have been a gap.
            self._interval = float(dt)
            self._measure_silence()
        elif dt < GAP_INTERVALS * self._interval:
            self._interval += RATE_GAIN * (dt - self._interval)
        else:
            self._gap_run = self._gap_run + 1 if self.good <= self._gap_at + 1 else 1
            self._gap_at = self.good
            if not silent:
                self._gaps += 1
                if dt < self.config.memory_s * 1e9:
                    self._lost += round(dt / self._interval) - 1
            if self._gap_run >= GAPS_TO_NEW_RATE:
                self._interval = float(dt)
                self._measure_silence()
