# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibration against an IMU: the closed form of the simulator, refusals, checks, conventions."""

from dataclasses import replace
import re

from calibration_kit import Case, holds, NAMES, simulate, to_ns
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.sim.imu import enu_pose, gravity_of, ImuModel, SimulatedImu
from optitrack_vrpn.sim.motion import Handheld, oriented
from optitrack_vrpn.takes.calibrate.data import ImuData, ImuNoise, Problem
from optitrack_vrpn.takes.calibrate.imu import calibrate_imu
from optitrack_vrpn.takes.calibrate.preintegration import ImuErrors, Samples
from optitrack_vrpn.takes.trajectory import Trajectory
import pytest
from scipy.spatial.transform import Rotation

pytestmark = pytest.mark.slow
SHORT = Case('short', seconds=25.0)


def calibrated(case, seed=0, change=lambda imu: imu):
    """Return the result as JSON has it, and the truth."""
    poses, imu, truth = simulate(case, seed)
    return calibrate_imu(poses, change(imu)).plain(), truth


def test_the_simulated_imu_measures_the_derivatives_of_the_poses():
    """Numerical derivatives of poses of the IMU, which its own formulas do not contain."""
    model = ImuModel(
        gyro_noise=0.0, accelerometer_noise=0.0, gyro_walk=0.0, accelerometer_walk=0.0,
        gyro_bias=(0.0,) * 3, accelerometer_bias=(0.0,) * 3, jitter_ms=0.0, stamp_delay_ms=3.0)
    motion, times, step = Handheld(seed=4), np.linspace(1.0, 5.0, 50), 1e-4
    stamps, gyro, force = SimulatedImu(motion, model).sample(times)

    def pose(at):
        places, matrices = enu_pose(motion.at(at))
        body = Rotation.from_matrix(matrices)
        return (places + body.apply(model.lever_arm),
                body * Rotation.from_rotvec(model.rotation))
    before, now, after = pose(times - step), pose(times), pose(times + step)
    np.testing.assert_allclose(stamps, times + 0.003, atol=1e-12)
    np.testing.assert_allclose(
        gyro, (before[1].inv() * after[1]).as_rotvec() / (2 * step), atol=1e-4)
    acceleration = (after[0] - 2 * now[0] + before[0]) / step**2
    np.testing.assert_allclose(
        force, now[1].inv().apply(acceleration - gravity_of(model)), atol=1e-4)


def test_preintegration_carries_a_pose_exactly():
    model = ImuModel(
        gyro_noise=0.0, accelerometer_noise=0.0, gyro_walk=0.0, accelerometer_walk=0.0,
        gyro_bias=(0.0,) * 3, accelerometer_bias=(0.0,) * 3, jitter_ms=0.0,
        rotation=(0.0,) * 3, lever_arm=(0.0,) * 3, tilt_deg=(0.0, 0.0))
    motion, times = Handheld(seed=1), np.arange(0.0, 4.0, 0.005)
    _, gyro, force = SimulatedImu(motion, model).sample(times)
    problem = Problem(0, times, np.zeros((1, 3, 3)), np.zeros((1, 3)), 0.0, 0.005, gyro, force,
                      np.zeros(len(times), dtype=bool), ImuNoise(1e-4, 1e-3))
    samples = Samples(problem, 0.5, 3.5, 10.0)
    found = samples.integrate(ImuErrors(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((3, 3)),
                                        np.zeros((3, 3)), 0.0))
    places, matrices = enu_pose(motion.at(samples.nodes))
    speeds = (enu_pose(motion.at(samples.nodes + 1e-5))[0]
              - enu_pose(motion.at(samples.nodes - 1e-5))[0]) / 2e-5
    time, down = samples.nodes[1] - samples.nodes[0], gravity_of(model)
    back = np.swapaxes(matrices[:-1], 1, 2)
    np.testing.assert_allclose(found.rotation[:, -1], back @ matrices[1:], atol=1e-7)
    moved = places[1:] - places[:-1] - speeds[:-1] * time - 0.5 * down * time**2
    np.testing.assert_allclose(
        found.position[:, -1], np.einsum('nij,nj->ni', back, moved), atol=1e-7)


@pytest.mark.parametrize('case', [
    SHORT, SHORT._replace(rate=240.0, correlated_s=0.05, outliers=0.01, errors=0.01,
                          accelerometer_delay_ms=3.0)])
def test_every_quantity_is_within_its_deviation(case):
    for seed in range(3):
        found, truth = calibrated(case, seed)
        assert found['refused'] == []
        assert holds(found, truth) == set(NAMES)
        assert found['latency_ms']['sd'] < 0.1 and max(found['lever_arm_m']['sd']) < 1e-3


