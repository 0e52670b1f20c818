# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bodies are selected, renamed, configured and offset as the YAML file says."""

import math

from conftest import lacking, lacking_in_lines
from hypothesis import given, strategies as st
import numpy as np
from optitrack_vrpn.core import rotation
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import (
    body_from_base, compose, quat_from_angles, Transform, world_from_mocap)
from optitrack_vrpn.stream.bodies.settings import (
    BodyConfig, configure, Selection, settings_for, unmatched)
from optitrack_vrpn.stream.motion.lever_arm import angular_rate
import pytest
from scipy.spatial.transform import Rotation


def test_allow_and_deny_take_wildcards_and_deny_wins():
    selection = Selection(allow=('drone*', 'Rigid Body ?'), deny=('*spare*',))
    assert selection.wanted('drone/left')
    assert selection.wanted('Rigid Body 1')
    assert not selection.wanted('Rigid Body 12')
    assert not selection.wanted('Drone')
    assert not selection.wanted('drone spare')
    assert selection.why_not('wand') == 'nothing in bodies.allow matches it'
    assert "'*spare*'" in selection.why_not('drone spare')


def test_a_name_with_brackets_matches_itself():
    assert Selection(allow=('wand [2]',)).wanted('wand [2]')


@pytest.mark.parametrize('wrong', [{'allow': ('',)}, {'deny': (3,)}, {'deny': 'drone'}])
def test_wrong_lists_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Selection(**wrong)


def test_settings_that_match_no_body_are_named():
    seen = ['Rigid Body 1', 'wand', 'drone1']
    lines = unmatched(
        Selection(allow=('Rigid*', 'dorne1'), deny=('Wnad*', 'wand')),
        ['rigid body 1', 'Rigid_Body_1', 'drone?', 'wand', 'rigid body 1', 'zeppelin'], seen)
    assert not lacking_in_lines(
        lines, ["'rigid body 1'", "mean 'Rigid Body 1'?"],
        ["'Rigid_Body_1'", "mean 'Rigid Body 1'?"], ["'zeppelin'"],
        ["'dorne1'", 'bodies.allow', "mean 'drone1'?"],
        ["'Wnad*'", 'bodies.deny', "mean 'wand'?"])
    assert 'did you mean' not in lines[2]
    assert unmatched(Selection(), ['*'], seen) == []


def test_what_a_dotted_name_of_the_parameter_file_took_in_is_recognised():
    line, = unmatched(Selection(), ['drone.1', 'drone.a'], ['drone.1', 'a'])
    assert not lacking(line, "'drone.a'", "mean 'a'?", "write '?' for the dot")


def test_the_own_name_beats_patterns_and_later_patterns_earlier_ones():
    overrides = {'drone1': {'max_speed': 3.0}, '*': {'max_speed': 1.0, 'memory_s': 2.0},
                 'drone*': {'max_speed': 2.0}}
    assert settings_for('drone1', overrides) == {'max_speed': 3.0, 'memory_s': 2.0}
    assert settings_for('drone2', overrides) == {'max_speed': 2.0, 'memory_s': 2.0}
    assert settings_for('wand', overrides) == {'max_speed': 1.0, 'memory_s': 2.0}
    assert settings_for('wand', {}) == {}


def test_overrides_become_a_configuration():
    config = configure('wand', BodyConfig(), {'max_speed': 30.0})
    assert (config.max_speed, config.memory_s) == (30.0, BodyConfig().memory_s)
    with pytest.raises(ConfigurationError, match='bodies.wand: .*max_speed'):
        configure('wand', BodyConfig(), {'max_speed': -1.0})


vectors = st.tuples(*[st.floats(-10, 10)] * 3)
#: Angles beyond a turn are refused: they may be degrees.
angles = st.tuples(*[st.floats(-2.0 * math.pi, 2.0 * math.pi)] * 3)


def matrix(transform):
    """Give the 4 x 4 matrix that scipy makes of a transform."""
    whole = np.eye(4)
    whole[:3, :3] = Rotation.from_quat(transform.quat_xyzw).as_matrix()
    whole[:3, 3] = transform.position
    return whole


@given(vectors, angles, vectors, angles)
def test_transforms_chain_and_invert_as_matrices_do(p, a, q, b):
    first = body_from_base((*p, *a))
    second = body_from_base((*q, *b))
    assert np.allclose(matrix(compose(first, second)), matrix(first) @ matrix(second), atol=1e-9)
    assert np.allclose(matrix(first.inverse()) @ matrix(first), np.eye(4), atol=1e-9)


