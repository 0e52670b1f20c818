# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The closed loop of one axis: correction of the set point by the measured position.

The rule of the thesis, per cycle: on entering, the first valid mocap value becomes the zero of
mocap; error = (mocap - zero) - own position; an error below the dead band counts as 0; the error
is cut to the greatest correction of a cycle; it is subtracted from the new set point. The own
position is the count of the set points: the steps of a correction are not counted, since they
make up for steps that the machine lost.

Signs: the motor is at own position + offset, the axis at motor + distance lost. The correction of
a cycle changes the offset by minus its value.
"""

from collections import deque
import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.gantry.history import Commanded, History
from optitrack_vrpn.gantry.settings import CorrectionSettings
from optitrack_vrpn.gantry.slip import SlipEstimator

#: Samples of the error at rest for the noise: the window of the thesis's interface. Halved, the
#: deviation scatters by 10 % instead of 7 %; doubled, the axis must rest longer.
REST_SAMPLES = 100
#: Standard deviations within which an error at rest stays. Chosen: 99.7 % of normal noise. Halved,
#: noise causes corrections; doubled, errors of this size stay.
REST_SIGMAS = 3.0
#: Time (s) after which a resting axis counts as settled. Chosen: four times the measured delay of
#: 0.15 s. Halved, the transient of the low-pass counts as noise; doubled, the noise is learned
#: later.
SETTLED_S = 0.6


class Measurement(NamedTuple):
    """
    A valid mocap value of an axis.

    :ivar value: in the unit of the axis, from any origin.
    :ivar stamp: when the axis was there, on the clock of the cycles (s).
    """

    value: float
    stamp: float


class RestNoise:
    """Estimate the noise of the error while the axis stands."""

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=REST_SAMPLES)
        self.deviation: Optional[float] = None

    def update(self, error: float, resting: bool) -> None:
        """
        Process the error of a cycle.

        :param resting: the axis has been at rest for long enough.
        """
        if not resting:
            self._errors.clear()
            return
        self._errors.append(error)
        if len(self._errors) == REST_SAMPLES:
            self.deviation = statistics.pstdev(self._errors)


class Correction:
    """
    Correct one axis.

    :param settings: the rule.
    :ivar offset: correction so far (unit), added to every set point.
    :ivar error: of the last measurement (unit), None before the first.
    :ivar dead_band: that acts now (unit).
    :ivar slip: the estimator of the action kalman.
    """

    def __init__(self, settings: CorrectionSettings) -> None:
        self.settings = settings
        self.offset = 0.0
        self.entry_offset = 0.0
        self.error: Optional[float] = None
        self.dead_band = settings.dead_band
        self.history = History()
        self.slip: Optional[SlipEstimator] = None
        self._noise = RestNoise()
        self._zero: Optional[float] = None
        self._zero_at_rest = False
        self._last: Optional[Measurement] = None
        self._stood_s = 0.0
        self._dt = 0.0

    def enter(self) -> None:
        """Begin: the next valid measurement gives the zero of mocap."""
        self._zero = None
        self._zero_at_rest = False
        self._last = None
        self.error = None
        self.entry_offset = self.offset
        self._noise = RestNoise()
        self.dead_band = self.settings.dead_band
        if self.settings.action == 'kalman':
            self.slip = SlipEstimator(self.settings.dead_band or 1e-3)

    @property
    def exceeded(self) -> bool:
        """Return whether the total correction since entering is beyond its limit."""
        return abs(self.offset - self.entry_offset) > self.settings.limit

    def shift(self) -> None:
        """
        Note that the count of the position has a new zero: mocap gets a new one too.

        It is taken once the axis stands, since mocap shows where the axis was a moment ago.
        """
        self.history.clear()
        self.enter()
        self._zero_at_rest = True

    def commanded(self, time: float, position: float, moving: bool, dt: float) -> None:
        """
        Note the set point of a cycle, whether corrected or not.

        :param time: when the machine will be there (s).
        :param position: the set point without offset (unit).
        :param dt: time of the cycle (s).
        """
        self.history.add(Commanded(time, position, self.offset))
        self._stood_s = 0.0 if moving else self._stood_s + dt
        self._dt = dt
        if self.slip is not None:
            self.slip.move(time, position + self.offset)

    def correct(self, measurement: Optional[Measurement]) -> None:
        """
        Correct once; call it before the set point of the cycle is taken.

        :param measurement: the valid value of this cycle, None where there is none.
        """
        fresh = measurement is not None and (
            self._last is None or measurement.stamp > self._last.stamp)
        if measurement is not None:
            self._last = measurement
        if self._last is None:
            return
        compensated = self.settings.latency_compensation or self.settings.action == 'kalman'
        now = self.history.at(math.inf)
        then = self.history.at(self._last.stamp) if compensated else now
        if now is None or then is None:
            return
        if self._zero is None:
            if self._zero_at_rest and self._stood_s < SETTLED_S:
                return
            # So that the error is 0 on entering, whatever the origin of either count.
            self._zero = self._last.value - then.position
        error = self._last.value - self._zero - then.position
        if compensated:
            # What has been corrected since the stamp does not show in the measurement yet.
            error += now.offset - then.offset
        self.error = error
        if fresh:
            self._noise.update(error, self._stood_s > SETTLED_S)
        if measurement is None and self.settings.action != 'thesis':
            error = 0.0     # only the thesis's rule goes on with the last value
        if self.settings.action == 'kalman':
            self._follow_slip(fresh, then)
        else:
            self._apply(self.settings.gain * self._with_dead_band(error)
                        if self.settings.action == 'integral' else self._with_dead_band(error))

    def _with_dead_band(self, error: float) -> float:
        if self.settings.dead_band_from == 'noise' and self._noise.deviation is not None:
            self.dead_band = min(self.settings.dead_band, REST_SIGMAS * self._noise.deviation)
        return 0.0 if abs(error) < self.dead_band else error

    def _apply(self, change: float) -> None:
        """
        Subtract a correction, cut to the greatest of a cycle.

        What is cut is not remembered, so that nothing winds up.
        """
        most = self.settings.max_step
        self.offset -= min(max(change, -most), most)

    def _follow_slip(self, fresh: bool, then: Commanded) -> None:
        """Let the offset follow what the estimator predicts to be lost."""
        assert self.slip is not None and self._last is not None and self._zero is not None
        if fresh:
            self.slip.measure(self._last.stamp, self._last.value - self._zero - then.position
                              - (then.offset - self.entry_offset))
        self._apply(self.offset - self.entry_offset + self.slip.distance())
