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

import math
from typing import NamedTuple, Optional

from optitrack_vrpn.gantry.settings import CorrectionSettings
from optitrack_vrpn.gantry.slip import History, SlipEstimator

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
        """
        Correct once; call it before the set point of the cycle is read.

        :param measurement: the valid value of this cycle, or None.
        """
        fresh = measurement is not None and (
            self._last is None or measurement.stamp > self._last.stamp)
        if measurement is not None:
            self._last = measurement
        if self._last is None:
            return
        compensated = self.settings.action != 'thesis'
        now = self.history.at(math.inf)
        then = self.history.at(self._last.stamp) if compensated else now
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
        if compensated:
            # The measurement does not contain corrections after its stamp yet.
            error += now.offset - then.offset
        self.error = error
        if not fresh and self.settings.action != 'thesis':
            error = 0.0     # only the thesis's rule continues with the last value
        if self.settings.action == 'kalman':
            self._follow_slip(distance - then.offset if fresh else None)
        else:
            if abs(error) < self.settings.dead_band:
                error = 0.0
            self._apply(self.settings.gain * error if compensated else error)

    def _apply(self, change: float) -> None:
        """
        Subtract a correction, limited to the maximum of a cycle.

        The part beyond the limit is discarded, so that there is no wind-up.
        """
        most = self.settings.max_step
        self.offset -= min(max(change, -most), most)

    def _follow_slip(self, distance: Optional[float]) -> None:
        """
        Add the loss that the estimator predicts to the offset.

        :param distance: position of the axis minus that of its motor, of a new measurement.
        """
        assert self.slip is not None and self._last is not None
        if distance is not None:
            self.slip.measure(self._last.stamp, distance + self.entry_offset)
        self._apply(self.offset - self.entry_offset + self.slip.distance())
