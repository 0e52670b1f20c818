# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Which run of the sender's clock frames belong to: the present one, or a challenger.

Frames that do not fit the present segment are explained in two ways: they are delayed, or the
sender restarted or a clock stepped. The frames build a segment of their own, the challenger. It
replaces the present one when its frames are live, that is not a backlog that arrives faster than
it was sent, and when the queueing delay that the present segment needs for them costs more than
the price of a restart. The price is zero after an announcement (a reconnection, a gap in the
arrivals) and where frames would be early.
"""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.clock.filter import ANY_SKEW, JUMP, LOAD, queueing_cost
from optitrack_vrpn.clock.segment import FAR_NS, LATE_NS, PERSIST_NS, Segment, YOUNG_NS
from optitrack_vrpn.clock.types import HOST_STEPPED, SENDER_RESTARTED

EARLY_NS: Final = 5e6
"""Frames earlier than this beyond the uncertainty show a step (ns); below it, minima fall."""
UNKNOWN_NS: Final = 50e6
"""The same for the first block, whose first frames may have been delayed (ns)."""
FALL: Final = 5.0 * LOAD
"""Price of a restart after which sender times are below the newest one: networks repeat and
reorder single frames."""
GAP_NS: Final = 1_000_000_000
"""A silence of this length announces a restart (ns)."""
REPORT_NS: Final = 500_000_000
"""Time without poses after which the reason is reported (ns)."""


class Tracker:
    """
    Place frames of a sender on the arrival clock.

    :ivar restarted: why the last frame began a segment or stepped, else ''; the caller clears it.
    :ivar fell: whether the sender's time fell then.
    :ivar detail: what was observed then.
    :ivar early: whether the last frame arrived before it can have been sent.
    :ivar live_at_once: whether a segment that begins now needs no proof that its frames are live.
    """

    def __init__(self) -> None:
        self.current: Segment | None = None
        self.restarted = ''
        self.fell = self.early = False
        self.detail = ''
        self.live_at_once = False
        self._challenger: Segment | None = None
        # Without a report of a connection, the first frames are taken as live.
        self._trusting = True
        self._announced = self._relearn = False
        self._price = 0.0
        self._behind = 0.0
        self._least_lag = math.inf
        self._blocks = 0
        self._lag = 0.0
        self._reason = ''

    def announce(self) -> None:
        """Expect another sender: the next frames are checked."""
        self._announced, self._trusting = True, False
        self._challenger = None

    def relearn(self) -> None:
        """Begin a new filter with the next frame: the sender's times have become others."""
        self._relearn = True

    @property
    def learnt(self) -> bool:
        """Return whether the segment is no longer young."""
        current = self.current
        return current is not None and current.fit_ns - current.began_ns >= YOUNG_NS

    @property
    def samples(self) -> int:
        """Return the number of frames of the segment."""
        return 0 if self.current is None else self.current.samples

    def trouble(self) -> str:
        """Return why frames have been withheld for long, and until when; '' if they have not."""
        found = self._challenger
        if found is None or found.fit_ns - found.began_ns < REPORT_NS:
            return ''
        passed_s = (found.fit_ns - found.began_ns) * 1e-9
        if not found.live:
            return (f'no pose is published: within {passed_s:.1f} s, sender times have advanced '
                    f'by {passed_s + found.fallen_ns * 1e-9:.1f} s, as in a backlog; until '
                    'frames arrive as fast as they are sent. If the server plays a recording '
                    'faster than real time, set stamps.mode: sender')
        left_s = passed_s * (self._price / max(self._behind, LOAD) - 1.0)
        return (f'no pose is published: for {passed_s:.1f} s all frames have been '
                f'{self._lag * 1e-9:.3f} s late: they are old, or the sender restarted; '
                f'a restart is assumed in {left_s:.1f} s')

    def place(self, time_ns: int, arrival_ns: int, sender_ns: int) -> int | None:
        """
        Learn from a frame that is newer than those before, and return its place.

        :param time_ns: the sender's time without ticks and jitter.
        :param arrival_ns: its arrival.
        :param sender_ns: the sender's time as received.
        :returns: None if the frame may be old.
        """
        current = self.current
        self.early = False
        if current is None:
            return self._challenge(sender_ns, arrival_ns, 0.0)
        lag = current.lag(time_ns, arrival_ns)
        if self._relearn and lag < FAR_NS and self._challenger is None:
            self._relearn = False
            self.current = current = Segment(time_ns, arrival_ns, *current.filter.skew_prior())
            current.live = True
            lag = 0.0
        if -EARLY_NS < lag < LATE_NS and self._challenger is None and (
                arrival_ns - current.fit_ns < GAP_NS):
            self._announced = False
            place = current.take(time_ns, arrival_ns)
            if current.stepped_ns:
                return self._stepped(current, time_ns, arrival_ns)
            return place
        return self._place_odd(current, time_ns, arrival_ns, sender_ns, lag)

    def _place_odd(
        self, current: Segment, time_ns: int, arrival_ns: int, sender_ns: int, lag: float,
    ) -> int | None:
        """Place a frame that may not fit."""
        gap = arrival_ns - current.fit_ns >= GAP_NS
        margin = UNKNOWN_NS
        if current.filter.blocks:
            t = (time_ns - current.zero_ns) * 1e-9
            margin = min(UNKNOWN_NS, 2e3 * current.filter.uncertainty) + 3e3 * math.sqrt(
                current.filter.variance(t))
        self.early = early = lag < -EARLY_NS - margin
        if not early and lag < (LATE_NS + margin if self._announced or gap else FAR_NS):
            if gap:
                current.rest(arrival_ns)
            self._announced = False
            self._challenger = None
            place = current.take(time_ns, arrival_ns)
            if current.stepped_ns:
                return self._stepped(current, time_ns, arrival_ns)
            return place
        placed = self._challenge(sender_ns, arrival_ns, lag)
        if placed is not None or early or self._announced:
            return placed
        return current.place(time_ns)

    def older(self, sender_ns: int, arrival_ns: int) -> int | None:
        """Take a frame that is not newer; return its place if the sender's clock fell."""
        current = self.current
        if current is None:
            return self._challenge(sender_ns, arrival_ns, 0.0)
        lag = current.lag(sender_ns, arrival_ns)
        if lag < (LATE_NS if self._announced else FAR_NS):
            return None
        return self._challenge(sender_ns, arrival_ns, lag)

    def _stepped(self, current: Segment, time_ns: int, arrival_ns: int) -> int:
        """Report a step within the segment."""
        current.stepped_ns = 0.0
        self.restarted, self.fell = HOST_STEPPED, False
        self.detail = 'all frames are late by as much'
        return min(current.place(time_ns), arrival_ns)

    def _challenge(self, sender_ns: int, arrival_ns: int, lag: float) -> int | None:
        """Add a frame to the challenger; return its place if that replaces the present segment."""
        current, challenger = self.current, self._challenger
        if challenger is not None and challenger.newest_ns - sender_ns > GAP_NS:
            challenger = None
        if challenger is None:
            price = 0.0
            if current is not None:
                quiet_ns = arrival_ns - current.fit_ns
                if not (lag < 0.0 or self._announced or quiet_ns >= GAP_NS):
                    if quiet_ns < PERSIST_NS:
                        return None
                    price = FALL if sender_ns <= current.newest_ns else JUMP
                skew, variance = current.filter.skew_prior()
                challenger = Segment(sender_ns, arrival_ns, skew, variance)
                passed = arrival_ns - current.fit_ns
                odd = self._announced or abs(sender_ns - current.newest_ns) > abs(passed)
                self._reason = SENDER_RESTARTED if odd else HOST_STEPPED
            else:
                challenger = Segment(sender_ns, arrival_ns)
            if current is None or self._announced:
                challenger.live = self.live_at_once or (current is None and self._trusting)
            else:
                # Frames that come a little too early, one after another, are no backlog.
                challenger.live = -UNKNOWN_NS < lag < 0.0 and (
                    arrival_ns - current.fit_ns < GAP_NS)
            self._challenger, self._price = challenger, price
            self._behind, self._least_lag = 0.0, math.inf
            self._blocks = 0
        elif sender_ns <= challenger.newest_ns:
            return None
        if lag < 0.0:
            # Frames that would be early show that the present segment has ended.
            self._price = 0.0
        placed = challenger.take(sender_ns, arrival_ns)
        self._least_lag, self._lag = min(self._least_lag, lag), lag
        if challenger.filter.blocks > self._blocks:
            self._blocks = challenger.filter.blocks
            self._behind += queueing_cost(self._least_lag * 1e-3, challenger.spread_ns * 1e-3)
            self._least_lag = math.inf
        if not challenger.live or self._behind < self._price:
            return None
        if current is not None:
            self.restarted = self._reason
            self.fell = sender_ns <= current.newest_ns
            self.detail = '' if not self.fell else (
                f'sender time went back by {(current.newest_ns - sender_ns) * 1e-9:.3f} s')
        self.current, self._challenger = challenger, None
        self._announced = False
        return placed

    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return 0.0 if self.current is None else self.current.rate

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains the error of the line."""
        return math.nan if self.current is None else self.current.uncertainty_ns() * 1e-9

    def skew_deviation(self) -> float:
        """Return the standard deviation of the skew."""
        if self.current is None or not self.current.filter.blocks:
            return ANY_SKEW * 1e-6
        return math.sqrt(self.current.filter.best.p11) * 1e-6
