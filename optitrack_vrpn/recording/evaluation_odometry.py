# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate any odometry against mocap in one call: offset, hand-eye transform, ATE and RPE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np
from optitrack_vrpn.recording.evaluation import (
    Absolute, absolute_error, associate, Relative, relative_error)
from optitrack_vrpn.recording.evaluation_calibration import (
    estimate_hand_eye, estimate_time_offset, HandEye, TimeOffset)
from optitrack_vrpn.recording.trajectory import Trajectory
from optitrack_vrpn.units import NS_PER_S
from scipy.spatial.transform import Rotation

#: Fraction of the estimate's poses with a reference below which a warning is given. Chosen.
#: Halved, large gaps pass; nearer to 1, usual occlusions are reported.
_ENOUGH_MATCHED = 0.9


@dataclass(frozen=True, eq=False)
class OdometryEvaluation:
    """
    Results of the evaluation of an odometry.

    :ivar offset: offset from the angular speeds; None if it was given.
    :ivar hand_eye: the transform from body to sensor; None if it was given.
    :ivar offset_ns: total time added to the estimate's stamps (ns).
    :ivar rotation: rotation of ``body_from_sensor`` as used.
    :ivar translation: translation of ``body_from_sensor`` as used (m).
    :ivar ate: absolute trajectory error.
    :ivar rpe: relative pose error.
    :ivar matched: fraction of the estimate's poses that were compared, 0 to 1.
    :ivar warnings: what the recorded motion does not determine, or what was not compared.
    """

    offset: Optional[TimeOffset]
    hand_eye: Optional[HandEye]
    offset_ns: int
    rotation: Rotation
    translation: np.ndarray[tuple[int], np.dtype[np.float64]]
    ate: Absolute
    rpe: Relative
    matched: float
    warnings: tuple[str, ...]


def evaluate_odometry(
    reference: Trajectory, estimate: Trajectory, *, offset_s: Optional[float] = None,
    body_from_sensor: Optional[tuple[Rotation, np.ndarray[tuple[int], np.dtype[np.float64]]]]
    = None, rpe_seconds: float = 1.0, max_offset_s: float = 2.0,
) -> OdometryEvaluation:
    """
    Compare an odometry with the mocap body that its sensor is fixed to.

    :param reference: ``world_from_body`` at a high rate.
    :param estimate: ``odom_from_sensor``.
    :param offset_s: time to add to the estimate's stamps (s); estimated by default.
    :param body_from_sensor: rotation and translation (m); estimated by default.
    :param rpe_seconds: time over which motions are compared (s).
    :param max_offset_s: largest offset of the search (s).
    :raises ConfigurationError: if the two do not overlap, or the motion is too short or does not
        determine the alignment.
    """
    warnings: list[str] = []
    offset = hand_eye = None
    offset_ns = round((offset_s or 0.0) * NS_PER_S)
    if offset_s is None:
        offset = estimate_time_offset(reference, estimate, max_offset_s)
        offset_ns = offset.offset_ns
        warnings += offset.warnings
    if body_from_sensor is None:
        reliable = offset is not None and not offset.warnings
        hand_eye = estimate_hand_eye(reference, estimate, offset_ns, refine_offset=reliable)
        offset_ns = hand_eye.offset_ns
        rotation, translation = hand_eye.rotation, hand_eye.translation
        warnings += hand_eye.warnings
    else:
        rotation, translation = body_from_sensor
    sensor = reference.of_child(rotation, np.asarray(translation, dtype=float))
    truth, compared = associate(sensor, estimate.shifted(offset_ns))
    matched = len(compared) / len(estimate)
    if matched < _ENOUGH_MATCHED:
        warnings.append(
            f'{100 * matched:.0f} % of the poses of the estimate were compared; the reference '
            'has gaps or does not cover the rest')
    return OdometryEvaluation(
        offset, hand_eye, offset_ns, rotation, np.asarray(translation, dtype=float),
        absolute_error(truth, compared),
        relative_error(truth, compared, seconds=rpe_seconds), matched, tuple(warnings))
