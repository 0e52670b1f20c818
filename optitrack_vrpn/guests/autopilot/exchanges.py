# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Exchanges with an autopilot: TIMESYNC, the origin of its estimator, the comparison of its poses.

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
from collections.abc import Iterable, Sequence
import math
import statistics
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.core.rotation import Vector
from optitrack_vrpn.guests.autopilot.messages import euler_zyx, make_message, VehicleState

#: PX4's constants, see above.
PX4_ANSWERS = 500
PX4_MAX_ROUND_TRIP_NS = 10_000_000
#: Period of the requests (ns). Chosen: two per second show a change of the link within some
#: seconds and cost 56 B/s in each direction.
REQUEST_PERIOD_NS = 500_000_000
#: Period of attempts about the origin, and wait (ns) after one to set it, before ArduPilot gets a
#: pose. When ArduPilot gets the origin, it sets its zero of the height to the present height
#: (EKF3's resetHeightDatum). The poses keep their zero, so its local height would differ by the
#: height of the poses at that time. Measured in SITL: it does so after 0.1 s.
_PERIOD_NS = 1_000_000_000


class TimesyncTrip(NamedTuple):
    """A measured round trip: autopilot's clock minus this one (ns), and its duration (ns)."""

    offset_ns: int
    round_trip_ns: int


