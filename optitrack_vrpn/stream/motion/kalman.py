# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Estimate velocity, acceleration and angular rate of a body from its poses; gains: ``gains.py``.

Position: a Kalman filter with the Wiener-process acceleration model. Attitude: an error-state
filter on SO(3) with the same model for the angular acceleration; its error is a rotation vector
in world axes, q = exp(error) * estimate, its rates are in world axes too. The noise of each is
equal on three axes, so that each has one 3 x 3 covariance (see ``gains``).

The estimates are in the world frame of the poses, whichever it is.
"""

from __future__ import annotations

import math

from optitrack_vrpn.core.rotation import (
    conjugate, from_rotation_vector, IDENTITY, multiply, Quat, rotate, to_rotation_vector, Vector)
from optitrack_vrpn.stream.motion.gains import Gains
from optitrack_vrpn.stream.motion.settings import MotionConfig

SETTLED_RATIO = 2.0
"""
Velocities are valid once their variance is below this multiple of the steady-state variance.
Chosen: 1.4 times the final error.
"""
INITIAL_DEVIATIONS = ((5.0, 30.0), (10.0, 200.0))
"""
Standard deviations of velocity and acceleration at the first pose: (m/s, m/s^2), (rad/s, rad/s^2).
Chosen: fast hand and drone motion.
"""
SHORTEST_NS = 250_000
"""
Least time (ns) between two poses that give a velocity. Chosen: a quarter of the interval at 1 kHz.
Poses of a coarse clock that arrive at once have stamps 1 ns apart: any distance between them would
be an enormous velocity.
"""
RESET_AFTER_NS = 250_000_000
"""
Gap (ns) between poses after which the estimate starts again. Chosen: an unknown acceleration of 10
m/s^2 then makes an error of 2.5 m/s.
"""


class FilteredMotion:
    """
    Estimate the motion of one body.

    :ivar valid: whether velocities and accelerations have converged since the estimate began;
        publish none before. After gaps shorter than ``RESET_AFTER_NS`` they stay valid, with the
        larger covariance after the gap.
    :ivar stamp_ns: stamp of the last processed pose.
    :ivar position, quat: pose (m; x, y, z, w).
    :ivar velocity, acceleration: in the world (m/s, m/s^2).
    :ivar angular_velocity, angular_acceleration: in world axes (rad/s, rad/s^2).
    """

    __slots__ = (
        'config', 'valid', 'stamp_ns', 'position', 'quat', 'velocity', 'acceleration',
        'angular_velocity', 'angular_acceleration', 'linear', 'angular')

    def __init__(self, config: MotionConfig | None = None) -> None:
        """Begin without an estimate."""
        self.config = config = config if config is not None else MotionConfig()
        self.linear = Gains(
            config.position_noise, config.process_noise, config.adaptive)
        self.angular = Gains(config.attitude_noise, config.angular_process_noise, config.adaptive)
        self.stamp_ns = 0
        self.position: Vector = (0.0, 0.0, 0.0)
        self.quat: Quat = IDENTITY
        self.reset()

    def reset(self) -> None:
        """Discard the motion: the next pose does not continue the last (a jump, an epoch)."""
        self.valid = False
        self.stamp_ns = -1 << 62
        self.velocity: Vector = (0.0, 0.0, 0.0)
        self.acceleration: Vector = (0.0, 0.0, 0.0)
        self.angular_velocity: Vector = (0.0, 0.0, 0.0)
        self.angular_acceleration: Vector = (0.0, 0.0, 0.0)

    def set_noise(self, position_noise: float, attitude_noise: float) -> None:
        """Set the deviations of position (m) and attitude (rad) learned at rest."""
        self.linear.set_noise(position_noise)
        self.angular.set_noise(attitude_noise)

    def update(self, stamp_ns: int, position: Vector, quat_xyzw: Quat) -> bool:
        """
        Process one valid pose.

        :param stamp_ns: its stamp (ns). A pose that is not ``SHORTEST_NS`` later than the one
            before is ignored.
        :param position: position (m).
        :param quat_xyzw: attitude of unit norm, either sign.
        :returns: whether velocities are valid (see ``valid``).
        """
        elapsed = stamp_ns - self.stamp_ns
        if not SHORTEST_NS <= elapsed < RESET_AFTER_NS:
            if -RESET_AFTER_NS < elapsed < SHORTEST_NS:
                return self.valid
            self._begin(stamp_ns, position, quat_xyzw)
            return False
        self.stamp_ns = stamp_ns
        t = elapsed * 1e-9
        half = 0.5 * t

        gains = self.linear
        gains.step(t)
        k1, k2, k3 = gains.k1, gains.k2, gains.k3
        px, py, pz = self.position
        vx, vy, vz = self.velocity
        ax, ay, az = self.acceleration
        mx, my, mz = position
        px += t * (vx + half * ax)
        py += t * (vy + half * ay)
        pz += t * (vz + half * az)
        mx -= px
        my -= py
        mz -= pz
        gains.notice(mx * mx + my * my + mz * mz)
        self.position = (px + k1 * mx, py + k1 * my, pz + k1 * mz)
        self.velocity = (vx + t * ax + k2 * mx, vy + t * ay + k2 * my, vz + t * az + k2 * mz)
        self.acceleration = (ax + k3 * mx, ay + k3 * my, az + k3 * mz)
        if gains.adaptive:
            gains.learn(mx, my, mz, t)

        gains = self.angular
        gains.step(t)
        k1, k2, k3 = gains.k1, gains.k2, gains.k3
        vx, vy, vz = self.angular_velocity
        ax, ay, az = self.angular_acceleration
        a, b, c, d = predicted = multiply(from_rotation_vector((
            t * (vx + half * ax), t * (vy + half * ay), t * (vz + half * az))), self.quat)
        x, y, z, w = quat_xyzw
        ex = w * -a + x * d - y * c + z * b
        ey = w * -b + x * c + y * d - z * a
        ez = w * -c - x * b + y * a + z * d
        ew = w * d + x * a + y * b + z * c
        if ew < 0.0:
            ex, ey, ez, ew = -ex, -ey, -ez, -ew
            x, y, z, w = -x, -y, -z, -w
        if ew > 0.999:
            # Within 5 degrees: 2 asin(s) / s, and the chord in place of the arc (cubic error).
            scale = 2.0 + (ex * ex + ey * ey + ez * ez) / 3.0
            ex *= scale
            ey *= scale
            ez *= scale
            a += k1 * (x - a)
            b += k1 * (y - b)
            c += k1 * (z - c)
            d += k1 * (w - d)
        else:
            ex, ey, ez = to_rotation_vector((ex, ey, ez, ew))
            a, b, c, d = multiply(
                from_rotation_vector((k1 * ex, k1 * ey, k1 * ez)), predicted)
        gains.notice(ex * ex + ey * ey + ez * ez)
        scale = 1.0 / math.sqrt(a * a + b * b + c * c + d * d)
        self.quat = (a * scale, b * scale, c * scale, d * scale)
        self.angular_velocity = (
            vx + t * ax + k2 * ex, vy + t * ay + k2 * ey, vz + t * az + k2 * ez)
        self.angular_acceleration = (ax + k3 * ex, ay + k3 * ey, az + k3 * ez)
        if gains.adaptive:
            gains.learn(ex, ey, ez, t)

        if not self.valid:
            self._check_converged(t)
        return self.valid

    def _begin(self, stamp_ns: int, position: Vector, quat_xyzw: Quat) -> None:
        """Begin with one pose: velocity zero, with a large deviation."""
        if self.stamp_ns > -1 << 62:
            self.reset()
        self.stamp_ns = stamp_ns
        self.position = position
        self.quat = quat_xyzw
        self.linear.begin(*INITIAL_DEVIATIONS[0])
        self.angular.begin(*INITIAL_DEVIATIONS[1])

    def _check_converged(self, t: float) -> None:
        """Set ``valid`` once the velocities have converged."""
        self.valid = (
            self.linear.vv < SETTLED_RATIO * self.linear.steady_rate_variance(t)
            and self.angular.vv < SETTLED_RATIO * self.angular.steady_rate_variance(t))

    def body_velocity(self) -> Vector:
        """Return the linear velocity in the body's axes (m/s)."""
        return rotate(conjugate(self.quat), self.velocity)

    def body_angular_velocity(self) -> Vector:
        """Return the angular rate in the body's axes (rad/s)."""
        return rotate(conjugate(self.quat), self.angular_velocity)

    def body_twist_covariance(self, velocity: Vector, rate: Vector) -> list[float]:
        """
        Return the covariance of velocity and angular rate in the body's axes.

        An attitude error e rotates a velocity v by e x v, so that the variance of the body's
        sideways velocity grows with its speed: by the attitude's variance times |v|^2 I - v v'.
        The same holds for the rates. An outlier is contained: see ``Gains.notice``.

        :param velocity, rate: those in the body's axes (m/s, rad/s).
        :returns: 36 numbers, row by row; order x, y, z, about x, y, z.
        """
        x, y, z = velocity
        p, q, r = rate
        linear = self.linear.vv + self.linear.unexplained
        angular = self.angular.vv + self.angular.unexplained
        attitude = self.angular.pp
        xy, xz, yz = -attitude * x * y, -attitude * x * z, -attitude * y * z
        pq, pr, qr = -attitude * p * q, -attitude * p * r, -attitude * q * r
        return [
            linear + attitude * (y * y + z * z), xy, xz, 0.0, 0.0, 0.0,
            xy, linear + attitude * (x * x + z * z), yz, 0.0, 0.0, 0.0,
            xz, yz, linear + attitude * (x * x + y * y), 0.0, 0.0, 0.0,
            0.0, 0.0, 0.0, angular + attitude * (q * q + r * r), pq, pr,
            0.0, 0.0, 0.0, pq, angular + attitude * (p * p + r * r), qr,
            0.0, 0.0, 0.0, pr, qr, angular + attitude * (p * p + q * q)]


def diagonal(linear: float, angular: float) -> list[float]:
    """Return a diagonal 6 x 6 covariance with two variances, for three axes each."""
    matrix = [0.0] * 36
    matrix[0] = matrix[7] = matrix[14] = linear
    matrix[21] = matrix[28] = matrix[35] = angular
    return matrix
