# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One run of a sender's clock: blocks of frames, filter of their minima, line of stamps."""

from __future__ import annotations

import math

from optitrack_vrpn.stream.clock.filter import ANY_SKEW, EnvelopeFilter, LOAD

BLOCK_NS, YOUNG_NS = 1_000_000_000, 3_000_000_000
"""Length of a block (ns): the best of 240 frames is within 10 us on a wire; blocks of the first
seconds are a quarter as long."""
STALL, BUNCHED, BUNCHED_SHARE = 4.0, 8, 4
"""A difference of successive delays counts as at most so many times the mean one. Frames that
arrive within an eighth of their interval, if they are a quarter of all, waited for a poll: that
wait spreads delays, and is short."""
MOST_SLEW, SLEW = 10e-3, 0.5e-3
"""Beyond the skew, the line approaches the envelope at this rate at most (s/s); the rate of
``adjtime``."""
RECURRENCES, SPACING_NS, NEAR_NS = 4, 24_000_000, 3e6
"""Frames are live when their least delay recurs so often within ``NEAR_NS``, with ``SPACING_NS``
between: in a backlog each frame is less late than the one before."""
PATIENCE_NS, PAUSE_NS, PACE = 1_000_000_000, 50_000_000, 7 / 8
"""They are also live when none was less late for so long (ns), in which pauses count as less, and
frames that arrive in less than this share of their interval do not count."""
LOADED_NS, LOADED_US, LOADED_RATIO, LOADED = 90_000_000_000, 150.0, 15.0, 8.0
"""For so long after the first frame (ns), a spread of delays above ``LOADED_US``, and above so
many times the scatter of the minima, may be that of queueing delay of so many times the spread:
on a wire 75 us and 10, on WiFi 1 ms and 12."""


