# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The offset of a sender's clock: which run of that clock frames belong to, and the line of it.

Frames that do not fit the present segment are explained in two ways: they are delayed, or the
sender restarted, a clock was set or the route became longer. The frames build a segment of their
own, the challenger. It replaces the present one when its frames are live, that is not a backlog
that arrives faster than it was sent, and when the queueing delay that the present segment needs
for them costs more than the price of another offset. The price is zero after an announcement (a
reconnection, a gap in the arrivals) and where frames would be early.

``HostOffset`` follows the offset of the host's clock against the clock of the arrivals.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Final

from optitrack_vrpn.stream.clock.cadence import Cadence, LONGEST_TICK_NS
from optitrack_vrpn.stream.clock.filter import ANY_SKEW, LOAD, OPEN_COST, PRICE, queueing_cost
from optitrack_vrpn.stream.clock.round_trips import RoundTrips
from optitrack_vrpn.stream.clock.segment import Segment
from optitrack_vrpn.stream.clock.types import HOST_STEPPED, SENDER_RESTARTED

FALL_PRICE, FALLEN = 5.0 * LOAD, 3
"""The price of another offset where sender times fall: networks repeat single frames. So many
late frames in a row, in order among themselves, announce a fall of less than ``FAR_NS``."""
EARLY_NS, LATE_NS, UNKNOWN_NS, FAR_NS = 5e6, 10e6, 50e6, 250e6
"""Beyond the uncertainty (``UNKNOWN_NS`` before the first block), frames earlier or, after an
announcement, later than this are of another run (ns). Frames later than ``FAR_NS`` may be old:
the segment does not learn from them."""
STALL_NS, GAP_NS, REPORT_NS = 100_000_000, 1_000_000_000, 500_000_000
"""Stalls of a network that fitting frames do not interrupt are shorter; a silence of a second
announces a restart; time without poses after which the reason is reported (ns)."""
QUIET_NS: Final = 1_000
"""Readings of the host's clock differ by so much from noise alone (ns); measured: 100 ns, and 1 us
under load."""
STEP_NS: Final = 5_000_000
"""A change by more, beside a tenth of the time passed, is a step (ns): chrony slews by up to 8.3 %
(``maxslewrate``), and interruptions of a reading are shorter."""


