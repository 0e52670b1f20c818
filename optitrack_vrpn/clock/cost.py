# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of a path of the clock under the minima, and the path of least cost.

The cost is minus twice the logarithm of a likelihood:

- A minimum below the path costs by the square of its distance: nothing arrives before it is sent
  (Moon, Skelly, Towsley 1999). One above it costs at most ``LOAD``, however high it is (Geman,
  McClure 1987): load delayed it.
- A change of the path's slope costs by its square, as for an oscillator whose frequency is a
  random walk of ``WALK``. At a *bend* it costs nothing.

The path of least cost is found by reweighting and one banded solution a round (``banded.py``;
Black, Rangarajan 1996).

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from optitrack_vrpn.clock.banded import Path, smooth

WALK = 0.03
"""
Random walk of the frequency in a second (us/s = ppm). Measured clocks: 0.001 to 0.01; thermal
waves of 1 ppm in half an hour need 0.03. Twice as much follows load, half of it lags.
"""
KNEE = 2.5
"""Standard deviations above the path from which a minimum costs as load does. From the literature
(Geman, McClure): 2 to 3."""
LOAD = KNEE * KNEE
"""Most that a minimum above the path costs: one *block of load*, the unit of all prices."""
BELOW = 2.0
"""Weight of a minimum below the path against one above. Chosen: the scatter is one-sided; half of
it raises the floor into load of 0.05 ms (p99 48 to 69 us), twice as much follows single dips."""
FASTEST = 1e3
"""No two clocks differ by more than this (ppm). Chosen: twice the fastest slew; half of it follows
a slew of 500 ppm late, twice as much changes nothing that was measured."""
SAME_TIME_S = 0.02
"""Nodes are not closer than this: their weights of slope would exceed the others by more than
doubles resolve. Chosen: a bend of 500 ppm is 10 us off by it; half of it or twice as much changes
that in proportion; at a tenth, variances lose their last digits."""
_STIFFEST = 2e10
"""Largest weight of a change of slope, in weights of a minimum. Chosen: doubles resolve the
minima beside it to 1 % at ``SAME_TIME_S``; it limits the weights where minima scatter by more than
1.5 ms. At ten times as much variances can become negative; a tenth follows such scatter."""
_FREE = 1e-6
"""Weight of the change of slope at a bend: none, but for rounding."""


class Nodes(NamedTuple):
    """Minima, and bends between them."""

    t: list[float]
    y: list[float]
    counts: list[float]
    """Number of minima that a node represents; 0 for a bend between two minima."""
    dips: list[float]
    """Depth of the deepest of these under the path at the time when they were averaged."""
    bends: list[float]
    """Times of nodes at which the slope changes freely."""


class Fit(NamedTuple):
    """A path through nodes."""

    nodes: Nodes
    x: list[float]
    """Its height at each node."""
    end: float
    """Its height one second after the last node."""
    var: float
    """Variance of ``end``."""
    slope_var: float
    """Variance of the last slope."""
    scale: float
    """Standard deviation that was assumed for each minimum."""


class Prior(NamedTuple):
    """What is known of the first slope."""

    slope: float
    weight: float
    """1 / variance."""


def trust(off: float, scale: float) -> float:
    """Return the weight of a minimum so far above the path, against one on it."""
    g = 1.0 + off * off / (LOAD * scale * scale)
    return 1.0 / (g * g)


def solve(
    t: Sequence[float], y: Sequence[float], counts: Sequence[float], scale: Sequence[float],
    bends: Collection[float], x: Sequence[float], prior: Prior, rounds: int,
) -> Path:
    """
    Find the path of least cost.

    :param scale: standard deviation of each minimum; positive.
    :param bends: times of nodes at which the slope changes freely.
    :param x: first guess of the path at the nodes.
    :param rounds: of reweighting; each needs one banded solution.
    """
    n = len(t)
    walk = 2.0 / (WALK * WALK)
    stiffest = _STIFFEST / max(scale) ** 2
    end_t = t[n - 1] + 1.0
    times = [*t, end_t]
    changes = [_FREE, *(
        _FREE if bends and times[i] in bends
        else min(walk / (times[i + 1] - times[i - 1]), stiffest)
        for i in range(1, n))]
    for _ in range(rounds):
        weights = []
        for height, at, count, each in zip(y, x, counts, scale, strict=True):
            # As ``trust``, which would cost a tenth of the whole solution here.
            if height < at:
                weights.append(BELOW * count / (each * each))
            else:
                g = 1.0 + ((height - at) / each) ** 2 / LOAD
                weights.append(count / (g * g * each * each))
        path = smooth(t, y, weights, changes, prior.slope, prior.weight, end_t)
        x = path.x
    return path


def fit(nodes: Nodes, x: Sequence[float], scale: float, prior: Prior, rounds: int) -> Fit:
    """Find the path of least cost through nodes whose minima have one scale."""
    t, y, counts, _, bends = nodes
    path = solve(t, y, counts, [scale] * len(t), bends, x, prior, rounds)
    return Fit(nodes, path.x, path.end, path.var, path.slope_var, scale)


def cost(fit: Fit, load: float = LOAD) -> float:
    """Return the cost of a path if a minimum above it costs ``load`` at most."""
    t, y, counts, _, bends = fit.nodes
    x = fit.x
    total = 0.0
    for height, at, count in zip(y, x, counts, strict=True):
        square = ((height - at) / fit.scale) ** 2
        total += count * (BELOW * square if height < at else square / (1.0 + square / load))
    walk = 2.0 / (WALK * WALK)
    slope = (x[1] - x[0]) / (t[1] - t[0])
    for i in range(1, len(t) - 1):
        after = (x[i + 1] - x[i]) / (t[i + 1] - t[i])
        if t[i] not in bends:
            total += walk * (after - slope) ** 2 / (t[i + 1] - t[i - 1])
        slope = after
    return total
