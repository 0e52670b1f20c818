# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tell a sender whose time fell from a network that repeats and reorders."""

from __future__ import annotations

RUN_NS = 200_000_000
"""A sender is believed to have gone back when it has gone on from there for this long."""
_SLACK_NS = 50_000_000
_LEAST_NS = 20_000_000


class Run:
    """
    Frames that go on from below the newest one.

    Repeated and overtaken frames come among newer ones, and what was held up comes faster than it
    was sent. A sender whose clock went back goes on below the newest at its own pace and, where
    it went back by little, on past it: as late as before, by what it fell.

    :param newest_ns: sender time of the newest frame (ns).
    :param sender_time_ns: that of the first frame that is not newer (ns).
    :param arrival_ns: its arrival (ns).
    :param waited_ns: how long after the newest frame it arrived (ns).
    :ivar fell_ns: how far sender time fell (ns).
    :ivar steady: whether the frame taken last went on with it.
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
        # Frames past the newest that come late by more than the fall were held up on their way.
        self._lags = self.fell_ns >= _LEAST_NS and waited_ns < self.fell_ns

    def older(self, newest_ns: int, sender_time_ns: int, arrival_ns: int) -> bool | None:
        """
        Take a frame that is not newer than the newest.

        :returns: whether sender time fell; None if this frame begins another run.
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
        return passed > RUN_NS

    def newer(self, sender_time_ns: int, arrival_ns: int) -> bool | None:
        """
        Take a frame that is newer than the newest.

        :returns: whether sender time fell; None if the run has ended.
        """
        passed = arrival_ns - self._begun
        later = passed - (sender_time_ns - self._first)
        if not self._lags or not -self.fell_ns < 2 * later < 2 * self.fell_ns:
            return None
        self._newest = self._top = sender_time_ns
        return passed > RUN_NS
