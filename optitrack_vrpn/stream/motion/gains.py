# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Kalman gains, covariance and learned noise of a triple integrator, on plain floats.

The acceleration of the quantity is a random walk (Wiener-process acceleration model: Bar-Shalom,
Li, Kirubarajan, Estimation with Applications to Tracking and Navigation, 2001, section 6.2.3);
measurements have white noise. The noise is equal on three axes, so that all three share one 3 x 3
covariance: six numbers instead of a 9 x 9 matrix.

The process noise is seldom known: it differs by a factor of 100 between a drone that hovers and a
wand that is waved. It is learned from the innovations, which are white when it is right (Mehra,
On the identification of variances and adaptive Kalman filtering, IEEE Trans. Automatic Control
15(2), 1970): where successive innovations have the same direction, the filter lags and the
process noise is too small; where they have opposite directions, it is too large. A manoeuvre (a
resting wand is grabbed) changes the covariance at once: the step of acceleration that explains
the innovation is added to it.
"""

from __future__ import annotations

import math
from typing import Final

SAME_DT: Final = 0.01
"""
Relative difference of intervals that use the same steady gains. Chosen: the stamps of a steady
sender differ by less.
"""
SETTLED: Final = 3e-4
"""Relative change of every gain in one step below which the filter is steady. Chosen."""

FAR_APART: Final = 0.5
"""
Value of w dt, see ``steady_rate_variance``, above which the continuous-time solution is not used.
Chosen: at 0.5 it is 1.36 times the true variance (measured).
"""

LARGEST_STEP: Final = 0.1
"""Limit of this step for one frame. Chosen: an outlier changes the process noise by 10 %."""
RANGE: Final = math.log(100.0)
"""
The learned process noise stays within this factor of the configured one. Chosen: from hovering to
waving. A smaller range excludes one of these; with a larger one, a body that was at rest takes
longer to adapt to motion.
"""
NOTICED: Final = 0.15
"""
Change of the logarithm of the process noise after which gains are computed again. Chosen: it
changes them by 5 to 15 %.
"""


class Gains:
    """
    Propagate the covariance of (value, rate, acceleration); compute the gains of a measurement.

    While the gains are steady and the intervals equal, a step is one comparison.

    :ivar k1, k2, k3: gains of the last step on value (1), rate (1/s), acceleration (1/s^2).
    :ivar pp, pv, pa, vv, va, aa: covariance after it.
    :ivar unexplained: addition to vv by innovations beyond their noise, see ``notice``.
    """

    __slots__ = (
        'k1', 'k2', 'k3', 'unexplained', 'pp', 'pv', 'pa', 'vv', 'va', 'aa', '_density',
        '_variance', '_low', '_high', 'adaptive', '_configured', '_learned', '_used', '_trend',
        '_last', '_scatter', '_calm', '_innovation')

    def __init__(self, noise: float, process_noise: float, adaptive: bool = False) -> None:
        """
        Set the noises.

        :param noise: standard deviation of a measurement (m or rad).
        :param process_noise: square root of the power spectral density of the jerk: change of the
            acceleration in one second (m/s^2 or rad/s^2, one sigma); half of it in 0.25 s.
        :param adaptive: learn the process noise, starting from this one at every ``begin``.
        """
        self.adaptive = adaptive
        self._configured = math.log(process_noise)
        self._variance = noise * noise
        self.begin(1.0, 1.0)

    def begin(self, rate_deviation: float, acceleration_deviation: float) -> None:
        """Restart with one measurement, and deviations (one sigma) of rate and acceleration."""
        self._learned = self._used = self._configured
        self._density = math.exp(2.0 * self._used)
        self._trend = self._last = (0.0, 0.0, 0.0)
        self._scatter = 0.0
        self.k1 = self.k2 = self.k3 = 0.0
        self.pp = self._variance
        # Variance of the innovation, each axis.
        self._innovation = 2.0 * self._variance
        self.vv = rate_deviation * rate_deviation
        self.aa = acceleration_deviation * acceleration_deviation
        self.pv = self.pa = self.va = self.unexplained = 0.0
        self._unsettle()

    def set_noise(self, noise: float) -> None:
        """Change the standard deviation of a measurement (m or rad)."""
        self._variance = noise * noise
        self._unsettle()

    def _unsettle(self) -> None:
        """Discard the steady gains, so that the next steps compute them again."""
        self._low = self._high = 0.0
        self._calm = 0

    def steady_rate_variance(self, dt: float) -> float:
        """
        Return the steady-state variance of the rate, by the continuous-time solution.

        With w = (density / (variance dt))^(1/6) the gains tend to 2w, 2w^2, w^3 (a Butterworth
        polynomial), and the variance of the rate to 3 w^3 times the noise density. Where the
        interval is too long for that (``FAR_APART``), it is computed step by step.

        :param dt: interval (s).
        """
        if self._density * dt ** 5 < self._variance * FAR_APART ** 6:
            return 3.0 * math.sqrt(self._density * self._variance * dt)
        settled = Gains(math.sqrt(self._variance), self.process_noise)
        # Limit of the steps to steady gains above ``FAR_APART``, where 22 are needed (measured).
        for _ in range(100):
            settled.step(dt)
            if settled._high:
                break
        return settled.vv

    def step(self, dt: float) -> None:
        """Propagate by one interval ``dt`` (s), and update with one measurement."""
        if self._low < dt < self._high:
            return
        self._low = self._high = 0.0
        t = dt
        h = 0.5 * t * t
        q = self._density * t
        pa, vv, va, aa = self.pa, self.vv, self.va, self.aa
        # F P F' + Q, where F = [[1, t, h], [0, 1, t], [0, 0, 1]].
        c_pv = self.pv + t * vv + h * va
        c_pa = pa + t * va + h * aa
        pp = self.pp + t * self.pv + h * pa + t * c_pv + h * c_pa + q * h * h * 0.2
        pv = c_pv + t * c_pa + q * h * t * 0.25
        pa = c_pa + q * h / 3.0
        vv += t * va
        va += t * aa
        vv += t * va + q * h * (2.0 / 3.0)
        va += q * t * 0.5
        aa += q
        # The measurement.
        r = self._variance
        self._innovation = pp + r
        inverse = 1.0 / self._innovation
        k1 = pp * inverse
        k2 = pv * inverse
        k3 = pa * inverse
        r *= inverse
        self.pp = pp * r
        self.pv = pv * r
        self.pa = pa * r
        self.vv = vv - k2 * pv
        self.va = va - k2 * pa
        self.aa = aa - k3 * pa
        if (-SETTLED * k1 < k1 - self.k1 < SETTLED * k1
                and -SETTLED * k2 < k2 - self.k2 < SETTLED * k2
                and -SETTLED * k3 < k3 - self.k3 < SETTLED * k3):
            self._calm += 1
            # Such steps in a row before gains are steady. Chosen: two can be an extremum.
            if self._calm >= 4:
                self._low = t * (1.0 - SAME_DT)
                self._high = t * (1.0 + SAME_DT)
        else:
            self._calm = 0
        self.k1 = k1
        self.k2 = k2
        self.k3 = k3

    def notice(self, square: float) -> None:
        """
        Add an innovation that the noise does not explain to the variance of the rate.

        An outlier moves the rate by k2 times its innovation, and the filter forgets it within some
        steps.

        :param square: the squared innovation of the last step, all axes (m^2 or rad^2).
        """
        expected = 3.0 * self._innovation
        if expected < self._scatter:
            expected = self._scatter
        # Squared innovation over its expectation up to which it is noise: exceeded once in 140
        # (chi-square with 3 degrees of freedom).
        excess = self.k2 * self.k2 * (square - 4.0 * expected)
        # Part of that variance that is left after a step. Measured: the velocity after an outlier
        # of 8 cm stays within 2 deviations at 30 to 240 Hz (test_motion_kalman.py); at 0.8 within
        # 4.2.
        kept = 0.9 * self.unexplained
        self.unexplained = excess if excess > kept else kept

    def learn(self, x: float, y: float, z: float, dt: float) -> None:
        """Learn the process noise from the innovation (m or rad) of the last step of ``dt`` s."""
        a, b, c = self._trend
        k1 = self.k1
        variance = 3.0 * self._innovation
        # Innovations are averaged over about the memory of the filter.
        forget = min(0.5, 0.5 * k1)
        # Correlation of trend and innovation, in sigmas of white innovations: the running mean of
        # these has forget / (2 - forget) of their variance.
        # Step of the logarithm of the process noise per innovation that agrees with the trend by
        # one sigma. Chosen.
        step = 0.03 * (a * x + b * y + c * z) / (
            variance * math.sqrt(forget / (2.0 - forget)))
        if step > LARGEST_STEP:
            step = LARGEST_STEP
        elif step < -LARGEST_STEP:
            step = -LARGEST_STEP
        self._trend = (a + forget * (x - a), b + forget * (y - b), c + forget * (z - c))
        learned = self._learned + step
        learned = min(max(learned, self._configured - RANGE), self._configured + RANGE)
        self._learned = learned
        if not -NOTICED < learned - self._used < NOTICED:
            self._used = learned
            self._density = math.exp(2.0 * learned)
            self._unsettle()
        # Where the noise is larger than configured, the observed scatter replaces it.
        if variance < self._scatter:
            variance = self._scatter
        square = x * x + y * y + z * z
        # Squared innovation over its variance that, twice in the same direction, is a manoeuvre.
        # Chosen: white noise reaches it in one of 15 000 frames (chi-squared, 3 degrees of
        # freedom).
        if square > 6.0 * variance:
            a, b, c = self._last
            if 4.0 * (a * x + b * y + c * z) > square:
                # Frames between the start of a manoeuvre and its detection. Chosen: typical delay
                # of the detection.
                self._manoeuvre(square, 4.0 * dt)
            square = 9.0 * variance if square > 9.0 * variance else square
        self._scatter += 0.01 * (square - self._scatter)
        self._last = (x, y, z)

    def _manoeuvre(self, square: float, ago: float) -> None:
        """
        Add an undetected step of the acceleration to the covariance.

        A step A at time t ago changes value, rate and acceleration by A t^2/2, A t and A; the
        outer product of these, with A from the innovation, is added to the covariance.

        :param square: the squared innovation (m^2 or rad^2).
        :param ago: t (s).
        """
        # A jump of kilometres (possible with max_speed 0) would round the gain to exactly 1.
        # Limit of the squared innovation (m^2 or rad^2) that is added. Chosen: 10 m in a frame,
        # beyond any motion; it bounds rounding errors only.
        square = min(square, 100.0)
        rate = 2.0 / ago
        acceleration = rate / ago
        self.pp += square
        self.pv += square * rate
        self.pa += square * acceleration
        self.vv += square * rate * rate
        self.va += square * rate * acceleration
        self.aa += square * acceleration * acceleration
        self._unsettle()

    @property
    def process_noise(self) -> float:
        """Return the process noise in use (m/s^2 or rad/s^2 in one second)."""
        return math.exp(self._used)
