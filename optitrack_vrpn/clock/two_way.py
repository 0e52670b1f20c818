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
from typing import Final

_WINDOW_NS: Final = 120_000_000_000
"""How long round trips are remembered: both directions were free once, and 0.05 ppm of error of
the skew are 6 us."""
_MOST: Final = 600
"""Round trips that are kept: four a second fill the window."""
_FASTEST: Final = 500e-6
"""Largest correction of the offset per time passed (s/s), as that of a slewed clock."""
_SETTLING_NS: Final = 2_000_000_000
"""Time constant of these corrections: two blocks of the filter."""
_MARGIN_NS: Final = 50_000
"""Bounds that contradict each other by more belong to two clocks: above the error of the skew."""


class TwoWay:
    """
    Follow the offset of the sender's clock.

    :ivar known: whether a round trip has been measured.
    :ivar half_width_ns: bound of the error, asymmetry included.
    :ivar round_trip_ns: the shortest of late, 0 while unknown.
    :ivar delay_ns: least delay of the network, which the offset does not contain.
    """

    def __init__(self) -> None:
        self.delay_ns = 0
        self.restart()

    def restart(self) -> None:
        """Forget the sender's clock."""
        self._trips: deque[tuple[int, int, int]] = deque(maxlen=_MOST)
        self.known = False
        self.half_width_ns = math.nan
        self.round_trip_ns = 0
        self._middle_ns = self._at_ns = 0
        # The offset of the stamps, a float relative to the base, at a sender time.
        self._base_ns = self._followed_ns = 0
        self._offset = math.nan

    def add(
        self, sent_ns: int, server_ns: int, received_ns: int, skew: float, skew_deviation: float,
    ) -> None:
        """
        Add a round trip.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there.
        :param received_ns: arrival clock when the answer arrived.
        :param skew: the arrival clock's rate against the sender's, less one.
        :param skew_deviation: standard deviation of that.
        """
        trips = self._trips
        if trips and abs(server_ns - trips[-1][1]) > _WINDOW_NS:
            self.restart()
            trips = self._trips
        trips.append((sent_ns, server_ns, received_ns))
        while trips[0][1] < server_ns - _WINDOW_NS:
            trips.popleft()
        lower, upper = self._bounds(server_ns, skew, skew_deviation)
        if lower - upper > _MARGIN_NS:
            self.restart()
            self._trips.append((sent_ns, server_ns, received_ns))
            lower, upper = sent_ns - server_ns, received_ns - server_ns
        self.known = True
        self._middle_ns, self._at_ns = (lower + upper) // 2, server_ns
        self.half_width_ns = max(upper - lower, 0) / 2
        self.round_trip_ns = min(received - sent for sent, _, received in self._trips)

    def _bounds(self, now_ns: int, skew: float, deviation: float) -> tuple[int, int]:
        """Return what the round trips allow now."""
        lower, upper = -1 << 70, 1 << 70
        for sent, server, received in self._trips:
            age = now_ns - server
            drift = int(skew * age) - server
            margin = int(deviation * abs(age))
            lower = max(lower, sent + drift - margin)
            upper = min(upper, received + drift + margin)
        return lower, upper

    def place(self, sender_ns: int, placed_ns: int, skew: float) -> int:
        """
        Place a frame by the offset, which follows the bounds without steps.

        :param placed_ns: its place on the line under the arrivals; the result is not later.
        """
        if not self.known:
            return placed_ns
        wanted = self._middle_ns - self._base_ns + skew * (sender_ns - self._at_ns)
        passed = sender_ns - self._followed_ns
        if math.isnan(self._offset):
            self._base_ns = self._middle_ns
            self._offset = skew * (sender_ns - self._at_ns)
        elif passed > 0:
            self._offset += skew * passed
            most = _FASTEST * passed
            step = (wanted - self._offset) * min(1.0, passed / _SETTLING_NS)
            self._offset += min(max(step, -most), most)
        self._followed_ns = max(sender_ns, self._followed_ns)
        found = min(placed_ns, sender_ns + self._base_ns + int(self._offset))
        self.delay_ns = placed_ns - found
        return found

    def error_ns(self, skew: float) -> float:
        """Return the bound of the error of the stamps: that of the middle, and the way to it."""
        wanted = self._middle_ns - self._base_ns + skew * (self._followed_ns - self._at_ns)
        away = 0.0 if math.isnan(self._offset) else abs(wanted - self._offset)
        return self.half_width_ns + away
