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
#: Sizes by which an estimate is in another unit, and their error; a size that has a finding: it
#: differs by this fraction and by so many standard deviations. Chosen.
_UNITS = {1000.0: 'millimetres', 100.0: 'centimetres', 0.001: 'kilometres'}
_UNIT_ERROR, _SIZE, _DEVIATIONS = 0.1, 0.01, 4.0
#: Median error of the turns, as a fraction of them, of an estimate that is read wrongly, and how
#: much smaller it is where the reading is right. Chosen: noise of 0.2 degrees gives 0.03.
_MISFIT, _BETTER = 0.25, 0.33
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
    reading, fitting = ('', hand_eye) if offset.warnings else _reading(
        reference, estimate, offset.offset_ns, hand_eye)
    found = _of_the_size(fitting)
    if reading:
        found.append(Finding('other reading', (), {'reading': reading}))
    found += [Finding('not determined', (), {'detail': text})
              for text in (*offset.warnings, *hand_eye.warnings) if not reading]
    truth, compared = associate(reference, estimate.shifted(hand_eye.offset_ns),
                                (hand_eye.rotation, hand_eye.translation))
    matched = len(compared) / len(estimate)
    if matched < _ENOUGH_MATCHED:
        found.append(Finding('not compared', (), {'percent': 100 * matched}))
    ate = absolute_error(truth, compared)
    width_m = _width(truth.positions)
    # An estimate of another size deviates, although its path is not straight.
    deviation_m = absolute_error(truth, Trajectory(
        compared.stamps_ns, compared.positions / hand_eye.size, compared.quats_xyzw),
        ).translation.rmse
    if deviation_m > _STRAIGHT * width_m and not reading:
        found.append(Finding('straight path', (), {
            'width': 1000 * width_m, 'error': 1000 * deviation_m}))
    whole = continuity(reference, estimate.shifted(hand_eye.offset_ns), truth)
    if whole.resets_ns and not reading:
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


def _of_the_size(hand_eye: HandEye) -> list[Finding]:
    """Compare the size of the estimate with that of the reference."""
    figures = {'size': hand_eye.size, 'deviation': hand_eye.size * hand_eye.size_std,
               'percent': 100 * (hand_eye.size - 1.0)}
    for factor, unit in _UNITS.items():
        if abs(hand_eye.size / factor - 1.0) < _UNIT_ERROR:
            return [Finding('other unit', (), {**figures, 'unit': unit})]
    off = abs(np.log(hand_eye.size))
    return [Finding('other size', (), figures)] if (
        off > _SIZE and off > _DEVIATIONS * hand_eye.size_std) else []


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
        if hand_eye.misfit < min(_MISFIT, _BETTER * as_it_is.misfit):
            fits.append((relative_error(*associate(
                reference, changed.shifted(hand_eye.offset_ns),
                (hand_eye.rotation, hand_eye.translation)), 1.0).translation.median, text,
                hand_eye))
    return min(fits, key=lambda fit: fit[0])[1:] if fits else ('', as_it_is)


def _span(reference: Trajectory, begin_ns: int, end_ns: int) -> Span:
    """Give a time as seconds from the begin of the reference."""
    first_ns = int(reference.stamps_ns[0])
    return Span((begin_ns - first_ns) / NS_PER_S, (end_ns - first_ns) / NS_PER_S)


def _width(positions: Floats) -> float:
    """Return the root mean square distance (m) of positions from the line that fits them best."""
    singular = np.linalg.svd(positions - positions.mean(axis=0), compute_uv=False)
    return float(np.linalg.norm(singular[1:]) / np.sqrt(len(positions)))
