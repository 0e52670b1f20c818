# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The size of an odometry, and files whose numbers are read in another way than meant."""

import numpy as np
from optitrack_vrpn.takes.evaluate.evaluation_odometry import evaluate_odometry
from optitrack_vrpn.takes.trajectory import Trajectory
import pytest
from scipy.spatial.transform import Rotation
from test_recording_evaluation import check_calibration, OFFSET_S, recording


def keys(found):
    return [one.code for one in found.findings]


def changed(estimate, positions=None, quats=None):
    return Trajectory(estimate.stamps_ns,
                      estimate.positions if positions is None else positions,
                      estimate.quats_xyzw if quats is None else quats)


@pytest.mark.parametrize('size, expected', [
    (1.0, []), (1.006, []), (1.02, ['other size']), (0.7, ['other size']),
    (1000.0, ['other unit'])])
def test_the_size_of_an_odometry_is_estimated_with_its_deviation(size, expected):
    """Another size changes neither time offset nor hand-eye transform."""
    reference, estimate = recording(1, duration_s=20.0)
    found = evaluate_odometry(reference, changed(estimate, size * estimate.positions))
    assert keys(found) == expected
    deviation = found.hand_eye.size_std
    assert deviation < 0.002
    assert abs(found.hand_eye.size / size - 1.0) < 4.0 * deviation
    check_calibration(found.hand_eye, 1e6, 0.15, 0.002)


def test_size_and_offset_hold_within_their_deviations_in_different_motions():
    errors = []
    for seed in range(8):
        reference, estimate = recording(100 + seed, duration_s=15.0)
        hand_eye = evaluate_odometry(reference, estimate).hand_eye
        assert hand_eye.offset_std_s < 1e-3
        errors.append((np.log(hand_eye.size) / hand_eye.size_std,
                       (hand_eye.offset_ns * 1e-9 - OFFSET_S) / hand_eye.offset_std_s))
    errors = np.abs(errors)
    assert (np.mean(errors < 2.0, axis=0) >= 0.8).all() and errors.max() < 4.0
    assert (errors > 0.05).mean() > 0.5, 'the deviations are not far larger than the errors'


@pytest.mark.parametrize('jumps, size, unit', [
    ((30.0, -200.0, 5.0), 1.0, []), ((3000.0,), 1000.0, ['other unit'])])
def test_jumps_of_an_odometry_say_nothing_about_its_size(jumps, size, unit):
    """They are by far its largest motions, in whatever unit."""
    reference, estimate = recording(0, duration_s=15.0)
    positions = size * estimate.positions
    for number, jump in enumerate(jumps, 1):
        positions[len(positions) * number // (len(jumps) + 1):] += jump
    found = evaluate_odometry(reference, changed(estimate, positions))
    assert abs(found.hand_eye.size / size - 1.0) < 4.0 * found.hand_eye.size_std < 0.02
    assert [key for key in keys(found) if key.startswith('other')] == unit


def test_a_body_that_only_turns_determines_no_size():
    """The position of the camera on the body and the size are one unknown then."""
    reference, estimate = recording(5, duration_s=20.0, axes=(0, 0, 0, 1, 1, 1))
    found = evaluate_odometry(reference, changed(estimate, 1.3 * estimate.positions))
    assert 'other size' not in keys(found) or found.hand_eye.size_std > 0.02


READINGS = {
    'w first': (lambda e: changed(e, quats=np.roll(e.quats_xyzw, 1, axis=1)),
                'its quaternions have w first'),
    'conjugated': (lambda e: changed(e, quats=e.rotations.inv().as_quat()),
                   'its attitudes are inverse'),
    'inverse': (lambda e: changed(e, e.rotations.inv().apply(-e.positions),
                                  e.rotations.inv().as_quat()), 'its poses are inverse'),
    'w first, in millimetres': (lambda e: changed(
        e, 1000.0 * e.positions, np.roll(e.quats_xyzw, 1, axis=1)),
        'its quaternions have w first')}


@pytest.mark.parametrize('axes', [(1, 1, 1, 1, 1, 1), (1, 1, 1, 0.08, 0.08, 1)])
@pytest.mark.parametrize('name', READINGS)
def test_a_file_that_is_read_wrongly_says_how_it_fits(name, axes):
    """Also where a body turns about nearly one axis, as a drone does."""
    change, said = READINGS[name]
    reference, estimate = recording(1, duration_s=22.0, axes=axes)
    found = evaluate_odometry(reference, change(estimate))
    assert found.offset.correlation > 0.9    # angular speeds are those of the right reading
    # the size is that of the reading that fits
    assert sorted(keys(found)) == ['other reading', *(['other unit'] if 'milli' in name else [])]
    (text,) = [one.text for one in found.findings if one.code == 'other reading']
    assert said in text


@pytest.mark.parametrize('axes', [(1, 1, 1, 1, 1, 1), (1, 1, 0, 0, 0, 1), (1, 0, 0, 1, 1, 1)])
def test_no_other_reading_is_claimed_for_a_noisy_file_that_is_right(axes):
    reference, estimate = recording(2, duration_s=15.0, axes=axes, noise=4.0)
    assert 'other reading' not in keys(evaluate_odometry(reference, estimate))


def test_an_odometry_that_fits_in_no_way_has_no_other_reading():
    reference, estimate = recording(1, duration_s=20.0)
    wrong = Rotation.random(len(estimate), random_state=1)
    found = evaluate_odometry(reference, changed(estimate, quats=wrong.as_quat()))
    assert 'other reading' not in keys(found)
