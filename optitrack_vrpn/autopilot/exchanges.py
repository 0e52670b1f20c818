# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Exchanges with an autopilot: TIMESYNC in both directions, and the origin of its estimator.

A TIMESYNC request has tc1 = 0 and ts1 = the requester's clock (ns); the answer echoes ts1 and puts
the answerer's clock into tc1. The clock on this side is the one of ``time_usec``, the host's
system clock. With sending time a, receiving time b and answer c, the autopilot's clock is ahead by
c - (a + b) / 2, with an error of at most half the round trip b - a.

PX4 maintains its own estimate from its own requests, and uses it after 500 answers whose round
trip is below 10 ms (its Timesync.hpp: CONVERGENCE_WINDOW, MAX_RTT_SAMPLE); until then it stamps a
sample on arrival. PX4 does not report this state, so this side counts the answers given while the
round trip that it measures is below 10 ms. ArduPilot needs no answers: it uses the message with
the least delay of each 100 for the offset of the clocks (its JitterCorrection).

Automatic modes of both autopilots need a geographic origin, and indoors GNSS does not provide it.
An existing origin is kept.
"""

from __future__ import annotations

from collections import deque
import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.messages import Outgoing

#: PX4's constants, see above.
PX4_ANSWERS = 500
PX4_MAX_ROUND_TRIP_NS = 10_000_000
#: Period of the requests (ns). Chosen: two per second show a change of the link within some
#: seconds and cost 56 B/s in each direction. With TCP the answers show that the program at the
#: other end reads.
REQUEST_PERIOD_NS, TCP_PERIOD_NS = 500_000_000, 100_000_000
#: Period of attempts about the origin, and wait (ns) after one to set it, before ArduPilot gets a
#: pose. When ArduPilot gets the origin, it sets its zero of the height to the present height
#: (EKF3's resetHeightDatum). The poses keep their zero, so its local height would differ by the
#: height of the poses at that time. Measured in SITL: it does so after 0.1 s.
_PERIOD_NS = 1_000_000_000


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
        #: Requests of 4 s; a later answer is not used.
        self._outstanding: deque[int] = deque(maxlen=8)
        #: 10 s at two per second, in which a crystal with an error of 50 ppm drifts by 0.5 ms.
        self._window: deque[RoundTrip] = deque(maxlen=20)
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
        return statistics.median_high(
            one.round_trip_ns for one in self._window) if self._window else None

    def request(self, now_ns: int, monotonic_ns: int) -> Optional[Outgoing]:
        """Return a request if one is due, by the system clock and a monotonic one (ns)."""
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
        """Process a TIMESYNC that arrived at ``now_ns``; return the answer to a request."""
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
        # Chosen: a backward step of its clock of 1 s means a reboot.
        rebooted = tc1 < self._remote_ns - 1_000_000_000
        self.reboots += rebooted
        # PX4 resets its filter after more than 10 (1.14: 5) consecutive answers that deviate by
        # more than 100 ms.
        if rebooted or (best is not None and abs(round_trip.offset_ns - best.offset_ns)
                        > 100_000_000 + round_trip.round_trip_ns):
            self.reset()
        self._remote_ns = tc1
        self.rounds += 1
        self._window.append(round_trip)
        return None

    def converged(self, autopilot: str) -> bool:
        """Return whether the autopilot uses ``time_usec``, as far as this side can determine."""
        return autopilot != 'px4' or self.counted >= PX4_ANSWERS


def request_message(system: int, message_id: int) -> Outgoing:
    """Create a request for one message of the autopilot (MAV_CMD_REQUEST_MESSAGE)."""
    return Outgoing('COMMAND_LONG', {
        'target_system': system, 'target_component': 1, 'command': 512,
        'param1': float(message_id)})


class Origin:
    """
    Request the autopilot's origin, and set it if it is missing.

    :param wanted: latitude (deg), longitude (deg), altitude (m); None to leave it unchanged.
    :ivar present: the origin that the autopilot reports, or None.
    :ivar sent: how often it was set.
    """

    def __init__(self, wanted: Optional[tuple[float, float, float]]) -> None:
        self._wanted = wanted
        self.restart()

    def restart(self) -> None:
        """Restart: the autopilot has rebooted."""
        self.present: Optional[tuple[float, float, float]] = None
        self.sent = 0
        self._asked = 0
        self._next_ns = self._settled_ns = 0

    def receive(self, latitude: int, longitude: int, altitude: int) -> None:
        """Process a GPS_GLOBAL_ORIGIN (1e-7 deg, 1e-7 deg, mm)."""
        if latitude or longitude:
            self.present = (latitude * 1e-7, longitude * 1e-7, altitude * 1e-3)

    def tick(
        self, system: int, armed: bool, now_ns: int, monotonic_ns: int,
    ) -> Optional[Outgoing]:
        """
        Return the next request or setting if one is due.

        :param armed: whether the vehicle is armed; then no origin is set, because the answer can
            be lost, and PX4 moves its position to a second origin.
        """
        if self._wanted is None or self.present is not None or monotonic_ns < self._next_ns:
            return None
        if self._asked < 2 or armed:    # one request can be lost
            self._asked += 1
            self._next_ns = monotonic_ns + _PERIOD_NS
            return request_message(system, 49)    # GPS_GLOBAL_ORIGIN
        self._asked = 0
        self.sent += 1
        self._settled_ns = monotonic_ns + _PERIOD_NS
        # The estimator can refuse before it has initialised.
        self._next_ns = monotonic_ns + _PERIOD_NS * (5 if self.sent > 1 else 1)
        latitude, longitude, altitude = self._wanted
        return Outgoing('SET_GPS_GLOBAL_ORIGIN', {
            'target_system': system, 'latitude': round(latitude * 1e7),
            'longitude': round(longitude * 1e7), 'altitude': round(altitude * 1e3),
            'time_usec': now_ns // 1000})

    def pending(self, armed: bool, monotonic_ns: int) -> bool:
        """Return whether the origin is about to be set, before which ArduPilot gets no pose."""
        if self._wanted is None or armed:
            return False
        # Two attempts; the second is some 5 s after the heartbeat.
        tries_left = self.present is None and self.sent < 2
        return tries_left or monotonic_ns < self._settled_ns

    @property
    def problem(self) -> str:
        """Describe the problem with the origin; '' if there is none."""
        if self._wanted is None:
            return ''
        if self.present is None:
            return ('the autopilot has no origin and has not confirmed the one that was sent'
                    if self.sent else '')
        # On a sphere, for short distances; the link's resolution is 1.1 cm.
        north = math.radians(self.present[0] - self._wanted[0])
        east = math.radians(math.remainder(self.present[1] - self._wanted[1], 360.0)) * math.cos(
            math.radians(self.present[0]))
        distance = 6_371_000.0 * math.hypot(north, east)
        if distance > 1.0:
            return (f'the autopilot already has an origin, {distance:.0f} m from the configured '
                    'one; it is kept')
        return ''
