# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Learn a body's measurement noise while it is at rest.

As in the OptiTrack-LabVIEW interface thesis, the standard deviation is computed over a sliding
window of 100 samples. A window is used only when the body did not move in it: its scatter is
small, the means of its halves agree within the scatter, and successive samples are not strongly
correlated, as they are when a body sways (von Neumann, Distribution of the ratio of the mean
square successive difference to the variance, Annals of Mathematical Statistics 12(4), 1941).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from optitrack_vrpn.motion.quaternion import Quat, Vector

FLOOR = 1e-5
"""
Smallest learned noise (m, rad). Chosen: below that of any cameras; a simulated body without noise
must not get covariance zero. Doubled or halved, only such bodies change.
"""

SWAY = 0.5
"""
Ratio of mean square successive difference to variance below which a body sways; white noise has 2.
Chosen. Halved, slow sway is learned as noise; doubled, windows of coloured noise are rejected.
"""


WINDOW = 100
"""
Samples of a window, from the thesis. Halved, the learned deviation scatters by 10 % instead of
7 %; doubled, a rest must last twice as long.
"""

MAX_POSITION, MAX_ATTITUDE = 0.003, 0.02
"""
Scatter (m and rad, one sigma of an axis) above which a body moves. Chosen: ten times usual noise.
Halved, poorly calibrated rooms learn nothing; doubled, slow motion of an almost static body can be
learned.
"""

DRIFT = 5.0
"""
Difference of the means of the two halves that counts as motion, in standard deviations of that
difference. Chosen: white noise exceeds it in one of 300 000 windows. Halved, in one of 14;
doubled, drift of the size of the noise passes.
"""

_LIMITS = np.repeat((MAX_POSITION, MAX_ATTITUDE), 3)


class RestDetector:
    """
    Evaluate a sliding window of one body's poses.

    The window moves with every pose and is evaluated each half length.

    :param window: samples (count, even).
    :ivar at_rest: whether the body was at rest at the last evaluation.
    :ivar position_deviation: standard deviation on x, y, z (m) as learned at rest, or None.
    :ivar attitude_deviation: the same for rotations about the fixed axes X, Y, Z (rad), or None.
    :ivar learned: number of windows at rest so far.
    """

    __slots__ = (
        'window', 'at_rest', 'position_deviation', 'attitude_deviation', 'learned', '_ring',
        '_at', '_countdown')

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window
        self.at_rest = False
        self.position_deviation: Vector | None = None
        self.attitude_deviation: Vector | None = None
        self.learned = 0
        self._ring: list[tuple[float, ...]] = [()] * window
        self.reset()

    def reset(self) -> None:
        """Empty the window (a jump, a gap); the learned deviations stay."""
        self.at_rest = False
        self._at = 0
        self._countdown = self.window

    def update(self, position: Vector, quat_xyzw: Quat) -> bool:
        """
        Process one valid pose, unfiltered.

        :param position: position (m).
        :param quat_xyzw: attitude of unit norm, its sign continuous.
        :returns: whether the learned deviations have changed.
        """
        at = self._at
        self._ring[at] = position + quat_xyzw
        at += 1
        self._at = at if at < self.window else 0
        self._countdown -= 1
        if self._countdown:
            return False
        self._countdown = self.window // 2
        return self._evaluate()

    def _evaluate(self) -> bool:
        """Evaluate the whole window."""
        window = np.array(self._ring[self._at:] + self._ring[:self._at])
        half = self.window // 2
        values = np.hstack((window[:, :3], small_rotations(window[:, 3:])))
        halves = values[-2 * half:].reshape(2, half, 6)
        means = halves.mean(axis=1)
        centred = halves - means[:, None, :]
        squares = np.einsum('ijk,ijk->k', centred, centred)
        moved = means[1] - means[0]
        steps = np.diff(values, axis=0)
        successive = np.einsum('jk,jk->k', steps, steps) / len(steps)
        # Scatter about each half's own mean, so that drift does not raise its own limit.
        inner = np.sqrt(squares / (2 * half - 2))
        deviation = np.sqrt((squares + 0.5 * half * moved * moved) / (2 * half - 1))
        allowed = DRIFT * math.sqrt(2.0 / half) * inner + 1e-9
        self.at_rest = bool(((deviation < _LIMITS) & (np.abs(moved) <= allowed)
                            & (successive + 1e-18 >= SWAY * deviation * deviation)).all())
        if not self.at_rest:
            return False
        x, y, z, a, b, c = np.maximum(deviation, FLOOR).tolist()
        self.position_deviation, self.attitude_deviation = (x, y, z), (a, b, c)
        self.learned += 1
        return True

    def noise(self) -> tuple[float, float] | None:
        """
        Return one value for all axes, for ``Motion.set_noise``.

        :returns: root mean square of the axes' deviations (m, rad), or None before any rest.
        """
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        return (
            math.hypot(*self.position_deviation) / math.sqrt(3.0),
            math.hypot(*self.attitude_deviation) / math.sqrt(3.0))

    def covariance(self) -> list[float] | None:
        """
        Return the learned covariance of the pose.

        :returns: 36 numbers, row by row; order x, y, z, rotation about fixed X, Y, Z (REP 103);
            None before any rest.
        """
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        variances = np.square(self.position_deviation + self.attitude_deviation)
        matrix: list[float] = np.diag(variances).ravel().tolist()
        return matrix


def small_rotations(quats: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """
    Return each attitude as a small rotation, in world axes, from that in the middle of a window.

    :param quats: unit quaternions x, y, z, w, shape (n, 4), close to each other.
    :returns: rotation vectors (rad), shape (n, 3), exact to first order.
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
