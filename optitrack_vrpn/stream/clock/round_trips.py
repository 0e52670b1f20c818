# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Round trips to the sender's clock: bounds of its offset, without the least delay of the network.

One-way arrivals give the sum of the clocks' offset and the least delay. A round trip bounds the
offset alone: a request left this host before it reached the sender, and the answer arrived after
it was sent. With host = sender + offset, each round trip gives

    sent - server <= offset <= received - server.

The greatest of the lower bounds and the least of the upper ones, each brought to the present with
the skew of the clock filter, enclose the offset; its middle is the estimate, and half the
distance bounds its error whatever the asymmetry of the two ways (Harrison, Newman, "TICSync:
Knowing When Things Happened", ICRA 2011).

All times are integer nanoseconds.
"""

from __future__ import annotations

from collections import deque
import math

from optitrack_vrpn.stream.clock.limits import EDGE_NS, RESOLUTION_NS, SECOND_NS


class RoundTrips:
    """
    Bounds of the offset of the sender's clock.

    :ivar known: whether a round trip has been measured.
    :ivar half_width_ns: bound of the error, asymmetry included.
    :ivar round_trip_ns: the shortest of late, 0 while unknown.
    :ivar delay_ns: least delay of the network, which the offset does not contain.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget the sender's clock."""
        self._trips: deque[tuple[int, int, int]] = deque()
        self.known = False
        self.half_width_ns = math.nan
        self.round_trip_ns = self.delay_ns = 0
        # The middle of the bounds at a server time; the offset of the stamps at a sender time.
        self._middle_ns = self._at_ns = 0
        self._offset_ns = self._followed_ns = self._away_ns = 0

    def add(
        self, sent_ns: int, server_ns: int, received_ns: int, skew: float, deviation: float,
    ) -> None:
        """
        Add a round trip.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there.
        :param received_ns: arrival clock when the answer arrived.
        :param skew: the arrival clock's rate against the sender's, less one.
        :param deviation: standard deviation of that.
        """
        trips = self._trips
        trips.append((sent_ns, server_ns, received_ns))
        while abs(trips[0][1] - server_ns) > EDGE_NS:
            trips.popleft()
        lower, upper = -1 << 70, 1 << 70
        for sent, server, received in trips:
            age = server_ns - server
            drift = int(skew * age) - server
            margin = int(deviation * abs(age))
            lower = max(lower, sent + drift - margin)
            upper = min(upper, received + drift + margin)
        if lower - upper > 2 * RESOLUTION_NS:
            # The older ones are of another clock.
            self.restart()
            self.add(sent_ns, server_ns, received_ns, skew, deviation)
            return
        self.known = True
        self._middle_ns, self._at_ns = (lower + upper) // 2, server_ns
        self.half_width_ns = max(upper - lower, 0) / 2
        self.round_trip_ns = min(received - sent for sent, _, received in trips)

    def place(self, sender_ns: int, placed_ns: int, skew: float) -> int:
        """
        Place a frame by the offset, which follows the bounds without steps.

        :param placed_ns: its place on the line under the arrivals; the result is not later.
        """
        if not self.known:
            return placed_ns
        middle_ns = self._middle_ns + round(skew * (sender_ns - self._at_ns))
        passed = sender_ns - self._followed_ns
        if not self._followed_ns:
            self._offset_ns = middle_ns
        elif passed > 0:
            drift = skew * passed
            step = (middle_ns - self._offset_ns - drift) * min(1.0, 0.5 * passed / SECOND_NS)
            self._offset_ns += round(drift + step)
        self._away_ns = abs(middle_ns - self._offset_ns)
        self._followed_ns = max(sender_ns, self._followed_ns)
        found = min(placed_ns, sender_ns + self._offset_ns)
        self.delay_ns = placed_ns - found
        return found

    def error_ns(self) -> float:
        """Return the bound of the error of the stamps: that of the middle, and the way to it."""
        return self.half_width_ns + self._away_ns
