# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Round trips to the sender's clock: the least delay of the network, which no arrival shows.

The line under the arrivals is the offset of the clocks and the least delay. A round trip bounds
the offset alone: a request left this host before it reached the sender, and the answer arrived
after it was sent. Where the line puts the server's time, the answer arrived ``back`` later and the
request left ``there`` earlier; the offset lies between. Its middle is the estimate, and half the
distance bounds the error whatever the asymmetry of the two ways (Harrison, Newman, "TICSync:
Knowing When Things Happened", ICRA 2011).
"""

from __future__ import annotations

from collections import deque
import math

from optitrack_vrpn.stream.clock.limits import EDGE_NS, RATE, RESOLUTION_NS, SECOND_NS
from optitrack_vrpn.stream.clock.line import Line


class RoundTrips:
    """
    Bounds of the offset of the sender's clock.

    :ivar new: whether a round trip has been added since the bounds were found.
    :ivar known: whether the bounds are known.
    :ivar half_width_ns: bound of the error, asymmetry included.
    :ivar delay_ns: least delay of the network, by which the line is later than the offset (ns).
    """

    def __init__(self) -> None:
        self._trips: deque[tuple[int, int, int]] = deque()
        self.known = self.new = False
        self._at_ns = 0
        self.half_width_ns = math.nan
        self.delay_ns = 0

    def add(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """
        Add a round trip.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there.
        :param received_ns: arrival clock when the answer arrived.
        """
        trips = self._trips
        trips.append((sent_ns, server_ns, received_ns))
        while abs(trips[0][1] - server_ns) > EDGE_NS:
            trips.popleft()
        self.new = True

    def follow(self, line: Line, at_once: bool = False) -> None:
        """
        Find the bounds; the delay follows their middle within a second.

        :param line: the line under the arrivals.
        :param at_once: whether the line has changed: the delay follows at once.
        """
        trips, there, back = self._trips, math.inf, 0.0
        self.new = False
        if not trips:
            return
        newest_ns = trips[-1][1]
        for sent, server, received in trips:
            place, margin = server + line.lag(server), RATE * abs(newest_ns - server)
            there = min(there, place - sent + margin)
            back = min(back, received - place + margin)
        if there + back < -2 * RESOLUTION_NS and len(trips) > 1:
            # The older ones are of another clock.
            self._trips = deque([trips[-1]])
            self.follow(line, True)
            return
        delay_ns = max(0.0, (there - back) / 2)
        passed_ns = newest_ns - self._at_ns
        if self.known and not at_once and 0 <= passed_ns < SECOND_NS:
            delay_ns = self.delay_ns + passed_ns / SECOND_NS * (delay_ns - self.delay_ns)
        self.known, self.delay_ns, self._at_ns = True, round(delay_ns), newest_ns
        # The offset is at most so far from there.
        self.half_width_ns = max(there - delay_ns, delay_ns + back, 0.0)
