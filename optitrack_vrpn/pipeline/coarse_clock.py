# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Place the poses of a sender whose clock is coarser than its frames.

A clock that advances in ticks of 15.6 ms gives four frames of 240 Hz the same sender time. The
clock model stamps them all alike, since equal sender times get equal stamps. Here the second and
later poses of one body within a tick are further frames. Frames are counted over all bodies: a
body that has a pose in the present frame already, or that comes late by more than half an
interval, begins the next one.

Where the clock model knows the rate of the frames (``clock/cadence.py``, mode ``tracking``), the
number gives time and stamp. Until then, and in other modes, such poses are placed by their
arrival: their stamp is that of the first, plus the time between the two arrivals. So it is never
later than the arrival of the pose itself, and it rises. Bodies that are in the same frame share
such a stamp, as far as their order of arrival shows that it is the same frame.

A pose with the bits of an earlier one of the same tick is a repeat and is not placed.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from optitrack_vrpn.clock import StampSource
from optitrack_vrpn.events import Event
from optitrack_vrpn.motion.quaternion import Quat, Vector
from optitrack_vrpn.pipeline.channel import Channel
from optitrack_vrpn.vrpn.messages import PoseReport

LONGEST_TICK_NS = 100_000_000
"""
Poses that arrive later than this (ns) after the first of their sender time are not placed.
Chosen: above the coarsest clock of a personal computer (55 ms). Doubled, poses of a sender whose
clock has stopped are published for twice as long; halved, such clocks lose poses.
"""
TICKS_TO_REPORT = 8
"""Ticks after which the size is reported; the least of their distances. Chosen."""
STEP_NS = 1
"""Least distance (ns) between the stamps of two poses; 1 ns is the resolution of ROS time."""
COARSE_NS = 1 << 62
"""A sender time later than all: each pose of a channel that has it is placed here."""
EPOCH_STEP_NS = 1_000_000_000
"""Sender time that falls by more than this has restarted, as in ``bodies/validity.py``."""


class Placed(NamedTuple):
    """
    When a pose was.

    :ivar time_ns: by the sender's clock (ns), for the validity gate.
    :ivar stamp_ns: by the host's clock (ns).
    """

    time_ns: int
    stamp_ns: int


class _Tick:
    """
    The poses of one body that share a sender time.

    :ivar sender_ns: the sender time (in mode ``arrival`` its stamp).
    :ivar arrival_ns: of the first pose.
    :ivar stamp_ns: what the clock model gives for the sender time.
    :ivar last: where the last one was placed.
    :ivar poses: what has been seen of it, as sent.
    :ivar closed: whether an earlier sender time has come: then this one comes again, because the
        sender's clock was set back.
    """

    __slots__ = ('sender_ns', 'arrival_ns', 'stamp_ns', 'last', 'poses', 'closed')

    def __init__(
        self, sender_ns: int, arrival_ns: int, plain: Placed, placed: Placed,
        pose: tuple[Vector, Quat],
    ) -> None:
        self.sender_ns = sender_ns
        self.arrival_ns = arrival_ns
        self.stamp_ns = plain.stamp_ns
        self.last = placed
        self.poses = [pose]
        self.closed = False


