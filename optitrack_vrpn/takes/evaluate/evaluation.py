# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Errors of an estimated trajectory against a reference: alignment, ATE and RPE.

Definitions follow Sturm et al., A Benchmark for the Evaluation of RGB-D SLAM Systems (IROS 2012):
the absolute trajectory error (ATE) is the distance of positions after a rigid alignment; the
relative pose error (RPE) is the difference of motions over a fixed time or number of poses.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.space import lengths, rigid_transform
from optitrack_vrpn.core.stats import array_interval, usual_step
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.trajectory import (
    Floats, GAP_INTERVALS, gap_limit_ns, interpolate, Mask, Stamps, Trajectory)
from scipy.spatial.transform import Rotation

Indices = npt.NDArray[np.intp]

#: Allowed deviation of a pair's time from the requested time, as a fraction of it; half an
#: interval between poses is always allowed, because the nearest pose can be that far away.
PAIR_TOLERANCE = 0.02
#: Error of a step between neighbours that is a displacement: this much (m, rad), and this many
#: times the median error of a step.
_RESET_M, _RESET_RAD, _RESET_STEPS = 0.05, np.radians(5.0), 10.0


class Statistics(NamedTuple):
    """Statistics of a set of errors, in their unit."""

    rmse: float
    mean: float
    median: float
    std: float
    min: float
    max: float
    samples: int


class Absolute(NamedTuple):
    """
    Absolute trajectory error.

    :ivar translation: statistics of the distances (m).
    :ivar rotation_deg: statistics of the angles between attitudes (degrees).
    :ivar stamps_ns: stamps of the compared poses.
    :ivar distances: (n,) (m).
    :ivar aligned: the estimate in the reference's frame.
    :ivar reference: the reference at the same stamps.
    """

    translation: Statistics
    rotation_deg: Statistics
    stamps_ns: Stamps
    distances: Floats
    aligned: Trajectory
    reference: Trajectory


class Relative(NamedTuple):
    """
    Relative pose error.

    :ivar translation: statistics of the translational errors (m per delta).
    :ivar rotation_deg: statistics of the rotational errors (degrees per delta).
    :ivar stamps_ns: stamp of the first pose of each pair.
    :ivar distances: (n,) (m).
    :ivar seconds: time between the poses of a pair (s).
    """

    translation: Statistics
    rotation_deg: Statistics
    stamps_ns: Stamps
    distances: Floats
    seconds: float


class Continuity(NamedTuple):
    """
    What of the reference an estimate covers, and where it is interrupted.

    :ivar coverage: fraction of the reference's duration with poses of the estimate, 0 to 1.
    :ivar gaps_ns: last stamp before and first stamp after each time without poses.
    :ivar resets_ns: stamps of poses before which the estimate is displaced against the reference.
    """

    coverage: float
    gaps_ns: list[tuple[int, int]]
    resets_ns: list[int]


def statistics(values: Floats) -> Statistics:
    """
    Compute the statistics of errors.

    :raises ConfigurationError: if there are no errors.
    """
    values = np.asarray(values, dtype=float)
    if not len(values):
        raise ConfigurationError('there is nothing to compare: no error was computed')
    return Statistics(
        float(np.sqrt(np.mean(values ** 2))), float(np.mean(values)), float(np.median(values)),
        float(np.std(values)), float(np.min(values)), float(np.max(values)), len(values))


def associate(
    reference: Trajectory, estimate: Trajectory,
    child: Optional[tuple[Rotation, Floats]] = None,
) -> tuple[Trajectory, Trajectory]:
    """
    Interpolate the reference, which has a higher rate, at the stamps of the estimate.

    :param child: rotation and translation (m) of ``body_from_child``, for the reference of a frame
        that is fixed to the body.
    :returns: reference and estimate with equal numbers of poses, and the estimate's stamps.
    :raises ConfigurationError: if no poses can be associated.
    """
    near = reference.around(estimate.stamps_ns)
    positions, quats, valid = interpolate(
        near.of_child(*child) if child else near, estimate.stamps_ns, gap_limit_ns(reference))
    if not valid.any():
        raise ConfigurationError(
            f'no pose of the estimate ({_span(estimate)}) has one of the reference '
            f'({_span(reference)}) at the same time: are both on the same clock?')
    compared = estimate.at(valid)
    return Trajectory(compared.stamps_ns, positions[valid], quats[valid]), compared


def _nearest(stamps: Stamps, times: Stamps, limit_ns: int) -> tuple[Indices, Mask]:
    """Return the index of the stamp that is nearest to each time, and whether it is near."""
    if not len(stamps):
        return np.zeros(len(times), dtype=np.intp), np.zeros(len(times), dtype=bool)
    after = np.clip(np.searchsorted(stamps, times, 'right'), 0, len(stamps) - 1)
    before = np.maximum(after - 1, 0)
    closer = np.abs(stamps[after] - times) < np.abs(times - stamps[before])
    index = np.where(closer, after, before).astype(np.intp)
    return index, np.abs(stamps[index] - times) <= limit_ns


def _span(trajectory: Trajectory) -> str:
    if not len(trajectory):
        return 'empty'
    first, last = int(trajectory.stamps_ns[0]), int(trajectory.stamps_ns[-1])
    return f'{len(trajectory)} poses, {first / NS_PER_S:.3f} s to {last / NS_PER_S:.3f} s'


