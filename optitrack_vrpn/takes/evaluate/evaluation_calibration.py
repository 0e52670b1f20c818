# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Calibration between mocap and an odometry: a time offset and a fixed transform.

The reference is ``world_from_body``, the estimate is ``odom_from_sensor``. The unknowns are the
offset from the estimate's stamps to the reference's clock, ``body_from_sensor``, and the scale of
the estimate. Three steps:

1. The offset at which the angular speeds of both correlate best; it needs neither frame.
2. The hand-eye equation ``A X = X B`` of motions over half a second: rotation from the rotation
   vectors (Park and Martin, IEEE Trans. Robotics and Automation 10(5), 1994), translation from
   ``(R_A - I) t_X = R_X t_B - t_A``.
3. All eight unknowns together by least squares with Huber weights. Motions are compared instead of
   poses, so that the drift of an odometry does not cause a wrong transform. Motions across an
   interruption of the odometry, where it jumps, are left out and the rest is solved again. Times
   of rest are not used.

The result states whether the recorded motion determines it: each unknown has a standard deviation.
A weak prior keeps unknowns that the motion does not determine at their initial value (zero).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.space import best_rotation, lag_correlations, lengths
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.evaluate.evaluation import Indices, motions, pairs_apart
from optitrack_vrpn.takes.trajectory import (
    covered, Floats, gap_limit_ns, interpolate, Mask, Trajectory)
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

#: Grid of the angular speed (s), and half of the grid steps over which it is computed. Chosen:
#: long enough to reduce noise of 0.2 degrees below slow motion by hand, short enough for its
#: changes.
_GRID_S = 0.01
_SPEED_HALF = 5
#: Smallest correlation of the angular speeds for an offset. Chosen: recordings of different
#: motions stay below 0.5.
_LEAST_CORRELATION = 0.7
#: Smallest common time (s). Chosen: it contains enough turns for a unique match.
_LEAST_OVERLAP_S = 3.0
#: Motions of the hand-eye step are over these times (s). Chosen: the first has the most pairs, the
#: second turns further, which the translation needs.
_PAIRS_S = (0.5, 2.0)
#: Smallest rotation of a motion; smaller ones contain little information about the axes.
_LEAST_TURN_RAD = np.radians(5.0)
#: Smallest second singular value of the rotation vectors, as a fraction of the first: less is
#: noise or the wobble of a robot on wheels.
_SECOND_AXIS = 0.1
#: Motions of the reference that are smaller in both are rest: their noise must not be the measure
#: by which others are jumps. Chosen: several times the noise of mocap.
_LEAST_MOVED_M = 0.01
_LEAST_MOVED_RAD = np.radians(0.5)
#: Chosen: fewest motions for the hand-eye transform.
_LEAST_PAIRS = 20
#: Chosen: motions of each length that are used; more cost time without a better result.
_MOST_PAIRS = 1500
#: A motion whose residual is so many times the median is no motion but a jump of the odometry.
#: Chosen: 9 standard deviations of Gaussian noise in three axes.
_JUMP = 6.0
#: Chosen: most solutions of a linear equation, each without what contradicted the one before.
_ROUNDS = 5
#: Chosen: how often all motions are judged again by the last solution. The first judgement is made
#: before the offset is refined, and can leave out fast motions that contain no jump.
_JUDGED_AGAIN = 2
#: Standard deviation of the prior: body and sensor are within a metre of each other, and any
#: rotation is possible. Chosen.
_PRIOR_M = 1.0
_PRIOR_RAD = np.pi
_PRIOR_OFFSET_S = 1.0
#: Standard deviation of the prior of the scale's logarithm. Chosen: an odometry is within a tenth.
_PRIOR_SCALE = 0.1
#: Rotation vector, translation, offset, logarithm of the scale.
_UNKNOWNS = 8
#: A scale from the first solution is used where it leaves less of the scatter than this. Chosen.
_SCALED = 0.5
#: Smallest scatter of the residuals for the deviations, as a fraction of its first estimate: with
#: exact data none would remain, and the prior would have no effect. Chosen.
_LEAST_SCATTER = 0.1
#: Chosen: length (s) of blocks whose errors are independent. Simulated: with errors that last for
#: 0.5 to 5 s, in recordings of 20 and 60 s, errors are 0.8 to 1.4 of the deviations.
_BLOCK_S = 4.0
#: A result with a larger standard deviation is reported as undetermined. Chosen: ten times the
#: accuracy of hand-held recordings in simulation, and far below the prior.
UNDETERMINED_M = 0.01
UNDETERMINED_DEG = 1.0
#: Largest change (s) of the offset in the last step. Chosen: five grid steps; the offset is
#: accurate to one.
_REFINE_S = 0.05


