# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Covariance and Kalman gains of a triple integrator, in closed form on plain floats.

A quantity whose acceleration wanders as a random walk (the Wiener-process acceleration model:
Bar-Shalom, Li, Kirubarajan, Estimation with Applications to Tracking and Navigation, 2001,
section 6.2.3) is measured with white noise. Where noise is alike on three axes, all three share
one 3 x 3 covariance: six numbers instead of a 9 x 9 matrix.

How much the acceleration wanders is seldom known: a drone that hovers and a wand that is waved
are a hundredfold apart. It can be learned from the innovations, which are white when it is right
(Mehra, On the identification of variances and adaptive Kalman filtering, IEEE Trans. Automatic
Control 15(2), 1970): where they go on pointing the way they did, the filter lags and the wander
is too small; where they turn back, it is too large. A sudden manoeuvre (a resting wand is
grabbed) is not waited for: the covariance is given the step of acceleration that explains it.
"""

from __future__ import annotations

import math

SAME_DT = 0.01
"""Intervals alike to this fraction share their settled gains."""
SETTLED = 3e-4
CALM_STEPS = 4
"""So many steps that change every gain by less than this fraction settle them."""

FAR_APART = 0.5
"""Frames are far apart where w dt, see ``steady_rate_variance``, exceeds this."""
MOST_STEPS = 100
"""Steps after which gains are settled where w dt exceeds that."""

LEARNING = 0.03
"""Step of the logarithm of the wander for innovations that point one way by one sigma."""
LARGEST_STEP = 0.1
"""A single frame changes the logarithm of the wander by no more than this."""
MANOEUVRE = 6.0
"""Innovations of so many times their variance, twice the same way, are a sudden manoeuvre."""
MANOEUVRE_FRAMES = 4.0
"""How many frames ago a manoeuvre is taken to have begun when it is noticed."""
LARGEST_MANOEUVRE = 100.0
"""Squared innovation (m^2 or rad^2) beyond which the arithmetic, not the body, is the limit."""
RANGE = math.log(100.0)
"""The learned wander stays within this factor, either way, of the one configured."""
NOTICED = 0.15
"""Change of the logarithm of the wander for which gains are worked out anew."""


class Gains:
    """
    Follow the covariance of (value, rate, acceleration) and give the gains of each measurement.

    Once the gains have settled and while intervals stay the same, a step is one comparison.

    :ivar k1, k2, k3: gains of the last step on value (1), rate (1/s), acceleration (1/s^2).
    :ivar pp, pv, pa, vv, va, aa: covariance after it.
    """

    __slots__ = (
        'k1', 'k2', 'k3', 'pp', 'pv', 'pa', 'vv', 'va', 'aa', '_density', '_variance', '_low',
        '_high', 'adaptive', '_configured', '_learned', '_used', '_trend', '_last',
        '_scatter', '_calm')

    def __init__(self, noise: float, wander: float, adaptive: bool = False) -> None:
        """
        Set the noises.

        :param noise: standard deviation of a measurement (m or rad).
        :param wander: change of the acceleration in one second (m/s^2 or rad/s^2, one sigma); in
            a quarter of a second it changes half as much.
        :param adaptive: learn the wander, starting from this one at every ``begin``.
        """
        self.adaptive = adaptive
        self._configured = math.log(wander)
        self._variance = noise * noise
        self.begin(1.0, 1.0)

    def begin(self, rate_deviation: float, acceleration_deviation: float) -> None:
        """
        Start anew with one measurement.

        :param rate_deviation: how fast it may move at first (m/s or rad/s, one sigma).
        :param acceleration_deviation: the same for the acceleration (m/s^2 or rad/s^2).
        """
        self._learned = self._used = self._configured
        self._density = math.exp(2.0 * self._used)
        self._trend = self._last = (0.0, 0.0, 0.0)
        self._scatter = 0.0
        self.k1 = self.k2 = self.k3 = 0.0
        self.pp = self._variance
        self.vv = rate_deviation * rate_deviation
        self.aa = acceleration_deviation * acceleration_deviation
        self.pv = self.pa = self.va = 0.0
        self._unsettle()

    def set_noise(self, noise: float) -> None:
        """
        Take another measurement noise from now on.

        :param noise: standard deviation of a measurement (m or rad).
        """
        self._variance = noise * noise
        self._unsettle()

    def _unsettle(self) -> None:
        """Have the gains worked out again."""
        self._low = self._high = 0.0
        self._calm = 0

    def steady_rate_variance(self, dt: float) -> float:
        """
        Give the variance of the rate in the long run, by the continuous-time solution.

        With w = (density / (variance dt))^(1/6) the gains tend to 2w, 2w^2, w^3 (a Butterworth
        polynomial), and the variance of the rate to 3 w^3 times the noise density. Where frames
        are far apart for that, it is worked out step by step.

        :param dt: interval (s).
        """
        if self._density * dt ** 5 < self._variance * FAR_APART ** 6:
            return 3.0 * math.sqrt(self._density * self._variance * dt)
        settled = Gains(math.sqrt(self._variance), self.wander)
        for _ in range(MOST_STEPS):
            settled.step(dt)
            if settled._high:
                break
        return settled.vv

    def step(self, dt: float) -> None:
        """
        Go on by one interval and take in one measurement.

        :param dt: interval (s), above zero.
        """
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
        inverse = 1.0 / (pp + r)
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
            if self._calm >= CALM_STEPS:
                self._low = t * (1.0 - SAME_DT)
                self._high = t * (1.0 + SAME_DT)
        else:
            self._calm = 0
        self.k1 = k1
        self.k2 = k2
        self.k3 = k3

    def learn(self, x: float, y: float, z: float, dt: float) -> None:
        """
        Learn the wander from the innovation of the step just made.

        :param x, y, z: innovation on each axis (m or rad).
        :param dt: the interval of that step (s).
        """
        a, b, c = self._trend
        k1 = self.k1
        variance = 3.0 * self._variance / (1.0 - k1)
        # Innovations are remembered about as long as measurements.
        forget = min(0.5, 0.5 * k1)
        # What trend and innovation have in common, in sigmas of what chance makes of it: a
        # running mean of white innovations has forget / (2 - forget) of their variance.
        step = LEARNING * (a * x + b * y + c * z) / (
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
        # Should the noise be larger than configured, the scatter seen is the measure.
        if variance < self._scatter:
            variance = self._scatter
        square = x * x + y * y + z * z
        if square > MANOEUVRE * variance:
            a, b, c = self._last
            if 4.0 * (a * x + b * y + c * z) > square:
                self._manoeuvre(square, MANOEUVRE_FRAMES * dt)
            square = 9.0 * variance if square > 9.0 * variance else square
        self._scatter += 0.01 * (square - self._scatter)
        self._last = (x, y, z)

    def _manoeuvre(self, square: float, ago: float) -> None:
        """
        Allow for a step of acceleration that has been going on unnoticed.

        A step A at time t ago has moved value, rate and acceleration by A t^2/2, A t and A; the
        outer product of that, with A from the innovation, is what the covariance lacked.

        :param square: the squared innovation (m^2 or rad^2).
        :param ago: t (s).
        """
        # A jump of kilometres, where max_speed lets it pass, would make the gain 1 to the bit.
        square = min(square, LARGEST_MANOEUVRE)
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
    def wander(self) -> float:
        """Give the wander in use (m/s^2 or rad/s^2 in one second)."""
        return math.exp(self._used)
