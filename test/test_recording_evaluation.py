# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Alignment, ATE, RPE, time offset and hand-eye transform against closed forms and evo."""

import json
import os
import subprocess
import sys

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.evaluate.evaluation import (
    absolute_error, align, associate, pairs_apart, relative_error)
from optitrack_vrpn.takes.evaluate.evaluation_calibration import (
    estimate_hand_eye, estimate_time_offset)
from optitrack_vrpn.takes.evaluate.evaluation_odometry import evaluate_odometry
from optitrack_vrpn.takes.trajectory import interpolate, Trajectory
from optitrack_vrpn.takes.trajectory_text import format_tum, parse_trajectory
import pytest
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

BEGIN_NS = 1_790_000_000_123_456_789
#: What the tests put between body and camera, and between the clocks.
CAMERA = Rotation.from_euler('xyz', (20, -100, 35), degrees=True)
CAMERA_M = np.array((0.08, -0.05, 0.12))
WORLD = Rotation.from_euler('xyz', (1, 2, 130), degrees=True)
WORLD_M = np.array((3.0, -1.0, 0.5))
OFFSET_S = 0.0371


def motion(times, seed, axes=(1, 1, 1, 1, 1, 1)):
    """Move smoothly: sums of sines; ``axes`` switches x, y, z, roll, pitch and yaw on."""
    rng = np.random.default_rng(seed)
    frequency, phase = rng.uniform(0.1, 0.7, (2, 6, 3)) * [[[1.0]], [[9.0]]]
    amplitude = np.array((0.4, 0.4, 0.2, 0.5, 0.5, 0.8)) * axes / 1.5
    parts = [amplitude[i] * np.sin(
        2 * np.pi * frequency[i][:, None] * times + phase[i][:, None]).sum(axis=0)
        for i in range(6)]
    return np.stack(parts[:3], axis=1), Rotation.from_euler('zyx', np.stack(parts[:2:-1], axis=1))


def stamps(times):
    return BEGIN_NS + np.round(times * 1e9).astype(np.int64)


def recording(
        seed, duration_s=57.0, noise=1.0, drift_m=0.0, axes=(1, 1, 1, 1, 1, 1), rate_hz=30,
        pace=lambda times: times):
    """
    Make 240 Hz mocap (0.3 mm, 0.05 deg) and a 30 Hz odometry (3 mm, 0.2 deg) of one motion.

    :param noise: factor on both.
    :param drift_m: random walk of the odometry per pose (m).
    :param pace: maps times to those of the motion.
    """
    rng = np.random.default_rng(seed + 1000)

    def noisy(positions, rotations, sigma_m, sigma_deg):
        return (positions + noise * rng.normal(0, sigma_m, positions.shape),
                rotations * Rotation.from_rotvec(
                    noise * rng.normal(0, np.radians(sigma_deg), positions.shape)))

    times = np.arange(0.0, duration_s, 1 / 240)
    positions, rotations = noisy(*motion(pace(times), seed, axes), 0.0003, 0.05)
    reference = Trajectory(stamps(times), positions, rotations.as_quat())
    times = np.arange(1.0, duration_s - 1.0, 1 / rate_hz)
    positions, rotations = motion(pace(times), seed, axes)
    positions = WORLD.apply(positions + rotations.apply(CAMERA_M)) + WORLD_M
    positions = positions + np.cumsum(rng.normal(0, drift_m, positions.shape), axis=0)
    positions, rotations = noisy(positions, WORLD * rotations * CAMERA, 0.003, 0.2)
    return reference, Trajectory(stamps(times - OFFSET_S), positions, rotations.as_quat())


def degrees_between(first, second):
    return np.degrees((first.inv() * second).magnitude())


# -- trajectories ---------------------------------------------------------------------------------


