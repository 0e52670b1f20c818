# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Follow the host's clock against the arrival clock from noisy readings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

QUIET_NS: Final = 1_000
"""Readings differ by this much from noise alone (ns); measured: 100 ns, and 1 us under load."""
STEP_NS: Final = 5_000_000
"""A change by more, beside a tenth of the time passed, is a step (ns): chrony slews by up to 8.3 %
(``maxslewrate``), and interruptions of a reading are shorter."""


class HostOffset:
    """
    Host time minus arrival clock, quiet under reading noise, prompt under slews and steps.

    A reading is two clock reads in a row: some 100 ns of noise, and a whole time slice when the
    process is interrupted between them. While the computer is suspended, the arrival clock stands;
    then the host's clock seems to step.

    :param suspended_ns: reads for how long this computer has been suspended (ns).
    :ivar offset_ns: host time minus (arrival clock + ``shift_ns``).
    :ivar shift_ns: time of suspension since the first reading.
    """

    def __init__(self, suspended_ns: Callable[[], int]) -> None:
        self._suspended_ns = suspended_ns
        self._first_ns = suspended_ns()
        self.shift_ns = self.offset_ns = self._before_ns = 0
        self._at_ns = -1

    def update(self, arrival_ns: int, reading_ns: int) -> int:
        """
        Take a reading.

        :param arrival_ns: when it was made (ns).
        :param reading_ns: host time minus arrival clock (ns).
        :returns: the step of the host's clock (ns), 0 for none.
        """
        reading_ns -= self.shift_ns
        change = reading_ns - self.offset_ns
        if -QUIET_NS <= change <= QUIET_NS and self._at_ns >= 0:
            self.offset_ns += change >> 3
            self._at_ns, self._before_ns = arrival_ns, reading_ns
            return 0
        most = STEP_NS + max(arrival_ns - self._at_ns, 0) // 10
        first = self._at_ns < 0
        self._at_ns = arrival_ns
        if not -most <= change <= most and not first:
            asleep = self._suspended_ns() - self._first_ns - self.shift_ns
            self.shift_ns += asleep
            reading_ns -= asleep
            change -= asleep
        if first or not -most <= change <= most:
            self.offset_ns = self._before_ns = reading_ns
            return 0 if first else change
        # The median leaves an interrupted reading out.
        change = sorted((reading_ns, self._before_ns, self.offset_ns))[1] - self.offset_ns
        self._before_ns = reading_ns
        self.offset_ns += change - min(max(change, -QUIET_NS), QUIET_NS)
        return 0
