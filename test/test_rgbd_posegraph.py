# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The pose graph against closed forms, finite differences and the solver of scipy."""

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.rgbd.geometry import rigid
from optitrack_vrpn.guests.rgbd.posegraph import (
    diagonal_information, Edge, KNEE, optimise, optimise_without_outliers)
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

INFORMATION = diagonal_information(0.02, 0.01)


def pose(rotvec, position):
    return rigid(Rotation.from_rotvec(rotvec).as_matrix(), position)


def between(a, b):
    return np.linalg.inv(a) @ b


def circle(count, radius=2.0, rounds=2):
    """Two rounds on a circle with a swing in height: poses that look along the path."""
    angles = np.linspace(0, 2 * np.pi * rounds, count, endpoint=False)
    return [pose([0, 0, a + np.pi / 2], [radius * np.cos(a), radius * np.sin(a), 0.2 * np.sin(a)])
            for a in angles]


def noisy_graph(rng, count=60, loops=25, wrong=0):
    """Give the truth, drifting poses, and edges: odometry, loops, and wrong loops."""
    truth = circle(count)
    edges, guess = [], [truth[0]]

    def measured(i, j, stdev_m=0.02, stdev_rad=0.01):
        return between(truth[i], truth[j]) @ pose(
            rng.normal(0, stdev_rad, 3), rng.normal(0, stdev_m, 3))

    for i in range(count - 1):
        edges.append(Edge(i, i + 1, measured(i, i + 1), INFORMATION))
        guess.append(guess[-1] @ edges[-1].measured)
    for _ in range(loops):
        i = int(rng.integers(0, count // 2))
        edges.append(Edge(i, i + count // 2, measured(i, i + count // 2), INFORMATION, True))
    for _ in range(wrong):
        i, j = sorted(rng.choice(count, 2, replace=False).tolist())
        edges.append(Edge(i, j, pose(rng.normal(0, 1, 3), rng.normal(0, 2, 3)), INFORMATION, True))
    return np.array(truth), np.array(guess), edges


def rms(poses, truth):
    return np.sqrt(np.mean(np.sum((poses[:, :3, 3] - truth[:, :3, 3]) ** 2, axis=1)))


@pytest.mark.parametrize('wrong', [0, 2])
def test_the_minimum_is_that_of_scipy(wrong):
    """With wrong loops too, which Huber's loss weighs less."""
    _, guess, edges = noisy_graph(np.random.default_rng(3), count=12, loops=4, wrong=wrong)
    ours = optimise(guess, edges, tolerance=1e-14)

    def residuals(values):
        poses = [guess[0]] + [pose(v[3:], v[:3]) for v in values.reshape(-1, 6)]
        for edge in edges:
            relative = between(poses[edge.start], poses[edge.end])
            turn = Rotation.from_matrix(edge.measured[:3, :3].T @ relative[:3, :3]).as_rotvec()
            block = np.concatenate(
                [(relative[:3, 3] - edge.measured[:3, 3]) / 0.02, turn / 0.01])
            size = np.linalg.norm(block)
            if edge.robust and size > KNEE:
                block *= np.sqrt(2 * KNEE * size - KNEE ** 2) / size
            yield block

    start = np.array([[*p[:3, 3], *Rotation.from_matrix(p[:3, :3]).as_rotvec()]
                      for p in ours.poses[1:]]).ravel()
    theirs = least_squares(lambda values: np.concatenate([*residuals(values)]), start,
                           xtol=1e-12, ftol=1e-14, gtol=1e-12)
    np.testing.assert_allclose(start, theirs.x, atol=1e-5)


@pytest.mark.parametrize('seed', range(5))
def test_loops_that_are_wrong_are_found_and_left_out(seed):
    truth, guess, edges = noisy_graph(np.random.default_rng(seed), wrong=4)
    solution, outliers = optimise_without_outliers(guess, edges)
    assert outliers.tolist() == [False] * (len(edges) - 4) + [True] * 4
    clean = optimise(guess, edges[:-4])
    np.testing.assert_allclose(solution.poses, clean.poses, atol=1e-4)
    assert rms(solution.poses, truth) < 0.6 * rms(guess, truth)
    plain = optimise(guess, [Edge(e.start, e.end, e.measured, e.information) for e in edges])
    assert rms(plain.poses, truth) > 3 * rms(solution.poses, truth)


@pytest.mark.parametrize('seed', [0, 1, 3])
def test_right_loops_that_a_sure_wrong_one_contradicts_stay(seed):
    """It pulls them away from their measurement; they are right again once it is left out."""
    _, guess, edges = noisy_graph(np.random.default_rng(seed), 30, loops=4, wrong=2)
    edges[-2:] = [edge._replace(information=30 * INFORMATION) for edge in edges[-2:]]
    _, outliers = optimise_without_outliers(guess, edges)
    assert outliers.tolist() == [False] * (len(edges) - 2) + [True] * 2


@pytest.mark.parametrize('edges, complaint', [
    ([Edge(0, 5, np.eye(4), INFORMATION)], 'nodes 0 and 5'),
    ([Edge(0, 1, np.eye(4), INFORMATION)], 'node 2'),
    ([Edge(0, 1, np.eye(4), -INFORMATION), Edge(1, 2, np.eye(4), INFORMATION)], 'positive'),
])
def test_a_graph_that_determines_nothing_is_refused(edges, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        optimise(np.array([np.eye(4)] * 3), edges)
