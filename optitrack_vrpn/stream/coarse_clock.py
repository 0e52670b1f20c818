# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Place the poses of a sender whose clock is coarser than its frame interval.

A clock that advances in ticks of 15.6 ms gives three or four frames of 240 Hz the same sender
time. The clock model returns equal stamps for equal sender times. This module treats the second
and later poses of one body within a tick as further frames. It counts frames over all bodies: a
body that already has a pose in the present frame, or whose pose arrives more than half a frame
interval later, begins the next frame.

The number of the frame gives its time and stamp (``StampSource.stamp_further``): by the frame
rate if the clock model knows it (``clock/cadence.py``, mode ``tracking``), otherwise by the time
between the two arrivals. Such a stamp is never later than the arrival of its pose, and the stamps
of a body rise. Bodies of the same frame share a stamp, as far as their order of arrival shows that
they belong to one frame.

A pose that is equal bit for bit to an earlier pose of the same tick is a repeat and is not placed.

Two bodies of one name also give one name several poses for a sender time. There the second pose of
a sender time is far from the first, and the first is near the first of the sender time before;
frames of a moving body are the other way round. Such second poses are not placed and do not count
as frames, and after some of them the validity gate withholds all poses of the name.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final, NamedTuple

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.rotation import Quat, Vector
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.stream.bodies.poses import pose_distance
from optitrack_vrpn.stream.clock.source import READING_NOISE_NS, StampSource
from optitrack_vrpn.stream.roster import TrackedBody

LONGEST_TICK_NS = 100_000_000
"""
Poses that arrive later than this (ns) after the first of their sender time are not placed. Chosen:
above the coarsest clock of a personal computer (55 ms).
"""
TICKS_TO_REPORT = 8
"""
Ticks that are measured before the tick size is reported; it is their smallest distance. Chosen.
"""
STEP_NS = 1
"""Least distance (ns) between the stamps of two poses; 1 ns is the resolution of ROS time."""
COARSE_NS: Final = 1 << 62
"""Later than every sender time: all poses of a body with this ``newest_ns`` are placed here."""

APART_M = 0.02
"""
Distance (m, with 0.1 m per radian) of two poses of a sender time that noise cannot have. Chosen:
ten times the noise of a poor calibration, as ``position_margin``.
"""
SHARED_EVIDENCE = 20
"""
Evidence that two bodies have the name, from which its poses are withheld until none is left. A
sender time with poses of two bodies adds one, or ``EVIDENCE_APART``; any other removes one.
Chosen: noise has one with a probability of 0.14.
"""
EVIDENCE_APART = 10
"""
Evidence of two poses more than ``APART_M`` apart. Chosen: two sender times, as fast as a body is
acquired.
"""


Pose = tuple[Vector, Quat]


class Placed(NamedTuple):
    """
    Time and stamp of a pose.

    :ivar time_ns: time on the sender's clock (ns), for the validity gate.
    :ivar stamp_ns: stamp on the host's clock (ns).
    """

    time_ns: int
    stamp_ns: int


