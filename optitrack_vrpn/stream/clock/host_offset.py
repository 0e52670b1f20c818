# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Follow host time minus arrival clock, quiet under noise, prompt under slews and steps."""

from optitrack_vrpn.stream.clock.limits import EARLY_NS, QUIET_NS


class HostOffset:
    """
    Host time minus arrival clock.

    A reading is two clock reads in a row: some 100 ns of noise, and a whole time slice where the
    process is interrupted between them.

    :ivar offset_ns: the offset (ns).
    """

    def __init__(self) -> None:
        self.offset_ns = self._before_ns = 0
        self._at_ns = -1

    def update(self, arrival_ns: int, reading_ns: int) -> int:
        """
        Take a reading.

        :param arrival_ns: when it was made (ns).
        :param reading_ns: host time minus arrival clock (ns).
        :returns: the step of the host's clock (ns), 0 for none.
        """
        change = reading_ns - self.offset_ns
        before_ns, self._before_ns = self._before_ns, reading_ns
        # chrony slews by up to 8.3 % (maxslewrate); interruptions are shorter than the rest.
        most = EARLY_NS + max(arrival_ns - self._at_ns, 0) // 10
        first, self._at_ns = self._at_ns < 0, arrival_ns
        if first or not -most <= change <= most:
            self.offset_ns = self._before_ns = reading_ns
            return 0 if first else change
        if -QUIET_NS <= change <= QUIET_NS:
            self.offset_ns += change >> 3
            return 0
        # The median leaves an interrupted reading out.
        change = sorted((reading_ns, before_ns, self.offset_ns))[1] - self.offset_ns
        self.offset_ns += change - min(max(change, -QUIET_NS), QUIET_NS)
        return 0
