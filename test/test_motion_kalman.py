# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Velocities agree with the truth, with independent filters, and with their covariance."""

from dataclasses import replace
import math

from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.stream.motion.gains import Gains
from optitrack_vrpn.stream.motion.kalman import diagonal, FilteredMotion
from optitrack_vrpn.stream.motion.settings import MotionConfig
import pytest
from scipy import linalg, stats
from scipy.spatial.transform import Rotation

FIXED = MotionConfig(adaptive=False)
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def model(dt, wander):
    """Give F and Q as the textbook has them."""
    f = np.array([[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]])
    q = wander**2 * np.array([
        [dt**5 / 20, dt**4 / 8, dt**3 / 6],
        [dt**4 / 8, dt**3 / 3, dt**2 / 2],
        [dt**3 / 6, dt**2 / 2, dt]])
    return f, q


def covariance(gains):
    return np.array([[gains.pp, gains.pv, gains.pa], [gains.pv, gains.vv, gains.va],
                     [gains.pa, gains.va, gains.aa]])


@given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=40), st.floats(1e-4, 1e-2),
       st.floats(0.1, 300.0))
def test_gains_are_those_of_the_matrix_filter(intervals, noise, wander):
    gains = Gains(noise, wander)
    gains.begin(5.0, 30.0)
    p = np.diag([noise**2, 25.0, 900.0])
    h = np.array([1.0, 0.0, 0.0])
    for dt in intervals:
        f, q = model(dt, wander)
        p = f @ p @ f.T + q
        k = p @ h / (p[0, 0] + noise**2)
        a = np.eye(3) - np.outer(k, h)
        p = a @ p @ a.T + noise**2 * np.outer(k, k)
        gains.step(dt)
    # Gains that have settled are used on for intervals within a hundredth of theirs.
    assert (gains.k1, gains.k2, gains.k3) == pytest.approx(tuple(k), rel=0.03)
    assert np.allclose(covariance(gains), p, rtol=0.06, atol=1e-12)


@pytest.mark.parametrize('rate', [30.0, 100.0, 240.0])
def test_settled_gains_solve_the_riccati_equation(rate):
    gains = Gains(0.0003, 10.0)
    gains.begin(5.0, 30.0)
    for _ in range(1000):
        gains.step(1 / rate)
    f, q = model(1 / rate, 10.0)
    h = np.array([[1.0], [0.0], [0.0]])
    p = linalg.solve_discrete_are(f.T, h, q, [[0.0003**2]])
    k = (p @ h / (p[0, 0] + 0.0003**2)).ravel()
    assert (gains.k1, gains.k2, gains.k3) == pytest.approx(tuple(k), rel=5e-3)
    assert 0.999 * gains.vv < gains.steady_rate_variance(1 / rate) < 2.5 * gains.vv


def in_bounds(total, freedom):
    low, high = stats.chi2.interval(0.95, freedom)
    return low < total < high


@pytest.mark.parametrize('rate', [100.0, 240.0])
def test_position_velocity_and_acceleration_are_consistent(rate):
    """Normalised errors squared, of the model's own process, lie within their 95 % bounds."""
    draw = np.random.default_rng(5)
    f, q = model(1 / rate, FIXED.process_noise)
    root = np.linalg.cholesky(q)
    total = {'first frames': 0.0, 'settled': 0.0}
    runs = 100
    for _ in range(runs):
        motion = FilteredMotion(FIXED)
        x = np.zeros((3, 3))
        x[1] = draw.normal(0, 5.0, 3)
        x[2] = draw.normal(0, 30.0, 3)
        for k in range(60):
            measured = x[0] + draw.normal(0, FIXED.position_noise, 3)
            motion.update(round(k * 1e9 / rate), tuple(measured.tolist()), UPRIGHT)
            if k in (4, 59):
                error = np.array([motion.position, motion.velocity, motion.acceleration]) - x
                value = np.sum(error * np.linalg.solve(covariance(motion.linear), error))
                total['settled' if k == 59 else 'first frames'] += value
            x = f @ x + root @ draw.normal(0, 1, (3, 3))
    for value in total.values():
        assert in_bounds(value, runs * 9)


