# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Series of numbers: running deviation, runs."""

from __future__ import annotations

import numpy as np
from optitrack_vrpn.takes.trajectory import Floats, Mask, Stamps

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
WINDOW = 100


def running_deviation(values: Floats, window: int = WINDOW) -> Floats:
    """
    Return the standard deviation over a sliding window, of the worst axis.

    :param values: (k, n), a row for each axis.
    :returns: (n - window + 1,); empty for fewer values.
    """
    worst = np.zeros(max(values.shape[1] - window + 1, 0))
    if not len(worst):
        return worst
    for row in values:
        centred = row - row.mean()
        mean, square = ((sums[window:] - sums[:-window]) / window for sums in (
            np.concatenate(([0.0], np.cumsum(part))) for part in (centred, centred ** 2)))
        np.maximum(worst, square - mean ** 2, out=worst)
    found: Floats = np.sqrt(worst * window / (window - 1))
    return found


def runs(mask: Mask) -> Stamps:
    """
    Find the runs of true values.

    :returns: (runs, 2), index of the first value and index after the last one.
    """
    edges = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    found: Stamps = np.flatnonzero(edges).reshape(-1, 2)
    return found
