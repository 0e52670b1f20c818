# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The motion between nodes according to the IMU, with its covariance and derivatives.

Forster et al., On-Manifold Preintegration for Real-Time Visual-Inertial Odometry, TRO 2017; rates
with coning correction, forces by Simpson's rule on attitudes of third order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from optitrack_vrpn.core.space import exponential, product, skew, transposed
from optitrack_vrpn.takes.calibrate.data import Floats, Integers, Problem
from scipy.interpolate import CubicSpline

#: The errors of the gyro's matrix: lower triangular, so that the gyro defines the axes.
GYRO_ERRORS = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))
#: Chosen: time between nodes (s).
_NODE_S = 0.025


class ImuErrors(NamedTuple):
    """
    Estimated errors of an IMU.

    :ivar gyro_bias: (knots, 3) rad/s, linear between knots.
    :ivar accelerometer_bias: (knots, 3) m/s^2.
    :ivar gyro_matrix: (3, 3) E_g: the rate is (1 + E_g)(measured - bias).
    :ivar accelerometer_matrix: (3, 3) E_a, likewise.
    :ivar accelerometer_delay: of the accelerometer's samples against the gyro's (s).
    """

    gyro_bias: Floats
    accelerometer_bias: Floats
    gyro_matrix: Floats
    accelerometer_matrix: Floats
    accelerometer_delay: float


class ImuIntervals(NamedTuple):
    """
    Motion since each node, in its axes, after 0, 1 .. steps samples.

    :ivar rotation: (n, steps + 1, 3, 3).
    :ivar velocity: (n, steps + 1, 3), without gravity.
    :ivar position: likewise.
    :ivar rates: corrected rates at the samples.
    :ivar forces: corrected specific forces at the samples.
    :ivar covariance: (n, 9, 9) of rotation, velocity, position over the interval.
    :ivar by_bias: (n, 9, 6) derivatives; gyro first.
    :ivar by_matrix: (n, 9, 15) of E_g and E_a.
    :ivar by_delay: (n, 9) of the accelerometer's delay.
    """

    rotation: Floats
    velocity: Floats
    position: Floats
    rates: Floats
    forces: Floats
    covariance: Floats
    by_bias: Floats
    by_matrix: Floats
    by_delay: Floats


def _between(values: Floats, outer: float, inner: float) -> Floats:
    """Combine four neighbours to a value for each interval between samples."""
    made = 0.5 * (values[:-1] + values[1:])
    made[1:-1] = outer * (values[:-3] + values[3:]) + inner * (values[1:-2] + values[2:-1])
    return made