def test_interpolation_bridges_no_gap_and_never_extrapolates():
    reference, _ = recording(1, duration_s=1.0)
    kept = np.ones(len(reference), dtype=bool)
    kept[100:110] = False
    gappy = reference.at(kept)
    middle = (reference.stamps_ns[:-1] + reference.stamps_ns[1:]) // 2
    positions, _, valid = interpolate(gappy, middle, breaks_ns=reference.stamps_ns[50:51])
    assert list(np.flatnonzero(~valid)) == [49, *range(99, 110)]
    assert np.isnan(positions[~valid]).all()
    outside = np.array([reference.stamps_ns[0] - 1, reference.stamps_ns[-1] + 1])
    assert not interpolate(reference, outside)[2].any()


@pytest.mark.parametrize('change, said', [
    (lambda s, p, q: (s[::-1], p, q), 'must rise'),
    (lambda s, p, q: (s[1:], p, q), 'as many stamps'),
    (lambda s, p, q: (s, p * np.nan, q), 'not finite'),
    (lambda s, p, q: (s, p, q * 0), 'zero quaternion'),
])
def test_a_trajectory_refuses_what_is_none(change, said):
    reference, _ = recording(1, duration_s=0.1)
    with pytest.raises(ConfigurationError, match=said):
        Trajectory(*change(reference.stamps_ns, reference.positions, reference.quats_xyzw))


def test_tum_text_keeps_every_bit():
    reference, _ = recording(3, duration_s=0.5)
    again = parse_trajectory(format_tum(reference), 'x')
    np.testing.assert_array_equal(again.stamps_ns, reference.stamps_ns)
    np.testing.assert_array_equal(again.positions, reference.positions)
    np.testing.assert_allclose(again.quats_xyzw, reference.quats_xyzw, rtol=0, atol=3e-16)


# -- alignment and errors -------------------------------------------------------------------------

@pytest.mark.parametrize('points', [
    np.zeros((5, 3)), np.outer(np.arange(5.0), (1, 2, 3)), np.eye(3)[:2]])
def test_an_alignment_of_undetermined_points_is_refused(points):
    with pytest.raises(ConfigurationError, match='one line|three or more'):
        align(points, points)


def test_errors_of_a_known_disturbance_are_that_disturbance():
    """A helix; one estimate leaves by 1 cm/s along x, another turns by 1 deg/s about z."""
    times = np.arange(0.0, 20.0, 0.05)
    positions = np.stack((np.cos(times), np.sin(times), 0.1 * times), axis=1)
    still = np.tile((0.0, 0.0, 0.0, 1.0), (len(times), 1))
    reference = Trajectory(stamps(times), positions, still)
    drifting = Trajectory(stamps(times), positions + np.outer(times, (0.01, 0, 0)), still)
    error = relative_error(reference, drifting, seconds=1.0)
    assert error.translation.rmse == pytest.approx(0.01, rel=1e-9)
    assert error.translation.samples == len(times) - 20
    turning = Trajectory(stamps(times), positions, Rotation.from_rotvec(
        np.outer(np.radians(times), (0, 0, 1))).as_quat())
    assert relative_error(reference, turning, 1.0).rotation_deg.rmse == pytest.approx(
        1.0, rel=1e-9)


def test_association_says_when_clocks_have_nothing_in_common():
    reference, estimate = recording(1, duration_s=3.0)
    with pytest.raises(ConfigurationError, match='same clock'):
        associate(reference, estimate.shifted(3600 * NS_PER_S))


def test_pairs_a_second_apart_leave_gaps_out():
    times = np.concatenate((np.arange(0, 2, 0.1), np.arange(5, 7, 0.1)))
    first, second = pairs_apart(stamps(times), 1.0)
    np.testing.assert_allclose(times[second] - times[first], 1.0, atol=1e-9)
    assert len(first) == 20


# -- evo ------------------------------------------------------------------------------------------

