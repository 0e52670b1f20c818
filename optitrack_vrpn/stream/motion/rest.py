# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Learn a body's measurement noise while it is at rest.

As in the OptiTrack-LabVIEW interface thesis, the standard deviation is computed over a sliding
window of 100 samples. A window is used only when the body did not move in it: its scatter is
small, the means of its halves agree within the scatter, and successive samples are not strongly
correlated, as they are when a body sways (von Neumann, Distribution of the ratio of the mean
square successive difference to the variance, Annals of Mathematical Statistics 12(4), 1941).

Only sums are kept, so that each pose has the same small cost: all bodies of a server begin their
windows with the same frame, and windows that are evaluated at their ends would delay that frame.
"""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.core.rotation import IDENTITY, Quat, Vector

FLOOR: Final = 1e-5
"""
Smallest learned noise (m, rad). Chosen: below that of any cameras; a simulated body without noise
must not get covariance zero.
"""


WINDOW: Final = 100
"""Samples of a window, from the thesis."""

MAX_POSITION: Final = 0.003
MAX_ATTITUDE: Final = 0.02
"""
Scatter (m and rad, one sigma of an axis) above which a body moves. Chosen: ten times usual noise.
"""


class _Sums:
    """
    Sums over the samples of half a window, of three numbers that are zero at the first sample.

    :ivar total, squares: sums of the numbers and of their squares.
    :ivar steps: sum of the squares of the differences between successive samples.
    :ivar last: the last sample.
    """

    __slots__ = ('total', 'squares', 'steps', 'last')

    def __init__(self) -> None:
        self.total: Vector = (0.0, 0.0, 0.0)
        self.squares: Vector = (0.0, 0.0, 0.0)
        self.steps: Vector = (0.0, 0.0, 0.0)
        self.last: Vector = (0.0, 0.0, 0.0)

    def add(self, sample: Vector) -> None:
        """Add a sample."""
        x, y, z = sample
        a, b, c = self.total
        self.total = (a + x, b + y, c + z)
        a, b, c = self.squares
        self.squares = (a + x * x, b + y * y, c + z * z)
        p, q, r = self.last
        self.last = sample
        p -= x
        q -= y
        r -= z
        a, b, c = self.steps
        self.steps = (a + p * p, b + q * q, c + r * r)


class _Half:
    """
    Half a window.

    :ivar position, quat: its first pose, to which the others are related; that avoids rounding.
    :ivar moved, turned: sums of the positions (m) and rotations (rad) from there.
    """

    __slots__ = ('position', 'quat', 'moved', 'turned')

    def __init__(self, position: Vector, quat_xyzw: Quat) -> None:
        self.position = position
        self.quat = quat_xyzw
        self.moved = _Sums()
        self.turned = _Sums()

    def add(self, position: Vector, quat_xyzw: Quat) -> None:
        """Add a pose."""
        a, b, c = self.position
        x, y, z = position
        self.moved.add((x - a, y - b, z - c))
        self.turned.add(small_rotation(quat_xyzw, self.quat))


class RestDetector:
    """
    Evaluate a sliding window of one body's poses.

    The window moves by half its length, and is evaluated then.

    :param window: samples (count, even).
    :ivar at_rest: whether the body was at rest at the last evaluation.
    :ivar position_deviation: standard deviation on x, y, z (m) as learned at rest, or None.
    :ivar attitude_deviation: the same for rotations about the fixed axes X, Y, Z (rad), or None.
    :ivar learned: number of windows at rest so far.
    """

    __slots__ = (
        'at_rest', 'position_deviation', 'attitude_deviation', 'learned', '_half', '_count',
        '_first', '_second')

    def __init__(self, window: int = WINDOW) -> None:
        self.at_rest = False
        self.position_deviation: Vector | None = None
        self.attitude_deviation: Vector | None = None
        self.learned = 0
        self._half = window // 2
        self.reset()

    def reset(self) -> None:
        """Empty the window (a jump, a gap); the learned deviations stay."""
        self.at_rest = False
        self._count = 0
        self._first: _Half | None = None
        self._second = _Half((0.0, 0.0, 0.0), IDENTITY)

    def update(self, position: Vector, quat_xyzw: Quat) -> bool:
        """Process one valid pose; return whether the learned deviations have changed."""
        if not self._count:
            self._second = _Half(position, quat_xyzw)
        self._second.add(position, quat_xyzw)
        self._count += 1
        if self._count < self._half:
            return False
        self._count = 0
        first, self._first = self._first, self._second
        return first is not None and self._evaluate(first, self._second)

    def _evaluate(self, first: _Half, second: _Half) -> bool:
        """Evaluate the whole window."""
        a, b, c = first.position
        x, y, z = second.position
        position = _deviations(
            first.moved, second.moved, (x - a, y - b, z - c), self._half, MAX_POSITION)
        attitude = _deviations(
            first.turned, second.turned, small_rotation(second.quat, first.quat), self._half,
            MAX_ATTITUDE)
        self.at_rest = position is not None and attitude is not None
        if not self.at_rest:
            return False
        self.position_deviation, self.attitude_deviation = position, attitude
        self.learned += 1
        return True

    def noise(self) -> tuple[float, float] | None:
        """Return the root mean square of the axes' deviations (m, rad); None before any rest."""
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        return (
            math.hypot(*self.position_deviation) / math.sqrt(3.0),
            math.hypot(*self.attitude_deviation) / math.sqrt(3.0))

    def covariance(self) -> list[float] | None:
        """Return 36 learned numbers of the pose in the order of REP 103; None before any rest."""
        if self.position_deviation is None or self.attitude_deviation is None:
            return None
        matrix = [0.0] * 36
        for number, deviation in enumerate(self.position_deviation + self.attitude_deviation):
            matrix[7 * number] = deviation * deviation
        return matrix