class TimeOffset(NamedTuple):
    """
    Time to be added to the estimate's stamps.

    :ivar offset_ns: reference's clock minus the estimate's (ns); 0 if it is uncertain.
    :ivar correlation: best correlation of the angular speeds, at most 1.
    :ivar warnings: reasons why it may be wrong; empty if there are none.
    """

    offset_ns: int
    correlation: float
    warnings: tuple[str, ...]


class HandEye(NamedTuple):
    """
    The fixed transform from body to sensor, and the refined time offset.

    :ivar rotation: rotation of ``body_from_sensor``.
    :ivar translation: translation of ``body_from_sensor`` (m); zero along directions that the
        motion does not determine.
    :ivar offset_ns: to be added to the estimate's stamps.
    :ivar offset_std_s: its standard deviation (s); 1 s, that of the prior, if it is not estimated.
    :ivar rotation_std_deg: standard deviation about the worst axis (degrees).
    :ivar translation_std_m: standard deviation along the worst direction (m).
    :ivar size: how many times as large as the reference the estimate is.
    :ivar size_std: standard deviation of the size, as a fraction of it.
    :ivar misfit: median difference of turns over the median turn; 0 for an exact fit.
    :ivar warnings: what the motion does not determine; empty if it determines all.
    """

    rotation: Rotation
    translation: Floats
    offset_ns: int
    offset_std_s: float
    rotation_std_deg: float
    translation_std_m: float
    size: float
    size_std: float
    misfit: float
    warnings: tuple[str, ...]


def angular_speed(trajectory: Trajectory, start_ns: int, count: int) -> tuple[Floats, Mask]:
    """
    Sample the angular speed on a grid of 10 ms.

    :returns: speeds (rad/s), and whether each is known; speeds next to a gap are not.
    """
    step = round(_GRID_S * NS_PER_S)
    times = start_ns + step * np.arange(-_SPEED_HALF, count + _SPEED_HALF, dtype=np.int64)
    limit = max(2 * step, gap_limit_ns(trajectory))
    _, quats, valid = interpolate(trajectory, times, limit)
    quats[~valid] = (0.0, 0.0, 0.0, 1.0)
    turns = Rotation.from_quat(quats)
    width = 2 * _SPEED_HALF
    speed = (turns[:-width].inv() * turns[width:]).magnitude() / (width * _GRID_S)
    return speed, valid[:-width] & valid[width:]