EVO = """
import json, sys
from evo.core import metrics, sync
from evo.tools import file_interface as files
reference, estimate = map(files.read_tum_trajectory_file, sys.argv[1:3])
reference, estimate = sync.associate_trajectories(reference, estimate, max_diff=0.01)
found = {'pairs': estimate.num_poses}
for name, relation in (('t', metrics.PoseRelation.translation_part),
                       ('r', metrics.PoseRelation.rotation_angle_deg)):
    error = metrics.RPE(relation, 30, metrics.Unit.frames, all_pairs=True)
    error.process_data((reference, estimate))
    found['rpe_' + name] = error.get_all_statistics()
estimate.align(reference, correct_scale=False)
for name, relation in (('t', metrics.PoseRelation.translation_part),
                       ('r', metrics.PoseRelation.rotation_angle_deg)):
    error = metrics.APE(relation)
    error.process_data((reference, estimate))
    found[f'ape_{name}'] = error.get_all_statistics()
print(json.dumps(found))
"""


def python_with_evo():
    """Find an interpreter that has evo (GPL, so never in this one): EVO_PYTHON, or this."""
    for python in filter(None, (os.environ.get('EVO_PYTHON'), sys.executable)):
        if not subprocess.run([python, '-c', 'import evo'], capture_output=True).returncode:
            return python
    pytest.skip('evo is not installed; name an interpreter that has it in EVO_PYTHON')


