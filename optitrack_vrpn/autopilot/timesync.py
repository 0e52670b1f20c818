# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
TIMESYNC in both directions: answer the autopilot, and measure its clock.

A request has tc1 = 0 and ts1 = the requester's clock (ns); the answer echoes ts1 and puts the
answerer's clock into tc1. The clock on this side is the one of ``time_usec``, the host's system
clock. With sending time a, receiving time b and answer c, the autopilot's clock is ahead by c - (a
+ b) / 2, with an error of at most half the round trip b - a.

PX4 maintains its own estimate from its own requests, and uses it after 500 answers whose round
trip is below 10 ms (its Timesync.hpp: CONVERGENCE_WINDOW, MAX_RTT_SAMPLE); until then it stamps a
sample on arrival. PX4 does not report this state, so this side counts the answers given while the
round trip that it measures is below 10 ms. ArduPilot needs no answers: it uses the message with
the least delay of each 100 for the offset of the clocks (its JitterCorrection).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.messages import Outgoing

#: PX4's constants, see above.
PX4_ANSWERS = 500
PX4_MAX_ROUND_TRIP_NS = 10_000_000
#: PX4 resets its filter after more than 10 (1.14: 5) consecutive answers that deviate by more than
#: 100 ms.
PX4_MAX_DEVIATION_NS = 100_000_000
#: Period of the requests (ns). Chosen: two per second show a change of the link within some
#: seconds and cost 56 B/s in each direction.
REQUEST_PERIOD_NS = 500_000_000
#: The same for TCP, where the answers show that the program at the other end reads. Chosen.
TCP_PERIOD_NS = 100_000_000
#: Number of round trips of which the shortest gives the offset. Chosen: 10 s at two per second, in
#: which a crystal with an error of 50 ppm drifts by 0.5 ms.
WINDOW = 20
#: Chosen: stored requests (4 s); a later answer is not used.
_OUTSTANDING = 8
#: Chosen: a backward step of the autopilot's clock (ns) between two answers that means a reboot.
_REBOOT_NS = 1_000_000_000


class RoundTrip(NamedTuple):
    """A measured round trip: autopilot's clock minus this one (ns), and its duration (ns)."""

    offset_ns: int
    round_trip_ns: int


class Timesync:
    """
    Exchange TIMESYNC with one autopilot.

    :param period_ns: period of the requests (ns).
    :ivar answered: number of the autopilot's requests that were answered.
    :ivar counted: number of these while the round trip was below PX4's limit.
    :ivar rounds: number of measured round trips.
    :ivar reboots: number of times that the autopilot's clock began again.
    """

    def __init__(self, period_ns: int = REQUEST_PERIOD_NS) -> None:
        self._period_ns = period_ns
        self._unanswered_ns: Optional[int] = None
        self._answers = False
        self._outstanding: deque[int] = deque(maxlen=_OUTSTANDING)
        self._window: deque[RoundTrip] = deque(maxlen=WINDOW)
        self._next_ns = 0
        self._remote_ns = 0
        self.answered = self.counted = self.rounds = self.reboots = 0

    def reset(self) -> None:
        """Restart: the autopilot has rebooted, or this host's clock was set."""
        self._outstanding.clear()
        self._window.clear()
        self._remote_ns = 0
        self.answered = self.counted = self.rounds = 0

    @property
    def best(self) -> Optional[RoundTrip]:
        """Return the shortest of the recent round trips."""
        return min(self._window, key=lambda one: one.round_trip_ns, default=None)

    @property
    def median_round_trip_ns(self) -> Optional[int]:
        """Return the median of the recent round trips (ns)."""
        if not self._window:
            return None
        ordered = sorted(one.round_trip_ns for one in self._window)
        return ordered[len(ordered) // 2]

    def request(self, now_ns: int, monotonic_ns: int) -> Optional[Outgoing]:
        """
        Return a request if one is due.

        :param now_ns: the host's system clock (ns).
        :param monotonic_ns: a monotonic clock (ns).
        """
        if monotonic_ns < self._next_ns:
            return None
        self._next_ns = monotonic_ns + self._period_ns
        if self._unanswered_ns is None:
            self._unanswered_ns = monotonic_ns
        self._outstanding.append(now_ns)
        return Outgoing('TIMESYNC', {'tc1': 0, 'ts1': now_ns})

    def silent_ns(self, monotonic_ns: int) -> int:
        """Return for how long (ns) requests to an autopilot that answers are unanswered."""
        if not self._answers or self._unanswered_ns is None:
            return 0
        return monotonic_ns - self._unanswered_ns

    def receive(self, tc1: int, ts1: int, now_ns: int) -> Optional[Outgoing]:
        """
        Process a TIMESYNC from the autopilot.

        :param now_ns: the host's system clock at its arrival (ns).
        :returns: the answer if it was a request.
        """
        if tc1 == 0:
            self.answered += 1
            median = self.median_round_trip_ns
            if median is not None and median < PX4_MAX_ROUND_TRIP_NS:
                self.counted += 1
            return Outgoing('TIMESYNC', {'tc1': now_ns, 'ts1': ts1})
        if ts1 not in self._outstanding:
            return None
        while self._outstanding.popleft() != ts1:
            pass    # an answer to an earlier request would now show an earlier clock
        self._unanswered_ns, self._answers = None, True
        round_trip = RoundTrip(tc1 - (ts1 + now_ns) // 2, now_ns - ts1)
        if round_trip.round_trip_ns < 0:    # this host's clock was set back meanwhile
            self.reset()
            return None
        best = self.best
        rebooted = tc1 < self._remote_ns - _REBOOT_NS
        self.reboots += rebooted
        if rebooted or (best is not None and abs(round_trip.offset_ns - best.offset_ns)
                        > PX4_MAX_DEVIATION_NS + round_trip.round_trip_ns):
            self.reset()
        self._remote_ns = tc1
        self.rounds += 1
        self._window.append(round_trip)
        return None

    def converged(self, autopilot: str) -> bool:
        """Return whether the autopilot uses ``time_usec``, as far as this side can determine."""
        return autopilot != 'px4' or self.counted >= PX4_ANSWERS
