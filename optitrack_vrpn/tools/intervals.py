# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of a series of stamps: rate, regularity, gaps, age."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GAP_FACTOR = 1.75
"""
Intervals longer than this multiple of the median are gaps. Chosen: one lost frame makes 2. Halved,
jitter makes gaps; doubled, up to two lost frames do not.
"""
_OTHER_CLOCK_S = 60.0
"""
Median age (s) above which stamps are on another clock. Chosen: larger than any latency. Halved or
doubled, only clocks that differ by about a minute are affected.
"""


class Spread(NamedTuple):
    """Statistics of a set of times (s); all NaN for an empty set."""

    mean: float
    std: float
    minimum: float
    median: float
    p99: float
    maximum: float


class Gap(NamedTuple):
    """A gap in the stamps."""

    after_s: float
    """Since the first stamp (s)."""
    length_s: float


class StampReport(NamedTuple):
    """Statistics of a series of stamps."""

    messages: int
    duration_s: float
    rate_hz: float
    """Median rate: the rate of the sender, independent of losses."""
    intervals: Spread
    """Intervals between increasing stamps."""
    arrivals: Spread
    """Intervals between the arrivals of the same messages."""
    repeated: int
    """Number of stamps equal to the previous one."""
    backwards: int
    """Number of stamps before the previous one."""
    gaps: tuple[Gap, ...]
    missing: int
    """Number of frames that fit into the gaps."""
    age: Spread
    """Arrival minus stamp; NaN if they are not on one clock."""


def summarise(stamps_ns: Sequence[int], arrivals_ns: Sequence[int]) -> StampReport:
    """
    Describe the stamps of messages in the order of their arrival.

    :param stamps_ns: stamps (ns since 1970).
    :param arrivals_ns: arrival of each message on this host's clock (ns since 1970).
    :raises ValueError: if the lengths differ.
    """
    if len(stamps_ns) != len(arrivals_ns):
        raise ValueError(f'{len(stamps_ns)} stamps and {len(arrivals_ns)} arrivals')
    stamps = np.array(stamps_ns, dtype=np.int64)
    arrivals = np.array(arrivals_ns, dtype=np.int64)
    steps = np.diff(stamps)
    rising = steps[steps > 0] * 1e-9
    median = float(np.median(rising)) if len(rising) else math.nan
    wide = np.flatnonzero(steps * 1e-9 > GAP_FACTOR * median)
    gaps = tuple(Gap(float(stamps[i] - stamps[0]) * 1e-9, float(steps[i]) * 1e-9) for i in wide)
    ages = (arrivals - stamps) * 1e-9
    one_clock = len(ages) > 0 and abs(float(np.median(ages))) < _OTHER_CLOCK_S
    return StampReport(
        messages=len(stamps),
        duration_s=float(stamps[-1] - stamps[0]) * 1e-9 if len(stamps) else 0.0,
        rate_hz=1.0 / median if median > 0 else math.nan,
        intervals=spread(rising), arrivals=spread(np.diff(arrivals) * 1e-9),
        repeated=int((steps == 0).sum()), backwards=int((steps < 0).sum()), gaps=gaps,
        missing=sum(round(gap.length_s / median) - 1 for gap in gaps),
        age=spread(ages if one_clock else ages[:0]),
    )


def spread(values: NDArray[Any]) -> Spread:
    """Compute the statistics of a set of times."""
    if not len(values):
        return Spread(*[math.nan] * 6)
    return Spread(
        float(values.mean()), float(values.std()), float(values.min()), float(np.median(values)),
        float(np.percentile(values, 99)), float(values.max()))


def histogram(
    stamps_ns: Sequence[int], bins: int = 15,
) -> list[tuple[float, float, int]]:
    """
    Count intervals between rising stamps.

    :param bins: number of bins; the first and the last include all values beyond them, so that
        one gap does not compress all other values into one bin.
    :returns: (from, to, count) with the bounds in seconds; empty for fewer than two stamps.
    """
    steps = np.diff(np.array(stamps_ns, dtype=np.int64))
    values = steps[steps > 0] * 1e-9
    if not len(values):
        return []
    low, high = (float(v) for v in np.percentile(values, [1, 99]))
    # At least a microsecond, the resolution of the sender's times.
    room = max(high - low, bins * 1e-6) / max(1, bins - 2)
    middle = (low + high) / 2
    edges = middle + (np.arange(bins + 1) - bins / 2) * room
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return [(float(a), float(b), int(n))
            for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]