def test_attitude_and_rate_are_consistent():
    """The same for attitude error, rate and angular acceleration in world axes."""
    rate, fine = 240.0, 3
    draw = np.random.default_rng(11)
    dt = 1 / rate / fine
    total = 0.0
    runs = 60
    for _ in range(runs):
        motion = FilteredMotion(FIXED)
        attitude = Rotation.from_rotvec(draw.normal(0, 1, 3))
        omega = draw.normal(0, 2.0, 3)
        alpha = draw.normal(0, 10.0, 3)
        for k in range(60):
            noise = Rotation.from_rotvec(draw.normal(0, FIXED.attitude_noise, 3))
            motion.update(round(k * 1e9 / rate), (0.0, 0.0, 0.0),
                          tuple((noise * attitude).as_quat().tolist()))
            if k == 59:
                break
            for _ in range(fine):
                step = draw.normal(0, FIXED.angular_process_noise * math.sqrt(dt), 3)
                middle = omega + 0.5 * alpha * dt
                attitude = Rotation.from_rotvec(middle * dt) * attitude
                omega = omega + (alpha + 0.5 * step) * dt
                alpha = alpha + step
        error = np.array([
            (Rotation.from_quat(motion.quat) * attitude.inv()).as_rotvec(),
            np.subtract(motion.angular_velocity, omega),
            np.subtract(motion.angular_acceleration, alpha)])
        total += np.sum(error * np.linalg.solve(covariance(motion.angular), error))
    assert in_bounds(total, runs * 9)


@pytest.mark.parametrize('rate', [100.0, 240.0])
@pytest.mark.parametrize('noise', [1e-4, 1e-3])
@pytest.mark.parametrize('speed', [0.5, 1.8, 5.0])
def test_learned_wander_keeps_the_covariance_honest_on_smooth_trajectories(rate, noise, speed):
    """
    Errors of position and velocity are neither larger than said nor far smaller.

    A sine is not the model's process: the sum over a path is compared, not its distribution.
    """
    draw = np.random.default_rng(1)
    motion = FilteredMotion(MotionConfig(position_noise=noise))
    total = count = 0
    for k in range(round(12 * rate)):
        t = k / rate
        position = np.array([math.sin(speed * t), math.cos(speed * t), 0.3 * math.sin(t)])
        velocity = np.array(
            [speed * math.cos(speed * t), -speed * math.sin(speed * t), 0.3 * math.cos(t)])
        measured = position + draw.normal(0, noise, 3)
        motion.update(round(t * 1e9), tuple(measured.tolist()), UPRIGHT)
        if t > 4:
            error = np.array([motion.position - position, motion.velocity - velocity])
            total += np.sum(
                error * np.linalg.solve(covariance(motion.linear)[:2, :2], error)) / 6
            count += 1
    assert 0.5 < total / count < 1.25


def test_a_resting_body_that_is_grabbed_is_followed_within_frames():
    draw = np.random.default_rng(4)
    motion = FilteredMotion()
    late = []
    for k in range(1000):
        t = k / 240
        u = max(0.0, t - 3.0)
        measured = np.array([10.0 * u * u, 0, 0]) + draw.normal(0, 3e-4, 3)
        motion.update(round(t * 1e9), tuple(measured.tolist()), UPRIGHT)
        if u > 0:
            late.append(20.0 * u - motion.velocity[0])
    assert max(abs(v) for v in late) < 0.5
    assert max(abs(v) for v in late[12:]) < 0.15


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3), st.integers(0, 1000))
def test_a_steady_spin_is_found_whatever_signs_are_sent(rate, seed):
    draw = np.random.default_rng(seed)
    motion = FilteredMotion()
    start = Rotation.from_rotvec(draw.normal(0, 1, 3))
    for k in range(120):
        truth = Rotation.from_rotvec(np.array(rate) * k / 240) * start
        quat = truth.as_quat() * draw.choice([-1.0, 1.0])
        motion.update(round(k * 1e9 / 240), (0.0, 0.0, 0.0), tuple(quat.tolist()))
    assert motion.valid
    assert motion.angular_velocity == pytest.approx(rate, abs=1e-2)
    assert (Rotation.from_quat(motion.quat) * truth.inv()).magnitude() < 1e-4
    body = truth.inv().apply(rate)
    assert motion.body_angular_velocity() == pytest.approx(body, abs=1e-2)


def run_line(motion, frames, draw, rate=240.0):
    for k in frames:
        t = k / rate
        noise = draw.normal(0, 3e-4, 3)
        yield t, motion.update(
            round(t * 1e9),
            (1.5 * t + noise[0], math.sin(t) + noise[1], 1.0 + noise[2]), UPRIGHT)


@pytest.mark.parametrize('missing', [1, 5, 20, 50, 200, 2000])
def test_no_spike_after_a_gap(missing):
    """Short gaps keep the estimate, long ones begin it again; what is valid is near the truth."""
    motion = FilteredMotion()
    draw = np.random.default_rng(missing)
    for _ in run_line(motion, range(480), draw):
        pass
    resets = 0
    for t, valid in run_line(motion, range(480 + missing, 600 + missing), draw):
        if valid:
            error = np.subtract(motion.velocity, (1.5, math.cos(t), 0.0))
            assert np.all(np.abs(error) < 5 * math.sqrt(motion.linear.vv) + 0.02)
            assert np.all(np.abs(error) < 0.25)
        else:
            assert missing / 240 > 0.24
        resets += motion.linear.aa == 30.0 ** 2    # the initial variance
    assert motion.valid
    assert resets == (1 if missing / 240 > 0.24 else 0)


