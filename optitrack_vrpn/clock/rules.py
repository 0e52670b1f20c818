# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simple ways to place a frame on the arrival clock, and the interface of all ways."""

from __future__ import annotations

import math

_JUMP_NS = 1_000_000_000
"""A change of (arrival - sender time) by more is a restart of the sender. Chosen: delays
change by less; half of it takes stalls of WiFi for restarts, twice as much misses steps of 2 s."""
_ANY_SKEW = 50e-6
"""Standard deviation of the skew between two computers (s/s). Measured: the median of 20 000
hosts is 78 ppm; half of it or twice as much changes the margin of round trips by 3 us a minute."""
_FROZEN_NS = 250_000_000
"""A sender time that is still the newest after this time has stopped. Chosen: longer than the
frames of one tick or a repeat take; half of it takes delayed repeats for a stopped clock, twice as
much publishes equal stamps for 0.5 s."""


class Rule:
    """
    Place frames of one sender on the arrival clock; here, where they arrived.

    ``place`` is called once a frame, with rising sender times. It returns nanoseconds on the
    arrival clock, never later than ``arrival_ns`` (except ``SenderRule``).

    :ivar restarted: set by ``place``: why the rule has just started again, else empty. The caller
        clears it.
    """

    restarted = ''
    learnt = False
    samples = 0

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame and return its place."""
        self.samples += 1
        return arrival_ns

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Count a further message with the newest sender time; False if its time has stopped."""
        return True

    def start(self) -> None:
        """Forget the offset; the rate is kept."""
        self.samples = 0

    def relearn(self) -> None:
        """Forget what the offset was learnt from; it stays until there is more."""

    def revalidate(self) -> None:
        """Check the next frame against the model, and start again if it does not fit."""

    def set_slewable(self, slewable: bool) -> None:
        """Set whether the sender's clock or that of the arrivals may be slewed."""

    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one; NaN if unknown."""
        return math.nan

    def skew_deviation(self) -> float:
        """Return the standard deviation of the skew."""
        return _ANY_SKEW

    def uncertainty_s(self) -> float:
        """Return the half-width of the random error in seconds; NaN if unknown."""
        return math.nan


class ArrivalRule(Rule):
    """
    A frame happened when it arrived.

    :ivar odd: frames out of order, less those in order; the caller adds to it.
    """

    odd = 0
    _placed = 0

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the arrival."""
        self._placed = arrival_ns
        if self.odd:
            self.odd -= 1
        return super().place(sender_time_ns, arrival_ns)

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Return False if sender time has stopped."""
        return arrival_ns - self._placed < _FROZEN_NS

    def revalidate(self) -> None:
        """Expect that the times of the new connection rise."""
        self.odd = 0


class SenderRule(Rule):
    """A frame happened at its sender time."""

    learnt = True

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the sender's time."""
        self.samples += 1
        return sender_time_ns


class MinOffsetRule(Rule):
    """
    The original package's rule: the least offset of the first messages, then constant.

    Arrivals until ``samples`` messages arrived (each counts, also those of one frame), afterwards
    sender time plus the least (arrival - sender time) of these. The two clocks' drift is contained
    in the stamps, except that none is later than its arrival.

    :ivar offset_ns: the least offset.
    """

    def __init__(self, offset_samples: int) -> None:
        self._wanted = offset_samples
        self._revalidate = False
        self.start()

    def start(self) -> None:
        """Determine the constant from the messages to come."""
        self._left = self._wanted
        self.offset_ns = 1 << 70
        self._last = 1 << 70
        self._revalidate = False
        self.learnt = False
        self.samples = 0

    def revalidate(self) -> None:
        """Compare the next frame with the last one."""
        self._revalidate = True

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the arrival while learning, then sender time plus the constant."""
        offset = arrival_ns - sender_time_ns
        fell = self._last - offset
        if self.samples and (fell > _JUMP_NS or (self._revalidate and fell < -_JUMP_NS)):
            self.start()
            self.restarted = 'sender_restarted'
        self._revalidate = False
        self._last = offset
        self.samples += 1
        if self._left:
            self._count(offset)
            return arrival_ns
        return arrival_ns if offset < self.offset_ns else sender_time_ns + self.offset_ns

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Count a message of another body: it arrived later, so it lowers nothing."""
        if self._left:
            self._count(arrival_ns - sender_time_ns)
        return True

    def skew(self) -> float:
        """Return 0: the rule assumes that the clocks have one rate."""
        return 0.0

    def _count(self, offset: int) -> None:
        self.offset_ns = min(self.offset_ns, offset)
        self._left -= 1
        self.learnt = not self._left
