# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The weighted smoother under the path of the clock: a penalty on the change of slope.

The path x at the times t minimises

    sum w_k (y_k - x_k)^2 + sum p_k (slope after k - slope before k)^2 + v (first slope - prior)^2

(Whittaker 1923; the same path as that of a Kalman smoother for a clock whose frequency is a random
walk). The normal equations have two diagonals beside the main one and are solved by LDL'
factorisation in one pass up and one down (Golub, Van Loan, Matrix Computations, 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Path(NamedTuple):
    """A smoothed path; the last node has no data and is in the future."""

    x: list[float]
    """At the times asked for."""
    end: float
    """At ``end_t``."""
    var: float
    """Variance of ``end``."""
    slope_var: float
    """Variance of the slope before ``end``."""


def smooth(
    t: Sequence[float], y: Sequence[float], w: Sequence[float], p: Sequence[float], slope: float,
    slope_weight: float, end_t: float,
) -> Path:
    """
    Solve for the path.

    :param t: times of two or more nodes, rising.
    :param y: data there.
    :param w: weights of the data (1 / variance); 0 where there is none.
    :param p: weights of the change of slope at each node; the first is not used.
    :param slope: prior of the first slope.
    :param slope_weight: its weight; positive.
    :param end_t: time after the last node at which the path is wanted as well.
    """
    n = len(t)
    # Diagonals (a: main, b, c: next), right side; row i is complete once i + 1 has been added.
    a = [0.0] * (n + 1)
    b = [0.0] * (n + 1)
    c = [0.0] * (n + 1)
    z = [0.0] * (n + 1)
    d = [0.0] * (n + 1)
    before = 1.0 / (t[1] - t[0])
    k = slope_weight * before * before
    a[0] = k
    a[1] = k
    b[0] = -k
    z[0] = -slope_weight * before * slope
    z[1] = slope_weight * before * slope
    for i in range(1, n):
        after = 1.0 / ((t[i + 1] if i + 1 < n else end_t) - t[i])
        u = p[i] * before
        v = p[i] * after
        middle = before + after
        a[i - 1] += u * before
        a[i] += p[i] * middle * middle
        a[i + 1] += v * after
        b[i - 1] -= u * middle
        b[i] -= v * middle
        c[i - 1] += u * after
        before = after
    d1 = d2 = 1.0
    u1 = v1 = v2 = z1 = z2 = 0.0
    for i in range(n + 1):
        l1 = u1 / d1
        l2 = v2 / d2
        pivot = a[i] - l1 * u1 - l2 * v2
        right = z[i] - l1 * z1 - l2 * z2
        if i < n:
            pivot += w[i]
            right += w[i] * y[i]
        u1 = b[i] - l1 * v1
        b[i] = u1
        d[i] = pivot
        z[i] = right
        v2 = v1
        v1 = c[i]
        d2 = d1
        d1 = pivot
        z2 = z1
        z1 = right
    x1 = x2 = 0.0
    for i in range(n, -1, -1):
        right = (z[i] - b[i] * x1 - c[i] * x2) / d[i]
        x2 = x1
        x1 = right
        z[i] = right
    end = z.pop()
    var = 1.0 / d[n]
    gain = 1.0 + b[n - 1] / d[n - 1]
    slope_var = (gain * gain * var + 1.0 / d[n - 1]) / (end_t - t[n - 1]) ** 2
    return Path(z, end, var, slope_var)