@pytest.mark.parametrize('angles, reach, refused', [
    ((0, 0, 0), (0, 0, 0), set(NAMES)),
    ((0, 0, 0), (0.25, 0.2, 0.25), set(NAMES)),
    ((0, 35, 0), (0, 0, 0), {'rotation_xyzw', 'lever_arm_m', 'gravity'}),
    ((40, 0, 0), (0.5, 0, 0.5), {'rotation_xyzw', 'lever_arm_m'})])
def test_what_a_motion_does_not_determine_is_refused(angles, reach, refused):
    case = SHORT._replace(angles_deg=angles, reach=reach, fastest=0.6)
    for seed in range(2):
        found, truth = calibrated(case, seed)
        assert refused <= set(found['refused']) & set(found['reasons'])
        assert not refused & set(found)    # no number at all
        assert set(found['refused']) & set(NAMES) <= refused | {'gravity'}
        assert 'latency_ms' in holds(found, truth) or 'latency_ms' in refused


def test_outliers_of_attitudes_are_no_turns_about_a_second_axis():
    """A robot on wheels: the latency is found, and the rest is refused with what is missing."""
    case = SHORT._replace(angles_deg=(40, 0, 0), reach=(0.5, 0, 0.5), fastest=0.6, outliers=0.01,
                          correlated_s=0.05, errors=0.01, accelerometer_delay_ms=3.0)
    for seed in (0, 3):
        found, truth = calibrated(case, seed)
        assert holds(found, truth) >= {'latency_ms'}
        for name in ('rotation_xyzw', 'lever_arm_m'):
            assert 'turned about one axis only: roll and pitch it' in found['reasons'][name]


def test_outliers_of_positions_are_no_acceleration():
    """Without acceleration nothing tells how the IMU is turned about the only axis."""
    case = SHORT._replace(angles_deg=(20, 0, 0), reach=(0, 0, 0), outliers=0.01, errors=0.01)
    for seed in (3, 24):
        found, truth = calibrated(case, seed)
        holds(found, truth)
        assert 'turned about one axis only' in found['reasons']['gravity']
        assert found['record']['acceleration_m_s2'] < 0.3


@pytest.mark.parametrize('late_ms, said', [(0.1, False), (1.0, True)])
def test_stamps_of_an_imu_that_bend_are_noted(late_ms, said):
    def bend(imu):
        times = (imu.stamps_ns - imu.stamps_ns[0]) * 1e-9
        late = late_ms * 1e6 * np.sin(2.0 * np.pi * times / 25.0)
        return replace(imu, stamps_ns=imu.stamps_ns + np.round(late).astype(np.int64))
    found, _ = calibrated(SHORT, 1, bend)
    assert any('leave a straight line' in note for note in found['notes']) == said


@pytest.mark.parametrize('give', [0.0, 1e-3])
def test_markers_that_give_way_to_acceleration_are_on_a_soft_mount(give):
    poses, imu, _ = simulate(SHORT, 1)
    force = np.gradient(np.gradient(poses.positions, axis=0), axis=0) * SHORT.rate**2
    kept = np.ones(25) / 25.0    # without the noise of the poses
    force = np.stack([np.convolve(column, kept, 'same') for column in force.T], axis=1)
    found = calibrate_imu(replace(poses, positions=poses.positions + give * force), imu).plain()
    assert any('soft mount' in note for note in found['notes']) == (give > 0.0)


@pytest.mark.parametrize('reason, change', [
    ('degrees per second', lambda imu: replace(imu, gyro=np.degrees(imu.gyro))),
    ('in g', lambda imu: replace(imu, accelerometer=imu.accelerometer / 9.80665)),
    ('wrong sign', lambda imu: replace(imu, accelerometer=-imu.accelerometer)),
    ('left-handed', lambda imu: replace(imu, gyro=imu.gyro * (1, -1, 1))),
    ('repeat', lambda imu: replace(imu, gyro=np.repeat(imu.gyro[::2], 2, axis=0)[:len(imu.gyro)],
                                   accelerometer=np.repeat(imu.accelerometer[::2], 2, axis=0)[
                                       :len(imu.gyro)])),
    ('saturates', lambda imu: replace(imu, gyro=np.clip(imu.gyro, -2.5, 2.5))),
    ('Hz', lambda imu: replace(imu, stamps_ns=imu.stamps_ns[::8], gyro=imu.gyro[::8],
                               accelerometer=imu.accelerometer[::8])),
    ('do not match', lambda imu: replace(imu, gyro=np.roll(imu.gyro, 1500, axis=0)))])
