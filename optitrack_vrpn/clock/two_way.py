# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The least delay of the network, from round trips to the sender's clock.

One-way arrivals give the sum of the clocks' offset and the least delay. A round trip bounds the
offset alone: a request left this host before it reached the sender, and the answer arrived after
it was sent. With host = sender + offset, each round trip gives

    sent - server <= offset <= received - server.

The greatest of the lower bounds and the least of the upper ones, each brought to the present with
the skew that the frames give, enclose the offset; its middle is the estimate, and half the
distance bounds its error whatever the asymmetry of the two ways (Harrison, Newman, "TICSync:
Knowing When Things Happened", ICRA 2011). Nothing else can bound an asymmetry.

All times are integer nanoseconds.
"""

from __future__ import annotations

from collections import deque
import math

_WINDOW_NS = 120_000_000_000
"""How long round trips are remembered. Chosen: many enough that both directions were free once,
not so long that the skew's error matters; half of it widens the bound on a busy network, twice as
long adds 6 us for an error of the skew of 0.05 ppm."""
_MOST = 600
"""Round trips that are kept. Chosen: four a second fill the window; half of them shorten it, twice
as many cost memory alone."""
_YOUNG_NS = 3_000_000_000
"""Time for which the line under the arrivals still comes down, and the delay follows it at once.
Chosen: the first blocks of ``tracking.py``; half of it settles slowly on the first error, twice as
long lets stamps step for 6 s."""
_SETTLING_NS = 5_000_000_000
"""Time constant with which the delay follows its estimate afterwards. Chosen: five blocks; half of
it passes noise of single blocks on, twice as long lags after a change of the route."""
_FASTEST = 20e-6
"""Largest change of the delay per time passed (s/s). Chosen: intervals of stamps stay exact to 20
ppm; half of it follows a change half as fast, twice as much disturbs velocities by 40 ppm."""
_MARGIN_NS = 50_000
"""Bounds that contradict each other by more belong to two different clocks. Chosen: above the
error of the skew in the window; half of it forgets good round trips, twice as much keeps wrong
ones after a step of 0.1 ms."""
_LONGEST_TRIP_NS = 1_000_000_000
"""A round trip that took longer bounds nothing. Chosen: longer than any that is useful; half of it
or twice as much changes nothing."""


class TwoWay:
    """
    Follow the least delay from the sender to this host.

    :ivar delay_ns: what is to be taken off the line under the arrivals.
    :ivar half_width_ns: bound of the delay's error, asymmetry included; NaN while unknown.
    :ivar round_trip_ns: the shortest of late, 0 while unknown.
    """

    def __init__(self) -> None:
        self.delay_ns = 0
        self._delay = 0.0    # the same with its fraction
        self.restart()

    def restart(self) -> None:
        """Forget the sender's clock, but not the network: the same sender restarted."""
        self._trips: deque[tuple[int, int, int]] = deque(maxlen=_MOST)
        self.half_width_ns = math.nan
        self.round_trip_ns = 0
        self._offset_ns: int | None = None
        self._at_ns = 0
        self._skew = 0.0
        self._young_to: int | None = None
        self._followed_ns = 0

    @property
    def known(self) -> bool:
        """Whether a round trip has been measured."""
        return self._offset_ns is not None

    def reset(self) -> None:
        """Forget the sender's clock; another one may follow."""
        self.delay_ns = 0
        self._delay = 0.0
        self.restart()

    def add(
        self, sent_ns: int, server_ns: int, received_ns: int, skew: float, skew_deviation: float,
    ) -> None:
        """
        Take a round trip.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there.
        :param received_ns: arrival clock when the answer arrived.
        :param skew: the arrival clock's rate against the sender's, less one; NaN if unknown.
        :param skew_deviation: standard deviation of that.
        """
        if not 0 <= received_ns - sent_ns <= _LONGEST_TRIP_NS:
            return
        trips = self._trips
        if trips and abs(server_ns - trips[-1][1]) > _WINDOW_NS:
            self.restart()
            trips = self._trips
        trips.append((sent_ns, server_ns, received_ns))
        while trips[0][1] < server_ns - _WINDOW_NS:
            trips.popleft()
        self._skew = 0.0 if math.isnan(skew) else skew
        lower, upper = self._bounds(server_ns, skew_deviation)
        if lower - upper > _MARGIN_NS:
            # The newest is right: the sender's or this host's clock stepped.
            trips.clear()
            trips.append((sent_ns, server_ns, received_ns))
            self._young_to = None
            lower, upper = self._bounds(server_ns, skew_deviation)
        self._offset_ns = (lower + upper) // 2
        self._at_ns = server_ns
        self.half_width_ns = max(0.0, (upper - lower) / 2)
        self.round_trip_ns = min(received - sent for sent, _, received in trips)

    def _bounds(self, now_ns: int, skew_deviation: float) -> tuple[int, int]:
        """Give the least and the greatest offset now that the round trips allow."""
        skew = self._skew
        lower, upper = -1 << 70, 1 << 70
        for sent, server, received in self._trips:
            age = now_ns - server
            drift = int(skew * age) - server
            margin = int(skew_deviation * abs(age))
            lower = max(lower, sent + drift - margin)
            upper = min(upper, received + drift + margin)
        return lower, upper

    def follow(self, sender_ns: int, placed_ns: int) -> int:
        """
        Take the place of a frame on the line under the arrivals, and give the delay.

        :param sender_ns: the sender's time when the frame was transmitted, or shortly before.
        :param placed_ns: its place on the arrival clock.
        :returns: the delay, which is to be taken off the place (ns).
        """
        if self._offset_ns is None:
            return self.delay_ns
        offset = self._offset_ns + int(self._skew * (sender_ns - self._at_ns))
        wanted = placed_ns - sender_ns - offset
        if self._young_to is None:
            self._young_to = sender_ns + _YOUNG_NS
        passed = sender_ns - self._followed_ns
        if sender_ns < self._young_to:
            self._delay = float(wanted)
            self.delay_ns = wanted
            self._followed_ns = sender_ns
        elif passed > 0:
            step = (wanted - self._delay) * min(1.0, passed / _SETTLING_NS)
            most = _FASTEST * min(passed, _SETTLING_NS)
            self._delay += min(max(step, -most), most)
            self.delay_ns = int(self._delay)
            self._followed_ns = sender_ns
        return self.delay_ns
