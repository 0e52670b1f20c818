# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate any odometry against mocap in one call: offset, hand-eye transform, ATE and RPE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from optitrack_vrpn.names import counted
from optitrack_vrpn.recording.evaluation import (
    Absolute, absolute_error, associate, Continuity, continuity, Relative, relative_error)
from optitrack_vrpn.recording.evaluation_calibration import (
    estimate_hand_eye, estimate_time_offset, HandEye, TimeOffset)
from optitrack_vrpn.recording.trajectory import Floats, Trajectory
from optitrack_vrpn.units import NS_PER_S

#: Fraction of the estimate's poses with a reference below which a warning is given. Chosen.
_ENOUGH_MATCHED = 0.9
#: Error of the aligned estimate, as a fraction of the width of the path, above which a warning is
#: given: the alignment can turn about the path by that angle (rad). Chosen.
_STRAIGHT = 0.5
#: Fraction of the reference with poses of the estimate below which a warning is given, and below
#: which the errors describe too little of it.
_COVERED, _HALF_COVERED = 0.9, 0.5


@dataclass(frozen=True, eq=False)
class OdometryEvaluation:
    """
    Results of the evaluation of an odometry.

    :ivar offset: time offset from the angular speeds.
    :ivar hand_eye: the transform from body to sensor, and the refined time offset.
    :ivar ate: absolute trajectory error.
    :ivar rpe: relative pose error.
    :ivar matched: fraction of the estimate's poses that were compared, 0 to 1.
    :ivar continuity: what of the reference the estimate covers, and its interruptions.
    :ivar faults: why the errors do not describe the whole path.
    :ivar warnings: what the recorded motion does not determine, or what was not compared.
    """

    offset: TimeOffset
    hand_eye: HandEye
    ate: Absolute
    rpe: Relative
    matched: float
    continuity: Continuity
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


def evaluate_odometry(
    reference: Trajectory, estimate: Trajectory, *, rpe_seconds: float = 1.0,
    max_offset_s: float = 2.0,
) -> OdometryEvaluation:
    """
    Compare an odometry with the mocap body that its sensor is fixed to.

    :param reference: ``world_from_body`` at a high rate.
    :param estimate: ``odom_from_sensor``.
    :param rpe_seconds: time over which motions are compared (s).
    :param max_offset_s: largest offset of the search (s).
    :raises ConfigurationError: if the two do not overlap, or the motion is too short or does not
        determine the alignment.
    """
    offset = estimate_time_offset(reference, estimate, max_offset_s)
    hand_eye = estimate_hand_eye(
        reference, estimate, offset.offset_ns, refine_offset=not offset.warnings)
    warnings = [*offset.warnings, *hand_eye.warnings]
    truth, compared = associate(reference.of_child(hand_eye.rotation, hand_eye.translation),
                                estimate.shifted(hand_eye.offset_ns))
    matched = len(compared) / len(estimate)
    if matched < _ENOUGH_MATCHED:
        warnings.append(
            f'{100 * matched:.0f} % of the poses of the estimate were compared; the reference '
            'has gaps or does not cover the rest')
    ate = absolute_error(truth, compared)
    width_m = _width(truth.positions)
    if ate.translation.rmse > _STRAIGHT * width_m:
        warnings.append(
            f'the path is too straight for the alignment: it deviates from a line by '
            f'{1000 * width_m:.1f} mm, and the estimate from the path by '
            f'{1000 * ate.translation.rmse:.1f} mm, so that the rotation about this line, and '
            'with it the attitude of the ATE, is arbitrary; the RPE is not affected')
    whole = continuity(reference, estimate.shifted(hand_eye.offset_ns), truth)
    faults = []
    if whole.resets_ns:
        faults.append(
            f'the estimate is displaced {counted(len(whole.resets_ns), "time")} (a reset, a '
            'restart or a slip): the ATE mixes the parts, and the motion between them is missing')
    if whole.coverage < _COVERED:
        longest_s = max((b - a for a, b in whole.gaps_ns), default=0) / NS_PER_S
        (faults if whole.coverage < _HALF_COVERED else warnings).append(
            f'the estimate has poses for {100 * whole.coverage:.0f} % of the reference '
            f'({counted(len(whole.gaps_ns), "interruption")}, up to {longest_s:.2f} s): the '
            'errors say nothing about the rest')
    return OdometryEvaluation(
        offset, hand_eye, ate, relative_error(truth, compared, rpe_seconds), matched, whole,
        tuple(faults), tuple(warnings))


def _width(positions: Floats) -> float:
    """Return the root mean square distance (m) of positions from the line that fits them best."""
    singular = np.linalg.svd(positions - positions.mean(axis=0), compute_uv=False)
    return float(np.linalg.norm(singular[1:]) / np.sqrt(len(positions)))