def test_useless_samples_are_refused_with_their_reason(reason, change):
    found, _ = calibrated(SHORT, 1, change)
    assert set(found['refused']) >= set(NAMES)
    assert reason in found['reasons']['latency_ms']


def test_samples_that_are_stamped_in_bursts_are_refused():
    poses, imu, _ = simulate(SHORT, 0)
    at = np.arange(len(imu.stamps_ns))
    stamps = imu.stamps_ns[at // 10 * 10] + at % 10    # read from a queue, ten at a time
    with pytest.raises(ConfigurationError, match='in bursts'):
        calibrate_imu(poses, replace(imu, stamps_ns=stamps))


def test_drifting_clocks_refuse_the_latency_alone():
    found, truth = calibrated(SHORT._replace(skew_ppm=40.0))
    assert found['refused'] == ['latency_ms'] and 'drift' in found['reasons']['latency_ms']
    assert abs(found['clock_drift_ppm']['value'] + 40.0) < 4 * found['clock_drift_ppm']['sd']
    assert holds(found, truth) == set(NAMES) - {'latency_ms'}


@pytest.mark.parametrize('share', [0.3, 0.5])
def test_a_jump_of_the_stamps_within_a_take_refuses_all(share):
    poses, imu, _ = simulate(SHORT, 1)
    late = poses.stamps_ns + 2_000_000 * (np.arange(len(poses)) > share * len(poses))
    found = calibrate_imu(replace(poses, stamps_ns=late), imu).plain()
    assert set(NAMES) <= set(found['refused'])
    at_s = int(re.search(r'jump by .* (\d+) s after', found['reasons']['latency_ms'])[1])
    assert at_s == pytest.approx(25.0 * share, abs=1.5)


def test_lost_samples_are_bridged():
    def lose(imu):
        kept = np.ones(len(imu.gyro), dtype=bool)
        kept[np.random.default_rng(0).choice(len(kept), 60)] = False
        kept[1000:1040] = False
        return replace(imu, stamps_ns=imu.stamps_ns[kept], gyro=imu.gyro[kept],
                       accelerometer=imu.accelerometer[kept])
    found, truth = calibrated(SHORT, 2, lose)
    assert holds(found, truth) == set(NAMES)
    assert found['record']['lost_samples'] >= 90


def test_a_body_that_is_lost_half_of_the_time_is_calibrated_from_the_rest():
    poses, imu, truth = simulate(Case('half', seconds=40.0), 2)
    seen = (poses.stamps_ns - poses.stamps_ns[0]) * 1e-9 % 6.0 < 3.0
    found = calibrate_imu(poses.at(seen), imu).plain()
    assert holds(found, truth) == set(NAMES)


class Swing:
    """Turn back and forth about some axes at one frequency, 1 Hz, with phases."""

    def __init__(self, phases):
        self._phases = phases

    def at(self, time):
        """Return the state."""
        rate, zero = 2.0 * np.pi, np.zeros((len(time), 3))
        angles = [0.6 * np.sin(rate * time + phase) if phase is not None else 0.0 * time
                  for phase in self._phases]
        rates = [0.6 * rate * np.cos(rate * time + phase) if phase is not None else 0.0 * time
                 for phase in self._phases]
        return oriented(zero, zero, zero, *angles, *rates)


@pytest.mark.parametrize('phases, ambiguous', [
    ((0.0, None, None), True), ((0.0, 1.0, 2.2), False)])
def test_a_regular_swing_is_refused_unless_its_axes_tell_the_delay(phases, ambiguous):
    draws = np.random.default_rng(2)
    motion, late = Swing(phases), 0.03
    stamps, gyro, force = SimulatedImu(motion, ImuModel()).sample(np.arange(-0.3, 25.3, 0.005))
    times = np.arange(0.0, 25.0, 0.01)
    positions, matrices = enu_pose(motion.at(times))
    turns = Rotation.from_matrix(matrices) * Rotation.from_rotvec(
        draws.normal(0.0, 0.002, (len(times), 3)))
    poses = Trajectory(to_ns(times + late), positions + draws.normal(0.0, 3e-4, (len(times), 3)),
                       turns.as_quat())
    found = calibrate_imu(poses, ImuData(to_ns(stamps), gyro, force)).plain()
    assert ('latency_ms' in found['refused']) == ambiguous
    if ambiguous:
        assert 'repeats' in found['reasons']['latency_ms']
    else:
        assert abs(found['latency_ms']['value'] - 30.0) < 0.1
