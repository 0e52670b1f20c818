# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid transforms and rotation vectors against scipy's Rotation."""

from conftest import examples
from hypothesis import given, settings, strategies
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import (
    motion_of, rigid, rotation_matrix, rotation_vector)
import pytest
from scipy.spatial.transform import Rotation


def transform_of(vector):
    return rigid(Rotation.from_rotvec(vector[:3]).as_matrix(), vector[3:])


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
