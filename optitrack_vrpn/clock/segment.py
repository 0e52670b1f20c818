# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One run of a sender's clock: blocks of frames, filter of their minima, line of stamps."""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.clock.filter import ANY_SKEW, ClockFilter

BLOCK_NS: Final = 1_000_000_000
"""Length of a block (ns): the best of 240 frames is within 10 us on a wire."""
SHORT_BLOCK_NS: Final = 250_000_000
"""Length of a block (ns) in the first ``YOUNG_NS``, and while frames are late."""
YOUNG_NS: Final = 3_000_000_000
LATE_NS: Final = 10e6
"""Frames later than this are out of the ordinary (ns); at 300 ppm they are after 30 s."""
PERSIST_NS: Final = 100_000_000
"""Stalls of a network that fitting frames do not interrupt are shorter (ns)."""
FAR_NS: Final = 250e6
"""Frames later than this may be old: the filter does not learn from them (ns)."""
CAP: Final = 4.0
"""A difference of successive delays counts as at most so many times the mean one: stalls."""
MOST_SLEW: Final = 10e-3
"""Beyond the skew, the line approaches the envelope at this rate at most (s/s)."""
RECURRENCES: Final = 4
SPACING_NS: Final = 24_000_000
"""Recurrences of the least delay that show live frames, and the least time between two (ns)."""
RECUR_NS: Final = 3e6
RECUR_SPREADS: Final = 8.0
"""Delays within this of the least one recur (ns), if it is less: within so many times the mean
difference of successive delays."""
LEAST_RECUR_NS: Final = 0.2e6
PATIENCE_NS: Final = 1_000_000_000
PAUSE_NS: Final = 50_000_000
PACE: Final = 7 / 8
"""Without recurrences (WiFi), frames are live when none was earlier for this time (ns), in which
pauses count as less and frames that arrive in less than this share of their interval do not."""
LOADED_NS: Final = 90_000_000_000
"""Queueing delay may last so long from the first frame on (ns)."""
LEAST_SPREAD_US: Final = 150.0
LOADED_RATIO: Final = 22.0
LOADED: Final = 8.0
"""Spread of delays (us), and its ratio to the scatter of minima, from which it shows queueing
delay of so many times the spread: on a wire 75 us and 10, on WiFi 1 ms and 12."""


