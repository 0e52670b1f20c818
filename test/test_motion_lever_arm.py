# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A base offset from the body's origin: its motion in closed form, and the covariance of it."""

import math

import numpy as np
from optitrack_vrpn.core.rotation import body_from_base, world_from_mocap
from optitrack_vrpn.stream.motion.estimator import EstimateConfig, Estimator
from optitrack_vrpn.stream.motion.lever_arm import acceleration_at, velocity_at
from optitrack_vrpn.stream.motion.rest import RestDetector
from optitrack_vrpn.stream.motion.settings import MotionConfig
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation

RATE = 240
FIXED = MotionConfig(adaptive=False)
LEVER = np.array([0.4, -0.25, 0.15])    # half a metre
TURNED = Rotation.from_euler('xyz', [0.3, -0.2, 1.0])
BASE = body_from_base((*LEVER, *TURNED.as_quat()))


def in_bounds(total, freedom):
    low, high = stats.chi2.interval(0.95, freedom)
    return low < total < high


def pose_error(position, quat, base_position, base_attitude):
    return np.concatenate((
        position - base_position,
        (Rotation.from_quat(quat) * base_attitude.inv()).as_rotvec()))


def test_a_point_on_a_turning_body_moves_as_its_path_says():
    def path(t):
        """Go along x while turning about z, faster and faster."""
        angle = 0.5 + 2.0 * t + 3.0 * t * t
        return np.array([0.7 * t * t, 0, 0]) + Rotation.from_rotvec(
            [0, 0, angle]).apply(LEVER)
    t, h = 0.2, 1e-4
    arm = tuple(path(t) - [0.7 * t * t, 0, 0])
    rate, change = (0.0, 0.0, 2.0 + 6.0 * t), (0.0, 0.0, 6.0)
    assert velocity_at(arm, (1.4 * t, 0.0, 0.0), rate) == pytest.approx(
        tuple((path(t + h) - path(t - h)) / (2 * h)), abs=1e-6)
    assert acceleration_at(arm, (1.4, 0.0, 0.0), rate, change) == pytest.approx(
        tuple((path(t + h) - 2 * path(t) + path(t - h)) / h**2), abs=1e-5)


def test_pose_and_twist_of_the_base_are_consistent():
    """Normalised errors squared, of the model's own process, lie within their 95 % bounds."""
    draw = np.random.default_rng(7)
    fine, runs = 3, 80
    dt = 1 / RATE / fine
    config = EstimateConfig(
        body_from_base=BASE, motion=FIXED, learn_noise=False, estimate_motion=True)
    totals = np.zeros(2)
    for _ in range(runs):
        estimator = Estimator(config)
        position, velocity, acceleration = draw.normal(0, [[0], [3], [20]], (3, 3))
        attitude = Rotation.from_rotvec(draw.normal(0, 1, 3))
        rate, change = draw.normal(0, [[2], [10]], (2, 3))
        for k in range(60):
            noise = Rotation.from_rotvec(draw.normal(0, FIXED.attitude_noise, 3))
            placed = estimator.update(
                round(k * 1e9 / RATE),
                tuple((position + draw.normal(0, FIXED.position_noise, 3)).tolist()),
                tuple((noise * attitude).as_quat().tolist()), RATE, 0)
            if k == 59:
                break
            for _ in range(fine):
                step = draw.normal(0, FIXED.process_noise * math.sqrt(dt), 3)
                position = position + velocity * dt + 0.5 * acceleration * dt**2
                velocity = velocity + (acceleration + 0.5 * step) * dt
                acceleration = acceleration + step
                step = draw.normal(0, FIXED.angular_process_noise * math.sqrt(dt), 3)
                attitude = Rotation.from_rotvec((rate + 0.5 * change * dt) * dt) * attitude
                rate = rate + (change + 0.5 * step) * dt
                change = change + step
        motion = estimator.motion_estimate()
        assert placed == (motion.stamp_ns, motion.position, motion.quat_xyzw)
        arm = attitude.apply(LEVER)
        error = pose_error(motion.position, motion.quat_xyzw, position + arm, attitude * TURNED)
        body = (attitude * TURNED).inv()
        twist = np.concatenate((
            motion.body_velocity - body.apply(velocity + np.cross(rate, arm)),
            motion.body_angular_velocity - body.apply(rate)))
        for i, (e, said) in enumerate((
                (error, motion.pose_covariance), (twist, motion.body_twist_covariance))):
            matrix = np.reshape(said, (6, 6))
            assert np.allclose(matrix, matrix.T, atol=1e-15)
            totals[i] += e @ np.linalg.solve(matrix, e)
    assert in_bounds(totals[0], runs * 6), 'pose'
    assert in_bounds(totals[1], runs * 6), 'twist'


def test_learned_noise_is_carried_to_the_base():
    draw = np.random.default_rng(3)
    deviation = np.array([2e-4, 3e-4, 5e-4]), np.array([1e-3, 2e-3, 4e-3])
    world = world_from_mocap((1.0, 2.0, 0.0), 0.0)
    estimator = Estimator(EstimateConfig(
        world_from_mocap=world, body_from_base=BASE))
    estimator.rest = RestDetector(1000)
    attitude = Rotation.from_rotvec([0.4, -0.2, 1.0])
    still = np.array([0.5, 1.0, 0.2])

    def measure(k):
        noise = Rotation.from_rotvec(draw.normal(0, deviation[1]))
        return estimator.update(
            round(k * 1e9 / RATE), tuple((still + draw.normal(0, deviation[0])).tolist()),
            tuple((noise * attitude).as_quat().tolist()), RATE, 0)

    for k in range(1000):
        measure(k)
    assert estimator.rest.learned == 1
    assert estimator.rest.position_deviation == pytest.approx(tuple(deviation[0]), rel=0.1)
    assert estimator.rest.attitude_deviation == pytest.approx(tuple(deviation[1]), rel=0.1)
    origin = still - [1.0, 2.0, 0.0] + attitude.apply(LEVER)
    total, count = 0.0, 400
    for k in range(1000, 1000 + count):
        _, position, quat = measure(k)
        error = pose_error(position, quat, origin, attitude * TURNED)
        matrix = np.reshape(estimator.pose_covariance(quat), (6, 6))
        total += error @ np.linalg.solve(matrix, error)
    assert in_bounds(total, 6 * count)


def test_accelerations_of_the_base_have_those_of_the_turning_in_them():
    """A body that spins in its place: its base goes round in a circle."""
    spin = 3.0
    estimator = Estimator(EstimateConfig(
        body_from_base=body_from_base((0.5, 0.0, 0.0)), learn_noise=False, estimate_motion=True))
    for k in range(2 * RATE):
        angle = spin * k / RATE
        estimator.update(round(k * 1e9 / RATE), (1.0, 2.0, 3.0),
                         tuple(Rotation.from_rotvec([0, 0, angle]).as_quat().tolist()), RATE, 0)
    motion = estimator.motion_estimate()
    out = np.array([math.cos(angle), math.sin(angle), 0.0])
    across = np.array([-out[1], out[0], 0.0])
    assert motion.velocity == pytest.approx(tuple(0.5 * spin * across), abs=1e-3)
    assert motion.acceleration == pytest.approx(tuple(-0.5 * spin**2 * out), abs=0.05)
    assert motion.body_velocity == pytest.approx((0.0, 0.5 * spin, 0.0), abs=1e-3)