def estimate_time_offset(
    reference: Trajectory, estimate: Trajectory, max_offset_s: float = 2.0,
) -> TimeOffset:
    """
    Find the time offset at which the angular speeds of two trajectories correlate best.

    :param max_offset_s: largest offset of the search, in both directions (s).
    :raises ConfigurationError: if the trajectories have less than 3 s in common.
    """
    step = round(_GRID_S * NS_PER_S)
    lags = round(max_offset_s / _GRID_S)
    first = int(max(reference.stamps_ns[0], estimate.stamps_ns[0] - lags * step)) \
        if len(reference) and len(estimate) else 0
    last = int(min(reference.stamps_ns[-1], estimate.stamps_ns[-1] + lags * step)) \
        if len(reference) and len(estimate) else 0
    count = (last - first) // step + 1
    if count * _GRID_S < _LEAST_OVERLAP_S:
        raise ConfigurationError(
            f'reference and estimate have {max(count, 0) * _GRID_S:.1f} s in common; the time '
            f'offset needs {_LEAST_OVERLAP_S:g} s. Are both on the same clock?')
    speed_r, known_r = angular_speed(reference, first, count)
    speed_e, known_e = angular_speed(estimate, first - lags * step, count + 2 * lags)
    # The body does not turn faster than by mocap: what is faster is a jump of the odometry.
    speed_e = np.minimum(speed_e, speed_r.max(where=known_r, initial=0.0))
    scores = lag_correlations(np.where(known_r, speed_r, np.nan), np.where(
        known_e, speed_e, np.nan), round(_LEAST_OVERLAP_S / _GRID_S))
    best = int(np.argmax(scores))
    correlation = float(scores[best])
    if correlation < -0.5:
        raise ConfigurationError(
            'reference and estimate have no common 3 s without gaps: no time offset can be found')
    place = float(best)
    if 0 < best < 2 * lags and min(scores[best - 1], scores[best + 1]) > -1.0:
        left, top, right = scores[best - 1:best + 2]
        curve = left - 2.0 * top + right
        if curve < 0.0:
            place += 0.5 * (left - right) / curve
    offset_ns = round((place - lags) * _GRID_S * NS_PER_S)
    if correlation < _LEAST_CORRELATION:
        # The best of uncorrelated offsets is arbitrary, and most clocks are synchronised.
        return TimeOffset(0, correlation, (
            f'the time offset is uncertain, and 0 is used: angular speeds correlate at '
            f'{correlation:.2f} only ({_LEAST_CORRELATION:g} is needed). Turn the body more, in '
            'irregular motion, or extend the search',))
    if best in (0, 2 * lags):
        return TimeOffset(offset_ns, correlation, (
            f'the time offset is at the end of the search ({max_offset_s:g} s): extend the '
            'search',))
    return TimeOffset(offset_ns, correlation, ())


def estimate_hand_eye(
    reference: Trajectory, estimate: Trajectory, offset_ns: int = 0, *,
    refine_offset: bool = True,
) -> HandEye:
    """
    Estimate ``body_from_sensor`` and the rest of the time offset.

    :param reference: ``world_from_body``.
    :param estimate: ``odom_from_sensor``.
    :param offset_ns: to be added to the estimate's stamps, accurate to about 10 ms.
    :param refine_offset: whether to estimate the rest of the offset too.
    :raises ConfigurationError: if the two have fewer than 20 motions in common.
    """
    estimate = estimate.shifted(offset_ns)
    problem = _Problem(reference, estimate, refine_offset)
    # Before step 3 too: a jump is the largest of its known values, to which the scale would yield.
    problem.leave_jumps_out(problem.start())
    vector = problem.solve()
    for _ in range(_JUDGED_AGAIN):
        if not problem.leave_jumps_out(vector):
            break
        vector = problem.solve()
    rotation_std, translation_stds, directions, offset_std, size_std = problem.deviations(vector)
    # Undetermined directions would contain noise: set them to zero, which is recognisable.
    known = directions[:, translation_stds <= UNDETERMINED_M]
    offset = vector[6] if refine_offset else 0.0
    return HandEye(
        Rotation.from_rotvec(vector[:3]), known @ (known.T @ vector[3:6]),
        offset_ns + round(offset * NS_PER_S), offset_std, rotation_std,
        float(translation_stds[-1]),
        float(np.exp(-vector[7])), size_std, problem.misfit(vector),
        _warnings(rotation_std, float(translation_stds[-1]), directions[:, -1]))


def _warnings(rotation_std: float, translation_std: float, direction: Floats) -> tuple[str, ...]:
    warnings = []
    if translation_std > UNDETERMINED_M:
        axis = ', '.join(f'{value:+.2f}' for value in direction)
        warnings.append(
            f'the motion does not determine the position of the sensor along [{axis}] of the body '
            f'(standard deviation {1000 * translation_std:.0f} mm): turn the body about two or '
            'more axes')
    if rotation_std > UNDETERMINED_DEG:
        warnings.append(
            f'the motion does not determine the attitude of the sensor on the body (standard '
            f'deviation {rotation_std:.1f} degrees): turn the body about two or more axes')
    return tuple(warnings)