class Timesync:
    """
    Exchange TIMESYNC with one autopilot.

    :ivar answered: number of the autopilot's requests that were answered.
    :ivar counted: number of these while the round trip was below PX4's limit.
    :ivar rounds: number of measured round trips.
    :ivar reboots: number of times that the autopilot's clock began again.
    """

    def __init__(self) -> None:
        #: Requests of 4 s; a later answer is not used.
        self._outstanding: deque[int] = deque(maxlen=8)
        #: 10 s at two per second, in which a crystal with an error of 50 ppm drifts by 0.5 ms.
        self._window: deque[TimesyncTrip] = deque(maxlen=20)
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
    def best(self) -> Optional[TimesyncTrip]:
        """Return the shortest of the recent round trips."""
        return min(self._window, key=lambda one: one.round_trip_ns, default=None)

    @property
    def median_round_trip_ns(self) -> Optional[int]:
        """Return the median of the recent round trips (ns)."""
        return statistics.median_high(
            one.round_trip_ns for one in self._window) if self._window else None

    def request(self, now_ns: int, monotonic_ns: int) -> Any:
        """Return a request, None if none is due, by the system and a monotonic clock (ns)."""
        if monotonic_ns < self._next_ns:
            return None
        self._next_ns = monotonic_ns + REQUEST_PERIOD_NS
        self._outstanding.append(now_ns)
        return make_message('TIMESYNC', ts1=now_ns)

    def receive(self, tc1: int, ts1: int, now_ns: int) -> Any:
        """Process a TIMESYNC that arrived at ``now_ns``; return the answer to a request."""
        if tc1 == 0:
            self.answered += 1
            median = self.median_round_trip_ns
            if median is not None and median < PX4_MAX_ROUND_TRIP_NS:
                self.counted += 1
            return make_message('TIMESYNC', tc1=now_ns, ts1=ts1)
        if ts1 not in self._outstanding:
            return None
        while self._outstanding.popleft() != ts1:
            pass    # an answer to an earlier request would now show an earlier clock
        round_trip = TimesyncTrip(tc1 - (ts1 + now_ns) // 2, now_ns - ts1)
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


def request_message(system: int, message_id: int) -> Any:
    """Create a request for one message of the autopilot (MAV_CMD_REQUEST_MESSAGE)."""
    return make_message('COMMAND_LONG', target_system=system, target_component=1, command=512,
                        param1=float(message_id))


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

    def tick(self, system: int, armed: bool, now_ns: int, monotonic_ns: int) -> Any:
        """
        Return the next request or setting, None if none is due.

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
        return make_message(
            'SET_GPS_GLOBAL_ORIGIN', target_system=system, latitude=round(latitude * 1e7),
            longitude=round(longitude * 1e7), altitude=round(altitude * 1e3),
            time_usec=now_ns // 1000)

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


# -- comparison of attitudes and positions --------------------------------------------------------
# Both are compared at one time: TIMESYNC converts the autopilot's stamps to the host's clock. Its
# values wait for the sample of their time, which arrives later by the age of the poses.

#: Smallest number of comparisons in a verdict. Chosen.
ENOUGH = 3
#: Differences beyond these are reported. Chosen: an estimator that fuses a pose follows it within
#: a degree and some centimetres at rest; a compass that was calibrated differs by up to 10
#: degrees; a vehicle is placed by hand to 3 degrees for the creation of its rigid body.
YAW_DEG, TILT_DEG, POSITION_M = 10.0, 5.0, 0.5
#: The autopilot's value, and that of the poses: roll, pitch, yaw (rad) or north, east, down (m).
Pair = tuple[Vector, Vector]


class Agreement:
    """
    Collect comparisons; not safe from several threads at once.

    :ivar attitudes: recent pairs of attitudes.
    :ivar positions: recent pairs of positions.
    """

    def __init__(self) -> None:
        self._history: deque[VehicleState] = deque()
        #: Time on the host's clock (ns), the autopilot's value, and where its pair belongs.
        #: The length is 0.5 s of two messages at 50 Hz.
        self._waiting: deque[tuple[int, Vector, deque[Pair]]] = deque(maxlen=50)
        self.attitudes: deque[Pair] = deque(maxlen=20)
        self.positions: deque[Pair] = deque(maxlen=20)

    def clear(self) -> None:
        """Discard all samples and comparisons."""
        self._history.clear()
        self._waiting.clear()
        self.attitudes.clear()
        self.positions.clear()

    def sent(self, state: VehicleState) -> None:
        """Add a sample, whether it was sent or withheld; a clock that was set back restarts."""
        if self._history and state.time_us < self._history[-1].time_us:
            self._history.clear()
            self._waiting.clear()
        self._history.append(state)
        # Chosen: the autopilot's messages arrive within 1.5 s.
        while self._history[0].time_us < state.time_us - 1_500_000:
            self._history.popleft()
        self._compare()

    def attitude(self, time_ns: int, own: Vector) -> None:
        """Add the autopilot's roll, pitch and yaw (rad) at a time of the host's clock (ns)."""
        # After 5 s without a sample, longer than an occlusion, earlier comparisons do not count.
        if self._history and time_ns - self._history[-1].time_us * 1000 > 5_000_000_000:
            self.clear()
        self._wait(time_ns, own, self.attitudes)

    def position(self, time_ns: int, own: Vector) -> None:
        """Add the autopilot's position in the local frame: north, east, down (m)."""
        self._wait(time_ns, own, self.positions)

    def _wait(self, time_ns: int, own: Vector, pairs: deque[Pair]) -> None:
        if all(map(math.isfinite, own)):
            self._waiting.append((time_ns, own, pairs))
            self._compare()

    def _compare(self) -> None:
        """Compare the values whose time the samples have reached."""
        newest_ns = self._history[-1].time_us * 1000 if self._history else 0
        for one in [one for one in self._waiting if one[0] <= newest_ns]:
            self._waiting.remove(one)
            time_ns, own, pairs = one
            state = self._at(time_ns)
            if state is not None:
                pairs.append((own, euler_zyx(state.quat_wxyz) if pairs is self.attitudes
                              else state.position))

    def _at(self, time_ns: int) -> Optional[VehicleState]:
        nearest = min(self._history, default=None,
                      key=lambda state: abs(state.time_us * 1000 - time_ns))
        # Chosen: at 1 rad/s, 40 ms are 2 degrees.
        if nearest is None or abs(nearest.time_us * 1000 - time_ns) > 40_000_000:
            return None
        return nearest


def _means(attitudes: Iterable[Vector]) -> list[float]:
    """Return the circular means of roll, pitch and yaw (deg)."""
    return [math.degrees(math.atan2(sum(map(math.sin, angles)), sum(map(math.cos, angles))))
            for angles in zip(*attitudes)]


def difference(pair: Pair) -> Vector:
    """Return the autopilot's roll, pitch, yaw minus those of the pose (rad)."""
    roll, pitch, yaw = (math.remainder(a - b, 2 * math.pi) for a, b in zip(*pair))
    return roll, pitch, yaw


def judge_attitude(pairs: Sequence[Pair]) -> list[str]:
    """Describe how the autopilot's attitude differs from what was sent, in sentences."""
    if len(pairs) < ENOUGH:
        return []
    found = []
    roll, pitch, yaw = _means(map(difference, pairs))
    quarters = 90 * round(yaw / 90.0)
    if abs(yaw) > YAW_DEG and quarters and abs(yaw - quarters) < 15.0:
        found.append(
            f"yaw differs by {abs(quarters)} degrees: the body's x axis in Motive does not point "
            'out of the nose, or motive_x of the node is the other one')
    elif abs(yaw) > YAW_DEG:
        found.append(
            f'yaw differs by {abs(yaw):.0f} degrees: the body was created in Motive with its '
            'nose off the x axis, or the autopilot takes its yaw from the magnetometer')
    if math.hypot(roll, pitch) > TILT_DEG:
        found.append(_judge_tilt(roll, pitch, *(_means(side) for side in zip(*pairs))))
    return found


def _judge_tilt(roll: float, pitch: float, own: Sequence[float], sent: Sequence[float]) -> str:
    # At less tilt, signs and exchanges of roll and pitch cannot be determined.
    if math.hypot(*own[:2]) > 6.0:
        if math.hypot(own[0] + sent[0], own[1] + sent[1]) < TILT_DEG:
            return ("roll and pitch have the opposite sign: the body's x axis in Motive points "
                    'out of the tail')
        if min(math.hypot(own[0] - sent[1], own[1] + sent[0]),
               math.hypot(own[0] + sent[1], own[1] - sent[0])) < TILT_DEG:
            return ("roll and pitch are exchanged: the body's x axis in Motive points out of a "
                    'side')
    return (f'roll differs by {roll:.0f} and pitch by {pitch:.0f} degrees: the vehicle was not '
            'level when its rigid body was created; create it again on level ground')


def judge_position(positions: Sequence[tuple[Vector, Vector]]) -> list[str]:
    """Describe how the autopilot's position differs from what was sent; see ``judge_attitude``."""
    if len(positions) < ENOUGH:
        return []
    own, sent = ([statistics.fmean(values) for values in zip(*side)] for side in zip(*positions))
    if math.dist(own, sent) <= POSITION_M:
        return []
    return [f'the position differs by {math.dist(own, sent):.1f} m (the autopilot: north '
            f'{own[0]:.2f}, east {own[1]:.2f}, down {own[2]:.2f}; sent: {sent[0]:.2f}, '
            f'{sent[1]:.2f}, {sent[2]:.2f}): it does not fuse the position, or has another origin']