class OffsetEstimator:
    """
    Convert times of a sender's clock to the arrival clock.

    :param smooths: whether ticks and jitter of the sender's times are removed.
    :ivar current: the present segment; None before the first frame that is used.
    :ivar cadence: ticks and jitter of the sender's times.
    :ivar round_trips: bounds of the offset.
    :ivar newest_ns: newest sender time that has a place.
    :ivar first_ns: time of the first frame of this sender time, without ticks and jitter.
    :ivar time_ns: the same of the last frame, without ticks and jitter.
    :ivar restarted: why an epoch ended with the last frame, else ''.
    :ivar fell: whether the sender's time fell then.
    :ivar detail: what was observed then.
    :ivar heard_ns: arrival of the last frame that was withheld.
    """

    def __init__(self, smooths: bool = True) -> None:
        self.current: Segment | None = None
        self.cadence = Cadence()
        self.round_trips = RoundTrips()
        self.time_ns = self.newest_ns = -1
        self.heard_ns = 0
        self.restarted = self.detail = ''
        self.fell = False
        self._smooths = smooths
        self._challenger: Segment | None = None
        # Without a report of a connection, the first frames are taken as live.
        self._trusting = True
        self._announced = self._relearn = False
        # Late frames in a row, in order, and the time of the last one.
        self._late, self._late_ns = 0, -1
        self._withholds = self._trusted = False
        self.first_ns = self._first_arrival_ns = self._fitted_ns = 0
        self._price = self._cost = self._narrow = 0.0
        self._least_lag, self._lag = math.inf, 0.0
        self._reason = ''

    def announce(self) -> None:
        """Expect another sender: the next frames are checked."""
        self._announced, self._trusting = True, False
        self._challenger = None
        self.round_trips.restart()

    def add_round_trip(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """Add a round trip; see ``RoundTrips.add``."""
        self.round_trips.add(sent_ns, server_ns, received_ns, self.skew, self.skew_deviation)

    def update(
        self, sender_ns: int, arrival_ns: int, processing_ns: int = 0, further: bool = False,
        trusted: bool = False,
    ) -> int | None:
        """
        Learn from a frame, and return its time on the arrival clock.

        :param sender_ns: its time by the sender's clock.
        :param arrival_ns: its arrival.
        :param processing_ns: from the sender's time until the transmission, if known.
        :param further: whether it is a further frame of the newest sender time.
        :param trusted: whether a segment that begins needs no proof that its frames are live.
        :returns: None if the frame may be old, or is not newer than the newest.
        """
        self.restarted = ''
        self._trusted = trusted or processing_ns > 0
        arrival_ns -= processing_ns
        current, time_ns = self.current, sender_ns
        if further:
            return self._place_further(arrival_ns)
        if current is not None and sender_ns <= self.newest_ns:
            lag = current.lag(sender_ns, arrival_ns)
            if sender_ns != self._late_ns:
                self._late = self._late + 1 if sender_ns > self._late_ns else 1
                self._late_ns = sender_ns
                self._announced |= self._late == FALLEN and (trusted or lag < FAR_NS)
            # Both clocks may be one, which was set back.
            if lag < (LATE_NS if self._announced else FAR_NS) and (
                    arrival_ns > current.fit_ns - GAP_NS):
                return None
            placed = self._challenge(sender_ns, arrival_ns, lag)
        else:
            self._late = 0
            # Times of exposure are exact, and round trips need the times as sent.
            if (self._smooths and not processing_ns and not self.round_trips.known
                    and sender_ns > self.cadence.newest_ns):
                cadence = self.cadence
                smoothing = cadence.smoothing
                time_ns = cadence.place(sender_ns)
                if cadence.smoothing and not smoothing:
                    # The minima so far are of times with ticks and jitter, or of another line.
                    self._relearn = True
            if time_ns <= self.time_ns:
                time_ns = self.time_ns + 1
            placed = self._place(time_ns, arrival_ns, sender_ns)
        if self.restarted:
            self.cadence.reset()
            self.round_trips.restart()
            time_ns = sender_ns
        self.first_ns, self._first_arrival_ns = time_ns, arrival_ns
        if placed is None:
            return None
        self.time_ns, self.newest_ns = time_ns, sender_ns
        if self.round_trips.known:
            placed = self.round_trips.place(time_ns, placed, self.skew)
        return placed

    def _place_further(self, arrival_ns: int) -> int | None:
        """Place a further frame of the newest time: by the rate, or by the arrivals."""
        current, smoothing = self.current, self.cadence.smoothing
        found = self.cadence.place_further() if self._smooths else None
        if found is None:
            # While the computer was suspended, no frame of the same tick was sent.
            time_ns = self.first_ns + min(
                arrival_ns - self._first_arrival_ns, int(LONGEST_TICK_NS))
        else:
            time_ns = found
            self._relearn = self._relearn or not smoothing
        self.time_ns = max(self.time_ns + 1, time_ns)
        if found is None:
            return None if current is None else current.place(self.time_ns)
        return self._place(self.time_ns, arrival_ns, self.newest_ns)

    def _place(self, time_ns: int, arrival_ns: int, sender_ns: int) -> int | None:
        """Place a frame that is newer than those before."""
        current = self.current
        if current is None:
            return self._challenge(sender_ns, arrival_ns, 0.0)
        lag = current.lag(time_ns, arrival_ns)
        gap = arrival_ns - current.fit_ns >= GAP_NS
        if gap or self._announced or self._relearn or not -EARLY_NS < lag < LATE_NS:
            margin = UNKNOWN_NS
            if current.filter.blocks:
                # A step that may be queueing delay does not explain frames that are early.
                margin = min(UNKNOWN_NS, 2e3 * current.filter.steady) + (
                    3e3 * current.filter.deviation((time_ns - current.zero_ns) * 1e-9))
            early = lag < -EARLY_NS - margin
            if early or lag >= (LATE_NS + margin if self._announced or gap else FAR_NS):
                placed = self._challenge(sender_ns, arrival_ns, lag)
                if placed is None and early:
                    # Nothing is known of this time: a sender that restarted, or a wrong one.
                    self.cadence.reset()
                if placed is not None or early or self._announced:
                    return placed
                return current.place(time_ns)
            if self._relearn:
                self._relearn = False
                # Without ticks, the envelope is the same.
                deviation = current.filter.uncertainty * 1e3 + self.cadence.uncertainty_ns()
                step = current.filter.remembered()
                self.current = current = Segment(
                    time_ns, arrival_ns, *current.filter.skew_prior(),
                    current.filter.depth * 1e3 - lag,
                    0.0 if math.isnan(deviation) else deviation)
                if step:
                    current.filter.remember(step)
            elif gap:
                current.rest(arrival_ns)
        if lag < LATE_NS:
            self._fitted_ns = arrival_ns
        self._announced = False
        placed = current.update(time_ns, arrival_ns)
        if current.delayed or self._challenger is not None or lag >= LATE_NS:
            return self._suspect(current, time_ns, arrival_ns, lag, placed)
        return placed

    def _suspect(
        self, current: Segment, time_ns: int, arrival_ns: int, lag: float, placed: int,
    ) -> int:
        """Follow a longer route or a small step while frames are explained by queueing delay."""
        late = arrival_ns - self._fitted_ns >= STALL_NS
        if self._withholds or not (late or current.delayed):
            # The frames of the challenger were a backlog, or were delayed.
            self._challenger, self._withholds = None, False
        if late or current.delayed > 2 or self._challenger is not None:
            return self._challenge(time_ns, arrival_ns, lag, True) or placed
        return placed

    def _challenge(
        self, time_ns: int, arrival_ns: int, lag: float, near: bool = False,
    ) -> int | None:
        """
        Add a frame to the challenger; return its place if that replaces the present segment.

        :param near: whether the present segment learns from the frame too.
        """
        self.heard_ns = arrival_ns
        current, challenger = self.current, self._challenger
        if challenger is not None and (
                challenger.newest_ns - time_ns > GAP_NS or near is self._withholds):
            challenger = None
        if challenger is None:
            challenger = self._begin(current, time_ns, arrival_ns, lag, near)
            if challenger is None:
                return None
        elif time_ns <= challenger.newest_ns:
            return None
        if lag < 0.0 and not near:
            # Frames that would be early show that the present segment has ended.
            self._price = 0.0
        blocks = challenger.filter.blocks
        placed = challenger.update(time_ns, arrival_ns)
        self._least_lag = min(self._least_lag, lag)
        if challenger.filter.blocks > blocks:
            cost = queueing_cost(self._least_lag * 1e-3, challenger.spread_ns * 1e-3)
            self._cost += cost
            self._narrow += cost - LOAD
            self._lag, self._least_lag = self._least_lag, math.inf
        own = challenger.filter.cost if near else 0.0
        if not challenger.live or self._cost - own < self._price:
            return None
        if current is not None:
            away = current.place(time_ns) - challenger.place(time_ns)
            if near:
                challenger.filter.remember(abs(away) * 1e-3)
            if near and -LATE_NS < away < LATE_NS:
                challenger.move_line(away)
                placed = current.place(time_ns)
            else:
                self.restarted = self._reason
                self.fell = not near and challenger.zero_ns <= self.newest_ns
                self.detail = '' if not self.fell else (
                    f"the sender's clock went back by {-away * 1e-9:.3f} s")
        self.current, self._challenger = challenger, None
        self._announced = self._withholds = False
        self._fitted_ns = arrival_ns
        return placed

    def _begin(
        self, current: Segment | None, time_ns: int, arrival_ns: int, lag: float, near: bool,
    ) -> Segment | None:
        """Begin a challenger, unless the frame may be a single late one."""
        price, live = 0.0, near or self._trusted
        if current is None:
            found = Segment(time_ns, arrival_ns)
            live = live or self._trusting
        else:
            passed = arrival_ns - current.fit_ns
            if near or not (lag < 0.0 or self._announced or passed >= GAP_NS):
                if not near and arrival_ns - self._fitted_ns < STALL_NS:
                    return None
                price = FALL_PRICE if time_ns <= self.newest_ns and not near else PRICE
            found = Segment(time_ns, arrival_ns, *current.filter.skew_prior())
            odd = self._announced or abs(time_ns - self.newest_ns) > abs(passed)
            self._reason = HOST_STEPPED if near or not odd else SENDER_RESTARTED
            if not self._announced:
                # Frames that come a little too early, one after another, are no backlog.
                live = near or (-UNKNOWN_NS < lag < 0.0 and passed < GAP_NS)
        found.live = live
        self._challenger, self._price, self._withholds = found, price, not near
        self._cost = self._narrow = self._lag = 0.0
        self._least_lag = math.inf
        return found

    # -- what is known -------------------------------------------------------------------------

    @property
    def learnt(self) -> bool:
        """Return whether the segment is no longer young."""
        return self.current is not None and not self.current.young

    @property
    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return 0.0 if self.current is None else self.current.rate

    @property
    def skew_deviation(self) -> float:
        """Return the standard deviation of the skew."""
        if self.current is None or not self.current.filter.blocks:
            return ANY_SKEW * 1e-6
        return math.sqrt(self.current.filter.best.p11) * 1e-6

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains the error; NaN if unknown."""
        if self.current is None:
            return math.nan
        found = self.current.uncertainty_ns() + self.cadence.uncertainty_ns(self.current.held_ns)
        if self._narrow > OPEN_COST and self._challenger is not None and not self._withholds:
            # Delays as steady as before: a step is as likely as queueing delay.
            found = max(found, self._lag)
        if self.round_trips.known:
            # Queueing delay does not change what round trips bound.
            found = self.round_trips.error_ns() + min(found, 1e3 + self.skew_deviation * 1e9)
        return found * 1e-9

    def trouble(self) -> str:
        """Return why frames have been withheld for long, and until when; '' if they have not."""
        found = self._challenger
        if found is None or not self._withholds or self.heard_ns - found.began_ns < REPORT_NS:
            return ''
        passed_s = (self.heard_ns - found.began_ns) * 1e-9
        if found.fit_ns + REPORT_NS < self.heard_ns:
            return (f'no pose is published: the sender restarted {passed_s:.1f} s ago, and its '
                    'times do not increase; until they do. stamps.mode: arrival needs none')
        if not found.live:
            return (f'no pose is published: within {passed_s:.1f} s, sender times have advanced '
                    f'by {passed_s + found.fallen_ns * 1e-9:.1f} s, as in a backlog; until '
                    'frames arrive as fast as they are sent. If the server plays a recording '
                    'faster than real time, set stamps.mode: sender and stamps.max_age_s: 0')
        left_s = passed_s * (self._price / max(self._cost, LOAD) - 1.0)
        return (f'no pose is published: for {passed_s:.1f} s all frames have been '
                f'{self._lag * 1e-9:.3f} s late: they are old, or the sender restarted; '
                f'a restart is assumed in {left_s:.1f} s')


class HostOffset:
    """
    Host time minus arrival clock, quiet under reading noise, prompt under slews and steps.

    A reading is two clock reads in a row: some 100 ns of noise, and a whole time slice when the
    process is interrupted between them. While the computer is suspended, the arrival clock stands;
    then the host's clock seems to step.

    :param suspended_ns: reads for how long this computer has been suspended (ns).
    :ivar offset_ns: host time minus (arrival clock + ``shift_ns``).
    :ivar shift_ns: time of suspension since the first reading.
    """

    def __init__(self, suspended_ns: Callable[[], int]) -> None:
        self._suspended_ns = suspended_ns
        self._first_ns = suspended_ns()
        self.shift_ns = self.offset_ns = self._before_ns = 0
        self._at_ns = -1

    def update(self, arrival_ns: int, reading_ns: int) -> int:
        """
        Take a reading.

        :param arrival_ns: when it was made (ns).
        :param reading_ns: host time minus arrival clock (ns).
        :returns: the step of the host's clock (ns), 0 for none.
        """
        reading_ns -= self.shift_ns
        change = reading_ns - self.offset_ns
        if -QUIET_NS <= change <= QUIET_NS and self._at_ns >= 0:
            self.offset_ns += change >> 3
            self._at_ns, self._before_ns = arrival_ns, reading_ns
            return 0
        most = STEP_NS + max(arrival_ns - self._at_ns, 0) // 10
        first = self._at_ns < 0
        self._at_ns = arrival_ns
        if not -most <= change <= most and not first:
            asleep = self._suspended_ns() - self._first_ns - self.shift_ns
            self.shift_ns += asleep
            reading_ns -= asleep
            change -= asleep
        if first or not -most <= change <= most:
            self.offset_ns = self._before_ns = reading_ns
            return 0 if first else change
        # The median leaves an interrupted reading out.
        change = sorted((reading_ns, self._before_ns, self.offset_ns))[1] - self.offset_ns
        self._before_ns = reading_ns
        self.offset_ns += change - min(max(change, -QUIET_NS), QUIET_NS)
        return 0