def test_equal_and_older_stamps_are_left_out():
    motion = FilteredMotion()
    for k in range(100):
        motion.update(k * 5_000_000, (0.005 * k, 0.0, 0.0), UPRIGHT)
    before = motion.position, motion.velocity, motion.quat, motion.stamp_ns
    motion.update(99 * 5_000_000, (7.0, 0.0, 0.0), UPRIGHT)
    motion.update(98 * 5_000_000, (7.0, 0.0, 0.0), UPRIGHT)
    assert before == (motion.position, motion.velocity, motion.quat, motion.stamp_ns)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([1, 1000, 250_000, 10**6, 4 * 10**6, 240 * 10**6]),
                          st.floats(0.0, 20.0)), min_size=3, max_size=60),
       st.sampled_from([1e-5, 3e-4, 1e-2]))
def test_no_intervals_end_the_arithmetic(poses, noise):
    """The poses of a coarse clock that arrive at once have stamps 1 ns apart."""
    motion = FilteredMotion(MotionConfig(position_noise=noise))
    stamp = 10**9
    for dt, place in poses:
        stamp += dt
        motion.update(stamp, (place, 0.0, 0.0), UPRIGHT)
        assert all(map(math.isfinite, motion.velocity + motion.acceleration))
        assert 0.0 <= motion.linear.k1 <= 1.0


def test_a_diagonal_covariance_has_the_order_of_rep_103():
    matrix = np.array(diagonal(2.0, 3.0)).reshape(6, 6)
    assert np.array_equal(matrix, np.diag([2.0] * 3 + [3.0] * 3))


def test_body_twist_covariance_counts_the_attitudes_error():
    motion = FilteredMotion(replace(FIXED, attitude_noise=0.05))
    start = Rotation.from_rotvec([0.2, 0.4, -1.0])
    spin = np.array([0.0, 3.0, -6.0])
    for k in range(400):
        attitude = Rotation.from_rotvec(spin * 0.005 * k) * start
        motion.update(k * 5_000_000, (0.04 * k, 0.02 * k, 0.0),
                      tuple(attitude.as_quat().tolist()))
    draw = np.random.default_rng(0)
    count = 50_000
    turned = Rotation.from_rotvec(draw.normal(0, math.sqrt(motion.angular.pp), (count, 3)))
    seen = (turned * attitude).inv()
    said = np.array(motion.body_twist_covariance(
        motion.body_velocity(), motion.body_angular_velocity())).reshape(6, 6)
    for block, vector, variance in (
            (slice(0, 3), [8.0, 4.0, 0.0], motion.linear.vv),
            (slice(3, 6), spin, motion.angular.vv)):
        # What the error of the attitude does alone: the filter's own is added to it.
        scatter = np.cov(seen.apply(vector).T) + variance * np.eye(3)
        assert np.allclose(said[block, block], scatter, atol=0.03 * np.max(scatter - variance))


def test_learned_noise_is_taken():
    motion = FilteredMotion()
    motion.set_noise(0.01, 0.1)
    for k in range(400):
        motion.update(k * 5_000_000, (0.0, 0.0, 0.0), UPRIGHT)
    assert 1e-3 < math.sqrt(motion.linear.pp) < 0.01


@pytest.mark.parametrize('rate', [60, 240, 1000])
def test_jumps_of_kilometres_do_not_end_the_arithmetic(rate):
    # With validation.max_speed: 0 they get this far.
    motion = FilteredMotion(MotionConfig())
    for number in range(3000):
        place = float(number * 4_166_667 % 10**9)
        motion.update(number * 10**9 // rate, (1e4, place, 1e5 * (number // 50 % 2)), UPRIGHT)
    assert all(map(math.isfinite, motion.velocity + motion.acceleration))
    assert motion.linear.pp >= 0.0 and motion.angular.pp >= 0.0


@pytest.mark.parametrize('adaptive', [True, False])
@pytest.mark.parametrize('rate_hz', [30, 120, 240])
def test_the_variance_of_the_velocity_contains_an_outlier_that_passed(rate_hz, adaptive):
    """An outlier of 8 cm in hover: below max_speed, so that validation accepts it."""
    generator = np.random.default_rng(3)
    motion = FilteredMotion(MotionConfig(adaptive=adaptive))
    fastest = 0.0
    for number in range(6 * rate_hz):
        position = generator.normal(0.0, 2e-4, 3)
        if number == 5 * rate_hz:
            position[0] += 0.08
        if motion.update(10**15 + round(number * 1e9 / rate_hz), tuple(position), UPRIGHT):
            covariance = motion.body_twist_covariance(
                motion.body_velocity(), motion.body_angular_velocity())
            assert abs(motion.velocity[0]) < 2.5 * math.sqrt(covariance[0]), number
            fastest = max(fastest, abs(motion.velocity[0]))
    assert fastest > 0.1