def _deviations(
    first: _Sums, second: _Sums, between: Vector, half: int, limit: float,
) -> Vector | None:
    """
    Return the standard deviation of each of three numbers over both halves, at least ``FLOOR``.

    :param between: the first sample of the second half, as the first half relates its samples.
    :param half: samples of a half.
    :param limit: scatter above which the body moves.
    :returns: None if it moved in the window.
    """
    # Difference of the means of the two halves that counts as motion, in standard deviations of
    # that difference. Chosen: white noise exceeds it in one of 300 000 windows.
    allowed = 5.0 * math.sqrt(2.0 / half)
    found = []
    for p, q, pp, qq, steps, apart, last in zip(
            first.total, second.total, first.squares, second.squares,
            [a + b for a, b in zip(first.steps, second.steps)], between, first.last):
        # Scatter about each half's own mean, so that drift does not raise its own limit.
        squares = max(0.0, pp - p * p / half) + max(0.0, qq - q * q / half)
        inner = math.sqrt(squares / (2 * half - 2))
        moved = apart + (q - p) / half
        deviation = math.sqrt((squares + 0.5 * half * moved * moved) / (2 * half - 1))
        successive = (steps + (apart - last) * (apart - last)) / (2 * half - 1)
        # Ratio of mean square successive difference to variance below which a body sways; white
        # noise has 2. Chosen.
        if not (deviation < limit and abs(moved) <= allowed * inner + 1e-9
                and successive + 1e-18 >= 0.5 * deviation * deviation):
            return None
        found.append(max(deviation, FLOOR))
    x, y, z = found
    return (x, y, z)


def small_rotation(quat_xyzw: Quat, reference: Quat) -> Vector:
    """Return an attitude as a small rotation (rad, world axes) from another one."""
    a, b, c, d = reference
    x, y, z, w = quat_xyzw
    sign = -2.0 if x * a + y * b + z * c + w * d < 0.0 else 2.0
    return (
        sign * (x * d - w * a - y * c + z * b),
        sign * (y * d - w * b + x * c - z * a),
        sign * (z * d - w * c - x * b + y * a))
