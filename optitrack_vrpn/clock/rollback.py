# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Distinguish a sender whose time fell from a network that repeats, reorders and delays.

Repeated and overtaken frames arrive among newer ones, and delayed ones arrive faster than they
were sent. A sender whose clock went back continues below the newest frame at its normal rate
and, after a small step, past it: as late as before, minus the step.
"""

from __future__ import annotations

from typing import Final

from optitrack_vrpn.clock.history import FrameHistory, NEVER

REORDERING_NS: Final = 1_000_000_000
"""A frame that is older than the newest by more was not overtaken. Chosen: no network reorders for
so long; half of it takes WiFi stalls for restarts, twice as much finds a restart by this rule only
if it sets the clock back by 2 s."""
HELD_UP_NS: Final = 250_000_000
"""A frame that arrives later after its stamp was delayed, so its arrival does not date its sender
time. Chosen: above the delays of WiFi; half of it or twice as much matters for the first frame of
a backlog alone."""
ROLLBACK_NS: Final = 200_000_000
"""A sender's time has fallen if frames continue from there for this long. Chosen: longer than
networks repeat a sequence of frames; half of it takes repeats for restarts, twice as much
withholds poses for 0.4 s after one."""
_SLACK_NS: Final = 50_000_000
"""Limit of the difference between the time of the arrivals and of the sender, beside a quarter of
the former. Chosen: ten times the jitter of WiFi; half of it misses restarts on it, twice as much
accepts bursts."""
_LEAST_NS: Final = 20_000_000
"""Smallest fall that is recognised by frames that repeat older times after a silence, or that have
passed the newest one. Chosen: the limit of overtaking in a LAN; half of it takes overtaken frames
for a restart, twice as much misses clocks that are set back by 30 ms."""


class Rollback:
    """
    Watch frames that are not newer than the newest one.

    :param frames: the frames of the epoch.
    :param dated: whether their delays are delays of the network; False in mode sender.
    :ivar begun: whether frames may have continued from below the newest one.
    :ivar steady: whether the last frame was one of a steady sequence of these.
    :ivar fell_ns: how far sender time fell, if it did.
    """

    def __init__(self, frames: FrameHistory, dated: bool) -> None:
        self._frames = frames
        self._dated = dated
        self._newest = self._first = self._top = self._arrived = 0
        self._lags = False
        self.clear()

    def clear(self) -> None:
        """Forget the sequence."""
        self.begun = self.steady = False
        self.fell_ns = 0

    def older(
        self, sender_time_ns: int, arrival_ns: int, host_arrival_ns: int, reconnected: bool,
    ) -> bool:
        """
        Add a frame that is not newer than the newest; return whether sender time fell.

        :param reconnected: whether it is the first of a connection.
        """
        frames = self._frames
        below = frames.newest_ns - sender_time_ns
        at, known = frames.find(sender_time_ns)
        delay = frames.delays[at]
        # Arrival of the frame that was sent at the same time or next; long ago if the frame is
        # older than all that are remembered and that one was not delayed.
        arrived = NEVER
        if at or known or (delay > HELD_UP_NS and self._dated):
            arrived = frames.stamps[at] + delay
        # A late old frame proves nothing while the newest is as late: both were delayed. Neither
        # does it if frames of the same time arrived just now: it was repeated or overtaken.
        # A frame that is little older proves it only if it arrived before, since it may have
        # waited in the network.
        if (below > (_LEAST_NS if known and not reconnected else REORDERING_NS)
                and (reconnected or host_arrival_ns - arrived > REORDERING_NS)
                and (not self._dated or frames.delays[-1] < REORDERING_NS)):
            self.fell_ns = max(self.fell_ns, below)
            return True
        self.steady = False
        if self.begun and frames.newest_ns == self._newest:
            if sender_time_ns <= self._top:
                return False
            self._top = sender_time_ns
            passed = arrival_ns - self._arrived
            if abs(passed - (sender_time_ns - self._first)) <= _SLACK_NS + (passed >> 2):
                self.steady = True
                return passed > ROLLBACK_NS
        self.begun = True
        self.fell_ns = below
        self._newest = frames.newest_ns
        self._first = self._top = sender_time_ns
        self._arrived = arrival_ns
        # Frames past the newest that are late by more than the fall were delayed.
        waited = host_arrival_ns - frames.last_ns - frames.delays[-1]
        self._lags = below >= _LEAST_NS and waited < below
        return False

    def newer(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Add a frame that is newer than the newest; return whether sender time fell."""
        if not self.begun:
            return False
        passed = arrival_ns - self._arrived
        later = passed - (sender_time_ns - self._first)
        if not self._lags or not -self.fell_ns < 2 * later < 2 * self.fell_ns:
            self.clear()
            return False
        self._newest = self._top = sender_time_ns
        return passed > ROLLBACK_NS
