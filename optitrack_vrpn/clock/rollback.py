# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Distinguish a sender whose time fell from a network that repeats and reorders."""

from __future__ import annotations

ROLLBACK_NS = 200_000_000
"""A sender's time has fallen if frames continue from there for this long. Chosen: longer than
networks repeat a sequence of frames; half of it takes repeats for restarts, twice as much
withholds poses for 0.4 s after one."""
_SLACK_NS = 50_000_000
"""Limit of the difference between the time of the arrivals and of the sender, beside a quarter of
the former. Chosen: ten times the jitter of WiFi; half of it misses restarts on it, twice as much
accepts bursts."""
_LEAST_NS = 20_000_000
"""Smallest fall that is recognised after frames have passed the newest one. Chosen: the limit of
overtaking in a LAN; half of it takes overtaken frames for a restart, twice as much misses clocks
that are set back by 30 ms."""


class RollbackCandidate:
    """
    Frames that continue from below the newest one.

    Repeated and overtaken frames arrive among newer ones, and delayed ones arrive faster than they
    were sent. A sender whose clock went back continues below the newest frame at its normal rate
    and, after a small step, past it: as late as before, minus the step.

    :param newest_ns: sender time of the newest frame (ns).
    :param sender_time_ns: that of the first frame that is not newer (ns).
    :param arrival_ns: its arrival (ns).
    :param waited_ns: time from the arrival of the newest frame to this one (ns).
    :ivar fell_ns: how far sender time fell (ns).
    :ivar steady: whether the last frame continued the sequence.
    """

    __slots__ = ('fell_ns', 'steady', '_newest', '_first', '_begun', '_top', '_lags')

    def __init__(
        self, newest_ns: int, sender_time_ns: int, arrival_ns: int, waited_ns: int,
    ) -> None:
        self.fell_ns = newest_ns - sender_time_ns
        self.steady = False
        self._newest = newest_ns
        self._first = self._top = sender_time_ns
        self._begun = arrival_ns
        # Frames past the newest that are late by more than the fall were delayed.
        self._lags = self.fell_ns >= _LEAST_NS and waited_ns < self.fell_ns

    def older(self, newest_ns: int, sender_time_ns: int, arrival_ns: int) -> bool | None:
        """
        Add a frame that is not newer than the newest.

        :returns: whether sender time fell; None if this frame begins another candidate.
        """
        self.steady = False
        if newest_ns != self._newest:
            return None
        if sender_time_ns <= self._top:
            return False
        self._top = sender_time_ns
        passed = arrival_ns - self._begun
        if abs(passed - (sender_time_ns - self._first)) > _SLACK_NS + (passed >> 2):
            return None
        self.steady = True
        return passed > ROLLBACK_NS

    def newer(self, sender_time_ns: int, arrival_ns: int) -> bool | None:
        """
        Add a frame that is newer than the newest.

        :returns: whether sender time fell; None if the candidate is refuted.
        """
        passed = arrival_ns - self._begun
        later = passed - (sender_time_ns - self._first)
        if not self._lags or not -self.fell_ns < 2 * later < 2 * self.fell_ns:
            return None
        self._newest = self._top = sender_time_ns
        return passed > ROLLBACK_NS