class CoarseClock:
    """
    Place the poses of one connection that its sender's clock does not tell apart.

    :param stamps: the clock model.
    :ivar tick_ns: size of the sender's tick (ns), 0 while it is not known.
    """

    def __init__(self, stamps: StampSource) -> None:
        self.tick_ns = 0
        self._stamps = stamps
        # Frames of the newest sender time: the number of the last, its first arrival, and the
        # number of each body's last pose.
        self._frames_of_ns = -1
        self._frame = 0
        self._frame_ns = 0
        self._numbers: dict[Channel, int] = {}
        self._ticks: dict[Channel, _Tick] = {}
        # The newest sender time, when the first pose of it arrived, and the places given in it.
        self._sender_ns = -1
        self._first_ns = 0
        self._places: list[Placed] = []
        self._times: deque[int] = deque(maxlen=TICKS_TO_REPORT + 1)
        self._reported = False

    def reset(self) -> None:
        """Forget the ticks: a clock has stepped."""
        for channel in self._ticks:
            channel.newest_ns = -1
        self._ticks.clear()
        self._frames_of_ns = self._sender_ns = -1
        self._numbers.clear()
        self._times.clear()

    def forget(self, channel: Channel) -> None:
        """Forget one body."""
        self._ticks.pop(channel, None)
        self._numbers.pop(channel, None)

    def place(
        self, channel: Channel, plain: Placed, report: PoseReport, arrival_ns: int,
        host_arrival_ns: int,
    ) -> Placed:
        """
        Place a pose whose sender time is not later than that of the body's last one.

        Once a body has been placed here, all its poses are.

        :param plain: what holds without this class; frames are told apart by its ``time_ns``.
        :param report: the pose as sent.
        :param arrival_ns: its arrival (ns).
        :param host_arrival_ns: the same by the host's clock (ns).
        :returns: ``plain`` for a repeat and for a late frame, which the validity gate withholds.
        """
        sender_ns, pose = plain.time_ns, (report.position, report.quat_xyzw)
        tick = self._ticks.get(channel)
        if tick is None:
            last = channel.gate.last_pose
            if (sender_ns != channel.newest_ns or last is None or same(last, pose)
                    or channel.gate.is_behind
                    or arrival_ns - channel.gate.last_receive_ns > LONGEST_TICK_NS):
                if channel.newest_ns - sender_ns > EPOCH_STEP_NS:
                    channel.newest_ns = sender_ns
                return plain
            self._ticks[channel] = tick = _Tick(
                sender_ns, channel.gate.last_receive_ns, plain, plain, last)
            channel.newest_ns = COARSE_NS
            if sender_ns >= self._frames_of_ns:
                self._number(channel, sender_ns, tick.arrival_ns)
        elif sender_ns > tick.sender_ns:
            wanted = self._by_number(channel, report, arrival_ns, host_arrival_ns) or plain
            placed = self._after(tick, wanted, host_arrival_ns)
            self._ticks[channel] = _Tick(sender_ns, arrival_ns, plain, placed, pose)
            return placed
        elif sender_ns < tick.sender_ns:
            if tick.sender_ns - sender_ns > EPOCH_STEP_NS:
                del self._ticks[channel]
                channel.newest_ns = sender_ns
            tick.closed = True
            return plain    # late: its time is behind what the gate has seen
        elif (tick.closed or arrival_ns - tick.arrival_ns > LONGEST_TICK_NS
                or any(same(known, pose) for known in tick.poses)):
            return tick.last
        tick.poses.append(pose)
        self._note_tick(report.sender_time_ns)
        wanted = (self._by_number(channel, report, arrival_ns, host_arrival_ns)
                  or self._within(tick, arrival_ns))
        tick.last = self._after(tick, wanted, host_arrival_ns)
        return tick.last

    def _number(self, channel: Channel, sender_ns: int, arrival_ns: int) -> int:
        """Return which frame of the newest sender time a pose is part of, counted from 0."""
        if sender_ns != self._frames_of_ns:
            self._frames_of_ns, self._frame, self._frame_ns = sender_ns, 0, arrival_ns
            self._numbers.clear()
        elif (self._numbers.get(channel, -1) >= self._frame
                or 2.0 * (arrival_ns - self._frame_ns) > (
                    self._stamps.frame_interval_ns or 2.0 * LONGEST_TICK_NS)):
            self._frame += 1
            self._frame_ns = arrival_ns
        self._numbers[channel] = self._frame
        return self._frame

    def _by_number(
        self, channel: Channel, report: PoseReport, arrival_ns: int, host_arrival_ns: int,
    ) -> Placed | None:
        """Place a pose by the number of its frame; None while the frames' rate is not known."""
        sender_ns = report.sender_time_ns
        if sender_ns < self._frames_of_ns:
            return None
        number = self._number(channel, sender_ns, arrival_ns)
        found = self._stamps.stamp_further(
            sender_ns, number, arrival_ns, host_arrival_ns - arrival_ns)
        return None if found is None else Placed(*found)

    def _within(self, tick: _Tick, arrival_ns: int) -> Placed:
        """Place a pose within its tick: where another body of the same frame is, if there is."""
        if tick.sender_ns != self._sender_ns:
            self._sender_ns, self._first_ns = tick.sender_ns, tick.arrival_ns
            self._places.clear()
        later_ns = arrival_ns - min(self._first_ns, tick.arrival_ns)
        if self.tick_ns:
            later_ns = min(later_ns, self.tick_ns - STEP_NS)
        wanted = Placed(tick.sender_ns + later_ns, tick.stamp_ns + later_ns)
        for place in self._places:
            if tick.last.stamp_ns < place.stamp_ns <= wanted.stamp_ns:
                return place
        self._places.append(wanted)
        return wanted

    @staticmethod
    def _after(tick: _Tick, wanted: Placed, host_arrival_ns: int) -> Placed:
        """Let times rise, and stamps as far as the arrival allows."""
        last = tick.last
        stamp_ns = min(max(wanted.stamp_ns, last.stamp_ns + STEP_NS), host_arrival_ns)
        return Placed(max(wanted.time_ns, last.time_ns + STEP_NS), max(stamp_ns, last.stamp_ns))

    def _note_tick(self, sender_ns: int) -> None:
        """Measure the tick by the sender times that several frames had."""
        times = self._times
        if self._reported or (times and sender_ns <= times[-1]):
            return
        times.append(sender_ns)
        if len(times) > TICKS_TO_REPORT:
            least = min(b - a for a, b in pairwise(times))
            # A clock that gives two frames one time now and then is not coarse.
            self.tick_ns = least if least <= LONGEST_TICK_NS else 0

    def take_event(self) -> Event | None:
        """Report the size of the tick, once."""
        if self._reported or not self.tick_ns:
            return None
        self._reported = True
        tick_ms = self.tick_ns / 1e6
        return Event('warn', 'coarse clock', (
            f"the sender's clock advances in ticks of {tick_ms:.3g} ms, which is more than one "
            'frame: frames of one tick are told apart by their order. In mode tracking their rate '
            'gives their stamps; in other modes, and while it is not known, their arrival does, '
            'with the jitter of the network. Make the clock of the Motive computer finer if you '
            'can'), self.tick_ns)


def same(a: tuple[Vector, Quat], b: tuple[Vector, Quat]) -> bool:
    """Return whether two poses have the same bits."""
    return a[0] == b[0] and a[1] == b[1]
