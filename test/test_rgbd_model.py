# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Landmarks: Kalman updates against closed forms, bounds, association; refinement."""

import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import rigid, rigid_transform, transformed
from optitrack_vrpn.guests.rgbd.model import (
    LandmarkModel, ModelTuning, refine, RefinementTuning)
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import chi2


def covariances(count, seed=0, size=0.01):
    factors = np.random.default_rng(seed).normal(0, size, (count, 3, 5))
    return factors @ factors.transpose(0, 2, 1)


def model_of(means, spreads, **tuning):
    model = LandmarkModel(ModelTuning(**tuning))
    model.update(np.atleast_2d(np.asarray(means, float)), spreads)
    return model


def test_without_process_noise_a_landmark_becomes_the_weighted_mean():
    """The information filter: information adds up, and the mean is weighted by it."""
    random = np.random.default_rng(2)
    spreads = covariances(20, 3)
    points = random.normal(0, 0.01, (20, 3))
    model = model_of(points[0], spreads[:1], process_noise_m=0.0)
    for point, spread in zip(points[1:], spreads[1:]):
        model.update(point[None], spread[None])
    assert len(model) == 1
    information = np.linalg.inv(spreads)
    total = information.sum(axis=0)
    np.testing.assert_allclose(model.covariances[0], np.linalg.inv(total), rtol=1e-6)
    np.testing.assert_allclose(
        model.means[0], np.linalg.solve(total, np.einsum('nij,nj->i', information, points)),
        rtol=1e-6)


def test_old_landmarks_do_not_become_overconfident():
    """The variance converges to p = (p + q) r / (p + q + r), the Riccati equation."""
    q, r = 0.001 ** 2, 0.02 ** 2
    spread = r * np.eye(3)[None]
    model = model_of(np.zeros(3), spread)
    for _ in range(500):
        model.update(np.zeros((1, 3)), spread)
    steady = -q / 2 + np.sqrt(q * q / 4 + q * r)
    np.testing.assert_allclose(model.covariances[0], steady * np.eye(3), rtol=1e-6, atol=1e-12)
    # and a landmark follows a scene that has shifted
    for _ in range(60):
        model.update(np.full((1, 3), 0.02), spread)
    assert np.abs(model.means[0] - 0.02).max() < 0.003


def test_the_match_is_by_mahalanobis_distance_not_by_the_nearest():
    narrow, wide = 0.001 ** 2 * np.eye(3), 0.05 ** 2 * np.eye(3)
    model = model_of([[0, 0, 0], [0.1, 0, 0]], np.stack([narrow, wide]))
    matches = model.match(np.array([[0.03, 0, 0]]), narrow[None])
    assert matches.landmarks.tolist() == [1]
    assert matches.squares[0] == pytest.approx(0.07 ** 2 / (0.001 ** 2 + 0.05 ** 2))


def test_a_full_model_replaces_the_oldest_landmarks():
    model = LandmarkModel(ModelTuning(capacity=100))
    spread = np.stack([1e-6 * np.eye(3)] * 60)
    for begin in (0, 60, 120):
        points = np.zeros((60, 3))
        points[:, 0] = np.arange(begin, begin + 60)
        model.update(points, spread)
    assert sorted(model.means[:, 0]) == list(range(80, 180))
    assert len(model.tree.data) == 100
    # more points than the model holds
    points = np.zeros((500, 3))
    points[:, 1] = np.arange(1, 501)
    model.update(points, np.stack([1e-6 * np.eye(3)] * 500))
    assert sorted(model.means[:, 1]) == list(range(401, 501))


def scene(seed):
    """Give landmarks, points that a moved camera measures of them, and the motion."""
    random = np.random.default_rng(seed)
    landmarks = random.uniform(-1.5, 1.5, (150, 3)) + (0, 0, 3)
    spreads = covariances(150, seed + 1, 0.005)
    truth = rigid(Rotation.from_rotvec(random.normal(0, 0.3, 3)).as_matrix(),
                  random.normal(0, 1, 3))
    exact = transformed(np.linalg.inv(truth), landmarks)
    points = np.array([random.multivariate_normal(*each) for each in zip(exact, spreads)])
    return landmarks, points, spreads, truth


def perturbation(transform, truth):
    """Give (rho, theta) of truth against an estimate, perturbed from the left."""
    error = truth @ np.linalg.inv(transform)
    return np.concatenate([error[:3, 3], Rotation.from_matrix(error[:3, :3]).as_rotvec()])


@pytest.mark.slow
def test_refined_poses_are_as_uncertain_as_their_covariance_says():
    squares = []
    for seed in range(40):
        landmarks, points, spreads, truth = scene(seed)
        model = model_of(landmarks, np.stack([1e-10 * np.eye(3)] * 150), gate=20.0)
        start = truth.copy()
        start[:3, 3] += 0.01
        refined = refine(start, points, spreads, model, RefinementTuning(
            rounds=5, outlier_scale=100.0))
        assert refined.inliers == 150
        assert refined.chi2 == pytest.approx(1.0, abs=0.3)
        error = perturbation(refined.transform, truth)
        squares.append(error @ np.linalg.solve(refined.covariance, error))
    low, high = chi2.interval(0.999, 6 * 40)
    assert low < np.sum(squares) < high


@pytest.mark.slow
def test_refinement_is_better_than_equal_weights_and_ignores_outliers():
    ours, plain = [], []
    for seed in range(20):
        landmarks, points, spreads, truth = scene(seed)
        spreads[::2] *= 100    # half of the points are far away
        points[::2] += 9 * (points[::2] - transformed(np.linalg.inv(truth), landmarks[::2]))
        points[:10] += (0.0, 0.04, 0.0)    # and some are wrong
        model = model_of(landmarks, np.stack([1e-8 * np.eye(3)] * 150))
        svd = rigid_transform(points, landmarks)
        refined = refine(svd, points, spreads, model, RefinementTuning(rounds=6))
        ours.append(np.linalg.norm(perturbation(refined.transform, truth)))
        plain.append(np.linalg.norm(perturbation(svd, truth)))
    assert np.mean(ours) < 0.5 * np.mean(plain)


def test_a_direction_that_is_not_determined_has_a_great_variance():
    line = np.column_stack([np.linspace(-1, 1, 30), np.zeros(30), np.zeros(30)])
    spreads = np.stack([1e-4 * np.eye(3)] * 30)
    refined = refine(np.eye(4), line, spreads, model_of(line, spreads))
    assert refined.covariance[3, 3] > 1e3    # about the line
    assert refined.covariance[4, 4] < 1e-2


def test_points_without_landmarks_say_so():
    spreads = np.stack([1e-4 * np.eye(3)] * 30)
    points = np.random.default_rng(1).normal(0, 1, (30, 3))
    refined = refine(np.eye(4), points + 100, spreads, model_of(points, spreads))
    assert refined.inliers == 0
    assert np.isnan(refined.covariance).all()
