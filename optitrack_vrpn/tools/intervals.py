# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Judge a series of stamps: rate, regularity, gaps, age."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GAP_FACTOR = 1.75
"""An interval of so many medians is a gap: with one frame lost it is two."""
_OTHER_CLOCK_S = 60.0


class Spread(NamedTuple):
    """A set of times in seconds; all NaN for none."""

    mean: float
    std: float
    least: float
    median: float
    p99: float
    most: float


class Gap(NamedTuple):
    """A hole in the stamps."""

    after_s: float
    """Since the first stamp (s)."""
    length_s: float


class StampReport(NamedTuple):
    """What a series of stamps looks like."""

    messages: int
    duration_s: float
    rate_hz: float
    """Median rate: what the sender sends, whatever was lost."""
    intervals: Spread
    """Between stamps that rise."""
    arrivals: Spread
    """Between the arrivals of the same messages."""
    repeated: int
    """Stamps equal to the one before."""
    backwards: int
    """Stamps before the one before."""
    gaps: tuple[Gap, ...]
    missing: int
    """Frames that the gaps could have held."""
    age: Spread
    """Arrival less stamp; NaN where the two are not of one clock."""


def judge(stamps_ns: Sequence[int], arrivals_ns: Sequence[int]) -> StampReport:
    """
    Describe the stamps of messages in the order of their arrival.

    :param stamps_ns: stamps (ns since 1970).
    :param arrivals_ns: when each message arrived, on this host's clock (ns since 1970).
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
    """Describe a set of times."""
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

    :param bins: how many; the first and the last also hold what lies beyond, so that one gap
        does not squeeze all others into one bin.
    :returns: (from, to, count) with the bounds in seconds; empty for less than two stamps.
    """
    steps = np.diff(np.array(stamps_ns, dtype=np.int64))
    values = steps[steps > 0] * 1e-9
    if not len(values):
        return []
    low, high = (float(v) for v in np.percentile(values, [1, 99]))
    # No finer than a microsecond, in which senders tell their times.
    room = max(high - low, bins * 1e-6) / max(1, bins - 2)
    middle = (low + high) / 2
    edges = middle + (np.arange(bins + 1) - bins / 2) * room
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return [(float(a), float(b), int(n))
            for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]