class Segment:
    """
    The frames of one run of a sender's clock, and its line under the arrivals.

    :param sender_ns: time of the first frame.
    :param arrival_ns: its arrival.
    :param skew: skew of the same sender before (ppm).
    :param skew_variance: its variance (ppm^2).
    :param height_ns: how much earlier than the first frame the line begins, as a negative number.
    :param deviation_ns: standard deviation of that, if it is known.
    :ivar filter: the clock filter; its times are seconds since ``zero_ns``, its heights
        microseconds above ``base_ns``.
    :ivar live: whether frames arrive as fast as their times advance.
    :ivar fallen_ns: decrease of the least delay until then: the age of the oldest frame.
    :ivar newest_ns: newest sender time.
    :ivar fit_ns: arrival of the last frame.
    :ivar samples: number of frames.
    :ivar delayed: number of blocks since the last one without queueing delay.
    :ivar spread_ns: mean difference of successive delays.
    """

    def __init__(
        self, sender_ns: int, arrival_ns: int, skew: float = 0.0,
        skew_variance: float = ANY_SKEW ** 2, height_ns: float = 0.0, deviation_ns: float = 0.0,
    ) -> None:
        self.filter = EnvelopeFilter(skew, skew_variance)
        self.zero_ns = self.newest_ns = sender_ns
        self.base_ns = arrival_ns - sender_ns
        self.began_ns = self.fit_ns = self._resumed_ns = arrival_ns
        self.samples = self.delayed = 0
        self.live = False
        self.fallen_ns = 0.0
        self.spread_ns = 0.0
        self._polled = False
        if deviation_ns:
            self.filter.begin(0.0, height_ns * 1e-3, deviation_ns * 1e-3)
        # The line: residual = height + slope * (sender time - zero), ns.
        self._height, self._slope = height_ns, skew * 1e-6
        self._last = 0.0
        self._open(arrival_ns)
        # Least residual, its recurrences, and the last of them.
        self._lowest = 0.0
        self._recurrences = 0
        self._recurred_ns = arrival_ns
        self._heard_ns = 0

    def _open(self, arrival_ns: int) -> int:
        """Begin a block, and return its length (ns)."""
        self._least = math.inf
        self._least_t = self._least_residual = 0.0
        self._differences = 0.0
        self._count = self._bunched = 0
        length = BLOCK_NS >> (2 if arrival_ns - self._resumed_ns < YOUNG_NS else 0)
        self._end_ns = arrival_ns + length
        return length

    @property
    def rate(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return self.filter.best.skew * 1e-6 if self.filter.blocks else self._slope

    @property
    def young(self) -> bool:
        """Return whether the line is that of few frames."""
        return self.fit_ns - self.began_ns < YOUNG_NS

    @property
    def held_ns(self) -> float:
        """Return the time since the last block without queueing delay (ns)."""
        if not self.delayed:
            return 0.0
        return self.newest_ns - self.zero_ns - self.filter.best.clean * 1e9

    def uncertainty_ns(self) -> float:
        """Return the half-width that nearly always contains the error of the line."""
        found, spread = self.filter, self.spread_ns * 1e-3
        if not found.known:
            return math.nan
        queue = 0.0
        if (self.fit_ns - self.began_ns < LOADED_NS and spread > LOADED_US
                and spread > LOADED_RATIO * found.scatter and not self._polled):
            # All frames since the first one may have waited in a queue.
            queue = LOADED * (spread - LOADED_US)
        # The line has not yet met the envelope.
        t = self.newest_ns - self.zero_ns
        away = self._height + self._slope * t - found.predict(t * 1e-9) * 1e3
        known = (found.uncertainty + queue) * 1e3 + abs(away)
        passed, late = self.fit_ns - self._end_ns + BLOCK_NS, self._least - self._height
        now = max(1e3, self._differences / max(self._count, 1))
        if (self._count > 8 and passed > BLOCK_NS / 4 and late > known + now
                and found.queueing(now * 1e-3) < LOAD):
            # All frames of this block are late, and no queue spreads them: a clock is slewed.
            known = late + SLEW * passed
        return known

    def lag(self, sender_ns: int, arrival_ns: int) -> float:
        """Return how much later than the line a frame arrives (ns)."""
        return arrival_ns - sender_ns - self.base_ns - (
            self._height + self._slope * (sender_ns - self.zero_ns))

    def place(self, sender_ns: int) -> int:
        """Return where a sender time is on the line."""
        return sender_ns + self.base_ns + int(
            self._height + self._slope * (sender_ns - self.zero_ns))

    def update(self, sender_ns: int, arrival_ns: int) -> int:
        """Learn from a frame, and return its place on the arrival clock."""
        t = sender_ns - self.zero_ns
        residual = float(arrival_ns - sender_ns - self.base_ns)
        line = self._height + self._slope * t
        if residual < line:
            self._height += residual - line
            line = residual
        difference = abs(residual - self._last)
        self._last = residual
        if difference > STALL * self.spread_ns and self.samples > 1:
            # Of the mean in the last block, or of that in this one, which load increases.
            most = STALL * max(self.spread_ns, self._differences / (self._count or 1))
            if difference > most:
                difference = most
        self._differences += difference
        off = residual - self._slope * t
        if off < self._least:
            self._least = off
            self._least_t = float(t)
            self._least_residual = residual
        self._count += 1
        self.samples += 1
        sent_ns = sender_ns - self.newest_ns
        if BUNCHED * (arrival_ns - self.fit_ns) < sent_ns:
            self._bunched += 1
        if not self.live:
            self._watch(residual, arrival_ns, sent_ns)
        self.newest_ns = sender_ns
        self.fit_ns = arrival_ns
        if arrival_ns >= self._end_ns:
            self._close(t, arrival_ns)
        return sender_ns + self.base_ns + int(line)

    def move_line(self, by_ns: float) -> None:
        """Begin the line at another height; it approaches the envelope from there."""
        self._height += by_ns

    def rest(self, arrival_ns: int) -> None:
        """Continue after a silence: the line is the envelope again."""
        found, t = self.filter, self.newest_ns - self.zero_ns
        if found.blocks:
            self._slope = found.best.skew * 1e-6
            self._height = found.predict(t * 1e-9) * 1e3 - self._slope * t
        self._resumed_ns = arrival_ns
        self._open(arrival_ns)

    def _close(self, t: int, arrival_ns: int) -> None:
        """End a block: its minimum is a measurement."""
        found = self.filter
        if self._count > 1:
            self.spread_ns = self._differences / self._count or 1.0
            self._polled = BUNCHED_SHARE * self._bunched > self._count
        found.update(self._least_t * 1e-9, self._least_residual * 1e-3,
                     max(1.0, self.spread_ns * 1e-3))
        self.delayed = found.best.delayed
        length = self._open(arrival_ns)
        # The line meets the envelope at the end of the next block.
        now = self._height + self._slope * t
        slope = (found.predict((t + length) * 1e-9) * 1e3 - now) / length
        skew = found.best.skew * 1e-6
        self._slope = min(max(slope, skew - MOST_SLEW), skew + MOST_SLEW)
        self._height = now - self._slope * t

    def _watch(self, residual: float, arrival_ns: int, sent_ns: int) -> None:
        """Become live when the least delay recurs."""
        if arrival_ns - self.fit_ns >= PACE * sent_ns:
            self._heard_ns += min(arrival_ns - self.fit_ns, PAUSE_NS)
        if residual < self._lowest - NEAR_NS:
            self.fallen_ns += self._lowest - residual
            self._lowest = residual
            self._recurrences, self._recurred_ns, self._heard_ns = 0, arrival_ns, 0
        elif residual <= self._lowest + NEAR_NS and arrival_ns - self._recurred_ns >= SPACING_NS:
            self._recurrences += 1
            self._recurred_ns = arrival_ns
        self.live = self._recurrences >= RECURRENCES or self._heard_ns >= PATIENCE_NS