class _Tick:
    """
    The poses of one body that share a sender time.

    :ivar sender_ns: the sender time (in mode ``arrival`` the stamp).
    :ivar arrival_ns: arrival of the first pose (ns).
    :ivar stamp_ns: stamp from the clock model for the sender time (ns).
    :ivar last: place of the last pose.
    :ivar poses: poses received in this tick, as sent, in order.
    :ivar closed: whether an earlier sender time has arrived since. Then this sender time is a
        repetition after the sender's clock was set back.
    :ivar before: first pose of the tick before, if any.
    :ivar shared: whether the second pose is probably that of another body.
    :ivar evidence: evidence that the ticks before give for two bodies, from 0 to
        ``SHARED_EVIDENCE``.
    """

    __slots__ = ('sender_ns', 'arrival_ns', 'stamp_ns', 'last', 'poses', 'closed', 'before',
                 'shared', 'evidence', '_gain')

    def __init__(
        self, sender_ns: int, arrival_ns: int, plain: Placed, placed: Placed, pose: Pose,
        previous: _Tick | None = None,
    ) -> None:
        self.sender_ns = sender_ns
        self.arrival_ns = arrival_ns
        self.stamp_ns = plain.stamp_ns
        self.last = placed
        self.poses = {pose: None}
        self.closed = False
        self.shared = False
        self.before: Pose | None = None
        self.evidence = 0
        self._gain = -1
        if previous is not None:
            self.before = previous.first
            self.evidence = min(max(previous.evidence + previous._gain, 0), SHARED_EVIDENCE)

    @property
    def first(self) -> Pose:
        """Return the first pose."""
        return next(iter(self.poses))

    def add(self, pose: Pose) -> None:
        """Add a further pose."""
        if len(self.poses) == 1:
            apart = pose_distance(*self.first, *pose)
            moved = 0.0 if self.before is None else pose_distance(*self.before, *self.first)
            if 2.0 * moved < apart:
                self._gain = EVIDENCE_APART if apart > APART_M else 1
                # Evidence from which a second pose is not placed. Chosen: noise has four in one of
                # 1000 sender times.
                self.shared = self.evidence + self._gain >= 4
        self.poses[pose] = None