class _Problem:
    """
    The least squares of step 3.

    Parameters are the rotation vector and translation of ``body_from_sensor``, the offset (s), and
    the logarithm of the scale by which the estimate is multiplied.
    """

    def __init__(self, reference: Trajectory, estimate: Trajectory, with_offset: bool) -> None:
        margin = round(_REFINE_S * NS_PER_S) if with_offset else 0
        usable = estimate.at(covered(
            reference, estimate.stamps_ns - margin, estimate.stamps_ns + margin))
        first, second = _pairs(usable)
        if len(first) < _LEAST_PAIRS:
            raise ConfigurationError(
                f'reference and estimate have {len(first)} motions of half a second in common; '
                f'the hand-eye transform needs {_LEAST_PAIRS}')
        self._reference, self._with_offset = reference, with_offset
        self._stamps = usable.stamps_ns
        # Overlapping motions share noise: count only as many as fit in without overlap.
        span = float(self._stamps[-1] - self._stamps[0]) / NS_PER_S
        self._overlap = max(len(first) / max(span / _PAIRS_S[0], 1.0), 1.0)
        self._first, self._second = first, second
        a_t, a_r = self._reference_motions(0.0)
        moved = (lengths(a_t) > _LEAST_MOVED_M) | (a_r.magnitude() > _LEAST_MOVED_RAD)
        if np.count_nonzero(moved) >= _LEAST_PAIRS:
            first, second = first[moved], second[moved]
        #: All motions and those of the estimate; ``_use`` chooses among them.
        self._all = first, second, *motions(usable, first, second)
        self._use(np.ones(len(first), dtype=bool))
        self._sigma_t = self._sigma_r = 1.0
        #: Logarithm of the scale where the motion does not determine it.
        self._usual = 0.0

    def _use(self, chosen: Mask) -> None:
        """Compare only some of the motions from now on."""
        first, second, b_t, b_r = self._all
        self._used = chosen
        self._first, self._second = first[chosen], second[chosen]
        self._b_t, self._b_r = b_t[chosen], b_r[chosen]
        self._a_t, self._a_r = self._reference_motions(0.0)

    def solve(self) -> Floats:
        """Solve step 3 from the result of step 2."""
        found: Floats = least_squares(
            self.residuals, self.start(), loss='huber', f_scale=1.5,
            x_scale=(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0.1), max_nfev=40).x
        return found

    def leave_jumps_out(self, vector: Floats) -> bool:
        """Leave out the motions that contradict a solution; return whether they are others."""
        before = self._used
        self._use(np.ones(len(before), dtype=bool))
        size = np.linalg.norm(self.residuals(vector)[:-_UNKNOWNS].reshape(2, -1, 3), axis=2)
        kept = (size <= _JUMP * np.median(size, axis=1, keepdims=True)).all(axis=0)
        self._use(kept)
        return not np.array_equal(kept, before)

    def start(self) -> Floats:
        """Solve step 2, and scale the residuals by its scatter."""
        solved = []
        for rotation in self._initial_rotations():
            translation, scatter = self._solve_translation(rotation)
            solved.append((scatter, rotation, translation))
        scatter, rotation, translation = min(solved, key=lambda found: found[0])
        scale = self._scale(rotation)
        if scale > 0.0:
            scaled, rest = self._solve_translation(rotation, scale)
            if rest < _SCALED * scatter:
                scatter, translation, self._usual = rest, scaled, float(np.log(scale))
        self._sigma_t = max(scatter, 1e-6)
        return np.concatenate((rotation.as_rotvec(), translation, [0.0, self._usual]))

    def _scale(self, rotation: Rotation) -> float:
        """
        Return the scale by linear least squares with the translation; 0 if there is none.

        The equation is solved for the motions of the estimate: a jump of the estimate must be an
        error of one motion, not the largest of the known values.
        """
        moved = self._a_t[:, :, None]
        length = float(np.linalg.norm(moved) / np.sqrt(max(len(moved), 1)))
        if length < 1e-6:
            return 0.0
        solution, _ = _without_jumps(np.concatenate((
            moved / length, self._a_r.as_matrix() - np.eye(3)), axis=2),
            rotation.apply(self._b_t))
        size = float(solution[0]) / length
        return 1.0 / size if size > 0.0 else 0.0

    def _initial_rotations(self) -> list[Rotation]:
        """Return initial rotations: one, or many about the only axis of motion."""
        a, b = self._a_r.as_rotvec(), self._b_r.as_rotvec()
        turning = lengths(b) > _LEAST_TURN_RAD
        if np.count_nonzero(turning) < 10:
            turning = lengths(b) > 0.0
        if not turning.any():
            return [Rotation.identity()]
        _, spread, axes = np.linalg.svd(b[turning], full_matrices=False)
        aligned = Rotation.from_matrix(best_rotation(a[turning], b[turning]))
        rest = self._a_r.inv() * (aligned * self._b_r * aligned.inv())
        self._sigma_r = max(1.4826 * float(np.median(rest.magnitude())), 1e-5)
        if spread[1] > _SECOND_AXIS * spread[0]:
            return [aligned]
        # As for a robot on wheels: only the translations determine the rotation about that axis.
        return [aligned * Rotation.from_rotvec(axes[0] * angle)
                for angle in np.radians(np.arange(0.0, 360.0, 5.0))]

    def _solve_translation(
        self, rotation: Rotation, scale: float = 1.0,
    ) -> tuple[Floats, float]:
        """
        Solve for the translation by least squares; undetermined directions stay zero.

        :returns: the translation (m) and the remaining scatter (m).
        """
        solution, scatter = _without_jumps(
            self._a_r.as_matrix() - np.eye(3), scale * rotation.apply(self._b_t) - self._a_t)
        return np.clip(solution, -5.0, 5.0), scatter

    def residuals(self, vector: Floats) -> Floats:
        """Compare ``A X`` with ``X B`` for every motion; the prior comes last."""
        rotation, translation = Rotation.from_rotvec(vector[:3]), vector[3:6]
        a_t, a_r = self._a_t, self._a_r
        if self._with_offset and vector[6] != 0.0:
            a_t, a_r = self._reference_motions(float(vector[6]))
        rest_t = (a_t + a_r.apply(translation) - np.exp(vector[7]) * rotation.apply(self._b_t)
                  - translation)
        rest_r = ((a_r * rotation).inv() * (rotation * self._b_r)).as_rotvec()
        prior = np.concatenate((
            vector[:3] / _PRIOR_RAD, translation / _PRIOR_M, [
                vector[6] / _PRIOR_OFFSET_S, (vector[7] - self._usual) / _PRIOR_SCALE]))
        return np.concatenate((
            (rest_t / self._sigma_t).ravel(), (rest_r / self._sigma_r).ravel(), prior))

    def misfit(self, vector: Floats) -> float:
        """Return the median difference of turns over the median turn."""
        rotation = Rotation.from_rotvec(vector[:3])
        rest = ((self._a_r * rotation).inv() * (rotation * self._b_r)).magnitude()
        return float(np.median(rest) / max(float(np.median(self._b_r.magnitude())), 1e-6))

    def deviations(self, vector: Floats) -> tuple[float, Floats, Floats, float, float]:
        """
        Return the standard deviations of the result.

        :returns: rotation about the worst axis (degrees), translation along three orthogonal
            directions (m), the worst last, these directions in the body's axes as columns, offset
            (s), and scale (as a fraction).
        """
        rest = self.residuals(vector)[:-_UNKNOWNS]
        half = len(rest) // 2
        scale = np.ones(len(rest) + _UNKNOWNS)
        # A robust estimate of the scatter.
        for part in (slice(0, half), slice(half, 2 * half)):
            sigma = max(1.4826 * float(np.median(np.abs(rest[part]))), _LEAST_SCATTER)
            scale[part] = 1.0 / (sigma * np.sqrt(self._overlap))
        # Without Huber weights, and with one evaluation: the Jacobian at the result.
        jacobian = least_squares(self.residuals, vector, jac='3-point', max_nfev=1).jac
        weighted = jacobian * scale[:, None]
        covariance: Floats = np.linalg.inv(weighted.T @ weighted)
        # The noise that was counted is white. Errors of attitude that last for seconds turn the
        # result, and are small in each motion: only the scatter of the scores shows them.
        scores = (weighted[:-_UNKNOWNS] * (scale[:-_UNKNOWNS] * rest)[:, None]).reshape(
            2, -1, 3, _UNKNOWNS).sum(axis=(0, 2))
        scattered = covariance @ self._of_blocks(scores) @ covariance
        for group in (slice(0, 3), slice(3, 6), slice(6, 7), slice(7, 8)):
            if np.trace(scattered[group, group]) > np.trace(covariance[group, group]):
                covariance[group, group] = scattered[group, group]
        values, vectors = np.linalg.eigh(covariance[3:6, 3:6])
        turning = np.linalg.eigvalsh(covariance[:3, :3])
        return (float(np.degrees(np.sqrt(max(turning[-1], 0.0)))),
                np.sqrt(np.maximum(values, 0.0)), vectors,
                *np.sqrt(np.maximum(np.diag(covariance)[6:], 0.0)).tolist())

    def _of_blocks(self, scores: Floats) -> Floats:
        """
        Return the covariance of the sum of scores from blocks of some seconds, for any noise.

        Clusters: Liang and Zeger, Biometrika 73, 1986.

        :param scores: (motions, unknowns).
        """
        begins = (self._stamps[self._first] - self._stamps[0]) / (_BLOCK_S * NS_PER_S)
        count = max(int(begins.max()), 2)
        sums = np.zeros((count, scores.shape[1]))
        np.add.at(sums, np.minimum(begins.astype(int), count - 1), scores)
        found: Floats = sums.T @ sums * count / (count - 1)
        return found

    def _reference_motions(self, offset_s: float) -> tuple[Floats, Rotation]:
        offset_s = float(np.clip(offset_s, -_REFINE_S, _REFINE_S))
        positions, quats, _ = interpolate(
            self._reference, self._stamps + round(offset_s * NS_PER_S))
        moved = Trajectory(self._stamps, positions, quats)
        return motions(moved, self._first, self._second)


