# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Roll, pitch and yaw against scipy, also where roll and yaw are not unique."""

import math

from hypothesis import example, given, strategies as st
from optitrack_vrpn.core.rotation import angles_from_quat, normalised, quat_from_angles
import pytest
from scipy.spatial.transform import Rotation

quats = st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(
    lambda q: sum(c * c for c in q) > 0.01).map(normalised)
angle = st.floats(-math.pi + 1e-3, math.pi - 1e-3)


@given(quats)
def test_angles_are_those_of_scipy(q):
    roll, pitch, yaw = angles_from_quat(q)
    rebuilt = Rotation.from_euler('ZYX', (yaw, pitch, roll))
    assert (rebuilt * Rotation.from_quat(q).inv()).magnitude() < 1e-5


@given(angle, st.floats(-1.55, 1.55), angle)
@example(0.0, 0.0, 0.0)
def test_angles_invert(roll, pitch, yaw):
    q = quat_from_angles(roll, pitch, yaw)
    wanted = Rotation.from_euler('ZYX', (yaw, pitch, roll))
    assert (Rotation.from_quat(q) * wanted.inv()).magnitude() < 1e-7
    assert angles_from_quat(q) == pytest.approx((roll, pitch, yaw), abs=1e-5)


@given(quats)
def test_angles_do_not_depend_on_the_sign_of_the_quaternion(q):
    one, other = angles_from_quat(q), angles_from_quat(tuple(-c for c in q))
    assert one.gimbal_lock == other.gimbal_lock and one.pitch == other.pitch
    assert abs(math.remainder(one.yaw - other.yaw, 2 * math.pi)) < 1e-9


@pytest.mark.parametrize('sign', [1, -1])
def test_angles_at_the_pole_describe_the_same_attitude(sign):
    for yaw in (-2.0, 0.0, 0.7, 3.0):
        turned = Rotation.from_euler('ZYX', (yaw, sign * math.pi / 2, 0.3))
        roll, pitch, again = angles_from_quat(tuple(turned.as_quat().tolist()))
        same = Rotation.from_euler('ZYX', (again, pitch, roll))
        assert (same * turned.inv()).magnitude() < 1e-5


def test_gimbal_lock_is_reported_within_one_degree_of_a_right_angle():
    for pitch in (89.5, -89.5, 90.0):
        assert angles_from_quat(quat_from_angles(0.3, math.radians(pitch), 0.2)).gimbal_lock
    assert not angles_from_quat(quat_from_angles(0.3, math.radians(88.5), 0.2)).gimbal_lock
