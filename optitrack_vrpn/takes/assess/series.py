# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Series of numbers: running deviation, runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from optitrack_vrpn.takes.trajectory import Floats, Mask, Stamps

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
WINDOW = 100


def running_deviation(axes: Iterable[Floats], window: int = WINDOW) -> Floats:
    """
    Return the standard deviation over a sliding window, of the worst axis.

    :param axes: (n,) values of each axis; an iterator needs the memory of one axis.
    :returns: (n - window + 1,); empty for fewer values.
    """
    worst: Floats = np.zeros(1)
    for values in axes:
        if len(values) < window:
            return np.zeros(0)
        centred = values - values.mean()
        mean, square = ((sums[window:] - sums[:-window]) / window for sums in map(
            _sums, (centred, centred ** 2)))
        worst = np.maximum(worst, square - mean ** 2)
    found: Floats = np.sqrt(worst * window / (window - 1))
    return found


def _sums(values: Floats) -> Floats:
    """Return the sums of the first 0, 1 .. n values."""
    found = np.zeros(len(values) + 1)
    np.cumsum(values, out=found[1:])
    return found


def runs(mask: Mask) -> Stamps:
    """
    Find the runs of true values.

    :returns: (runs, 2), index of the first value and index after the last one.
    """
    edges = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    found: Stamps = np.flatnonzero(edges).reshape(-1, 2)
    return found
