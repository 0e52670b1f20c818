# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The host's clocks, read in one place."""

import functools
import time
from typing import Callable

_RAW = getattr(time, 'CLOCK_MONOTONIC_RAW', None)
# Two reads of one clock around another that are further apart than this were interrupted, and the
# reading is repeated up to so many times. Chosen: a reading takes 0.1 us, an interruption 50 us
# and more; half of it repeats readings of slow computers, twice as much accepts 10 us of error.
_INTERRUPTED_NS = 10_000
_MOST_READINGS = 4


def _arrival_clock() -> Callable[[], int]:
    if _RAW is None:
        return time.monotonic_ns
    return functools.partial(time.clock_gettime_ns, _RAW)


class HostClock:
    """
    The clock on which arrivals are taken, and its distance to the clock that ROS shows.

    Arrivals run on CLOCK_MONOTONIC_RAW where there is one, which no NTP daemon steps or slews;
    elsewhere on the monotonic clock.

    :cvar now_ns: reads the arrival clock in nanoseconds; it is called several times a pose, and
        has no Python in it.
    """

    now_ns = staticmethod(_arrival_clock())

    def host_minus_arrival_ns(self) -> int:
        """
        Read (system time - arrival clock) in nanoseconds, good to about a microsecond.

        A reading that the scheduler interrupted is taken again; of several bad ones the best
        counts.
        """
        now_ns = self.now_ns
        before = now_ns()
        host = time.time_ns()
        after = now_ns()
        if after - before <= _INTERRUPTED_NS:
            return host - (before + after) // 2
        best_ns, difference_ns = after - before, host - (before + after) // 2
        for _ in range(_MOST_READINGS - 1):
            before = now_ns()
            host = time.time_ns()
            after = now_ns()
            if after - before < best_ns:
                best_ns, difference_ns = after - before, host - (before + after) // 2
            if best_ns <= _INTERRUPTED_NS:
                break
        return difference_ns
