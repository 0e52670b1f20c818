# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid transforms and rotation vectors against scipy's Rotation."""

from conftest import examples
from hypothesis import given, settings, strategies
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import (
    motion_of, rigid, rigid_transform, rotation_matrix, rotation_vector, transformed)
import pytest
from scipy.spatial.transform import Rotation


def transform_of(vector):
    return rigid(Rotation.from_rotvec(vector[:3]).as_matrix(), vector[3:])


def test_points_of_a_plane_and_mirrored_points_give_a_rotation():
    random = np.random.default_rng(1)
    plane = np.column_stack([random.normal(0, 1, (20, 2)), np.zeros(20)])
    truth = transform_of([0.3, -0.2, 2.0, 1, 2, 3])
    np.testing.assert_allclose(
        rigid_transform(plane, transformed(truth, plane)), truth, atol=1e-9)
    solid = random.normal(0, 1, (20, 3))
    mirrored = rigid_transform(solid, solid * (1, 1, -1))
    assert np.linalg.det(mirrored[:3, :3]) == pytest.approx(1.0)


@pytest.mark.parametrize('angle', [0.0, 1e-4, 1.0, 3.0, np.pi])
def test_distances_and_angles_are_those_of_the_transform(angle):
    turn = angle * np.array([0.6, 0, 0.8])
    moved, turned = motion_of(transform_of(np.array([*turn, 3, 4, 0])))
    assert moved == pytest.approx(5.0)
    assert turned == pytest.approx(angle, rel=1e-6)


@settings(max_examples=examples(200), deadline=None)
@given(strategies.tuples(*[strategies.floats(-1, 1)] * 3), strategies.sampled_from(
    [0.0, 1e-7, 2e-6, 1e-3, 0.5, 2.9, 3.05, 3.14]))
def test_rotation_vectors_agree_with_scipy(axis, angle):
    vector = angle * np.array(axis) / max(np.linalg.norm(axis), 1e-3)
    matrix = rotation_matrix(vector)
    np.testing.assert_allclose(matrix, Rotation.from_rotvec(vector).as_matrix(), atol=1e-12)
    np.testing.assert_allclose(rotation_vector(matrix), vector, atol=1e-5)
