# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simple ways to place a frame on the arrival clock, and what every way offers."""

from __future__ import annotations

import math
from typing import Protocol

_JUMP_NS = 1_000_000_000
_ANY_SKEW = 50e-6
"""Standard deviation of the skew between two computers (s/s)."""
_STANDS_NS = 250_000_000
"""A sender time that is still the newest after this long stands still."""


class Rule(Protocol):
    """
    Place frames of one sender on the arrival clock.

    ``place`` is called once a frame, with rising sender times; ``read`` for frames that must not
    be learnt from. Both return nanoseconds on the arrival clock, never later than ``arrival_ns``
    (except ``SenderRule``, which hands through).
    """

    restarted: str
    """Set by ``place``: why it has just begun anew, else empty. The caller empties it."""
    learnt: bool
    samples: int

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame and return its place."""

    def read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return a frame's place without learning."""

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Take note of a further message with the newest sender time; False if it is doubtful."""

    def start(self, keep_rate: bool) -> None:
        """Forget the offset, and the rate too unless ``keep_rate``."""

    def revalidate(self) -> None:
        """Check the next frame against what was learnt, and start anew if it does not fit."""

    def set_slewable(self, slewable: bool) -> None:
        """Take note whether the sender's clock or that of the arrivals may be slewed."""

    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one; NaN if unknown."""

    def skew_deviation(self) -> float:
        """Return the standard deviation of the skew."""

    def uncertainty_s(self) -> float:
        """Return the half-width of the random error in seconds; NaN if unknown."""


class ArrivalRule:
    """A frame happened when it arrived."""

    restarted = ''
    learnt = False
    samples = 0
    odd = 0
    """How far the sender's times are from rising; the caller adds to it."""
    _placed = 0

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the arrival."""
        self.samples += 1
        self._placed = arrival_ns
        if self.odd:
            self.odd -= 1
        return arrival_ns

    def read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the arrival."""
        return arrival_ns

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Learn nothing, but see whether time stands still."""
        return arrival_ns - self._placed < _STANDS_NS

    def start(self, keep_rate: bool) -> None:
        """Count anew."""
        self.samples = 0

    def revalidate(self) -> None:
        """Believe that a new sender's times rise."""
        self.odd = 0

    def set_slewable(self, slewable: bool) -> None:
        """Learn nothing."""

    def skew(self) -> float:
        """Return NaN: not known."""
        return math.nan

    def skew_deviation(self) -> float:
        """Return that of two clocks of which nothing is known."""
        return _ANY_SKEW

    def uncertainty_s(self) -> float:
        """Return NaN: not known."""
        return math.nan


class SenderRule(ArrivalRule):
    """A frame happened when its sender says."""

    learnt = True

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the sender's time."""
        self.samples += 1
        return sender_time_ns

    def read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the sender's time."""
        return sender_time_ns

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Learn nothing."""
        return True


class MinOffsetRule(ArrivalRule):
    """
    The original package's rule: the least offset of the first messages, then constant.

    Arrivals until ``samples`` messages came (each counts, also those of one frame), afterwards
    sender time plus the least (arrival - sender time) of these. The two clocks' drift goes
    wholly into the stamps, except that none is later than its arrival.
    """

    def __init__(self, offset_samples: int) -> None:
        self._wanted = offset_samples
        self._doubtful = False
        self.start(False)

    def start(self, keep_rate: bool) -> None:
        """Take the constant anew from the messages to come."""
        self._left = self._wanted
        self._offset = 1 << 70
        self._last = 1 << 70
        self._doubtful = False
        self.learnt = False
        self.samples = 0

    def revalidate(self) -> None:
        """Compare the next frame with the last one."""
        self._doubtful = True

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the arrival while learning, then sender time plus the constant."""
        offset = arrival_ns - sender_time_ns
        fell = self._last - offset
        if self.samples and (fell > _JUMP_NS or (self._doubtful and fell < -_JUMP_NS)):
            self.start(False)
            self.restarted = 'sender_restarted'
        self._doubtful = False
        self._last = offset
        self.samples += 1
        if self._left:
            self._count(offset)
            return arrival_ns
        return arrival_ns if offset < self._offset else sender_time_ns + self._offset

    def read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return the frame's place without learning."""
        if self._left or arrival_ns - sender_time_ns < self._offset:
            return arrival_ns
        return sender_time_ns + self._offset

    def repeat(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Count a message of another body: it arrived later, so it lowers nothing."""
        if self._left:
            self._count(arrival_ns - sender_time_ns)
        return True

    def skew(self) -> float:
        """Return 0: the rule believes that the clocks run alike."""
        return 0.0

    def _count(self, offset: int) -> None:
        self._offset = min(self._offset, offset)
        self._left -= 1
        self.learnt = not self._left
