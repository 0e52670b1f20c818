# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The closed-form motions against numeric differentiation, scipy and the right-hand rule."""

from conftest import examples
from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.sim import motion as m
import pytest
from scipy.spatial.transform import Rotation

TIMES = np.linspace(0.0, 23.0, 400)

MOTIONS = st.one_of(
    st.builds(m.Still, yaw_deg=st.floats(-180, 180)),
    st.builds(m.Hover, amplitude=st.floats(0, 0.5), period=st.floats(2, 20),
              phase=st.floats(-1, 1)),
    st.builds(m.Circle, radius=st.floats(0.1, 5), period=st.floats(2, 20),
              phase=st.floats(-1, 1)),
    st.builds(m.FigureEight, length=st.floats(0.5, 3), width=st.floats(0.3, 2),
              climb=st.floats(0, 0.5), period=st.floats(4, 20), phase=st.floats(-1, 1)),
    st.builds(m.Spin, axis=st.tuples(*[st.floats(0.1, 1)] * 3), rate_deg=st.floats(-720, 720),
              phase=st.floats(-1, 1)),
    st.builds(m.BackAndForth, reach=st.tuples(*[st.floats(-2, 2)] * 3), period=st.floats(2, 20),
              phase=st.floats(-1, 1), yaw_deg=st.floats(-180, 180)),
)


def close(found, wanted, relative=1e-5):
    scale = np.abs(wanted).max() + 1.0
    np.testing.assert_allclose(found, wanted, atol=relative * scale, rtol=0)


@settings(max_examples=examples(60), deadline=None)
@given(MOTIONS)
def test_rates_are_the_derivatives_of_the_poses(motion):
    step = 1e-4
    before, now, after = (motion.at(TIMES + d) for d in (-step, 0.0, step))
    close((after.position - before.position) / (2 * step), now.velocity)
    close((after.velocity - before.velocity) / (2 * step), now.acceleration)
    turn = Rotation.from_quat(after.quat_xyzw) * Rotation.from_quat(before.quat_xyzw).inv()
    close(turn.as_rotvec() / (2 * step), now.angular_velocity)


@settings(max_examples=examples(60), deadline=None)
@given(MOTIONS)
def test_quaternions_are_of_unit_length_and_states_are_functions_of_time(motion):
    state = motion.at(TIMES)
    np.testing.assert_allclose(np.linalg.norm(state.quat_xyzw, axis=1), 1, atol=1e-14)
    for alone, together in zip(motion.at(TIMES[7:8]), state):
        np.testing.assert_allclose(alone[0], together[7], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize('motion', [m.Circle(radius=2.0, period=4.0), m.FigureEight(period=10.0)])
def test_a_body_looks_along_its_velocity(motion):
    state = motion.at(TIMES)
    ahead = state.velocity / np.linalg.norm(state.velocity, axis=1, keepdims=True)
    np.testing.assert_allclose(
        Rotation.from_quat(state.quat_xyzw).apply([1, 0, 0]), ahead, atol=1e-12)


def test_a_circle_turns_left():
    # x forward, z right: from (1, ., 0) a left turn about the middle goes to z < 0.
    state = m.Circle(radius=1.0, period=4.0).at(np.array([0.0, 1.0]))
    np.testing.assert_allclose(state.position, [[1, 1, 0], [0, 1, -1]], atol=1e-12)
    assert state.angular_velocity[0, 1] > 0


def test_a_spin_is_what_scipy_says():
    axis = np.array((1.0, 2.0, -0.5))
    state = m.Spin(axis=tuple(axis), rate_deg=135.0).at(TIMES)
    wanted = Rotation.from_rotvec(
        np.radians(135.0) * TIMES[:, None] * axis / np.linalg.norm(axis))
    apart = Rotation.from_quat(state.quat_xyzw) * wanted.inv()
    assert apart.magnitude().max() < 1e-12


def test_a_positive_yaw_turns_the_nose_to_the_left():
    rotation = Rotation.from_quat(m.Still(yaw_deg=90.0).at(TIMES[:1]).quat_xyzw)
    np.testing.assert_allclose(rotation.apply([1, 0, 0])[0], [0, 0, -1], atol=1e-12)


@pytest.mark.parametrize('kind', list(m.MOTIONS))
def test_arranged_bodies_do_not_meet(kind):
    places = [m.arranged(kind, i, 8).at(TIMES).position for i in range(8)]
    for i, one in enumerate(places):
        for other in places[:i]:
            assert np.linalg.norm(one - other, axis=1).min() > 0.1
