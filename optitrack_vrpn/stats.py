# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Percentiles of the last values, in constant memory."""

import math
from typing import NamedTuple


class Percentiles(NamedTuple):
    """Median, 99th percentile and largest value; NaN without values."""

    p50: float
    p99: float
    largest: float


class Window:
    """
    A sliding window over the last values.

    :param size: number of values.
    """

    __slots__ = ('_values', '_size', '_next')

    def __init__(self, size: int = 512) -> None:
        self._values: list[float] = []
        self._size = size
        self._next = 0

    def add(self, value: float) -> None:
        """Add one value; it replaces the oldest in a full window."""
        if len(self._values) < self._size:
            self._values.append(value)
        else:
            self._values[self._next] = value
            self._next = (self._next + 1) % self._size

    def percentiles(self) -> Percentiles:
        """Compute the percentiles of the window (nearest rank)."""
        if not self._values:
            return Percentiles(math.nan, math.nan, math.nan)
        ordered = sorted(self._values)
        last = len(ordered) - 1
        return Percentiles(ordered[last // 2], ordered[math.ceil(0.99 * last)], ordered[last])
