# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How much block minima scatter about the floor, and why.

Three things make a minimum miss the line that was predicted. Scatter from block to block
(``white``) is the network's own and seen in three neighbouring points without any line. An error
that stays for many blocks is either the line's (then it must follow faster: ``agility``) or a
pattern of the arrivals, such as polling at a rate near the frames' (then it must average longer).
Only the second falls back to the floor in one block, since nothing arrives before it is sent;
such falls are proof of it (``colour``).
"""

from __future__ import annotations

import math

_WHITE_BLOCKS = 50
_BLOCKS = 60
_LEAST_NS = 2e3
_UNKNOWN_NS = 30e3
_COLOUR_KEPT_NS = 600e9
_LAGGING = 0.3
_MOST_AGILE = 25.0
_MOST_CORRELATED = 0.6
_MOST_SPREADS = 1.5


class Noise:
    """Running description of the scatter of block minima (ns)."""

    def __init__(self) -> None:
        self.scale = _UNKNOWN_NS
        """Standard deviation that a minimum is believed to have."""
        self.agility = 1.0
        """By what the variance of the rate's random walk is multiplied."""
        self._white = _UNKNOWN_NS
        self._colour = 0.0
        self._innovation = _UNKNOWN_NS ** 2
        self._seen = 0
        self.restart()

    def restart(self) -> None:
        """Begin a new line through the same network."""
        self._blocks = 0
        self._before = 0.0
        self._correlation = 0.0
        self.agility = 1.0

    def see_neighbours(self, off: float) -> None:
        """
        Learn from a point's distance to the line between its two neighbours.

        :param off: ns; about one standard deviation on average, whatever the line is.
        """
        self._seen += 1
        gain = 1.0 / min(self._seen + 2, _WHITE_BLOCKS)
        # Clipped, so that one lifted block is not taken for a noisier network.
        off = min(abs(off), 5.0 * self._white)
        self._white = max(self._white + gain * (off - self._white), _LEAST_NS)

    def cap(self, spread: float) -> None:
        """Believe no more scatter than near the floor (ns): the rest is load."""
        self._white = min(self._white, max(_MOST_SPREADS * spread, _LEAST_NS))

    def see_fall(self, fall: float) -> None:
        """Learn that what was taken for the floor was not: a minimum fell ``fall`` ns below."""
        self._colour = max(self._colour, fall * fall)

    def see_innovation(self, innovation: float, line_var: float, passed: float) -> float:
        """
        Learn from a minimum that was not refused.

        :param innovation: minimum less prediction (ns).
        :param line_var: the prediction's variance (ns^2).
        :param passed: time since the last minimum (ns).
        :returns: the variance with which the minimum should enter (ns^2).
        """
        self._blocks += 1
        var = self.scale * self.scale
        whole = line_var + var
        square = min(innovation * innovation * var / whole, 9.0 * var)
        white = self._white * self._white
        gain = 1.0 / min(max(10, self._blocks), _BLOCKS)
        self._innovation += gain * (square - self._innovation) if self._blocks > 2 else (
            white - self._innovation)
        self._colour *= max(0.0, 1.0 - passed / _COLOUR_KEPT_NS)
        var = max(white, min(self._innovation, 2.0 * white + self._colour))
        self.scale = math.sqrt(var)
        whole = line_var + var
        product = max(-whole, min(whole, innovation * self._before)) / whole
        self._correlation += (product - self._correlation) / _BLOCKS
        self._before = innovation
        if self._colour > white:
            self.agility = 1.0
            rho = min(max(self._correlation, 0.0), _MOST_CORRELATED)
            return var * (1.0 + rho) / (1.0 - rho)
        lags = self._correlation > _LAGGING and self._blocks > _BLOCKS
        self.agility = min(max(self.agility * (1.2 if lags else 0.95), 1.0), _MOST_AGILE)
        return var

    def see_spread(self, spread: float) -> None:
        """Take over the spread found when a line was laid under a pattern of arrivals (ns)."""
        self._colour = max(self._colour, spread * spread)
        self.scale = min(max(_LEAST_NS, spread), 10.0 * self.scale)
        self._innovation = self.scale * self.scale

    def forget_before(self) -> None:
        """Let the next innovation stand alone: the line has been moved."""
        self._before = 0.0
