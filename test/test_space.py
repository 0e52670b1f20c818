# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Geometry of arrays against scipy's and closed forms."""

from hypothesis import given, strategies as st
from hypothesis.strategies import integers, lists
import numpy as np
from optitrack_vrpn.core.space import (
    best_rotation, euler_deg, exponential, interpolate_rotations, interpolate_rows,
    lag_correlations, logarithm, product, rigid_transform, skew, slerp, turn_angles, turns)
from scipy.spatial.transform import Rotation, Slerp

seeds = st.integers(0, 2**32 - 1)


@given(lists(lists(integers(-4, 4), min_size=4, max_size=4).filter(any), min_size=3, max_size=9),
       integers(1, 2))
def test_turns_and_angles_are_scipys(quats, step):
    table = np.array(quats, float)
    rotations = Rotation.from_quat(table)
    found = Rotation.from_rotvec(turns(table, step))
    wanted = rotations[:-step].inv() * rotations[step:]
    assert (wanted.inv() * found).magnitude().max() < 1e-6
    np.testing.assert_allclose(turn_angles(table, step), wanted.magnitude(), atol=1e-7)
    angles = euler_deg(table)
    again = Rotation.from_euler('ZYX', angles[::-1].T, degrees=True)
    upright = np.abs(angles[1]) < 89.0    # else roll and yaw are one angle
    assert ((rotations.inv() * again).magnitude()[upright] < 1e-6).all()


@given(seeds)
def test_matrices_of_vectors_are_products_exponentials_and_logarithms(seed):
    first, second = np.random.default_rng(seed).normal(0.0, 1.0, (2, 5, 3))
    np.testing.assert_allclose(product(skew(first), second), np.cross(first, second), atol=1e-12)
    np.testing.assert_allclose(exponential(first), Rotation.from_rotvec(first).as_matrix())
    np.testing.assert_allclose(logarithm(exponential(0.5 * first)), 0.5 * first, atol=1e-9)


@given(seeds)
def test_interpolation_is_scipys(seed):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.1, 1.0, 6))
    rotations = Rotation.random(6, rng=rng)
    wanted = rng.uniform(times[0], times[-1], 20)
    found = interpolate_rotations(times, rotations.as_matrix(), wanted)
    np.testing.assert_allclose(found, Slerp(times, rotations)(wanted).as_matrix(), atol=1e-9)
    ends = slerp(rotations[:-1], rotations[1:], np.repeat((0.0, 1.0), (2, 3)))
    np.testing.assert_allclose(ends.as_matrix(), rotations[[0, 1, 3, 4, 5]].as_matrix(),
                               atol=1e-9)
    values = rng.normal(0.0, 1.0, (6, 3))
    np.testing.assert_allclose(interpolate_rows(times, values, times), values)


@given(seeds, st.integers(3, 12), st.sampled_from((0.0, 0.1)))
def test_an_alignment_is_scipys_and_exact_without_noise(seed, count, noise):
    rng = np.random.default_rng(seed)
    points, turn, shift = rng.normal(0, 1, (count, 3)), Rotation.random(rng=rng), rng.normal(
        0, 5, 3)
    moved = turn.apply(points) + shift + rng.normal(0, 1, (count, 3)) * noise
    rotation, translation = rigid_transform(moved, points)
    centred = moved - moved.mean(0), points - points.mean(0)
    found = Rotation.from_matrix(rotation)
    assert np.linalg.det(rotation) > 0.0
    np.testing.assert_allclose(
        np.square(centred[0] - found.apply(centred[1])).sum(),
        Rotation.align_vectors(*centred)[1] ** 2, atol=1e-9)
    np.testing.assert_allclose(translation, moved.mean(0) - rotation @ points.mean(0))
    if not noise:
        np.testing.assert_allclose(rotation, turn.as_matrix(), atol=1e-6)
    many = rigid_transform(np.stack((moved, points)), np.stack((points, points)))
    np.testing.assert_allclose(many[0][0], rotation, atol=1e-9)
    np.testing.assert_allclose(many[0][1], np.eye(3), atol=1e-6)


@given(seeds)
def test_a_mirrored_set_of_vectors_is_found_as_a_reflection(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0.0, 1.0, (9, 3))
    mirrored = vectors * (1.0, 1.0, -1.0) @ Rotation.random(rng=rng).as_matrix().T
    reflection = best_rotation(mirrored, vectors, -1.0)
    np.testing.assert_allclose(vectors @ reflection.T, mirrored, atol=1e-9)
    assert np.linalg.det(best_rotation(mirrored, vectors)) > 0.0


@given(seeds, st.integers(-20, 20))
def test_the_best_lag_is_the_one_that_was_put_in(seed, lag):
    rng = np.random.default_rng(seed)
    series = rng.normal(0.0, 1.0, 300)
    first, second = series[50:250].copy(), series[30 + lag:270 + lag].copy()
    first[rng.random(200) < 0.2] = second[rng.random(240) < 0.2] = np.nan
    scores = lag_correlations(first, second, 50)
    assert np.argmax(scores) - 20 == lag and abs(scores[20 + lag] - 1.0) < 1e-9
    assert (lag_correlations(first, second, 201) == -1.0).all()    # too few in common
    assert not lag_correlations(np.zeros(200), second, 50).any()    # a constant


def test_long_series_of_attitudes_have_no_seams():
    quats = np.random.default_rng(2).normal(0.0, 1.0, (70_000, 4))
    rotations = Rotation.from_quat(quats)
    for step in (1, 12):
        wanted = rotations[:-step].inv() * rotations[step:]
        np.testing.assert_allclose(turn_angles(quats, step), wanted.magnitude(), atol=1e-7)
        found = Rotation.from_rotvec(turns(quats, step))
        assert (wanted.inv() * found).magnitude().max() < 1e-6
    again = Rotation.from_euler('ZYX', euler_deg(quats)[::-1].T, degrees=True)
    assert (rotations.inv() * again).magnitude().max() < 1e-6