class Samples:
    """
    The samples of an IMU between nodes.

    :ivar nodes: times of the nodes (s), n + 1.
    :ivar steps: samples between nodes.
    :ivar good: (n,) whether no sample of the interval is interpolated.
    :ivar shares: (n, knots) hat functions of the biases.
    """

    def __init__(self, problem: Problem, first_s: float, last_s: float, knot_s: float) -> None:
        """
        Place the nodes.

        :param first_s: all poses are later, on the clock of the gyro.
        :param last_s: all poses are earlier.
        :param knot_s: time between knots of the biases (s).
        """
        self.interval, self.noise = problem.interval, problem.noise
        own = problem.imu_times
        self.steps = steps = max(2, round(_NODE_S / problem.interval))
        begin = max(int(np.searchsorted(own, first_s)), 1)
        end = min(int(np.searchsorted(own, last_s)), len(own) - 2)
        count = (end - begin) // steps
        starts: Integers = begin + steps * np.arange(count + 1)
        self.nodes = own[starts]
        self._ends = starts[:count, None] + np.arange(steps + 1)
        self._gaps = starts[:count, None] + np.arange(steps)
        self.good = ~problem.filled[self._ends].any(axis=1)
        gyro = problem.gyro
        self._rates = gyro[self._ends]
        self._means = _between(gyro, -1 / 24, 13 / 24)[self._gaps]
        self._middles = _between(gyro, -1 / 16, 9 / 16)[self._gaps]
        self._times = own
        self._force = CubicSpline(own, problem.accelerometer)
        self._force_rate = self._force.derivative()
        knots = max(2, round((self.nodes[-1] - self.nodes[0]) / knot_s) + 1)
        self.knots = np.linspace(self.nodes[0], self.nodes[-1], knots)
        place = (self.nodes[:-1, None] - self.knots) / (self.knots[1] - self.knots[0])
        self.shares = np.maximum(1.0 - np.abs(place), 0.0)

    def integrate(self, errors: ImuErrors) -> ImuIntervals:
        """Integrate from each node to the next."""
        h, count, steps = self.interval, len(self.nodes) - 1, self.steps
        shifted = self._times + errors.accelerometer_delay
        force, middle = self._force(shifted), self._force(shifted[:-1] + 0.5 * h)
        slope = self._force_rate(shifted[:-1] + 0.5 * h)[self._gaps]
        gyro_gain = (np.eye(3) + errors.gyro_matrix).T
        force_gain = (np.eye(3) + errors.accelerometer_matrix).T
        bias = (self.shares @ errors.gyro_bias)[:, None]
        force_bias = (self.shares @ errors.accelerometer_bias)[:, None]
        rates, means, middles = ((values - bias) @ gyro_gain for values in (
            self._rates, self._means, self._middles))
        forces = (force[self._ends] - force_bias) @ force_gain
        force_middles = (middle[self._gaps] - force_bias) @ force_gain
        rotation = np.empty((count, steps + 1, 3, 3))
        rotation[:, 0] = np.eye(3)
        velocity, position = np.zeros((2, count, steps + 1, 3))
        covariance = np.zeros((count, 9, 9))
        # Derivatives of the motion by bias (6), matrices (15) and delay (1).
        derivative = np.zeros((count, 9, 22))
        white = np.repeat((self.noise.gyro**2 / h, self.noise.accelerometer**2 / h), 3)
        for j in range(steps):
            before = rotation[:, j]
            turn = exponential(means[:, j] * h + np.cross(
                rates[:, j], rates[:, j + 1]) * (h * h / 12))
            after = rotation[:, j + 1] = before @ turn
            half = before @ exponential(
                h / 24 * (5 * rates[:, j] + 8 * middles[:, j] - rates[:, j + 1]))
            first, last = product(before, forces[:, j]), product(after, forces[:, j + 1])
            centre = product(half, force_middles[:, j])
            position[:, j + 1] = (position[:, j] + velocity[:, j] * h
                                  + (first + 2 * centre) * (h * h / 6))
            velocity[:, j + 1] = velocity[:, j] + (first + 4 * centre + last) * (h / 6)
            force_mean = 0.5 * (forces[:, j] + forces[:, j + 1])
            tilt = -before @ skew(force_mean)
            step = np.zeros((count, 9, 9))
            step[:, :3, :3] = transposed(turn)
            step[:, 3:6, :3], step[:, 6:, :3] = tilt * h, tilt * (0.5 * h * h)
            step[:, 3:6, 3:6] = step[:, 6:, 6:] = np.eye(3)
            step[:, 6:, 3:6] = h * np.eye(3)
            entry = np.zeros((count, 9, 6))
            entry[:, :3, :3] = h * np.eye(3)
            entry[:, 3:6, :3] = 0.5 * h * h * tilt
            entry[:, 3:6, 3:], entry[:, 6:, 3:] = before * h, before * (0.5 * h * h)
            covariance = step @ covariance @ transposed(step) + (entry * white) @ transposed(entry)
            source = np.zeros((count, 6, 22))
            source[:, :, :6] = -np.eye(6)
            for column, (row, of) in enumerate(GYRO_ERRORS):
                source[:, row, 6 + column] = means[:, j, of]
            for row in range(3):
                source[:, 3 + row, 12 + 3 * row:15 + 3 * row] = force_mean
            source[:, 3:, 21] = slope[:, j]
            derivative = step @ derivative + entry @ source
        return ImuIntervals(
            rotation, velocity, position, rates, forces, covariance, derivative[:, :, :6],
            derivative[:, :, 6:21], derivative[:, :, 21])
