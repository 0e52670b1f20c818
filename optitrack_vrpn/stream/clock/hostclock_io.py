# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The host's clocks, read in one place."""

import functools
import time

from optitrack_vrpn.stream.clock.difference import difference_ns

_RAW = getattr(time, 'CLOCK_MONOTONIC_RAW', None)


class HostClock:
    """
    The clock on which arrivals are taken, and its distance to the clock that ROS shows.

    Arrivals run on CLOCK_MONOTONIC_RAW where there is one, which no NTP daemon steps or slews;
    elsewhere on the monotonic clock.

    :cvar now_ns: reads the arrival clock (ns). It is called several times a pose and has no Python
        function in it, like the next one.
    :cvar host_minus_arrival_ns: reads (system time - arrival clock) in ns, see ``difference_ns``.
    """

    now_ns = staticmethod(time.monotonic_ns if _RAW is None else functools.partial(
        time.clock_gettime_ns, _RAW))
    host_minus_arrival_ns = staticmethod(
        functools.partial(difference_ns, now_ns.__func__, time.time_ns))
