# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid transforms and ICP against scipy's Rotation."""

from conftest import examples
from hypothesis import given, settings, strategies
import numpy as np
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.icp import (
    align, IcpSettings, motion_of, rigid_transform, rotation_matrix, rotation_vector, transformed)
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation


def transform_of(vector):
    transform = np.eye(4)
    transform[:3, :3] = Rotation.from_rotvec(vector[:3]).as_matrix()
    transform[:3, 3] = vector[3:]
    return transform


@settings(max_examples=examples(100), deadline=None)
@given(strategies.integers(0, 2**32 - 1), strategies.integers(3, 40), strategies.booleans())
def test_rigid_transform_agrees_with_scipy(seed, count, weighted):
    random = np.random.default_rng(seed)
    source = random.normal(0, 1, (count, 3))
    truth = transform_of(random.normal(0, 2, 6))
    target = transformed(truth, source) + random.normal(0, 0.01, (count, 3))
    weights = random.uniform(0.1, 1, count) if weighted else None
    found = rigid_transform(source, target, weights)
    share = np.ones(count) if weights is None else weights
    centre, aim = np.average(source, 0, share), np.average(target, 0, share)
    rotation, _ = Rotation.align_vectors(target - aim, source - centre, share)
    np.testing.assert_allclose(found[:3, :3], rotation.as_matrix(), atol=1e-6)
    np.testing.assert_allclose(found[:3, 3], aim - rotation.apply(centre), atol=1e-6)


def test_points_of_a_plane_and_mirrored_points_give_a_rotation():
    random = np.random.default_rng(1)
    plane = np.column_stack([random.normal(0, 1, (20, 2)), np.zeros(20)])
    truth = transform_of([0.3, -0.2, 2.0, 1, 2, 3])
    np.testing.assert_allclose(
        rigid_transform(plane, transformed(truth, plane)), truth, atol=1e-9)
    solid = random.normal(0, 1, (20, 3))
    mirrored = rigid_transform(solid, solid * (1, 1, -1))
    assert np.linalg.det(mirrored[:3, :3]) == pytest.approx(1.0)


@pytest.mark.parametrize('source, target', [
    (np.zeros((2, 3)), np.zeros((2, 3))), (np.zeros((4, 3)), np.zeros((5, 3))),
    (np.zeros((4, 2)), np.zeros((4, 2)))])
def test_points_that_determine_no_transform_are_refused(source, target):
    with pytest.raises(ConfigurationError, match='a rigid transform needs'):
        rigid_transform(source, target)


@pytest.mark.parametrize('angle', [0.0, 1e-9, 1e-4, 1.0, 3.0, np.pi])
def test_angles_are_exact_also_when_small(angle):
    turn = angle * np.array([0.6, 0, 0.8])
    moved, turned = motion_of(transform_of(np.array([*turn, 3, 4, 0])))
    assert moved == pytest.approx(5.0)
    assert turned == pytest.approx(angle, rel=1e-6, abs=1e-15)


@settings(max_examples=examples(200), deadline=None)
@given(strategies.tuples(*[strategies.floats(-1, 1)] * 3), strategies.sampled_from(
    [0.0, 1e-9, 1e-7, 2e-6, 1e-3, 0.5, 2.9, 3.05, 3.14]))
def test_rotation_vectors_agree_with_scipy(axis, angle):
    vector = angle * np.array(axis) / max(np.linalg.norm(axis), 1e-3)
    matrix = rotation_matrix(vector)
    np.testing.assert_allclose(matrix, Rotation.from_rotvec(vector).as_matrix(), atol=1e-12)
    np.testing.assert_allclose(rotation_vector(matrix), vector, atol=1e-9)


def test_icp_finds_a_small_motion_among_other_points():
    random = np.random.default_rng(6)
    model = random.uniform(-2, 2, (500, 3))
    truth = transform_of([0.01, -0.02, 0.015, 0.03, -0.02, 0.01])
    seen = transformed(np.linalg.inv(truth), model[:200])
    seen = np.concatenate([seen, random.uniform(3, 4, (50, 3))])    # not in the model
    registration, reason = align(
        seen, cKDTree(model), model, IcpSettings(stop_rad=1e-6, stop_m=1e-6, rounds=30))
    assert reason == ''
    np.testing.assert_allclose(registration.transform, truth, atol=2e-3)
    assert 1 < registration.rounds <= 30


def test_icp_starts_from_the_guess():
    random = np.random.default_rng(7)
    model = random.uniform(-2, 2, (300, 3))
    truth = transform_of([0, 0, 1.0, 2, 0, 0])
    seen = transformed(np.linalg.inv(truth), model)
    guess = truth @ transform_of([0.005, 0, 0, 0.01, 0, 0])
    registration, _ = align(seen, cKDTree(model), model, IcpSettings(), guess)
    np.testing.assert_allclose(registration.transform, truth, atol=1e-6)


def test_too_few_pairs_are_a_reason():
    model = np.random.default_rng(8).uniform(-2, 2, (100, 3))
    registration, reason = align(model + 50, cKDTree(model), model, IcpSettings())
    assert registration is None
    assert reason == '0 of 100 points lie within 0.15 m of the model, 15 are needed'
