# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Learn a body's measurement noise while it is at rest.

As in the OptiTrack-LabVIEW interface thesis, the standard deviation is taken over a sliding
window of 100 samples. A window counts only when the body did not move in it: its scatter is
small, its first and second half have the same mean within what the scatter allows, and
neighbouring samples are not much more alike than distant ones, as they are when a body sways
(von Neumann, Distribution of the ratio of the mean square successive difference to the variance,
Annals of Mathematical Statistics 12(4), 1941).
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
import numpy.typing as npt

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.quaternion import Quat, Vector

FLOOR_POSITION = 1e-5
FLOOR_ATTITUDE = 1e-5
"""Least noise that is believed (m, rad): a simulated body without noise must not have none."""

SWAY = 0.5
"""Mean square successive difference over variance below which a body sways; white noise has 2."""


@dataclass(frozen=True)
class RestConfig:
    """
    Say when a body is at rest.

    :ivar window: samples (count, at least 20).
    :ivar max_position: scatter (m, one sigma of an axis) above which a body moves.
    :ivar max_attitude: scatter (rad, one sigma of an axis) above which a body moves.
    :ivar drift: difference of the means of the two halves that counts as motion, in standard
        deviations of that difference.
    """

    window: int = 100
    max_position: float = 0.003
    max_attitude: float = 0.02
    drift: float = 5.0

    def __post_init__(self) -> None:
        """
        Check every field.

        :raises ConfigurationError: the window is too short or a limit is not above zero.
        """
        if self.window < 20 or int(self.window) != self.window:
            raise ConfigurationError(
                f'rest setting window is {self.window!r}: give a whole number of 20 or more')
        for name in ('max_position', 'max_attitude', 'drift'):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(
                    f'rest setting {name} is {getattr(self, name)!r}: give a finite number '
                    'above 0')


class RestDetector:
    """
    Watch a sliding window of one body's poses.

    The window moves with every pose and is looked at twice a length.

    :ivar at_rest: whether the body was at rest when last looked at.
    :ivar position_deviation: standard deviation on x, y, z (m) as learned at rest, or None.
    :ivar attitude_deviation: the same for rotations about the fixed axes X, Y, Z (rad), or None.
    :ivar learned: how many windows at rest have been learned from.
    """

    __slots__ = (
        'config', 'at_rest', 'position_deviation', 'attitude_deviation', 'learned', '_ring',
        '_at', '_countdown')

    def __init__(self, config: RestConfig | None = None) -> None:
        """
        Begin with an empty window.

        :param config: what rest is; the defaults when None.
        """
        self.config = config if config is not None else RestConfig()
        self.at_rest = False
        self.position_deviation: Vector | None = None
        self.attitude_deviation: Vector | None = None
        self.learned = 0
        self._ring: list[tuple[float, ...]] = [()] * self.config.window
        self.reset()

    def reset(self) -> None:
        """Empty the window (a jump, a gap); what has been learned stays."""
        self.at_rest = False
        self._at = 0
        self._countdown = self.config.window

    def update(self, position: Vector, quat_xyzw: Quat) -> bool:
        """
        Take in one good pose, unfiltered.

        :param position: position (m).
        :param quat_xyzw: attitude of unit norm, its sign continuous.
        :returns: whether something new has been learned.
        """
        at = self._at
        self._ring[at] = position + quat_xyzw
        at += 1
        self._at = at if at < self.config.window else 0
        self._countdown -= 1
        if self._countdown:
            return False
        self._countdown = self.config.window // 2
        return self._look()

    def _look(self) -> bool:
        """Look at the whole window."""
        config = self.config
        window = np.array(self._ring[self._at:] + self._ring[:self._at])
        half = config.window // 2
        values = np.hstack((window[:, :3], small_rotations(window[:, 3:])))
        halves = values[-2 * half:].reshape(2, half, 6)
        means = halves.mean(axis=1)
        centred = halves - means[:, None, :]
        squares = np.einsum('ijk,ijk->k', centred, centred)
        moved = means[1] - means[0]
        steps = np.diff(values, axis=0)
        successive = np.einsum('jk,jk->k', steps, steps) / len(steps)
        # Scatter about each half's own mean, so that drift does not excuse itself.
        inner = np.sqrt(squares / (2 * half - 2))
        deviation = np.sqrt((squares + 0.5 * half * moved * moved) / (2 * half - 1))
        allowed = config.drift * math.sqrt(2.0 / half) * inner + 1e-9
        limits = np.repeat((config.max_position, config.max_attitude), 3)
        self.at_rest = bool(((deviation < limits) & (np.abs(moved) <= allowed)
                            & (successive + 1e-18 >= SWAY * deviation * deviation)).all())
        if not self.at_rest:
            return False
        x, y, z, a, b, c = deviation.tolist()
        self.position_deviation = (
            max(x, FLOOR_POSITION), max(y, FLOOR_POSITION), max(z, FLOOR_POSITION))
        self.attitude_deviation = (
            max(a, FLOOR_ATTITUDE), max(b, FLOOR_ATTITUDE), max(c, FLOOR_ATTITUDE))
        self.learned += 1
        return True

    def noise(self) -> tuple[float, float] | None:
        """
        Give one figure for all axes, for ``Motion.set_noise``.

        :returns: root mean square of the axes' deviations (m, rad), or None before any rest.
        """
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        return (
            math.hypot(*self.position_deviation) / math.sqrt(3.0),
            math.hypot(*self.attitude_deviation) / math.sqrt(3.0))

    def covariance(self) -> list[float] | None:
        """
        Give the pose's covariance as learned.

        :returns: 36 numbers, row by row; order x, y, z, rotation about fixed X, Y, Z (REP 103);
            None before any rest.
        """
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        matrix = [0.0] * 36
        for i, value in enumerate(self.position_deviation + self.attitude_deviation):
            matrix[7 * i] = value * value
        return matrix


def small_rotations(quats: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """
    Give each attitude as a small rotation, in world axes, from the middle one of a window.

    :param quats: unit quaternions x, y, z, w, shape (n, 4), close to each other.
    :returns: rotation vectors (rad), shape (n, 3), right to first order.
    """
    a, b, c, d = quats[len(quats) // 2]
    x, y, z, w = quats.T
    # Twice the vector part of q * conj(middle).
    sign = np.where(x * a + y * b + z * c + w * d < 0.0, -2.0, 2.0)
    turned: npt.NDArray[np.float64] = np.stack((
        sign * (x * d - w * a - y * c + z * b),
        sign * (y * d - w * b + x * c - z * a),
        sign * (z * d - w * c - x * b + y * a)), axis=1)
    return turned
