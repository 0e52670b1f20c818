# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Guided calibration of the steps per unit: command a distance, measure it with mocap, correct.

The axis moves back and forth several times in open loop. Upward and downward strokes are averaged
separately: a difference between them is caused by slip or backlash, not by the steps per unit.
"""

import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.modes import Mode

#: Time (s) at rest before the position is read. Chosen: four times the measured delay of 0.15 s.
#: Halved, the low-pass has not settled; doubled, each stroke takes longer.
SETTLE_S = 0.6
#: Readings averaged at each end, the window of the thesis. Halved, their noise grows by 1.4;
#: doubled, each stroke takes 1 s longer.
READINGS = 100
#: Chosen: cycles at rest without enough readings after which the calibration fails (5 s). Halved,
#: short occlusions end it; doubled, the failure is reported later.
_PATIENCE = 500


class Result(NamedTuple):
    """
    Result of a calibration.

    :ivar steps_per_unit: corrected steps per unit.
    :ivar ratio: measured distance per commanded distance.
    :ivar uncertainty: standard error of the ratio.
    :ivar difference: ratio of the upward minus ratio of the downward strokes.
    """

    steps_per_unit: float
    ratio: float
    uncertainty: float
    difference: float


class Calibration:
    """
    Calibrate one axis; call ``step`` after each cycle.

    :param axis: axis in open loop, at rest.
    :param distance: distance of each stroke (unit), signed.
    :param strokes: number of strokes, back and forth; even.
    :ivar result: the result, at the end.
    :ivar reason: reason of a failure, or ''.
    """

    def __init__(self, axis: Axis, distance: float, strokes: int = 6) -> None:
        self.axis = axis
        self.result: Optional[Result] = None
        self.reason = ''
        self._dt_count = 0
        self._readings: list[float] = []
        self._ends: list[float] = []
        self._distance = distance
        self._strokes = strokes
        self._start = axis.state.position
        if axis.tracking:
            self.reason = 'calibration needs the open loop: switch tracking off first'
        elif axis.moving or axis.mode is Mode.EMERGENCY:
            self.reason = 'calibration starts at rest: stop the axis first'
        elif not math.isfinite(distance) or distance == 0.0:
            self.reason = 'give a distance other than 0'
        else:
            # The first reversal removes the backlash from the first stroke.
            self.reason = axis.go_to(self._start + distance) or axis.go_to(self._start)

    @property
    def done(self) -> bool:
        """Return whether it has ended, successfully or not."""
        return self.result is not None or bool(self.reason)

    def step(self, measurement: Optional[Measurement], dt: float) -> None:
        """
        Execute a cycle.

        :param measurement: the valid mocap value of this cycle, or None.
        :param dt: duration of the cycle (s).
        """
        if self.done:
            return
        if self.axis.mode is not Mode.MANUAL:
            self.reason = f'the axis left the mode manual ({self.axis.mode.value})'
            return
        if self.axis.moving or self.axis.state.position != self.axis.target:
            self._dt_count = 0
            self._readings.clear()
            return
        self._dt_count += 1
        if self._dt_count * dt < SETTLE_S:
            return
        if measurement is not None:
            self._readings.append(measurement.value)
        if len(self._readings) >= READINGS:
            self._ends.append(statistics.fmean(self._readings))
            self._readings.clear()
            self._dt_count = 0
            self._next()
        elif self._dt_count > _PATIENCE:
            self.axis.stop()
            self.reason = 'mocap gave too few valid values: check that the body is in view'

    def _next(self) -> None:
        # The first reading is the start, after a downward stroke that removes the play.
        made = len(self._ends) - 1
        if made < self._strokes:
            up = made % 2 == 0
            self.reason = self.axis.go_to(self._start + (self._distance if up else 0.0))
            return
        ways = [b - a for a, b in zip(self._ends, self._ends[1:])]
        ratios = [way / (self._distance if k % 2 == 0 else -self._distance)
                  for k, way in enumerate(ways)]
        ratio = statistics.fmean(ratios)
        if not 0.5 < ratio < 2.0:
            self.reason = (f'mocap measured {ratio:.3f} of the commanded distance: wrong axis, '
                           'sign or body; check the axis table with axis_bridge --teach')
            return
        self.result = Result(
            self.axis.settings.steps_per_unit / ratio, ratio,
            statistics.stdev(ratios) / math.sqrt(len(ratios)),
            statistics.fmean(ratios[::2]) - statistics.fmean(ratios[1::2]))
