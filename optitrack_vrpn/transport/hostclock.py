# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The host's clocks, read in one place."""

import time

_RAW = getattr(time, 'CLOCK_MONOTONIC_RAW', None)


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
        """Read (system time - arrival clock) in nanoseconds, good to about a microsecond."""
        before = self.now_ns()
        host = time.time_ns()
        return host - (before + self.now_ns()) // 2