class Segment:
    """
    The frames of one run of a sender's clock, and its line under the arrivals.

    :param sender_ns: time of the first frame.
    :param arrival_ns: its arrival.
    :param skew: skew of the same sender before (ppm).
    :param skew_variance: its variance (ppm^2).
    :ivar filter: the clock filter; its times are seconds since ``zero_ns``, its heights
        microseconds above ``base_ns``.
    :ivar live: whether frames arrive as fast as their times advance.
    :ivar fallen_ns: decrease of the least delay until then: the age of the oldest frame.
    :ivar newest_ns: newest sender time.
    :ivar fit_ns: arrival of the last frame.
    :ivar samples: number of frames.
    """

    def __init__(
        self, sender_ns: int, arrival_ns: int, skew: float = 0.0,
        skew_variance: float = ANY_SKEW ** 2,
    ) -> None:
        self.filter = ClockFilter(skew, skew_variance)
        self.zero_ns = self.newest_ns = sender_ns
        self.base_ns = arrival_ns - sender_ns
        self.began_ns = self.fit_ns = arrival_ns
        self.samples = 0
        self.live = False
        self.fallen_ns = 0.0
        # The line: residual = height + slope * (sender time - zero), ns.
        self._height, self._slope = 0.0, skew * 1e-6
        self.stepped_ns = 0.0
        self._last = 0.0
        self._mean_difference = 0.0
        self._fitted_ns = arrival_ns
        self._late = False
        self._open(arrival_ns, SHORT_BLOCK_NS)
        # Liveness: least residual, its recurrences, the last of them, time without a lower.
        self._lowest = 0.0
        self._recurrences = 0
        self._recurred_ns = arrival_ns
        self._heard_ns = 0

    def _open(self, arrival_ns: int, length_ns: int) -> None:
        self._least = math.inf
        self._least_t = self._least_residual = 0.0
        self._differences = 0.0
        self._count = 0
        self._course = self._slope
        self._end_ns = arrival_ns + length_ns

    @property
    def rate(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return self.filter.best.skew * 1e-6 if self.filter.blocks else self._slope

    @property
    def spread_ns(self) -> float:
        """Return the mean difference of successive delays."""
        return self._mean_difference

    def uncertainty_ns(self) -> float:
        """
        Return the half-width that nearly always contains the error of the line.

        All frames since the first one may have waited in a queue. Delays that spread much more
        than their minima show one, until queueing delay would have ended.
        """
        found, spread = self.filter, self._mean_difference * 1e-3
        if not found.blocks:
            return math.nan
        queue = 0.0
        if self.fit_ns - self.began_ns < LOADED_NS and spread > LEAST_SPREAD_US:
            share = min(1.0, spread / (LOADED_RATIO * found.scatter))
            queue = LOADED * (spread - LEAST_SPREAD_US) * share ** 6
        if self.fit_ns - self.began_ns < YOUNG_NS:
            # Ticks of the sender's clock may not have been removed yet.
            queue += 3.0 * spread
        # The line has not yet met the envelope.
        t = self.newest_ns - self.zero_ns
        away = self._height + self._slope * t - found.predict(t * 1e-9) * 1e3
        return (found.uncertainty + queue) * 1e3 + abs(away)

    def lag(self, sender_ns: int, arrival_ns: int) -> float:
        """Return how much later than the line a frame arrives (ns)."""
        return arrival_ns - sender_ns - self.base_ns - (
            self._height + self._slope * (sender_ns - self.zero_ns))

    def place(self, sender_ns: int) -> int:
        """Return where a sender time is on the line."""
        return sender_ns + self.base_ns + int(
            self._height + self._slope * (sender_ns - self.zero_ns))

    def take(self, sender_ns: int, arrival_ns: int) -> int:
        """Learn from a frame, and return its place on the arrival clock."""
        t = sender_ns - self.zero_ns
        residual = float(arrival_ns - sender_ns - self.base_ns)
        line = self._height + self._slope * t
        if residual < line + LATE_NS:
            self._fitted_ns = arrival_ns
            if residual < line:
                self._height += residual - line
                line = residual
        elif not self._late and arrival_ns - self._fitted_ns >= PERSIST_NS:
            # All frames are late: their own minima tell more than the end of the block.
            self._late = True
            self._mean_difference = 0.0
            self._open(arrival_ns, SHORT_BLOCK_NS)
        difference = abs(residual - self._last)
        self._last = residual
        most = CAP * self._mean_difference
        if difference > most and most > 0.0:
            difference = most
        self._differences += difference
        off = residual - self._course * t
        if off < self._least:
            self._least = off
            self._least_t = float(t)
            self._least_residual = residual
        self._count += 1
        self.samples += 1
        if not self.live:
            self._watch(residual, arrival_ns, sender_ns - self.newest_ns)
        self.newest_ns = sender_ns
        self.fit_ns = arrival_ns
        if arrival_ns >= self._end_ns:
            self._close(t, arrival_ns)
        return sender_ns + self.base_ns + int(line)

    def rest(self, arrival_ns: int) -> None:
        """Continue after a silence: the line is the envelope again."""
        found, t = self.filter, self.newest_ns - self.zero_ns
        if found.blocks:
            self._slope = found.best.skew * 1e-6
            self._height = found.predict(t * 1e-9) * 1e3 - self._slope * t
        self._open(arrival_ns, SHORT_BLOCK_NS)

    def _close(self, t: int, arrival_ns: int) -> None:
        """End a block: its minimum is a measurement."""
        found = self.filter
        if self._count > 1:
            self._mean_difference = self._differences / self._count or 1.0
        found.add(self._least_t * 1e-9, self._least_residual * 1e-3,
                  max(1.0, self._mean_difference * 1e-3))
        self._late = self._least_residual - self._height - self._slope * self._least_t > LATE_NS
        short = self._late or arrival_ns - self.began_ns < YOUNG_NS
        length = SHORT_BLOCK_NS if short else BLOCK_NS
        now = self._height + self._slope * t
        if found.jumped * 1e3 > LATE_NS:
            self.stepped_ns = found.jumped * 1e3
            now = found.predict(t * 1e-9) * 1e3
        skew = found.best.skew * 1e-6
        target = found.predict((t + length) * 1e-9) * 1e3
        slope = (target - now) / length
        self._slope = min(max(slope, skew - MOST_SLEW), skew + MOST_SLEW)
        self._height = now - self._slope * t
        self._open(arrival_ns, length)
        self._course = skew

    def _watch(self, residual: float, arrival_ns: int, sent_ns: int) -> None:
        """Become live when the least delay recurs; in a backlog each frame is less late."""
        near = min(RECUR_NS, max(LEAST_RECUR_NS, RECUR_SPREADS * self._differences / max(
            1, self._count)))
        passed_ns = arrival_ns - self.fit_ns
        if passed_ns >= PACE * sent_ns:
            self._heard_ns += min(passed_ns, PAUSE_NS)
        if residual < self._lowest - near:
            self.fallen_ns += self._lowest - residual
            self._lowest = residual
            self._recurrences = 0
            self._recurred_ns, self._heard_ns = arrival_ns, 0
        elif residual <= self._lowest + near and arrival_ns - self._recurred_ns >= SPACING_NS:
            self._recurrences += 1
            self._recurred_ns = arrival_ns
        self.live = self._recurrences >= RECURRENCES or self._heard_ns >= PATIENCE_NS
