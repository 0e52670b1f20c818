# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A Kalman filter that estimates slip and backlash of an axis from mocap.

The difference between the position of the axis and the count of its motor is modelled as

    d = c - p W+ + n W- + b h

with a slowly changing constant c, the slips p and n per unit of the ways W+ and W- of the motor in
positive and negative direction, and the backlash b times its share h (-1/2 to 1/2, from the play
operator). c, p, n and b are states with small process noise; W+, W- and h at the stamp of a
measurement are its coefficients. The model predicts d without measurements, also right after a
reversal.
"""

from bisect import bisect_right
from collections import deque
import math
from typing import Generic, NamedTuple, Optional, TypeVar

import numpy as np

#: Standard deviation of a measurement after the low-pass, as a fraction of the dead band. Chosen:
#: 3 sigma of a filtered standing body (0.3 mm, 0.04 deg) compared with 1 mm and 0.1 to 0.3 deg.
NOISE = 0.1
#: Cycles over which low-pass samples are correlated; the measurement variance is multiplied by it.
#: Chosen.
CORRELATED = 20.0
#: Process noise per square root of a cycle, as fractions of the dead band: of the constant, and of
#: the backlash; then of the slip per unit of way. Chosen: the constant follows within ten seconds.
NOISE_CONSTANT = 3e-4
NOISE_BACKLASH = 1e-4
NOISE_SLIP = 1e-7
#: Initial standard deviations: of the slip, and of the backlash in dead bands. Chosen: slip up to
#: 1 %.
FIRST_SLIP = 2e-3
FIRST_BACKLASH = 2.0
#: Cycles after which the constant absorbs the way travelled, so that W stays small. Chosen: it
#: limits rounding errors only.
_REBASE = 2000


class Travel(NamedTuple):
    """Ways of the motor in both directions (unit), and the share of the play, at a time (s)."""

    time: float
    up: float
    down: float
    share: float


class SlipEstimator:
    """
    Estimate the difference between axis and motor.

    :param dead_band: scale of the noise and of the backlash (unit).
    :ivar slip_positive: estimated share of the way lost in positive direction.
    :ivar slip_negative: estimated share of the way lost in negative direction.
    :ivar backlash: estimated play (unit).
    """

    def __init__(self, dead_band: float) -> None:
        self._scale = dead_band
        self._x = np.zeros(4)
        self._p = np.diag((
            (0.1 * dead_band) ** 2, FIRST_SLIP ** 2, FIRST_SLIP ** 2,
            (FIRST_BACKLASH * dead_band) ** 2))
        self._q = np.array((
            (NOISE_CONSTANT * dead_band) ** 2, NOISE_SLIP ** 2, NOISE_SLIP ** 2,
            (NOISE_BACKLASH * dead_band) ** 2))
        self._r = CORRELATED * (NOISE * dead_band) ** 2
        self._up = self._down = 0.0
        self._motor: float | None = None
        self._load = 0.0
        self._travels: History[Travel] = History()
        self._cycles = 0

    @property
    def slip_positive(self) -> float:
        """Return the estimated share of the way lost in positive direction."""
        return float(self._x[1])

    @property
    def slip_negative(self) -> float:
        """Return the estimated share of the way lost in negative direction."""
        return float(self._x[2])

    @property
    def backlash(self) -> float:
        """Return the estimated play (unit)."""
        return float(self._x[3])

    def move(self, time: float, motor: float) -> None:
        """
        Add the position of the motor at a time later than the last one.

        :param time: time (s).
        :param motor: position of the motor (unit).
        """
        width = max(self.backlash, 0.2 * self._scale)
        if self._motor is None:
            self._load = motor
        else:
            change = motor - self._motor
            self._up += max(change, 0.0)
            self._down += max(-change, 0.0)
        self._motor = motor
        self._load = min(max(self._load, motor - 0.5 * width), motor + 0.5 * width)
        share = (self._load - motor) / width
        self._travels.add(Travel(time, self._up, self._down, share))
        self._p[np.diag_indices(4)] += self._q
        self._cycles += 1
        if self._cycles % _REBASE == 0:
            self._rebase()

    def _rebase(self) -> None:
        """Include the ways so far in the constant, and reset them."""
        up, down = self._up, self._down
        change = np.eye(4)
        change[0] = (1.0, -up, down, 0.0)
        self._x = change @ self._x
        self._p = change @ self._p @ change.T
        self._up = self._down = 0.0
        entries = self._travels.entries
        for i, travel in enumerate(entries):
            entries[i] = travel._replace(up=travel.up - up, down=travel.down - down)

    def measure(self, time: float, distance: float) -> None:
        """
        Process a measurement.

        :param time: stamp of the measurement, on the clock of ``move`` (s).
        :param distance: position of the axis minus that of the motor (unit).
        """
        travel = self._travels.at(time)
        if travel is None:
            return
        row = np.array((1.0, -travel.up, travel.down, travel.share))
        spread = self._p @ row
        innovation = distance - float(row @ self._x)
        gain = spread / (float(row @ spread) + self._r)
        self._x = self._x + gain * innovation
        self._p = self._p - np.outer(gain, spread)
        self._p = 0.5 * (self._p + self._p.T)
        self._x[3] = max(0.0, self._x[3])

    def distance(self) -> float:
        """Return the predicted axis minus motor position at the last ``move`` (unit)."""
        travel = self._travels.at(math.inf)
        if travel is None:
            return 0.0
        return float(np.array((1.0, -travel.up, travel.down, travel.share)) @ self._x)


#: Time (s) for which commands are stored. Chosen: above the age at which a measurement counts as
#: none.
KEPT_S = 2.0
Entry = TypeVar('Entry', bound=NamedTuple)


class History(Generic[Entry]):
    """
    Store the entries of the last ``KEPT_S``.

    :ivar entries: named tuples of numbers, of which the first is the time (s); times rise.
    """

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Add an entry later than the last."""
        self.entries.append(entry)
        while entry[0] - self.entries[0][0] > KEPT_S:
            self.entries.popleft()

    def at(self, time: float) -> Optional[Entry]:
        """
        Return the entry for a time, interpolated linearly; the last one for a later time.

        :returns: None if the time is before the stored entries, or none are stored.
        """
        entries = self.entries
        i = bisect_right(entries, time, key=lambda each: each[0])
        if i == 0 or i == len(entries):
            return entries[-1] if i else None
        before, after = entries[i - 1], entries[i]
        share = (time - before[0]) / (after[0] - before[0])
        return before._make(a + share * (b - a) for a, b in zip(before, after))
