# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate any odometry against mocap in one call: offset, hand-eye transform, ATE and RPE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.evaluate.evaluation import (
    Absolute, absolute_error, associate, Continuity, continuity, Relative, relative_error)
from optitrack_vrpn.takes.evaluate.evaluation_calibration import (
    estimate_hand_eye, estimate_time_offset, HandEye, TimeOffset)
from optitrack_vrpn.takes.trajectory import Floats, Trajectory
from optitrack_vrpn.telling.catalogue import Finding, Span

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
    :ivar findings: why the errors do not describe the whole path, what was not compared, and what
        the motion does not determine; times are those of the reference.
    """

    offset: TimeOffset
    hand_eye: HandEye
    ate: Absolute
    rpe: Relative
    matched: float
    continuity: Continuity
    findings: tuple[Finding, ...]


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
    found = [Finding('not determined', (), {'detail': text})
             for text in (*offset.warnings, *hand_eye.warnings)]
    truth, compared = associate(reference, estimate.shifted(hand_eye.offset_ns),
                                (hand_eye.rotation, hand_eye.translation))
    matched = len(compared) / len(estimate)
    if matched < _ENOUGH_MATCHED:
        found.append(Finding('not compared', (), {'percent': 100 * matched}))
    ate = absolute_error(truth, compared)
    width_m = _width(truth.positions)
    if ate.translation.rmse > _STRAIGHT * width_m:
        found.append(Finding('straight path', (), {
            'width': 1000 * width_m, 'error': 1000 * ate.translation.rmse}))
    whole = continuity(reference, estimate.shifted(hand_eye.offset_ns), truth)
    if whole.resets_ns:
        found.append(Finding('estimate displaced', (), {
            'times': counted(len(whole.resets_ns), 'time')}, tuple(
                _span(reference, at, at) for at in whole.resets_ns)))
    if whole.coverage < _COVERED:
        found.append(Finding(
            'estimate lacks most' if whole.coverage < _HALF_COVERED else 'estimate lacks part', (),
            {'percent': 100 * whole.coverage,
             'interruptions': counted(len(whole.gaps_ns), 'interruption'),
             'longest': max((b - a for a, b in whole.gaps_ns), default=0) / NS_PER_S},
            tuple(_span(reference, *gap) for gap in whole.gaps_ns)))
    found.sort(key=lambda one: -one.severity)
    return OdometryEvaluation(
        offset, hand_eye, ate, relative_error(truth, compared, rpe_seconds), matched, whole,
        tuple(found))


def _span(reference: Trajectory, begin_ns: int, end_ns: int) -> Span:
    """Give a time as seconds from the begin of the reference."""
    first_ns = int(reference.stamps_ns[0])
    return Span((begin_ns - first_ns) / NS_PER_S, (end_ns - first_ns) / NS_PER_S)


def _width(positions: Floats) -> float:
    """Return the root mean square distance (m) of positions from the line that fits them best."""
    singular = np.linalg.svd(positions - positions.mean(axis=0), compute_uv=False)
    return float(np.linalg.norm(singular[1:]) / np.sqrt(len(positions)))
