# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise old frames where stamps cannot: at the beginning of a clock, and by arrivals.

After a server was blocked or a TCP connection stalled, old frames arrive first, much faster than
their sender times advance. The same applies after a stall of the network in which the sender's
clock was set. The offset of the sender's clock is unknown at that time, so the age of
a frame cannot be computed. The interval between arrivals can be compared with the interval between
sender times.

Principle: arrival time minus sender time is the delay of a frame plus a constant. While a backlog
is delivered, this value falls from frame to frame to new minima. Once frames are live, the minimum
recurs, but no frame falls below it. Frames are fresh when the minimum has recurred several times,
with some time between the recurrences and without a lower value.
"""

from collections.abc import Sequence
from typing import Optional

from optitrack_vrpn.units import NS_PER_S
from optitrack_vrpn.vrpn.constants import CONTROL_SENDER
from optitrack_vrpn.vrpn.messages import Event, PoseReport

#: Frames within this (ns) of the minimum count as recurrences; a frame that is lower by more
#: restarts the observation. The value bounds the error of the first stamps. Chosen: wired networks
#: jitter by less than 1 ms. Doubled, more of a backlog that ends slowly is admitted; halved, the
#: observation takes longer on a wireless network.
TOLERANCE_NS = 3_000_000
#: Required recurrences, and the shortest time (ns) between two that count. Chosen: together they
#: cost about 0.1 s of poses after each connection. Two recurrences can be the two ends of one
#: stall within a backlog; four cannot. 24 ms are slightly less than whole frames at 120, 240 and
#: 360 Hz; with 25 ms every second recurrence waited for one frame more. Halved, a backlog with a
#: stall can be admitted; doubled, either costs 0.2 s of poses.
RECURRENCES = 4
SPACING_NS = 24_000_000
#: If no decision is possible (constant sender times, jitter beyond the tolerance), frames are
#: admitted after this time (ns) without a lower minimum. A pause counts as ``PAUSE_NS`` at most.
#: Frames do not count if they arrive in less than ``PACE`` of the interval between their sender
#: times. Chosen. Halved, a backlog with slow or uneven arrivals is admitted earlier; doubled, such
#: senders are without poses for 2 s (GIVE_UP_NS), or longer pauses count as reception (PAUSE_NS).
#: With half of PACE, frames of a backlog that drains at twice its rate count.
GIVE_UP_NS = 1_000_000_000
PAUSE_NS = 50_000_000
PACE = 7 / 8
#: A sender time that falls by more than this (ns) comes from another clock. Chosen: longer than
#: datagrams overtake each other. Halved or doubled, falls from 0.5 s or from 2 s restart the
#: observation.
RESTART_NS = 1_000_000_000
#: Time (ns) for which all frames are withheld before this is reported. Chosen: backlogs of blocked
#: servers arrive within 2 s. Halved, slow ones are reported; doubled, the user waits longer for
#: the reason.
REPORT_NS = 5_000_000_000


#: Time (ns) after which the least delay may be one of frames after it; within twice this time it
#: is. Chosen: as long as mode ``tracking`` takes to attribute a delay of all frames to the clock.
#: Halved, the last poses of a backlog that is delivered in 10 s are published; doubled, poses of a
#: sender whose clock has stood still for a while are withheld for up to 40 s.
MEMORY_NS = 10_000_000_000


class LeastDelay:
    """
    Compute the age of frames from the least (arrival - sender time) so far.

    Stamps that are arrivals do not show how long the network held a frame.

    :param max_age_ns: age (ns) beyond which a frame is too old.
    """

    def __init__(self, max_age_ns: int) -> None:
        self._max_age_ns = max_age_ns
        self._before_ns = self._least_ns = 1 << 62
        self._began_ns = -MEMORY_NS

    def is_too_old(self, sender_time_ns: int, arrival_ns: int, now_ns: int) -> bool:
        """
        Process a frame, and return whether it is too old.

        :param sender_time_ns: sender time (ns, arbitrary zero).
        :param arrival_ns: arrival (ns) on a monotonic clock.
        :param now_ns: the present (ns) on that clock.
        """
        offset_ns = arrival_ns - sender_time_ns
        if arrival_ns - self._began_ns >= MEMORY_NS:
            self._began_ns = arrival_ns
            self._before_ns, self._least_ns = self._least_ns, offset_ns
        elif offset_ns < self._least_ns:
            self._least_ns = offset_ns
        least_ns = min(self._before_ns, self._least_ns)
        return now_ns - sender_time_ns - least_ns > self._max_age_ns


class FreshnessGate:
    """
    Withhold frames until they arrive as fast as their sender times advance.

    :ivar withheld: number of withheld frames that a later, faster frame has identified as backlog.
    :ivar fallen_ns: total decrease of the minimum of arrival minus sender time (ns): the age of
        the oldest frame of the backlog.
    :ivar trouble: why frames have been withheld for long, and the remedy; '' if they have not.
    """

    def __init__(self) -> None:
        self.withheld = 0
        self.fallen_ns = 0
        self.trouble = ''
        self._pending = 0
        self._began_ns: Optional[int] = None
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
        Process a frame.

        :param sender_time_ns: sender time (ns, arbitrary zero).
        :param arrival_ns: arrival (ns) on a monotonic clock.
        :returns: whether the frame is fresh; after the first True, always True.
        """
        if self._open:
            return True
        offset_ns = arrival_ns - sender_time_ns
        if self._minimum_ns is None or self._newest_ns - sender_time_ns > RESTART_NS:
            self._begin(offset_ns, arrival_ns)
            self._newest_ns = sender_time_ns
        else:
            # Frames of several bodies share a sender time; a frame out of order is no evidence.
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
        if self._began_ns is None:
            self._began_ns = arrival_ns
        elif arrival_ns - self._began_ns >= REPORT_NS:
            passed_s = (arrival_ns - self._began_ns) / NS_PER_S
            self.trouble = (
                f'no pose is published: within {passed_s:.0f} s, sender times have advanced by '
                f'{passed_s + self.fallen_ns / NS_PER_S:.0f} s, as in a backlog, of which poses '
                'are too old. If the server plays a recording faster than real time, set '
                'stamps.mode: sender')
        self._open = self._recurrences >= RECURRENCES or self._heard_ns >= GIVE_UP_NS
        self._pending += not self._open
        return self._open

    def divide(
        self, events: Sequence[Event], arrival_ns: int,
    ) -> tuple[list[Event], list[PoseReport]]:
        """
        Divide events that arrived together into those to process and the poses to withhold.

        :param arrival_ns: arrival (ns) on a monotonic clock.
        """
        kept: list[Event] = []
        withheld = []
        for event in events:
            if not isinstance(event, PoseReport) or event.sender == CONTROL_SENDER or (
                    self.admits(event.sender_time_ns, arrival_ns)):
                kept.append(event)
            else:
                withheld.append(event)
        return kept, withheld

    def _begin(self, offset_ns: int, arrival_ns: int) -> None:
        self._minimum_ns = offset_ns
        self._recurrences = 0
        self._recurred_ns = arrival_ns
        self._heard_ns = 0
        self._pending = 0


def divide_newest(events: Sequence[Event]) -> tuple[list[Event], list[PoseReport]]:
    """
    Divide events into those to process and the poses that a newer pose of the body supersedes.

    In mode ``arrival``, events that arrive together have one stamp, and only one pose of a body
    can have it.
    """
    newest = {(event.sender, event.sensor): event for event in events
              if isinstance(event, PoseReport)}
    kept: list[Event] = []
    superseded = []
    for event in events:
        if isinstance(event, PoseReport) and event is not newest[event.sender, event.sensor]:
            superseded.append(event)
        else:
            kept.append(event)
    return kept, superseded