def test_offsets_may_be_given_in_three_ways_or_be_empty():
    assert body_from_base([]) == Transform()
    assert body_from_base([1, 2, 3]) == Transform((1.0, 2.0, 3.0))
    turned = body_from_base([0, 0, 0, 0, 0, math.pi / 2])
    assert turned.quat_xyzw == pytest.approx((0, 0, math.sqrt(0.5), math.sqrt(0.5)))
    assert body_from_base([0, 0, 0, 0, 0, 0.7071, 0.7071]).quat_xyzw == pytest.approx(
        turned.quat_xyzw)


@pytest.mark.parametrize('wrong', [
    '', '123', None, [1, 2], [1, 2, 3, 4], [1, 2, math.nan], [0, 0, 0, 0, 0, 0, 0.5], ['a', 0, 0]])
def test_wrong_offsets_are_refused(wrong):
    with pytest.raises(ConfigurationError, match='bodies.drone.offset'):
        body_from_base(wrong, 'bodies.drone.offset')


def test_a_body_on_the_new_origin_is_at_zero():
    there = Transform((4.0, -2.0, 0.5), quat_from_angles(0.0, 0.0, 2.0))
    moved = compose(world_from_mocap((4.0, -2.0, 0.5), 2.0), there)
    assert moved.position == pytest.approx((0.0, 0.0, 0.0))
    assert moved.quat_xyzw == pytest.approx((0.0, 0.0, 0.0, 1.0))
    ahead = Transform((4.0 + math.cos(2.0), -2.0 + math.sin(2.0), 0.5))
    assert compose(world_from_mocap((4.0, -2.0, 0.5), 2.0), ahead).position == pytest.approx(
        (1.0, 0.0, 0.0))
    with pytest.raises(ConfigurationError, match='world offset'):
        world_from_mocap((0.0, 0.0, math.inf), 0.0)


@given(st.tuples(*[st.floats(-1, 1)] * 3), st.floats(0, 3.14), st.floats(1e-3, 10),
       st.sampled_from([-1.0, 1.0]), st.floats(0.5, 2.0))
def test_a_rotation_over_dt_is_a_rate(axis, angle, dt, sign, norm):
    length = math.hypot(*axis)
    if length < 1e-3:
        return
    vector = np.array(axis) / length * angle
    quat = tuple((sign * norm * Rotation.from_rotvec(vector).as_quat()).tolist())
    assert angular_rate(quat, dt) == pytest.approx(tuple(vector / dt), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize('angle', [0.0, 1e-300, 1e-12, 1e-8, 1e-4, math.pi])
def test_small_zero_and_half_turns_are_rates_too(angle):
    quat = (math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2))
    assert angular_rate(quat, 0.01) == pytest.approx((angle / 0.01, 0.0, 0.0), rel=1e-12)


@pytest.mark.parametrize(('quat', 'dt'), [
    ((0.0, 0.0, 0.0, 1.0), 0.0), ((0.0, 0.0, 0.0, 1.0), -1.0), ((0.0, 0.0, 0.0, 1.0), math.nan),
    ((0.0, 0.0, 0.0, 0.0), 0.1), ((math.nan, 0.0, 0.0, 1.0), 0.1),
    ((0.1, 0.0, 0.0, 1.0), 1e-320), ((0.0, 0.0, 0.0, 1.0), math.inf)])
def test_what_is_no_rate_gives_none(quat, dt):
    assert angular_rate(quat, dt) is None


@given(angles, angles, vectors)
def test_quaternion_arithmetic_is_scipys(a, b, v):
    p, q = Rotation.from_rotvec(a), Rotation.from_rotvec(b)
    ours = rotation.multiply(tuple(p.as_quat()), tuple(q.as_quat()))
    assert (Rotation.from_quat(ours) * (p * q).inv()).magnitude() < 1e-7
    assert rotation.rotate(tuple(p.as_quat()), v) == pytest.approx(
        tuple(p.apply(v)), abs=1e-9)
    assert rotation.angle_between(tuple(p.as_quat()), tuple(q.as_quat())) == pytest.approx(
        (p * q.inv()).magnitude(), abs=1e-7)
    assert (Rotation.from_quat(rotation.from_rotation_vector(a)) * p.inv()).magnitude() < 1e-7


@given(st.floats(0, math.pi), st.sampled_from([-1.0, 1.0]))
def test_logarithm_and_exponential_invert(angle, sign):
    for scale in (1.0, 1e-4, 1e-9):
        v = (0.6 * angle * scale, 0.0, -0.8 * angle * scale)
        q = tuple(sign * c for c in rotation.from_rotation_vector(v))
        if angle * scale < 3.1:
            assert rotation.to_rotation_vector(q) == pytest.approx(v, rel=1e-9, abs=1e-15)
