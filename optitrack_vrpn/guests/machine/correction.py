# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The closed loop of one axis: correction of the set point by the measured position.

The rule of the thesis, per cycle: at the start, the first valid mocap value becomes the zero of
mocap; error = (mocap - zero) - own position; an error below the dead band counts as 0; the error
is limited to the maximum correction of a cycle; it is subtracted from the new set point. The own
position is the count of the set points: the steps of a correction are not counted, since they
replace steps that the machine lost.

Signs: the motor is at own position + offset, the axis at motor + distance lost. The correction of
a cycle changes the offset by minus its value.
"""

from bisect import bisect_right
from collections import deque
import math
from typing import Any, Generic, NamedTuple, Optional, TypeVar

import numpy as np
from optitrack_vrpn.guests.machine.gantry_settings import CorrectionSettings

#: Time (s) after which a resting axis counts as settled: four times the measured delay of 0.15 s.
SETTLED_S = 0.6


class Measurement(NamedTuple):
    """
    A valid mocap value of an axis.

    :ivar value: in the unit of the axis, relative to any origin.
    :ivar stamp: time of the measurement, on the clock of the cycles (s).
    """

    value: float
    stamp: float


class Commanded(NamedTuple):
    """
    A command for one time.

    :ivar time: time at which the machine reaches it (s).
    :ivar position: the set point without correction (unit).
    :ivar offset: the added correction (unit).
    """

    time: float
    position: float
    offset: float


class Travel(NamedTuple):
    """Ways of the motor in both directions (unit), and the share of the play, at a time (s)."""

    time: float
    up: float
    down: float
    share: float


Entry = TypeVar('Entry', bound=NamedTuple)


class History(Generic[Entry]):
    """
    Store the entries of the last two seconds: longer than a measurement may be late.

    :ivar entries: named tuples of numbers, of which the first is the time (s); times rise.
    """

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def add(self, entry: Entry) -> None:
        """Add an entry later than the last."""
        self.entries.append(entry)
        while entry[0] - self.entries[0][0] > 2.0:
            self.entries.popleft()

    def at(self, time: float) -> Optional[Entry]:
        """Return the entry for a time, interpolated, the last one if later; None if too early."""
        entries = self.entries
        i = bisect_right(entries, time, key=lambda each: each[0])
        if i == 0 or i == len(entries):
            return entries[-1] if i else None
        before, after = entries[i - 1], entries[i]
        share = (time - before[0]) / (after[0] - before[0])
        return before._make(a + share * (b - a) for a, b in zip(before, after))


class SlipTuning(NamedTuple):
    """
    Tuning of the estimator of slip; all values are chosen.

    :ivar noise: standard deviation of a measurement after the low-pass, in dead bands: 3 sigma of
        a filtered standing body (0.3 mm, 0.04 deg) compared with 1 mm and 0.1 to 0.3 deg.
    :ivar correlated: cycles over which low-pass samples are correlated; the measurement variance
        is multiplied by it.
    :ivar drift: process noise per square root of a cycle: of the constant and the backlash in dead
        bands, and of the slip. The constant follows within ten seconds.
    :ivar first: initial standard deviations, in the same units; slip up to 1 %.
    """

    noise: float = 0.1
    correlated: float = 20.0
    drift: tuple[float, float, float] = (3e-4, 1e-4, 1e-7)
    first: tuple[float, float, float] = (0.1, 2.0, 2e-3)


TUNING = SlipTuning()


class SlipEstimator:
    """
    A Kalman filter that estimates slip and backlash of an axis from mocap.

    The difference between the position of the axis and the count of its motor is modelled as
    ``d = c + b h``. The backlash is b, its share h (-1/2 to 1/2) follows from the play operator.
    For each unit of way of the motor in positive direction c decreases by the slip p, for each
    unit in negative direction it increases by the slip n. The states c, p, n and b have small
    process noise. The model predicts d without measurements, also right after a reversal.

    :param dead_band: scale of the noise and of the backlash (unit).
    """

    def __init__(self, dead_band: float) -> None:
        def variances(constant: float, backlash: float, slip: float) -> Any:
            return np.square((constant * dead_band, slip, slip, backlash * dead_band))

        self._scale = dead_band
        self._x = np.zeros(4)       # c, p, n, b
        self._p = np.diag(variances(*TUNING.first))
        self._q = np.diag(variances(*TUNING.drift))
        self._r = TUNING.correlated * (TUNING.noise * dead_band) ** 2
        self._motor: Optional[float] = None
        self._load = 0.0
        self._now = Travel(-math.inf, 0.0, 0.0, 0.0)
        self._travels: History[Travel] = History()

    @property
    def slips(self) -> tuple[float, float]:
        """Return the estimated shares of the way lost in positive and in negative direction."""
        return float(self._x[1]), float(self._x[2])

    @property
    def backlash(self) -> float:
        """Return the estimated play (unit)."""
        return float(self._x[3])

    def move(self, time: float, motor: float) -> None:
        """Add the position of the motor (unit) at a time (s) later than the last one."""
        if self._motor is None:
            self._motor = self._load = motor
        way = motor - self._motor
        self._motor = motor
        up, down = max(way, 0.0), max(-way, 0.0)
        width = max(self.backlash, 0.2 * self._scale)
        self._load = min(max(self._load, motor - 0.5 * width), motor + 0.5 * width)
        self._now = Travel(
            time, self._now.up + up, self._now.down + down, (self._load - motor) / width)
        self._travels.add(self._now)
        change = np.eye(4)
        change[0, 1:3] = -up, down
        self._x = change @ self._x
        self._p = change @ self._p @ change.T + self._q

    def measure(self, time: float, distance: float) -> None:
        """
        Process a measurement.

        :param time: stamp of the measurement, on the clock of ``move`` (s).
        :param distance: position of the axis minus that of the motor (unit).
        """
        then = self._travels.at(time)
        if then is None:
            return
        row = np.array((1.0, self._now.up - then.up, then.down - self._now.down, then.share))
        spread = self._p @ row
        gain = spread / (float(row @ spread) + self._r)
        self._x = self._x + gain * (distance - float(row @ self._x))
        self._p = self._p - np.outer(gain, spread)
        self._p = 0.5 * (self._p + self._p.T)
        self._x[3] = max(0.0, self._x[3])

    def distance(self) -> float:
        """Return the predicted axis minus motor position at the last ``move`` (unit)."""
        return float(self._x[0] + self._now.share * self._x[3])


class Correction:
    """
    Correct one axis.

    :param settings: the rule.
    :param turn: a full turn (unit), infinite for a linear axis: an angle that is not unwrapped, or
        is unwrapped from another turn, is the same position.
    :ivar offset: total correction (unit), added to every set point.
    :ivar error: error of the last measurement (unit), None before the first.
    :ivar slip: the estimator of the action kalman.
    """

    def __init__(self, settings: CorrectionSettings, turn: float = math.inf) -> None:
        self.settings = settings
        self._turn = turn
        self.offset = 0.0
        self.entry_offset = 0.0
        self.error: Optional[float] = None
        self.history: History[Commanded] = History()
        self.slip: Optional[SlipEstimator] = None
        self._zero: Optional[float] = None
        self._zero_at_rest = False
        self._last: Optional[Measurement] = None
        self._stood_s = 0.0
        self._dt = 0.0

    def enter(self) -> None:
        """Start the correction: the next valid measurement becomes the zero of mocap."""
        self._zero = None
        self._zero_at_rest = False
        self._last = None
        self.error = None
        self.entry_offset = self.offset
        if self.settings.action == 'kalman':
            self.slip = SlipEstimator(self.settings.dead_band or 1e-3)

    @property
    def exceeded(self) -> bool:
        """Return whether the total correction since entering is beyond its limit."""
        return abs(self.offset - self.entry_offset) > self.settings.limit

    def shift(self) -> None:
        """
        Restart after the position count got a new zero: mocap gets a new zero too.

        The new zero is measured after the axis has stopped, because measurements are delayed.
        """
        self.history.entries.clear()
        self.enter()
        self._zero_at_rest = True

    def commanded(self, time: float, position: float, moving: bool, dt: float) -> None:
        """
        Store the set point of a cycle, corrected or not.

        :param time: time at which the machine reaches it (s).
        :param position: the set point without offset (unit).
        :param dt: duration of the cycle (s).
        """
        self.history.add(Commanded(time, position, self.offset))
        self._stood_s = 0.0 if moving else self._stood_s + dt
        self._dt = dt
        if self.slip is not None:
            self.slip.move(time, position + self.offset)

    def correct(self, measurement: Optional[Measurement]) -> None:
        """Correct once, by the valid value of this cycle, before its set point is read."""
        fresh = measurement is not None and (
            self._last is None or measurement.stamp > self._last.stamp)
        if measurement is not None:
            self._last = measurement
        if self._last is None:
            return
        thesis = self.settings.action == 'thesis'
        now = self.history.at(math.inf)
        then = now if thesis else self.history.at(self._last.stamp)
        if now is None or then is None:
            return
        if self._zero is None:
            if self._zero_at_rest and self._stood_s < SETTLED_S:
                return
            # Choose the zero so that the error is 0 at the start, for any origin of the two
            # counts.
            self._zero = self._last.value - then.position
        error = distance = math.remainder(
            self._last.value - self._zero - then.position, self._turn)
        # The measurement does not contain corrections after its stamp yet.
        error += now.offset - then.offset
        self.error = error
        if not thesis:
            self._follow_slip(distance - then.offset if fresh else None)
        elif abs(error) >= self.settings.dead_band:
            self._apply(error)      # also with the last value, if there is none in this cycle

    def _apply(self, change: float) -> None:
        """Subtract a correction, limited to the maximum of a cycle; the rest is discarded."""
        most = self.settings.max_step
        self.offset -= min(max(change, -most), most)

    def _follow_slip(self, distance: Optional[float]) -> None:
        """Add the predicted loss to the offset; ``distance``: axis minus motor, if new."""
        assert self.slip is not None and self._last is not None
        if distance is not None:
            self.slip.measure(self._last.stamp, distance + self.entry_offset)
        self._apply(self.offset - self.entry_offset + self.slip.distance())
