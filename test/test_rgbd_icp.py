# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Alignment of points to a model by ICP."""

from conftest import lacking
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import rigid, transformed
from optitrack_vrpn.guests.rgbd.model import align, IcpTuning
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation


def transform_of(vector):
    return rigid(Rotation.from_rotvec(vector[:3]).as_matrix(), vector[3:])


def test_icp_finds_a_small_motion_among_other_points():
    random = np.random.default_rng(6)
    model = random.uniform(-2, 2, (500, 3))
    truth = transform_of([0.01, -0.02, 0.015, 0.03, -0.02, 0.01])
    seen = transformed(np.linalg.inv(truth), model[:200])
    seen = np.concatenate([seen, random.uniform(3, 4, (50, 3))])    # not in the model
    found, reason = align(
        seen, cKDTree(model), model,
        tuning=IcpTuning(stop_rad=1e-6, stop_m=1e-6, rounds=30))
    assert reason == ''
    np.testing.assert_allclose(found, truth, atol=2e-3)


def test_icp_starts_from_the_guess():
    random = np.random.default_rng(7)
    model = random.uniform(-2, 2, (300, 3))
    truth = transform_of([0, 0, 1.0, 2, 0, 0])
    seen = transformed(np.linalg.inv(truth), model)
    guess = truth @ transform_of([0.005, 0, 0, 0.01, 0, 0])
    found, _ = align(seen, cKDTree(model), model, guess)
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_too_few_pairs_are_a_reason():
    model = np.random.default_rng(8).uniform(-2, 2, (100, 3))
    found, reason = align(model + 50, cKDTree(model), model)
    assert found is None
    assert not lacking(reason, '0 of 100', '0.15 m', '15')
