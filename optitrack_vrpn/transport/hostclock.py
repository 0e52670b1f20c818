# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The host's clocks, read in one place."""

import time

_RAW = getattr(time, 'CLOCK_MONOTONIC_RAW', None)
#: Two reads of one clock around another that lie further apart than this were interrupted.
_INTERRUPTED_NS = 10_000
_MOST_READINGS = 4


class HostClock:
    """
    The clock on which arrivals are taken, and its distance to the clock that ROS shows.

    Arrivals run on CLOCK_MONOTONIC_RAW where there is one, which no NTP daemon steps or slews;
    elsewhere on the monotonic clock.
    """

    @staticmethod
    def now_ns() -> int:
        """Read the arrival clock in nanoseconds."""
        if _RAW is None:
            return time.monotonic_ns()
        return time.clock_gettime_ns(_RAW)

    def host_minus_arrival_ns(self) -> int:
        """
        Read (system time - arrival clock) in nanoseconds, good to about a microsecond.

        A reading that the scheduler interrupted is taken again; of several bad ones the best
        counts.
        """
        best_ns, difference_ns = 1 << 62, 0
        for _ in range(_MOST_READINGS):
            before = self.now_ns()
            host = time.time_ns()
            after = self.now_ns()
            if after - before < best_ns:
                best_ns, difference_ns = after - before, host - (before + after) // 2
            if best_ns <= _INTERRUPTED_NS:
                break
        return difference_ns
