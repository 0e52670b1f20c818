# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Noise is estimated only from bodies at rest."""

import math

import numpy as np
from optitrack_vrpn.stream.motion.rest import RestDetector
import pytest
from scipy.spatial.transform import Rotation


def feed(detector, count, motion=None, position=(3e-4, 2e-4, 5e-4), attitude=(1e-3, 2e-3, 4e-3),
         seed=0):
    draw = np.random.default_rng(seed)
    base = Rotation.from_rotvec([1.0, -2.0, 0.5])
    learned = 0
    for k in range(count):
        p = np.array([1.0, 2.0, 3.0]) + draw.normal(0, position)
        if motion:
            p += motion(k)
        q = (Rotation.from_rotvec(draw.normal(0, attitude)) * base).as_quat()
        learned += detector.update(tuple(p.tolist()), tuple(q.tolist()))
    return learned


def test_each_axis_has_its_own_deviation_in_fixed_axis_order():
    seen = []
    for seed in range(40):
        detector = RestDetector()
        assert feed(detector, 100, seed=seed) == 1
        seen.append(detector.position_deviation + detector.attitude_deviation)
    mean = np.sqrt(np.mean(np.square(seen), axis=0))
    assert mean == pytest.approx([3e-4, 2e-4, 5e-4, 1e-3, 2e-3, 4e-3], rel=0.05)
    covariance = np.array(detector.covariance()).reshape(6, 6)
    assert np.allclose(np.sqrt(np.diag(covariance)), seen[-1])
    assert np.count_nonzero(covariance - np.diag(np.diag(covariance))) == 0
    position, attitude = detector.noise()
    assert position == pytest.approx(math.sqrt(38 / 3) * 1e-4, rel=0.2)
    assert attitude == pytest.approx(math.sqrt(21 / 3) * 1e-3, rel=0.2)


@pytest.mark.parametrize('motion', [
    lambda k: np.array([1e-5 * k, 0, 0]), lambda k: np.array([0, 1.5e-3 * math.sin(0.07 * k), 0]),
    lambda k: np.array([0, 0, 0.02 * k])], ids=['creeps', 'sways', 'moves'])
def test_no_noise_is_learned_in_motion(motion):
    detector = RestDetector()
    assert feed(detector, 1000, motion) == 0
    assert not detector.at_rest
    assert detector.noise() is None and detector.covariance() is None


@pytest.mark.slow
def test_rest_is_nearly_always_recognised():
    detector = RestDetector()
    assert feed(detector, 10_000) >= 198


def test_a_body_without_noise_has_some_all_the_same():
    detector = RestDetector()
    for _ in range(100):
        detector.update((1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
    assert detector.noise() == pytest.approx((1e-5, 1e-5))


def test_reset_empties_the_window_and_keeps_what_was_learned():
    detector = RestDetector()
    feed(detector, 100)
    noise = detector.noise()
    detector.reset()
    assert feed(detector, 99, lambda k: np.array([50.0, 0, 0])) == 0
    assert detector.noise() == noise
    assert not detector.at_rest


def test_a_window_is_the_last_hundred_poses_and_moves_by_half():
    draw = np.random.default_rng(4)
    samples = draw.normal(1.0, 1e-3, (250, 3))
    attitudes = (Rotation.from_rotvec(draw.normal(0, 2e-3, (250, 3)))
                 * Rotation.from_rotvec([1.0, -2.0, 0.5]))
    detector = RestDetector()
    changes = []
    quats = attitudes.as_quat() * draw.choice([-1, 1], (250, 1))
    for number, (p, q) in enumerate(zip(samples.tolist(), quats.tolist()), 1):
        if not detector.update(tuple(p), tuple(q)):
            continue
        changes.append(number)
        window = slice(number - 100, number)
        middle = attitudes[number - 50]
        turned = (attitudes[window] * middle.inv()).as_rotvec()
        assert detector.position_deviation == pytest.approx(
            tuple(samples[window].std(axis=0, ddof=1)), rel=1e-9)
        assert detector.attitude_deviation == pytest.approx(
            tuple(turned.std(axis=0, ddof=1)), rel=1e-2)
    assert changes == [100, 150, 200, 250]
