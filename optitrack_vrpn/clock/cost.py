# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of a path of the clock under the minima, and the path of least cost.

The cost is minus twice the logarithm of a likelihood:

- A minimum below the path costs by the square of its distance: nothing arrives before it is sent
  (Moon, Skelly, Towsley 1999). One above it costs at most ``LOAD``, however high it is (Geman,
  McClure 1987): load delayed it.
- A change of the path's slope costs by its square, as for an oscillator whose frequency is a
  random walk of ``WALK`` (Whittaker 1923). At a *bend* it costs nothing.

The path of least cost is found by reweighting (Black, Rangarajan 1996). In each round the normal
equations have two diagonals beside the main one and are solved by LDL' factorisation, in one pass
up and one down (Golub, Van Loan, Matrix Computations, 4.3).

Times are seconds, heights microseconds, slopes ppm.
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import NamedTuple

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


class Prior(NamedTuple):
    """What is known of the first slope."""

    slope: float
    deviation: float


UNKNOWN = Prior(0.0, 100.0)
"""Of two unknown clocks. Measured: skews of up to 75 ppm; half of it or twice as much changes the
first three seconds alone."""


class Node:
    """
    A minimum, several averaged ones, or a bend between two minima.

    :ivar x: height of the path.
    :ivar scale: standard deviation expected of each minimum; positive.
    :ivar count: number of minima; 0 for a bend between them.
    :ivar free: whether the slope changes freely.
    :ivar dip: depth of the deepest minimum under the path at the time when they were averaged.
    """

    def __init__(self, t: float, y: float, x: float, scale: float, count: float = 1.0,
                 free: bool = False, dip: float = -math.inf) -> None:
        self.t, self.y, self.x, self.scale = t, y, x, scale
        self.count, self.free, self.dip = count, free, dip

    def copy(self) -> Node:
        """Return a node with the same values."""
        return Node(self.t, self.y, self.x, self.scale, self.count, self.free, self.dip)

    def weight(self, below: float = BELOW) -> float:
        """Return the weight of its minima, given the path and the factor for one below it."""
        off = (self.y - self.x) / self.scale
        share = 1.0 + off * off / LOAD
        return (below if off < 0.0 else 1.0 / (share * share)) * self.count / self.scale ** 2


class Path(NamedTuple):
    """A path of least cost through its nodes."""

    nodes: list[Node]
    end: float
    """Its height one second after the last node."""
    var: float
    """Variance of ``end``."""
    slope_var: float
    """Variance of the last slope."""
    prior: Prior


def solve(nodes: list[Node], rounds: int, prior: Prior = UNKNOWN) -> Path:
    """
    Find the path of least cost, beginning with the height ``x`` of the nodes, which is replaced.

    :param nodes: two or more, in order of time.
    :param rounds: of reweighting.
    """
    n = len(nodes)
    t = [node.t for node in nodes]
    t.append(t[n - 1] + 1.0)
    stiffest = _STIFFEST / max(node.scale for node in nodes) ** 2
    # The diagonals without the minima: the change of slope at node i is the product of the
    # heights around it with (before, -before - after, after).
    a, b, c = [0.0] * (n + 1), [0.0] * (n + 1), [0.0] * (n + 1)
    before = 1.0 / (t[1] - t[0])
    # Another clock may have any rate: far from the prior, its cost is bounded as that of load is.
    off = ((nodes[1].x - nodes[0].x) * before - prior.slope) / math.hypot(
        prior.deviation, nodes[0].scale * before)
    deviation = min(prior.deviation * (1.0 + off * off / LOAD), FASTEST)
    a[0] = a[1] = (before / deviation) ** 2
    b[0] = -a[0]
    pull = a[0] * prior.slope / before
    for i in range(1, n):
        after = 1.0 / (t[i + 1] - t[i])
        middle = before + after
        p = _FREE if nodes[i].free else min(2.0 / (WALK * WALK * (t[i + 1] - t[i - 1])), stiffest)
        a[i - 1] += p * before * before
        a[i] += p * middle * middle
        a[i + 1] += p * after * after
        b[i - 1] -= p * before * middle
        b[i] -= p * middle * after
        c[i - 1] += p * before * after
        before = after
    d, e, z = [0.0] * (n + 1), [0.0] * (n + 1), [0.0] * (n + 1)
    x0 = 0.0
    for _ in range(rounds):
        d1 = d2 = 1.0
        e1 = c1 = c2 = z1 = z2 = 0.0
        for i in range(n + 1):
            weight = nodes[i].weight() if i < n else 0.0
            pivot = a[i] + weight - e1 * e1 / d1 - c2 * c2 / d2
            right = (weight * nodes[i].y if i < n else 0.0) - e1 * z1 / d1 - c2 * z2 / d2
            if i < 2:
                right += pull if i else -pull
            e1 = b[i] - e1 * c1 / d1
            c2, c1 = c1, c[i]
            d2, d1 = d1, pivot
            z2, z1 = z1, right
            d[i], e[i], z[i] = pivot, e1, right
        x0 = x1 = z[n] / d[n]
        x2 = 0.0
        for i in range(n - 1, -1, -1):
            x2, x1 = x1, (z[i] - e[i] * x1 - c[i] * x2) / d[i]
            nodes[i].x = x1
    var = 1.0 / d[n]
    gain = 1.0 + e[n - 1] / d[n - 1]
    return Path(nodes, x0, var, gain * gain * var + 1.0 / d[n - 1], prior)


def cost(nodes: Sequence[Node], load: float = LOAD) -> float:
    """Return the cost of the path if a minimum above it costs ``load`` at most."""
    total = slope = 0.0
    for i, node in enumerate(nodes):
        square = ((node.y - node.x) / node.scale) ** 2
        total += node.count * (
            BELOW * square if node.y < node.x else square / (1.0 + square / load))
        if i + 1 < len(nodes):
            following = nodes[i + 1]
            after = (following.x - node.x) / (following.t - node.t)
            if i and not node.free:
                total += (2.0 / (WALK * WALK) * (after - slope) ** 2
                          / (following.t - nodes[i - 1].t))
            slope = after
    return total
