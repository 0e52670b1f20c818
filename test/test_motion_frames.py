# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Frames against hand-worked cases, scipy and transforms3d.

Motive's y-up world: x forward, y up, z right. A body at rest as created has its nose along x.
"""

import math

from hypothesis import given, strategies as st
import numpy as np
from optitrack_vrpn.core.axes import AxesConfig, enu_to_ned, frame_maps, Pose, QUAT_ENU_NED
from optitrack_vrpn.core.errors import ConfigurationError
import pytest
from scipy.spatial.transform import Rotation
import transforms3d

H = math.sqrt(0.5)
C, S = math.cos(math.radians(15)), math.sin(math.radians(15))

#: Turns in Motive's axes: about y (up) turns to the left, about z (right) lifts the nose, about
#: x (forward) lowers the right side.
LEVEL = (0.0, 0.0, 0.0, 1.0)
LEFT_90 = (0.0, H, 0.0, H)
RIGHT_90 = (0.0, -H, 0.0, H)
PITCHED_UP_30 = (0.0, 0.0, S, C)
ROLLED_RIGHT_30 = (S, 0.0, 0.0, C)


def rpy(quat_xyzw):
    """Roll, pitch, yaw in degrees, fixed axes x, y, z (REP 103)."""
    x, y, z, w = quat_xyzw
    return [math.degrees(a) for a in transforms3d.euler.quat2euler((w, x, y, z), 'sxyz')]


def to_enu_and_ned(config, position, quat_xyzw):
    """Convert a pose as the node does: to ENU, and from there to NED."""
    maps = frame_maps(config)
    enu = Pose(maps.position_to_enu(position), maps.quat_to_enu(quat_xyzw))
    return enu, enu_to_ned(enu)


# ENU, FLU: yaw counts from east to north; pitch up is negative (y is left), roll right positive.
# NED, FRD: yaw counts from north to east; pitch up is positive, roll right positive.
@pytest.mark.parametrize('motive_x, quat_xyzw, enu, ned', [
    ('north', LEVEL, (0, 0, 90), (0, 0, 0)),             # nose north
    ('north', RIGHT_90, (0, 0, 0), (0, 0, 90)),          # nose east
    ('north', LEFT_90, (0, 0, 180), (0, 0, -90)),        # nose west
    ('north', PITCHED_UP_30, (0, -30, 90), (0, 30, 0)),
    ('north', ROLLED_RIGHT_30, (30, 0, 90), (30, 0, 0)),
    ('east', LEVEL, (0, 0, 0), (0, 0, 90)),              # nose east
    ('east', LEFT_90, (0, 0, 90), (0, 0, 0)),            # nose north
    ('east', PITCHED_UP_30, (0, -30, 0), (0, 30, 90)),
    ('east', ROLLED_RIGHT_30, (30, 0, 0), (30, 0, 90))])
def test_attitudes_worked_by_hand(motive_x, quat_xyzw, enu, ned):
    poses = to_enu_and_ned(AxesConfig('y', motive_x), (0.0, 0.0, 0.0), quat_xyzw)
    for pose, expected in zip(poses, (enu, ned)):
        assert np.cos(np.radians(np.subtract(rpy(pose.quat_xyzw), expected))) == (
            pytest.approx([1, 1, 1]))


@pytest.mark.parametrize('up_axis, motive_x, enu, ned', [
    ('y', 'north', (3.0, 1.0, 2.0), (1.0, 3.0, -2.0)),
    ('y', 'east', (1.0, -3.0, 2.0), (-3.0, 1.0, -2.0)),
    # z-up (x forward, y left, z up): 1 forward, 2 left, 3 up
    ('z', 'north', (-2.0, 1.0, 3.0), (1.0, -2.0, -3.0)),
    ('z', 'east', (1.0, 2.0, 3.0), (2.0, 1.0, -3.0))])
def test_positions_worked_by_hand(up_axis, motive_x, enu, ned):
    poses = to_enu_and_ned(AxesConfig(up_axis, motive_x), (1.0, 2.0, 3.0), LEVEL)
    assert (poses[0].position, poses[1].position) == (enu, ned)


#: Columns are the axes of the right-hand frame in the left-hand one, read off the definitions.
ENU_FROM_MOTIVE = {'north': np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
                   'east': np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])}
MOTIVE_FROM_FLU = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
Y_UP_FROM_Z_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
NED_FROM_ENU = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
FLU_FROM_FRD = np.diag([1, -1, -1])

coordinates = st.floats(-1e3, 1e3)
quaternions = st.tuples(*[st.floats(-1, 1)] * 4).filter(
    lambda q: sum(c * c for c in q) > 1e-2).map(
        lambda q: tuple(c / math.sqrt(sum(d * d for d in q)) for c in q))
axes = st.builds(AxesConfig, st.sampled_from('yz'), st.sampled_from(['north', 'east']))


def reference(config, position, quat_xyzw):
    """Convert by matrices from scipy: position and attitude in ENU, then in NED."""
    attitude = Rotation.from_quat(quat_xyzw).as_matrix()
    position = np.array(position)
    if config.up_axis == 'z':
        attitude = Y_UP_FROM_Z_UP @ attitude @ Y_UP_FROM_Z_UP.T
        position = Y_UP_FROM_Z_UP @ position
    enu_from_motive = ENU_FROM_MOTIVE[config.motive_x]
    enu = enu_from_motive @ position, enu_from_motive @ attitude @ MOTIVE_FROM_FLU
    return enu, (NED_FROM_ENU @ enu[0], NED_FROM_ENU @ enu[1] @ FLU_FROM_FRD)


def matrix(quat_xyzw):
    x, y, z, w = quat_xyzw
    return transforms3d.quaternions.quat2mat((w, x, y, z))


@given(axes, st.tuples(*[coordinates] * 3), quaternions)
def test_every_convention_against_matrices(config, position, quat_xyzw):
    poses = to_enu_and_ned(config, position, quat_xyzw)
    negated = to_enu_and_ned(config, position, tuple(-c for c in quat_xyzw))
    for pose, other, (expected, attitude) in zip(
            poses, negated, reference(config, position, quat_xyzw)):
        assert pose.position == tuple(expected)
        np.testing.assert_allclose(matrix(pose.quat_xyzw), attitude, atol=1e-14)
        assert math.hypot(*pose.quat_xyzw) == pytest.approx(1, abs=1e-15)
        assert other.quat_xyzw == tuple(-c for c in pose.quat_xyzw)


@given(st.tuples(*[coordinates] * 3), quaternions)
def test_ned_is_the_original_packages(position, quat_xyzw):
    _, ned = to_enu_and_ned(AxesConfig(), position, quat_xyzw)
    (x, y, z), (qx, qy, qz, qw) = position, quat_xyzw
    assert ned.position == (x, z, -y)
    np.testing.assert_allclose(ned.quat_xyzw, (qx, qz, -qy, qw), atol=1e-15)


def test_static_attitude_of_ned_in_enu():
    np.testing.assert_allclose(matrix(QUAT_ENU_NED), NED_FROM_ENU.T, atol=1e-15)


@pytest.mark.parametrize('field, value', [('up_axis', 'x'), ('motive_x', 'south')])
def test_unknown_conventions_are_refused_by_name(field, value):
    with pytest.raises(ConfigurationError, match=f'{field} is {value!r}; allowed: '):
        AxesConfig(**{field: value})
