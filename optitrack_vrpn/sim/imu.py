# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A simulated IMU on a simulated body: its place, noise, biases, errors of axes, delays, clock."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from optitrack_vrpn.core.arrays import quat_rotate
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.sim.motion import Array, GRAVITY, MotionState, quat_from_rotation_vector

#: Axes of FLU (forward, left, up) in Motive's body axes (forward, up, right), as columns; and of
#: ENU in Motive's world with x to the north.
_MOTIVE_FROM_FLU = np.array(((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)))
_MOTIVE_FROM_ENU = np.array(((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)))
#: Time (s) of the central difference for the angular acceleration: its error is below 1e-7.
_STEP_S = 1e-4


def _three(default: tuple[float, float, float], unit: str, doc: str) -> Any:
    return setting(default, unit=unit, low=-1000.0, high=1000.0, doc=doc)


@checked
@dataclass(frozen=True)
class ImuModel:
    """
    An IMU.

    Measured are (1 + scale and cross-axis) times the true value, plus bias and noise; by default
    those of a BMI088 that is mounted askew.
    """

    rotation: tuple[float, float, float] = _three(
        (0.4, -0.3, 1.2), 'rad', 'rotation vector that turns vectors of the IMU into FLU')
    lever_arm: tuple[float, float, float] = _three(
        (0.06, -0.04, 0.03), 'm', 'position in the body (FLU)')
    rate: float = setting(200.0, unit='Hz', low=10.0, high=2000.0, doc='samples per second')
    gyro_noise: float = setting(
        2.4e-4, unit='rad/s/sqrt(Hz)', low=0.0, high=1.0, doc='white noise')
    accelerometer_noise: float = setting(
        1.7e-3, unit='m/s2/sqrt(Hz)', low=0.0, high=1.0, doc='white noise')
    gyro_walk: float = setting(2e-5, unit='rad/s2/sqrt(Hz)', low=0.0, high=1.0, doc='of its bias')
    accelerometer_walk: float = setting(
        2e-4, unit='m/s3/sqrt(Hz)', low=0.0, high=1.0, doc='of its bias')
    gyro_bias: tuple[float, float, float] = _three((0.01, -0.006, 0.004), 'rad/s', 'at the start')
    accelerometer_bias: tuple[float, float, float] = _three(
        (0.08, -0.05, 0.11), 'm/s2', 'at the start')
    errors: float = setting(0.0, low=0.0, high=0.2, doc=(
        'deviation of scale and cross-axis errors: the gyro has a lower triangular matrix'))
    stamp_delay_ms: float = setting(0.0, unit='ms', low=-1000.0, high=1000.0, doc=(
        'how late its stamps are'))
    accelerometer_delay_ms: float = setting(0.0, unit='ms', low=-100.0, high=100.0, doc=(
        'how much older its forces are than its rates'))
    jitter_ms: float = setting(0.1, unit='ms', low=0.0, high=1000.0, doc='deviation of its stamps')
    skew_ppm: float = setting(0.0, unit='ppm', low=-1000.0, high=1000.0, doc='skew of its clock')
    tilt_deg: tuple[float, float] = setting(
        (0.6, -0.4), unit='deg', low=-90.0, high=90.0, doc=(
            'how gravity leans: down turned about east and north of the mocap world'))
    seed: int = setting(0, low=0, high=2**31 - 1, doc='equal seeds give equal noise')


def gravity_of(model: ImuModel) -> Array:
    """Return gravity in ENU (m/s^2), pointing down."""
    vector = np.array((*np.radians(model.tilt_deg), 0.0))
    down: Array = quat_rotate(
        quat_from_rotation_vector(vector)[None], np.array(((0.0, 0.0, -GRAVITY),)))[0]
    return down


def enu_pose(state: MotionState) -> tuple[Array, Array]:
    """Return positions (n, 3) and matrices (n, 3, 3) of FLU in ENU, Motive's x to the north."""
    axes = np.stack([quat_rotate(state.quat_xyzw, np.broadcast_to(column, state.position.shape))
                     for column in _MOTIVE_FROM_FLU.T], axis=2)
    return state.position @ _MOTIVE_FROM_ENU, _MOTIVE_FROM_ENU.T @ axes


class SimulatedImu:
    """
    Sample a motion.

    :param motion: has ``at``, as the motions of ``sim.motion``.
    :ivar gyro_matrix: (3, 3) the measured rate is (1 + this) times the true one.
    :ivar accelerometer_matrix: (3, 3) likewise.
    """

    def __init__(self, motion: Any, model: ImuModel) -> None:
        self._motion, self.model = motion, model
        self._draws = np.random.default_rng(model.seed)
        self.gyro_matrix = np.tril(self._draws.normal(0.0, model.errors, (3, 3)))
        self.accelerometer_matrix = self._draws.normal(0.0, model.errors, (3, 3))
        self._gyro_bias = np.array(model.gyro_bias)
        self._force_bias = np.array(model.accelerometer_bias)
        self._turn = quat_from_rotation_vector(-np.array(model.rotation))

    def _truth(self, time: Array) -> tuple[Array, Array]:
        """Return the rates and specific forces of the IMU, in its axes."""
        state = self._motion.at(time)
        ahead, behind = (self._motion.at(time + step) for step in (_STEP_S, -_STEP_S))
        turning = (ahead.angular_velocity - behind.angular_velocity) / (2.0 * _STEP_S)
        rate = state.angular_velocity
        arm = quat_rotate(state.quat_xyzw, np.broadcast_to(
            _MOTIVE_FROM_FLU @ self.model.lever_arm, rate.shape))
        force = (state.acceleration + np.cross(turning, arm) + np.cross(rate, np.cross(rate, arm))
                 - _MOTIVE_FROM_ENU @ gravity_of(self.model))
        back = state.quat_xyzw * (-1.0, -1.0, -1.0, 1.0)
        turn = np.broadcast_to(self._turn, back.shape)
        own = [quat_rotate(turn, quat_rotate(back, vectors) @ _MOTIVE_FROM_FLU)
               for vectors in (rate, force)]
        return own[0], own[1]

    def sample(self, time: Array) -> tuple[Array, Array, Array]:
        """
        Measure.

        :param time: (n,) of the motion (s), rising from call to call.
        :returns: stamps on the clock of the motion (s), gyro (rad/s), accelerometer (m/s^2).
        """
        model, draws, step = self.model, self._draws, np.sqrt(1.0 / self.model.rate)
        rates, _ = self._truth(time)
        _, forces = self._truth(time - model.accelerometer_delay_ms * 1e-3)
        gyro_bias = self._gyro_bias + np.cumsum(
            draws.normal(0.0, model.gyro_walk * step, rates.shape), axis=0)
        force_bias = self._force_bias + np.cumsum(
            draws.normal(0.0, model.accelerometer_walk * step, rates.shape), axis=0)
        self._gyro_bias, self._force_bias = gyro_bias[-1], force_bias[-1]
        gyro = rates + rates @ self.gyro_matrix.T + gyro_bias + draws.normal(
            0.0, model.gyro_noise / step, rates.shape)
        accelerometer = (
            forces + forces @ self.accelerometer_matrix.T + force_bias
            + draws.normal(0.0, model.accelerometer_noise / step, rates.shape))
        stamps = (time * (1.0 + model.skew_ppm * 1e-6) + model.stamp_delay_ms * 1e-3
                  + draws.normal(0.0, model.jitter_ms * 1e-3, len(time)))
        return stamps, gyro, accelerometer
