# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Guided calibration of the steps per unit: command a distance, measure it with mocap, correct.

The axis moves back and forth several times in open loop. After each reversal it moves a quarter of
the distance before the stroke that counts, so that the play is not measured as a part of it.
Upward and downward strokes are averaged separately: a difference between them is caused by slip,
not by the steps per unit.
"""

import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.modes import Mode

#: Time (s) at rest before the position is read. Chosen: four times the measured delay of 0.15 s.
SETTLE_S = 0.6
#: Readings averaged at each end, the window of the thesis.
READINGS = 100
#: Chosen: time (s) without a reading at rest after which the calibration fails.
_PATIENCE_S = 5.0
#: Ends of the motions of one period, as shares of the distance: after each reversal a quarter,
#: then the stroke that counts. Chosen.
_ENDS = (0.25, 1.0, 0.75, 0.0)
#: Share of the distance that a stroke covers, by ``_ENDS``.
_STROKE = 0.75
#: Chosen: periods, of two strokes each.
_PERIODS = 3


class Result(NamedTuple):
    """
    Result of a calibration.

    :ivar steps_per_unit: corrected steps per unit.
    :ivar ratio: measured distance per commanded distance, without the play.
    :ivar uncertainty: standard error of the ratio.
    :ivar difference: ratio of the upward minus ratio of the downward strokes.
    :ivar backlash: way lost at a reversal (unit).
    """

    steps_per_unit: float
    ratio: float
    uncertainty: float
    difference: float
    backlash: float


class Calibration:
    """
    Calibrate one axis; call ``step`` after each cycle.

    :param axis: axis in open loop, at rest.
    :param distance: distance from the start to the turning point (unit), signed.
    :ivar result: the result, at the end.
    :ivar reason: reason of a failure, or ''.
    """

    def __init__(self, axis: Axis, distance: float) -> None:
        self.axis = axis
        self.result: Optional[Result] = None
        self.reason = ''
        self._rest_s = self._missing_s = 0.0
        self._readings: list[float] = []
        self._ends: list[float] = []
        self._distance = distance
        start = axis.state.position
        self._targets = [start + share * distance for share in _ENDS * _PERIODS]
        if axis.tracking:
            self.reason = 'calibration needs the open loop: switch tracking off first'
        elif axis.moving or axis.mode is Mode.EMERGENCY:
            self.reason = 'calibration starts at rest: stop the axis first'
        elif not math.isfinite(distance) or distance == 0.0:
            self.reason = 'give a distance other than 0'
        else:       # the first call checks the limits
            self.reason = axis.go_to(start + distance) or axis.go_to(self._targets[0])

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
        if self.axis.target != self._targets[len(self._ends)] or self.axis.tracking:
            self.reason = 'the axis received another command'
            return
        if self.axis.moving or self.axis.state.position != self.axis.target:
            self._rest_s = self._missing_s = 0.0
            self._readings.clear()
            return
        self._rest_s += dt
        if self._rest_s < SETTLE_S:
            return
        self._missing_s += dt
        if measurement is not None:
            self._missing_s = 0.0
            self._readings.append(measurement.value)
        if len(self._readings) >= READINGS:
            self._ends.append(statistics.fmean(self._readings))
            self._readings.clear()
            self._rest_s = 0.0
            self._next()
        elif self._missing_s > _PATIENCE_S:
            self.axis.stop()
            self.reason = 'mocap gave too few valid values: check that the body is in view'

    def _next(self) -> None:
        if len(self._ends) < len(self._targets):
            self.reason = self.axis.go_to(self._targets[len(self._ends)])
            return
        # ways between neighbouring ends: stroke, reversal, stroke, reversal, ...
        ways = [(b - a) / self._distance for a, b in zip(self._ends, self._ends[1:])]
        up, down = ([way / stroke for way in ways[k::4]]
                    for k, stroke in ((0, _STROKE), (2, -_STROKE)))
        ratio = statistics.fmean(up + down)
        reversals = [abs(way) / (1.0 - _STROKE) for way in ways[1::2]]
        if not 0.5 < ratio < 2.0:
            self.reason = (f'mocap measured {ratio:.3f} of the commanded distance: wrong axis, '
                           'sign or body; check the axis table with axis_bridge --teach')
        elif min(reversals) < 0.1:
            self.reason = 'the play exceeds a quarter of the distance: give a larger distance'
        else:
            self.result = Result(
                self.axis.settings.steps_per_unit / ratio, ratio,
                statistics.stdev(up + down) / math.sqrt(len(up + down)),
                statistics.fmean(up) - statistics.fmean(down),
                (1.0 - statistics.fmean(reversals) / ratio) * (1.0 - _STROKE)
                * abs(self._distance))