def _without_jumps(left: Floats, right: Floats) -> tuple[Floats, float]:
    """
    Solve ``left x = right`` by least squares without the motions that contradict the others.

    :param left: (n, 3, k).
    :param right: (n, 3).
    :returns: the solution, zero along undetermined directions, and the scatter of all motions.
    """
    kept = np.ones(len(right), dtype=bool)
    for _ in range(_ROUNDS):
        solution = np.linalg.lstsq(
            left[kept].reshape(-1, left.shape[2]), right[kept].reshape(-1), rcond=0.02)[0]
        rest = lengths(left @ solution - right)
        usual = float(np.median(rest))
        before, kept = kept, rest <= _JUMP * max(usual, 1e-9)
        if (kept == before).all():
            break
    return solution.astype(float), 1.4826 * usual


def _pairs(trajectory: Trajectory) -> tuple[Indices, Indices]:
    """Return motions of each length, thinned evenly."""
    firsts, seconds = [], []
    for length_s in _PAIRS_S:
        first, second = pairs_apart(trajectory.stamps_ns, length_s)
        if len(first) > _MOST_PAIRS:
            keep = np.linspace(0, len(first) - 1, _MOST_PAIRS).astype(np.intp)
            first, second = first[keep], second[keep]
        firsts.append(first)
        seconds.append(second)
    return np.concatenate(firsts), np.concatenate(seconds)