@pytest.mark.slow
def test_ate_and_rpe_equal_evos(tmp_path):
    python = python_with_evo()
    reference, estimate = recording(5, duration_s=20.0, drift_m=0.002)
    truth, matched = associate(reference, estimate)
    for name, trajectory in (('reference', truth), ('estimate', matched)):
        (tmp_path / name).write_text(''.join(format_tum(trajectory)))
    run = subprocess.run([python, '-c', EVO, tmp_path / 'reference', tmp_path / 'estimate'],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    evo = json.loads(run.stdout.splitlines()[-1])
    assert len(matched) == evo['pairs']
    rpe = relative_error(truth, matched, 1.0)    # 30 frames
    compared = [(rpe.translation, evo['rpe_t']), (rpe.rotation_deg, evo['rpe_r'])]
    ate = absolute_error(truth, matched)
    compared += [(ate.translation, evo['ape_t']), (ate.rotation_deg, evo['ape_r'])]
    for ours, theirs in compared:
        for name in ('rmse', 'mean', 'median', 'std', 'min', 'max'):
            assert getattr(ours, name) == pytest.approx(theirs[name], rel=1e-6, abs=1e-6), name


# -- time offset and hand-eye transform -----------------------------------------------------------

def check_calibration(found, offset_ns, degrees, metres, place=CAMERA_M):
    """Check time offset and hand-eye transform against those of the recording."""
    assert found.offset_ns == pytest.approx(OFFSET_S * NS_PER_S, abs=offset_ns)
    assert degrees_between(found.rotation, CAMERA) < degrees
    np.testing.assert_allclose(found.translation, place, atol=metres)


def test_offset_and_hand_eye_are_found_through_noise():
    reference, estimate = recording(1)
    found = evaluate_odometry(reference, estimate)
    assert found.findings == ()
    assert found.continuity.coverage > 0.95 and found.continuity.resets_ns == []
    check_calibration(found.hand_eye, 1e6, 0.1, 0.001)
    # What is left is the noise: 3 mm an axis; in a motion that of both ends, and 0.2 degrees of
    # attitude on some 0.8 m of way.
    assert found.ate.translation.rmse == pytest.approx(0.003 * np.sqrt(3), rel=0.05)
    assert 0.003 * np.sqrt(6) < found.rpe.translation.rmse < 0.009
    assert found.matched == 1.0


@pytest.mark.parametrize('made, within', [
    ({'seed': 4, 'drift_m': 0.001}, (1e6, 0.1, 0.002)),
    ({'seed': 6, 'duration_s': 15.0, 'noise': 0.0}, (2e4, 1e-3, 1e-4))], ids=['drift', 'exact'])
def test_offset_and_hand_eye_are_not_affected_by_drift(made, within):
    check_calibration(evaluate_odometry(*recording(**made)).hand_eye, *within)


@pytest.mark.parametrize('degrees, metres', [(20.0, 0.3), (90.0, 1.0), (0.0, 100.0)])
def test_an_interruption_of_the_odometry_changes_no_transform(degrees, metres):
    """After it the odometry goes on from another pose, as after a bump of the camera."""
    reference, estimate = recording(2, duration_s=28.0)
    turn = Rotation.from_euler('z', degrees, degrees=True)
    later = estimate.stamps_ns > estimate.stamps_ns[len(estimate) // 3]
    positions, rotations = estimate.positions.copy(), estimate.rotations
    positions[later] = turn.apply(positions[later]) + (metres, 0.0, 0.5 * metres)
    quats = np.where(later[:, None], (turn * rotations).as_quat(), rotations.as_quat())
    found = evaluate_odometry(reference, Trajectory(estimate.stamps_ns, positions, quats))
    check_calibration(found.hand_eye, 1e6, 0.1, 0.001)
    np.testing.assert_array_equal(found.continuity.resets_ns, [
        estimate.stamps_ns[len(estimate) // 3 + 1] + found.hand_eye.offset_ns])
    # A jump says nothing about the size, nor about the path.
    assert [one.code for one in found.findings] == ['estimate displaced']
    assert len(found.findings[0].spans) == 1


def resting(times):
    """Move from 6 s to 14 s, and begin and end that within 0.2 s."""
    grid = np.arange(0.0, 30.0, 0.01)
    speed = np.convolve((grid > 6.0) & (grid < 14.0), np.full(20, 0.05), 'same')
    return np.interp(times, grid, np.cumsum(speed) * 0.01)


@pytest.mark.parametrize('rate_hz', (10, 20))
@pytest.mark.parametrize('rest_ms', (30, 0))
def test_rest_hides_no_motion(rate_hz, rest_ms):
    """The noise of rest is no measure of what is a jump, least of all before the offset is."""
    for seed in range(8):
        reference, estimate = recording(
            seed, 22.0, noise=0.3, rate_hz=rate_hz, pace=resting)
        found = estimate_hand_eye(
            reference, estimate, round((OFFSET_S - rest_ms * 1e-3) * NS_PER_S))
        check_calibration(found, 3e5, 0.1, 0.001)


def slow_and_fast(times):
    """Move slowly, except for 4 s."""
    grid = np.arange(0.0, 30.0, 0.01)
    speed = np.where((grid > 8.0) & (grid < 12.0), 1.0, 0.12)
    speed = np.convolve(speed, np.full(20, 0.05), 'same')
    return np.interp(times, grid, np.cumsum(speed) * 0.01)


def test_fast_motions_are_used_although_they_contradict_the_first_offset():
    for seed in range(5):
        reference, estimate = recording(seed, 22.0, noise=0.3, rate_hz=10, pace=slow_and_fast)
        found = estimate_hand_eye(reference, estimate, round((OFFSET_S - 0.03) * NS_PER_S))
        check_calibration(found, 2e5, 0.1, 0.001)


def test_deviations_hold_for_errors_that_last_for_seconds():
    """Errors of attitude turn the result, and are small in each motion of half a second."""
    errors, times = [], np.arange(1.0, 39.0, 1 / 30)
    decay = np.exp(-1 / 30 / 3.0)
    for seed in range(10):
        reference, estimate = recording(seed, duration_s=40.0, noise=0.3)
        noise = np.random.default_rng(seed).normal(size=(2, len(times), 3))
        slow = lfilter([np.sqrt(1.0 - decay ** 2)], [1.0, -decay], noise, axis=1)
        turned = estimate.rotations * Rotation.from_rotvec(np.radians(0.3) * slow[0])
        found = estimate_hand_eye(reference, Trajectory(
            estimate.stamps_ns, estimate.positions + 0.005 * slow[1], turned.as_quat()),
            round(OFFSET_S * NS_PER_S))
        errors.append((
            degrees_between(found.rotation, CAMERA) / np.sqrt(3.0) / found.rotation_std_deg,
            np.linalg.norm(found.translation - CAMERA_M) / np.sqrt(3.0) / found.translation_std_m))
    assert (np.sqrt(np.mean(np.square(errors), axis=0)) < 1.5).all()


@pytest.mark.parametrize('kept, coverage', [(0.3, (0.1, 0.45)), (0.7, (0.6, 0.9))])
def test_lost_frames_decide_the_verdict(kept, coverage):
    """The errors of what is left are as small as those of all frames."""
    reference, estimate = recording(3, duration_s=28.0)
    chosen = np.random.default_rng(1).random(len(estimate)) < kept
    found = evaluate_odometry(reference, estimate.at(chosen))
    assert found.ate.translation.rmse < 0.006
    assert coverage[0] < found.continuity.coverage < coverage[1]
    assert [one.code for one in found.findings if 'lacks' in one.code] == [
        f'estimate lacks {"most" if kept < 0.5 else "part"}']
    assert len(found.continuity.gaps_ns) > 10 and found.continuity.resets_ns == []


@pytest.mark.parametrize('noise', (1.0, 0.0))
def test_motion_in_a_plane_leaves_the_height_open(noise):
    reference, estimate = recording(7, axes=(1, 1, 0, 0, 0, 1), noise=noise)
    found = evaluate_odometry(reference, estimate)
    assert any('does not determine' in one.text and '1.00]' in one.text for one in found.findings)
    check_calibration(found.hand_eye, 1e6, 0.2, 0.002, (*CAMERA_M[:2], 0.0))


def test_motion_without_turns_determines_no_transform():
    reference, estimate = recording(8, axes=(1, 1, 1, 0, 0, 0), duration_s=15.0)
    offset = estimate_time_offset(reference, estimate)
    assert 'uncertain' in offset.warnings[0]
    hand_eye = estimate_hand_eye(
        reference, estimate, round(OFFSET_S * NS_PER_S), refine_offset=False)
    assert 'does not determine' in hand_eye.warnings[0]


def test_a_straight_path_leaves_the_attitude_of_the_ate_open():
    """Noise of both across the path would determine the rotation about it."""
    reference, estimate = recording(8, axes=(1, 0, 0, 1, 1, 1), duration_s=15.0)
    sensor_on_line = estimate.of_child(CAMERA.inv(), CAMERA.inv().apply(-CAMERA_M))
    found = evaluate_odometry(reference, sensor_on_line)
    assert 'straight path' in [one.code for one in found.findings]
    assert found.ate.rotation_deg.rmse > 5.0 and found.rpe.rotation_deg.rmse < 0.6


def test_other_motion_is_no_match():
    reference, _ = recording(9, duration_s=15.0)
    _, estimate = recording(10, duration_s=15.0)
    offset = estimate_time_offset(reference, estimate)
    assert offset.offset_ns == 0 and 'uncertain' in offset.warnings[0]


def test_gaps_of_the_reference_are_left_out_and_reported():
    reference, estimate = recording(11, duration_s=30.0)
    seconds = (reference.stamps_ns - BEGIN_NS) / NS_PER_S
    gappy = reference.at((seconds < 8.0) | (seconds > 16.0))
    found = evaluate_odometry(gappy, estimate)
    assert np.linalg.norm(found.hand_eye.translation - CAMERA_M) < 0.002
    assert 'not compared' in [one.code for one in found.findings]
    compared = (found.ate.stamps_ns - BEGIN_NS) / NS_PER_S
    assert not ((compared > 8.01) & (compared < 15.99)).any()
