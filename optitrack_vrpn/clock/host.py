# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Follow the host's clock against the arrival clock from noisy readings."""

from __future__ import annotations

from typing import Final

QUIET_NS: Final = 1_000
"""Readings differ by this much from noise alone. Measured: 100 ns, and 1 us under load; half of it
passes load into the stamps, twice as much lags 2 us behind a slew."""
_SETTLED_NS: Final = 8
"""Difference from which a reading changes the offset. Chosen: an eighth of it is one nanosecond;
half of it or twice as much changes how often readings are skipped."""
_OUTLIER_NS = 20_000
"""A reading that differs by more may have been interrupted, and waits for the next one. Chosen: a
slew of 500 ppm makes 5 us in a frame at 100 Hz; half of it delays fast slews by a reading, twice
as much puts interruptions of 40 us into a stamp."""
_STEP_NS = 5_000_000
"""A change by more, beside a tenth of the time passed, is a step. Chosen: interruptions are
shorter; half of it takes some for steps, twice as much follows steps of 10 ms as slews."""


class HostOffset:
    """
    Host time minus arrival clock, quiet under reading noise, prompt under slews and steps.

    A reading is two clock reads in a row: some 100 ns of noise, and a whole time slice when the
    process is interrupted between them. chrony slews by up to 8.3 % (``maxslewrate``), ntpd by
    0.05 %, so a change of 10 % of the time passed is no step.

    :ivar settled: whether the same reading once more would change nothing.
    """

    def __init__(self) -> None:
        self.offset_ns = 0
        self._at = 0
        self._known = False
        self._pending: int | None = None
        self.settled = False

    def seen(self, arrival_ns: int) -> None:
        """Record the last arrival with a reading that was not passed to ``follow`` (ns)."""
        self._at = max(self._at, arrival_ns)

    def steps(self, arrival_ns: int, reading_ns: int) -> bool:
        """Return whether a reading would be a step."""
        slewed = max(arrival_ns - self._at, 0) // 10
        return self._known and abs(reading_ns - self.offset_ns) > _STEP_NS + slewed

    def follow(self, arrival_ns: int, reading_ns: int) -> bool:
        """
        Take a reading.

        :param arrival_ns: when it was made (ns).
        :param reading_ns: host time minus arrival clock (ns).
        :returns: whether the host's clock stepped; ``offset_ns`` is on its new time already.
        """
        change = reading_ns - self.offset_ns
        passed = arrival_ns - self._at
        self._at = arrival_ns
        if not self._known:
            self._known = self.settled = True
            self.offset_ns = reading_ns
            return False
        if -QUIET_NS <= change <= QUIET_NS:
            # An eighth of the way: under 1 us of lag, and most of the noise gone.
            self.offset_ns += change >> 3
            self._pending = None
            self.settled = -_SETTLED_NS < change < _SETTLED_NS
            return False
        self.settled = False
        if abs(change) > _STEP_NS + max(passed, 0) // 10:
            self.offset_ns = reading_ns
            self._pending = None
            return True
        if abs(change) <= _OUTLIER_NS + passed // 1000:
            self.offset_ns = reading_ns - (QUIET_NS if change > 0 else -QUIET_NS)
            self._pending = None
        elif self._pending is not None:
            # The second reading out of the ordinary: of the two the one nearer to the old value.
            self.offset_ns += min(change, self._pending - self.offset_ns, key=abs)
            self._pending = reading_ns
        else:
            self._pending = reading_ns
        return False
