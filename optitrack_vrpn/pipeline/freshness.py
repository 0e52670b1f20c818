# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Distinguish a backlog from live frames at the beginning of a conversation.

A server that was blocked, or a TCP connection that was stalled, delivers old frames first, much
faster than their sender times advance. Nothing is known of the sender's clock at that time, so
that the age of a frame cannot be computed; what can be compared is the interval between arrivals
with the interval between sender times.

Principle: arrival time less sender time is the delay of a frame plus a constant. While a backlog
is delivered, this value falls, frame by frame, to ever lower minima. Once frames are live, the
minimum has been reached: it recurs, but no frame is faster. Frames are fresh once the minimum
has recurred several times, at moments that are some time apart, without a lower one.
"""

from typing import Optional

#: Frames within this (ns) of the minimum count as a recurrence; a frame that is faster by more
#: begins the observation anew. It bounds the error of the stamps that follow. Chosen: wired
#: networks jitter by less than 1 ms; a higher value admits more of a backlog that ends slowly, a
#: lower one prolongs the beginning on a wireless network.
TOLERANCE_NS = 3_000_000
#: Recurrences that are needed, and the least time between two that count (ns). Chosen: together
#: some 0.1 s without poses after each connection. Two recurrences may be the two ends of one
#: stall within a backlog; more cannot be one stall.
RECURRENCES = 4
SPACING_NS = 25_000_000
#: What cannot be judged (sender times that stand still, jitter beyond the tolerance) is admitted
#: after this time (ns) without a lower minimum. Pauses count for ``PAUSE_NS`` at most; frames that
#: arrive in less than ``PACE`` of the interval in which they were sent do not count at all.
GIVE_UP_NS = 1_000_000_000
PAUSE_NS = 50_000_000
PACE = 7 / 8
#: A sender time that falls by more (ns) belongs to another clock.
RESTART_NS = 1_000_000_000


class FreshnessGate:
    """
    Admit frames once they arrive as fast as their sender times advance, and not before.

    :ivar withheld: frames withheld that a later, faster one has shown to be a backlog.
    :ivar fallen_ns: by how much the minimum of arrival less sender time has fallen in all (ns):
        the age of the oldest frame of the backlog.
    """

    def __init__(self) -> None:
        self.withheld = 0
        self.fallen_ns = 0
        self._pending = 0
        self._open = False
        self._minimum_ns: Optional[int] = None
        self._recurrences = 0
        self._recurred_ns = 0
        self._newest_ns = 0
        self._arrived_ns = 0
        self._heard_ns = 0

    @property
    def is_open(self) -> bool:
        """Return whether frames are fresh."""
        return self._open

    def admits(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """
        Take note of a frame.

        :param sender_time_ns: the sender's time (ns, its own zero).
        :param arrival_ns: when it arrived (ns), on a clock that never steps.
        :returns: whether it is fresh; once True, always True.
        """
        if self._open:
            return True
        offset_ns = arrival_ns - sender_time_ns
        if self._minimum_ns is None or self._newest_ns - sender_time_ns > RESTART_NS:
            self._begin(offset_ns, arrival_ns)
            self._newest_ns = sender_time_ns
        else:
            # Frames of several bodies share a sender time; an overtaken one proves nothing.
            sent_ns = max(sender_time_ns - self._newest_ns, 0)
            self._newest_ns += sent_ns
            passed_ns = max(arrival_ns - self._arrived_ns, 0)
            if offset_ns < self._minimum_ns - TOLERANCE_NS:
                self.fallen_ns += self._minimum_ns - offset_ns
                self.withheld += self._pending
                self._begin(offset_ns, arrival_ns)
            else:
                if passed_ns >= PACE * sent_ns:
                    self._heard_ns += min(passed_ns, PAUSE_NS)
                if (offset_ns <= self._minimum_ns + TOLERANCE_NS
                        and arrival_ns - self._recurred_ns >= SPACING_NS):
                    self._recurrences += 1
                    self._recurred_ns = arrival_ns
        self._arrived_ns = arrival_ns
        self._open = self._recurrences >= RECURRENCES or self._heard_ns >= GIVE_UP_NS
        self._pending += not self._open
        return self._open

    def _begin(self, offset_ns: int, arrival_ns: int) -> None:
        self._minimum_ns = offset_ns
        self._recurrences = 0
        self._recurred_ns = arrival_ns
        self._heard_ns = 0
        self._pending = 0
