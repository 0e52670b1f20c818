# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The difference of two clocks that cannot be read at the same time."""

from typing import Callable

from optitrack_vrpn.stream.clock.limits import RESOLUTION_NS


def difference_ns(clock: Callable[[], int], other: Callable[[], int], tries: int = 4) -> int:
    """
    Return ``other`` minus ``clock`` (ns), usually exact to about a microsecond.

    A reading that the scheduler interrupted is repeated. It is called once per datagram.

    :param tries: largest number of readings; the last one is used also if it was interrupted.
    """
    before, reading, after = clock(), other(), clock()
    if after - before > RESOLUTION_NS and tries > 1:
        return difference_ns(clock, other, tries - 1)
    return reading - (before + after) // 2
