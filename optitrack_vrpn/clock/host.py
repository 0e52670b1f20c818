# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Follow the host's clock against the arrival clock from noisy readings."""

from __future__ import annotations

QUIET_NS = 1_000
"""Readings differ by this much from noise alone."""
_SETTLED_NS = 8
_DOUBTFUL_NS = 20_000
_STEP_NS = 5_000_000


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
        """Take note of when the last reading came again without being taken here (ns)."""
        self._at = max(self._at, arrival_ns)

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
        slewed = passed // 10 if passed > 0 else 0
        if abs(change) > _STEP_NS + slewed:
            self.offset_ns = reading_ns
            self._pending = None
            return True
        if abs(change) <= _DOUBTFUL_NS + passed // 1000:
            self.offset_ns = reading_ns - (QUIET_NS if change > 0 else -QUIET_NS)
            self._pending = None
        elif self._pending is not None:
            # The second reading out of the ordinary: of the two the one nearer to the old value.
            self.offset_ns += min(change, self._pending - self.offset_ns, key=abs)
            self._pending = reading_ns
        else:
            self._pending = reading_ns
        return False
