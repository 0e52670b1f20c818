# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Closed-form trajectories of rigid bodies, in Motive's axes: x forward, y up, z right.

Every motion is a pure function of time. Velocity, acceleration and angular velocity are
closed-form derivatives, so that they are the reference in tests of estimators.

Rotations are computed with numpy: scipy's ``Rotation`` rejects the zero quaternions of faults, and
its import takes longer than the whole start of the simulator.

At identity the axes of the body are those of the world: nose along x, up along y, right along z.
Attitudes are yaw about y (positive turns the nose left), then pitch about z (positive lifts the
nose), then roll about x (positive lowers the right side).
"""

from dataclasses import dataclass
import math
from typing import Any, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting

Array = NDArray[np.float64]

#: Standard acceleration of gravity (m/s2; 3rd CGPM, 1901).
GRAVITY = 9.80665
#: Chosen: amplitudes (rad) of the tilt of a hovering body, 1.5 degrees, and of the roll on a
#: figure eight, 10 degrees, both as of a small drone.
_HOVER_TILT = np.radians(1.5)
_EIGHT_ROLL = np.radians(10.0)


class MotionState(NamedTuple):
    """
    Pose and motion of a body at n times.

    :ivar position: (n, 3) metres, world axes.
    :ivar velocity: (n, 3) m/s, world axes.
    :ivar acceleration: (n, 3) m/s^2, world axes.
    :ivar quat_xyzw: (n, 4) unit quaternions that rotate body axes to world axes.
    :ivar angular_velocity: (n, 3) rad/s, world axes.
    """

    position: Array
    velocity: Array
    acceleration: Array
    quat_xyzw: Array
    angular_velocity: Array


def quat_from_rotation_vector(vector: Array) -> Array:
    """Convert rotation vectors (..., 3) in rad, of any length, to unit quaternions (..., 4)."""
    angle = np.linalg.norm(vector, axis=-1, keepdims=True)
    # sinc(x) is sin(pi x) / (pi x), which is defined at 0.
    return np.concatenate(
        (0.5 * np.sinc(angle / math.tau) * vector, np.cos(angle / 2)), axis=-1)


def _quat_from_angles(yaw: Array, pitch: Array, roll: Array) -> Array:
    """Compose yaw about y, pitch about z and roll about x, in this order."""
    sy, cy = np.sin(yaw / 2), np.cos(yaw / 2)
    sp, cp = np.sin(pitch / 2), np.cos(pitch / 2)
    sr, cr = np.sin(roll / 2), np.cos(roll / 2)
    return np.stack((
        cy * cp * sr + sy * sp * cr,
        sy * cp * cr + cy * sp * sr,
        cy * sp * cr - sy * cp * sr,
        cy * cp * cr - sy * sp * sr), axis=-1)


def _angular_velocity(
    yaw: Array, pitch: Array, yaw_rate: Array, pitch_rate: Array, roll_rate: Array,
) -> Array:
    """Add the three rates, each about its axis after the rotations before it."""
    sin_yaw, cos_yaw = np.sin(yaw), np.cos(yaw)
    sin_pitch, cos_pitch = np.sin(pitch), np.cos(pitch)
    return np.stack((
        pitch_rate * sin_yaw + roll_rate * cos_yaw * cos_pitch,
        yaw_rate + roll_rate * sin_pitch,
        pitch_rate * cos_yaw - roll_rate * sin_yaw * cos_pitch), axis=-1)


def oriented(
    position: Array, velocity: Array, acceleration: Array,
    yaw: Any, pitch: Any, roll: Any, yaw_rate: Any, pitch_rate: Any, roll_rate: Any,
) -> MotionState:
    """Complete a state from the angles of the body and their rates, scalars or arrays (rad)."""
    n = len(position)
    angles = [np.broadcast_to(np.asarray(value, dtype=np.float64), (n,))
              for value in (yaw, pitch, roll, yaw_rate, pitch_rate, roll_rate)]
    return MotionState(
        position, velocity, acceleration, _quat_from_angles(*angles[:3]),
        _angular_velocity(angles[0], angles[1], *angles[3:]))


@dataclass(frozen=True, kw_only=True)
class _Motion:
    """Base of all motions: ``_around`` evaluates the motion about the origin."""

    centre: tuple[float, float, float] = setting(
        (0.0, 1.0, 0.0), unit='m', low=-1000.0, high=1000.0,
        doc='middle of the motion: x forward, y up, z right')

    def at(self, time: Array) -> MotionState:
        """
        Evaluate the motion.

        :param time: (n,) seconds.
        """
        state = self._around(time)
        return state._replace(position=state.position + self.centre)

    def _around(self, time: Array) -> MotionState:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Phased(_Motion):
    """Base of motions with a phase."""

    phase: float = setting(0.0, unit='turns', low=-1.0, high=1.0, doc='initial phase')

    def _angle(self, rate: Any, time: Array) -> Array:
        """Return the angle (rad) at some times (s) for an angular rate (rad/s)."""
        angle: Array = rate * time + math.tau * self.phase
        return angle


def _period(default: float) -> Any:
    return setting(default, unit='s', low=0.05, high=3600.0, doc='period of the motion')


def _yaw() -> Any:
    return setting(0.0, unit='deg', low=-360.0, high=360.0, doc='heading, positive left of x')


@checked
@dataclass(frozen=True)
class Still(_Motion):
    """Stay at one place; with noise this is a body at rest."""

    yaw_deg: float = _yaw()

    def _around(self, time: Array) -> MotionState:
        zero = np.zeros((len(time), 3))
        return oriented(zero, zero, zero, np.radians(self.yaw_deg), 0, 0, 0, 0, 0)


@checked
@dataclass(frozen=True)
class Hover(_Phased):
    """Move slightly around one place, like a drone that holds its position."""

    amplitude: float = setting(0.03, unit='m', low=0.0, high=10.0, doc='amplitude of the motion')
    period: float = _period(5.0)

    def _around(self, time: Array) -> MotionState:
        # Chosen: frequencies without a common multiple, so that the motion does not repeat.
        rate = math.tau / self.period * np.array((1.0, 0.7236, 1.3819))
        angle = self._angle(rate, time[:, None]) + np.array((0.0, 1.1, 2.3))
        sine, cosine = np.sin(angle), np.cos(angle)
        size = self.amplitude
        return oriented(
            size * sine, size * rate * cosine, -size * rate**2 * sine,
            *(_HOVER_TILT * cosine[:, i] for i in (1, 0, 2)),
            *(-_HOVER_TILT * rate[i] * sine[:, i] for i in (1, 0, 2)))


@checked
@dataclass(frozen=True)
class Circle(_Phased):
    """Fly a level circle to the left, nose ahead, with the bank angle of a coordinated turn."""

    radius: float = setting(1.0, unit='m', low=0.0, high=1000.0, doc='radius')
    period: float = _period(8.0)

    def _around(self, time: Array) -> MotionState:
        rate = math.tau / self.period
        angle = self._angle(rate, time)
        # z points right, so that a left turn moves towards negative z.
        outward = np.stack((np.cos(angle), np.zeros_like(angle), -np.sin(angle)), axis=-1)
        ahead = np.stack((-np.sin(angle), np.zeros_like(angle), -np.cos(angle)), axis=-1)
        bank = -np.arctan(self.radius * rate**2 / GRAVITY)
        return oriented(
            self.radius * outward, self.radius * rate * ahead, -self.radius * rate**2 * outward,
            angle + np.pi / 2, 0, bank, rate, 0, 0)


@checked
@dataclass(frozen=True)
class FigureEight(_Phased):
    """Fly a level figure eight (a Lissajous curve), nose along the velocity, with slight roll."""

    length: float = setting(1.5, unit='m', low=0.01, high=1000.0, doc='half length along x')
    width: float = setting(0.75, unit='m', low=0.01, high=1000.0, doc='half width along z')
    climb: float = setting(0.2, unit='m', low=0.0, high=1000.0, doc='half height along y')
    period: float = _period(10.0)

    def _around(self, time: Array) -> MotionState:
        rate = math.tau / self.period
        angle = self._angle(rate, time)
        size = np.array((self.length, self.climb, self.width))
        # x, y and z are sines of angle, angle + 90 degrees and twice the angle.
        rates = rate * np.array((1.0, 1.0, 2.0))
        angles = np.stack((angle, angle + np.pi / 2, 2 * angle), axis=-1)
        sine, cosine = np.sin(angles), np.cos(angles)
        velocity = size * rates * cosine
        acceleration = -size * rates**2 * sine
        vx, vy, vz = velocity.T
        ax, ay, az = acceleration.T
        # The horizontal speed is never 0: cos(a) and cos(2 a) have no common root.
        level_squared = vx**2 + vz**2
        level = np.sqrt(level_squared)
        level_rate = (vx * ax + vz * az) / level
        return oriented(
            size * sine, velocity, acceleration,
            np.arctan2(-vz, vx), np.arctan2(vy, level), _EIGHT_ROLL * np.sin(angle),
            (vz * ax - vx * az) / level_squared,
            (level * ay - vy * level_rate) / (level_squared + vy**2),
            _EIGHT_ROLL * rate * np.cos(angle))


@checked
@dataclass(frozen=True)
class Spin(_Phased):
    """Turn about a fixed axis at one place, like the test tracker of VRPN."""

    axis: tuple[float, float, float] = setting(
        (0.0, 1.0, 0.0), low=-1000.0, high=1000.0, doc='axis of any length but 0, world axes')
    rate_deg: float = setting(90.0, unit='deg/s', low=-7200.0, high=7200.0, doc='speed')

    def check(self) -> None:
        """
        Check the axis.

        :raises ConfigurationError: if it has no direction.
        """
        if not np.linalg.norm(self.axis) > 1e-9:
            raise ConfigurationError('axis: it has no length; allowed: any other vector')

    def _around(self, time: Array) -> MotionState:
        axis = np.array(self.axis) / np.linalg.norm(self.axis)
        rate = np.radians(self.rate_deg)
        quat_xyzw = quat_from_rotation_vector(self._angle(rate, time)[:, None] * axis)
        zero = np.zeros((len(time), 3))
        return MotionState(zero, zero, zero, quat_xyzw, zero + rate * axis)


@checked
@dataclass(frozen=True)
class BackAndForth(_Phased):
    """Move back and forth on a straight line, fastest in the middle, heading fixed."""

    reach: tuple[float, float, float] = setting(
        (1.0, 0.0, 0.0), unit='m', low=-1000.0, high=1000.0,
        doc='distance from the middle to an end')
    period: float = _period(6.0)
    yaw_deg: float = _yaw()

    def _around(self, time: Array) -> MotionState:
        rate = math.tau / self.period
        angle = self._angle(rate, time)[:, None]
        reach = np.array(self.reach)
        return oriented(
            reach * np.sin(angle), rate * reach * np.cos(angle), -rate**2 * reach * np.sin(angle),
            np.radians(self.yaw_deg), 0, 0, 0, 0, 0)


@checked
@dataclass(frozen=True)
class Handheld(_Motion):
    """Turn and swing by hand, irregularly: sums of sines for angles and coordinates."""

    angles_deg: tuple[float, float, float] = setting(
        (40.0, 26.0, 34.0), unit='deg', low=0.0, high=89.0, doc='yaw, pitch and roll (rms)')
    reach: tuple[float, float, float] = setting(
        (0.25, 0.2, 0.25), unit='m', low=0.0, high=100.0, doc='distance from the middle (rms)')
    slowest: float = setting(0.15, unit='Hz', low=0.001, high=100.0, doc='lowest frequency')
    fastest: float = setting(1.6, unit='Hz', low=0.001, high=100.0, doc='highest frequency')
    seed: int = setting(0, low=0, high=2**31 - 1, doc='equal seeds give equal motions')

    def _around(self, time: Array) -> MotionState:
        draws = np.random.default_rng(self.seed)
        rates = math.tau * draws.uniform(self.slowest, max(self.fastest, self.slowest), (6, 8))
        phases = draws.uniform(0.0, math.tau, (6, 8))
        sizes = draws.uniform(0.3, 1.0, (6, 8)) / rates
        sizes *= (np.concatenate((np.radians(self.angles_deg), self.reach))
                  / np.sqrt(0.5 * (sizes**2).sum(axis=1)))[:, None]
        angles = rates * time[:, None, None] + phases
        sine, cosine = np.sin(angles), np.cos(angles)
        values, first, second = (np.sum(part, axis=2) for part in (
            sizes * sine, sizes * rates * cosine, -sizes * rates**2 * sine))
        return oriented(values[:, 3:], first[:, 3:], second[:, 3:], *values.T[:3], *first.T[:3])


Motion = Union[Still, Hover, Circle, FigureEight, Spin, BackAndForth, Handheld]

#: Names in scenario files and in ``--motion``.
MOTIONS: dict[str, type[Any]] = {
    'circle': Circle, 'figure_eight': FigureEight, 'hover': Hover, 'still': Still,
    'spin': Spin, 'line': BackAndForth, 'handheld': Handheld,
}


def arranged(kind: str, index: int, count: int) -> Motion:
    """
    Create one of ``count`` similar motions without collisions: different phases and heights.

    :param kind: a key of ``MOTIONS``.
    :param index: 0 to ``count`` - 1.
    """
    share = index / max(count, 1)
    height = 0.6 + 1.4 * share
    place = (2.0 * np.cos(math.tau * share), height, 2.0 * np.sin(math.tau * share))
    if kind == 'still':
        return Still(centre=place)
    if kind == 'handheld':
        return Handheld(centre=place, seed=index)
    motion: Motion = MOTIONS[kind](
        centre=(0.0, height, 0.0) if kind in ('circle', 'figure_eight') else place, phase=share)
    return motion