def align(reference: Floats, estimate: Floats) -> tuple[Rotation, Floats]:
    """
    Find the rigid transform that maps points of the estimate to those of the reference.

    :param reference: (n, 3).
    :param estimate: (n, 3), the same points.
    :returns: rotation R and translation t (m) of ``reference_from_estimate``: ``R p + t``.
    :raises ConfigurationError: if there are fewer than three points, or all are on one line; then
        the rotation about that line is unknown.
    """
    if len(reference) != len(estimate) or len(reference) < 3:
        raise ConfigurationError(
            f'an alignment needs three or more pairs of points, and there are {len(reference)}')
    singular = np.linalg.svd(
        (reference - reference.mean(axis=0)).T @ (estimate - estimate.mean(axis=0)),
        compute_uv=False) / len(reference)
    if singular[1] <= 1e-9 * max(singular[0], 1e-300) or singular[0] < 1e-300:
        raise ConfigurationError(
            'the positions are on one line or in one point, so that the alignment about it is '
            'unknown: use a recording in which the body moves in two or more directions')
    rotation, translation = rigid_transform(reference, estimate)
    return Rotation.from_matrix(rotation), translation


def absolute_error(reference: Trajectory, estimate: Trajectory) -> Absolute:
    """
    Compute the absolute trajectory error of associated trajectories after their alignment.

    :param reference: reference at the stamps of the estimate, see ``associate``.
    :raises ConfigurationError: if the alignment is not determined.
    """
    aligned = estimate.transformed(*align(reference.positions, estimate.positions))
    distances = lengths(aligned.positions - reference.positions)
    angles = np.degrees((reference.rotations.inv() * aligned.rotations).magnitude())
    return Absolute(statistics(distances), statistics(angles), estimate.stamps_ns, distances,
                    aligned, reference)


def relative_error(reference: Trajectory, estimate: Trajectory, seconds: float) -> Relative:
    """
    Compute the relative pose error over all pairs at a fixed distance in time.

    The error of a pair is ``(Q_i^-1 Q_j)^-1 (P_i^-1 P_j)``, Q the reference and P the estimate.

    :param seconds: time between the poses of a pair (s), see ``pairs_apart``.
    :raises ConfigurationError: if no such pairs exist.
    """
    first, second = pairs_apart(estimate.stamps_ns, seconds)
    if not len(first):
        raise ConfigurationError(f'no two poses are {seconds:g} s apart: the trajectory is too '
                                 'short')
    true_t, true_r = motions(reference, first, second)
    found_t, found_r = motions(estimate, first, second)
    distances = lengths(true_r.inv().apply(found_t - true_t))
    angles = np.degrees((true_r.inv() * found_r).magnitude())
    return Relative(statistics(distances), statistics(angles), estimate.stamps_ns[first],
                    distances, seconds)


def continuity(reference: Trajectory, estimate: Trajectory, truth: Trajectory) -> Continuity:
    """
    Find interruptions and displacements of an estimate.

    :param estimate: on the reference's clock.
    :param truth: the reference at stamps of the estimate, see ``associate``.
    """
    stamps = estimate.stamps_ns
    intervals = np.diff(stamps)
    period = array_interval(intervals)
    long = intervals > GAP_INTERVALS * period
    inside = np.clip(stamps, reference.stamps_ns[0], reference.stamps_ns[-1])
    covered_ns = float(np.diff(inside)[~long].sum() + period)
    compared = estimate.at(np.isin(stamps, truth.stamps_ns))
    steps = np.arange(len(compared) - 1)
    true_t, true_r = motions(truth, steps, steps + 1)
    found_t, found_r = motions(compared, steps, steps + 1)
    displaced = np.zeros(len(steps), dtype=bool)
    for errors, least in ((lengths(found_t - true_t), _RESET_M),
                          ((true_r.inv() * found_r).magnitude(), _RESET_RAD)):
        if len(steps):
            displaced |= errors > max(least, _RESET_STEPS * float(np.median(errors)))
    return Continuity(
        min(covered_ns / max(int(reference.stamps_ns[-1] - reference.stamps_ns[0]), 1), 1.0),
        [(int(stamps[i]), int(stamps[i + 1])) for i in np.flatnonzero(long)],
        compared.stamps_ns[1:][displaced].tolist())


def pairs_apart(stamps_ns: Stamps, seconds: float) -> tuple[Indices, Indices]:
    """
    Return the pairs of poses at this distance, within ``PAIR_TOLERANCE`` or half an interval.

    :returns: indices of the first and of the second pose of each pair.
    """
    wanted = round(seconds * NS_PER_S)
    interval = int(usual_step(stamps_ns))
    limit = min(max(round(PAIR_TOLERANCE * wanted), 11 * interval // 20), wanted // 2)
    index, valid = _nearest(stamps_ns, stamps_ns + wanted, limit)
    first = np.flatnonzero(valid & (index > np.arange(len(stamps_ns))))
    return first, index[first]


def motions(
    trajectory: Trajectory, first: Indices, second: Indices,
) -> tuple[Floats, Rotation]:
    """
    Return the motions ``P_i^-1 P_j``.

    :returns: translations (n, 3) in the first pose's frame, and rotations.
    """
    inverse = Rotation.from_quat(trajectory.quats_xyzw[first]).inv()
    shift = trajectory.positions[second] - trajectory.positions[first]
    return inverse.apply(shift), inverse * Rotation.from_quat(trajectory.quats_xyzw[second])
