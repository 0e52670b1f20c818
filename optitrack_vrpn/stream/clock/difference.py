# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The difference of two clocks that cannot be read at the same time."""

from typing import Callable, Final

#: Two reads of one clock around another that are further apart than this were interrupted (ns).
#: Chosen: a reading takes 0.1 us, an interruption 50 us and more.
_INTERRUPTED_NS: Final = 10_000


def difference_ns(clock: Callable[[], int], other: Callable[[], int]) -> int:
    """
    Return ``other`` minus ``clock`` (ns), exact to about a microsecond.

    A reading that the scheduler interrupted is repeated; of several such readings the best counts.
    It is called once per datagram.
    """
    best_ns = -1
    result = 0
    for _ in range(4):
        before = clock()
        reading = other()
        after = clock()
        if best_ns < 0 or after - before < best_ns:
            best_ns = after - before
            result = reading - (before + after) // 2
        if best_ns <= _INTERRUPTED_NS:
            break
    return result
