# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The counters of a NatNet conversation; the missing frames in the numbers of the frames."""

from dataclasses import dataclass
from typing import Optional

from optitrack_vrpn.core.units import NS_PER_MS
from optitrack_vrpn.drivers.losses import LossCounter, LossCounters


@dataclass
class NatNetCounters(LossCounters):
    """
    Counters of one conversation.

    :ivar datagrams: datagrams, valid or not.
    :ivar messages: decoded frames.
    :ivar poses: rigid bodies in these frames.
    :ivar malformed: datagrams that contradict their type or the version of the bitstream.
    :ivar early: frames that arrived before the server stated its version.
    :ivar other_type: messages of types that are not used.
    :ivar unexpected: answers without a request.
    :ivar echoes: measured round trips.
    """

    datagrams: int = 0
    messages: int = 0
    poses: int = 0
    malformed: int = 0
    early: int = 0
    other_type: int = 0
    unexpected: int = 0
    echoes: int = 0


class Numbering:
    """
    Count missing frames from the frame numbers.

    A server may send only every n-th frame; the smallest recent step is taken as the regular one.
    Losses are counted from then on, between frames that keep coming: after an interruption or a
    restart the numbers do not show what was sent.

    :param counters: counters to update.
    """

    #: Chosen: frames whose smallest step is taken as the regular one.
    _LOOK = 64
    #: Chosen: longest interval (ns) between two frames in which frames can be lost.
    _LONGEST_NS = 200 * NS_PER_MS

    def __init__(self, counters: LossCounters) -> None:
        self._counters = counters
        self._losses = LossCounter(counters)
        self._last: Optional[int] = None
        self._last_ns = 0
        self._stride = 0    # unknown
        self._least = 1 << 31
        self._seen = 0

    def follow(self, number: int, now_ns: int) -> bool:
        """Process the number of a frame; return whether frames before it are missing."""
        last, pause_ns = self._last, now_ns - self._last_ns
        self._last, self._last_ns = number, now_ns
        if last is None:
            return False
        step = number - last
        if step == 0:
            self._counters.udp_repeated += 1
        elif step < 0:
            if -step < self._LOOK * max(1, self._stride):
                self._losses.take_late(number, 1)
                self._last = last
            else:    # the server restarted, or a take is played again
                self._losses.clear()
        else:
            regular = self._stride or 1
            self._least = min(self._least, step)
            self._seen += 1
            if self._seen >= self._LOOK:
                self._stride, self._least, self._seen = self._least, 1 << 31, 0
            if step > regular:
                known = step < 1_000 * self._stride and pause_ns <= self._LONGEST_NS
                self._losses.skip(last + 1, step - 1, self._stride if known else 0)
            return step > regular
        return False
