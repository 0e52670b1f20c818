# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate any odometry against mocap in one call: offset, hand-eye transform, ATE and RPE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from optitrack_vrpn.core.findings import Finding
from optitrack_vrpn.takes.evaluate.evaluation import (
    Absolute, absolute_error, associate, Continuity, continuity, Relative, relative_error)
from optitrack_vrpn.takes.evaluate.evaluation_calibration import (
    estimate_hand_eye, estimate_time_offset, HandEye, TimeOffset)
from optitrack_vrpn.takes.evaluate.evaluation_rules import (
    evaluation_findings, EvaluationFacts)
from optitrack_vrpn.takes.trajectory import Floats, Trajectory

#: Median error of the turns, as a fraction of them, from which other readings are tried, and how
#: much smaller it must be with one of them. Chosen: noise of 0.2 degrees gives 0.03, and a body
#: that turns about nearly one axis 0.15 in a wrong reading.
_MISFIT, _BETTER = 0.05, 0.33


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
    reading, fitting = ('', hand_eye) if offset.warnings else _reading(
        reference, estimate, offset.offset_ns, hand_eye)
    truth, compared = associate(reference, estimate.shifted(hand_eye.offset_ns),
                                (hand_eye.rotation, hand_eye.translation))
    matched = len(compared) / len(estimate)
    ate = absolute_error(truth, compared)
    # An estimate of another size deviates, although its path is not straight.
    resized = Trajectory(
        compared.stamps_ns, compared.positions / hand_eye.size, compared.quats_xyzw)
    whole = continuity(reference, estimate.shifted(hand_eye.offset_ns), truth)
    found = evaluation_findings(EvaluationFacts(
        fitting, reading, (*offset.warnings, *hand_eye.warnings), matched,
        _width(truth.positions), absolute_error(truth, resized).translation.rmse, whole,
        int(reference.stamps_ns[0])))
    return OdometryEvaluation(
        offset, hand_eye, ate, relative_error(truth, compared, rpe_seconds), matched, whole,
        tuple(found))


def _reading(
    reference: Trajectory, estimate: Trajectory, offset_ns: int, as_it_is: HandEye,
) -> tuple[str, HandEye]:
    """
    Find in which other way the numbers of an estimate fit; '' if it fits, or none does.

    Angular speeds are the same in all of these readings: they agree while the turns do not.

    :returns: the reading, and the transform of what fits.
    """
    if as_it_is.misfit < _MISFIT:
        return '', as_it_is
    quats = estimate.quats_xyzw
    back = estimate.rotations.inv()
    readings = {
        'its quaternions have w first (w x y z)': Trajectory(
            estimate.stamps_ns, estimate.positions, np.roll(quats, -1, axis=1)),
        'its attitudes are inverse (sensor to parent frame)': Trajectory(
            estimate.stamps_ns, estimate.positions, back.as_quat()),
        'its poses are inverse (the parent frame in the sensor)': Trajectory(
            estimate.stamps_ns, back.apply(-estimate.positions), back.as_quat())}
    fits: list[tuple[float, str, HandEye]] = []
    for text, changed in readings.items():
        hand_eye = estimate_hand_eye(reference, changed, offset_ns, refine_offset=False)
        if hand_eye.misfit < _BETTER * as_it_is.misfit:
            fits.append((relative_error(*associate(
                reference, changed.shifted(hand_eye.offset_ns),
                (hand_eye.rotation, hand_eye.translation)), 1.0).translation.median, text,
                hand_eye))
    return min(fits, key=lambda fit: fit[0])[1:] if fits else ('', as_it_is)


def _width(positions: Floats) -> float:
    """Return the root mean square distance (m) of positions from the line that fits them best."""
    singular = np.linalg.svd(positions - positions.mean(axis=0), compute_uv=False)
    return float(np.linalg.norm(singular[1:]) / np.sqrt(len(positions)))