class CoarseClock:
    """
    Place the poses of one connection that share a sender time.

    :param stamps: the clock model.
    :ivar tick_ns: size of the sender's tick (ns), 0 while it is unknown.
    """

    def __init__(self, stamps: StampSource) -> None:
        self.tick_ns = 0
        self._stamps = stamps
        # For the newest sender time: number of its last frame, first arrival of that frame, and
        # frame number of each body's last pose.
        self._frames_of_ns = -1
        self._frame = 0
        self._frame_ns = 0
        self._numbers: dict[TrackedBody, int] = {}
        self._ticks: dict[TrackedBody, _Tick] = {}
        self._times: deque[int] = deque(maxlen=TICKS_TO_REPORT + 1)
        self._reported_ns = 0

    def reset(self) -> None:
        """Discard all ticks, after a step of a clock."""
        for channel in list(self._ticks):
            channel.newest_ns = -1
            self.forget(channel)
        self._frames_of_ns = -1
        self._times.clear()
        self.tick_ns = 0

    def forget(self, channel: TrackedBody) -> None:
        """Discard the state of one body."""
        channel.gate.share_name(False)
        self._ticks.pop(channel, None)
        self._numbers.pop(channel, None)

    def place(
        self, channel: TrackedBody, plain: Placed, pose: Pose, frame_ns: int, arrival_ns: int,
        host_arrival_ns: int,
    ) -> Placed:
        """
        Place a pose whose sender time is not later than that of the body's last pose.

        After the first such pose, the caller passes all poses of the body.

        :param plain: sender time (the stamp in mode ``arrival``) and the stamp from the clock
            model.
        :param pose: the pose as sent.
        :param frame_ns: its sender time (ns).
        :param arrival_ns: its arrival on the arrival clock (ns).
        :param host_arrival_ns: its arrival on the host's clock (ns).
        :returns: an earlier place for a repeat, a late frame and a pose of another body; the
            validity gate then withholds it.
        """
        sender_ns = plain.time_ns
        tick = self._ticks.get(channel)
        if tick is None:
            last = channel.gate.last_pose
            if (sender_ns != channel.newest_ns or last is None or last == pose
                    or channel.gate.is_behind
                    or arrival_ns - channel.gate.last_receive_ns > LONGEST_TICK_NS):
                return plain
            self._ticks[channel] = tick = _Tick(
                sender_ns, channel.gate.last_receive_ns, plain, plain, last)
            channel.newest_ns = COARSE_NS
            if sender_ns >= self._frames_of_ns:
                self._number(channel, sender_ns, tick.arrival_ns)
        elif sender_ns > tick.sender_ns:
            wanted = self._by_number(channel, frame_ns, arrival_ns, host_arrival_ns) or plain
            placed = self._after(tick, wanted, host_arrival_ns)
            self._ticks[channel] = tick = _Tick(sender_ns, arrival_ns, plain, placed, pose, tick)
            if tick.evidence in (0, SHARED_EVIDENCE):
                channel.gate.share_name(tick.evidence > 0)
            return placed
        elif sender_ns < tick.sender_ns:
            tick.closed = True
            return plain    # late: the gate has seen a later time
        elif (tick.closed or arrival_ns - tick.arrival_ns > LONGEST_TICK_NS
                or pose in tick.poses):
            return tick.last
        tick.add(pose)
        if tick.shared:
            return tick.last
        self._note_tick(frame_ns)
        numbered = self._by_number(channel, frame_ns, arrival_ns, host_arrival_ns)
        if numbered is not None:
            tick.last = self._after(tick, numbered, host_arrival_ns)
        return tick.last

    def _number(self, channel: TrackedBody, sender_ns: int, arrival_ns: int) -> int:
        """Return the number of a pose's frame within the newest sender time, counted from 0."""
        if sender_ns != self._frames_of_ns:
            self._frames_of_ns, self._frame, self._frame_ns = sender_ns, 0, arrival_ns
            self._numbers.clear()
        elif (self._numbers.get(channel, -1) >= self._frame
                or 2.0 * (arrival_ns - self._frame_ns) * channel.gate.rate_hz > NS_PER_S):
            self._frame += 1
            self._frame_ns = arrival_ns
        self._numbers[channel] = self._frame
        return self._frame

    def _by_number(
        self, channel: TrackedBody, sender_ns: int, arrival_ns: int, host_arrival_ns: int,
    ) -> Placed | None:
        """Place a pose by the number of its frame; return None for a late one."""
        if sender_ns < self._frames_of_ns:
            return None
        number = self._number(channel, sender_ns, arrival_ns)
        found = self._stamps.stamp_further(
            sender_ns, number, arrival_ns, host_arrival_ns - arrival_ns)
        return None if found is None else Placed(*found)

    @staticmethod
    def _after(tick: _Tick, wanted: Placed, host_arrival_ns: int) -> Placed:
        """Make times rise strictly, and stamps as far as the arrival permits."""
        last = tick.last
        stamp_ns = min(max(wanted.stamp_ns, last.stamp_ns + STEP_NS), host_arrival_ns)
        if stamp_ns < last.stamp_ns <= host_arrival_ns + READING_NOISE_NS:
            stamp_ns = last.stamp_ns
        return Placed(max(wanted.time_ns, last.time_ns + STEP_NS), stamp_ns)

    def _note_tick(self, sender_ns: int) -> None:
        """Measure the tick size from sender times that several frames share."""
        times = self._times
        if self.tick_ns or (times and sender_ns <= times[-1]):
            return
        times.append(sender_ns)
        if len(times) > TICKS_TO_REPORT:
            least = min(b - a for a, b in pairwise(times))
            # A clock that occasionally gives two frames one time is not coarse.
            self.tick_ns = least if least <= LONGEST_TICK_NS else 0

    def take_event(self) -> Event | None:
        """Return the event that reports the tick size, once for each size."""
        if self.tick_ns in (0, self._reported_ns):
            return None
        self._reported_ns = self.tick_ns
        tick_ms = self.tick_ns / 1e6
        return Event('warn', 'coarse clock', (
            f"the sender's clock advances in ticks of {tick_ms:.3g} ms, longer than a frame "
            'interval: frames of one tick are distinguished by their order. In mode tracking the '
            'frame rate determines their stamps; in other modes, and while the rate is unknown, '
            'their arrival does, with the jitter of the network. If possible, set a finer clock '
            'on the Motive computer'), self.tick_ns)
