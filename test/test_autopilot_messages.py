# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses in ENU as fields of MAVLink messages: hand-worked attitudes, scipy, and mavsdk."""

import json
import math
from pathlib import Path
import socket
import subprocess
import sys
import time

from hypothesis import given, strategies as st
import numpy as np
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.guests.autopilot.gate import valid
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.messages import (
    ardupilot_transform, convert, euler_zyx, make, make_message, px4_odometry,
    VisionSample)
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, MESSAGES, plan
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import World
import pytest
from scipy.spatial.transform import Rotation

S = math.sqrt(0.5)
#: North, east, down of east, north, up; and forward, right, down of forward, left, up.
NED_FROM_ENU = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
FRD_FROM_FLU = np.diag([1, -1, -1])
TRIANGLE = np.triu_indices(6)


def deg(*angles):
    return tuple(math.radians(angle) for angle in angles)


# Attitude of FLU in ENU (x, y, z, w), of FRD in NED (w, x, y, z), and roll, pitch, yaw (deg). Each
# worked out by hand: level with the nose north is a turn of 90 degrees about up in ENU and none in
# NED; the nose east is none in ENU; lifting the nose is a negative turn about the left axis and a
# positive one about the right; lowering the right side is a positive turn about forward in both.
C15, S15, C10, S10 = (math.cos(math.radians(15)), math.sin(math.radians(15)),
                      math.cos(math.radians(10)), math.sin(math.radians(10)))
ATTITUDES = {
    'nose north': ((0, 0, S, S), (1, 0, 0, 0), (0, 0, 0)),
    'nose east': ((0, 0, 0, 1), (S, 0, 0, S), (0, 0, 90)),
    'nose south': ((0, 0, -S, S), (0, 0, 0, 1), (0, 0, 180)),
    'nose west': ((0, 0, 1, 0), (S, 0, 0, -S), (0, 0, -90)),
    'nose north, pitched up 30': (
        (S * S15, -S * S15, S * C15, S * C15), (C15, 0, S15, 0), (0, 30, 0)),
    'nose east, pitched up 30': ((0, -S15, 0, C15), (S * C15, -S * S15, S * S15, S * C15),
                                 (0, 30, 90)),
    'nose east, rolled right 20': ((S10, 0, 0, C10), (S * C10, S * S10, S * S10, S * C10),
                                   (20, 0, 90)),
    'nose north, rolled right 20': (
        (S * S10, S * S10, S * C10, S * C10), (C10, S10, 0, 0), (20, 0, 0)),
}


@pytest.mark.parametrize('value', [1e12, -1e39, 1.7e308, math.inf, math.nan])
def test_numbers_that_no_float32_holds_are_invalid_or_unknown(value):
    """They would end the link, or with DDS the node."""
    assert not valid(VisionSample(0, (0.0, value, 0.0), (0.0, 0.0, 0.0, 1.0)))
    assert not valid(VisionSample(0, (0.0, 0.0, 0.0), (0.0, 0.0, value, 1.0)))
    state = convert(VisionSample(
        0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), [value] * 36, (value, 0.0, 0.0),
        (0.0, 0.0, value), [value] * 36))
    assert [len(Codec(1, 197).encode(one)) > 20 for one in make(state, whole_plan(), 0)]
    assert math.isnan(state.velocity_body[0]) and math.isnan(state.rates[0])
    assert state.pose_covariance is None and state.twist_covariance is None
    assert valid(VisionSample(0, (0.0, 9e11, 0.0), (0.0, 0.0, 0.0, 1.0)))


@pytest.mark.parametrize('name', ATTITUDES)
def test_hand_worked_attitudes(name):
    enu, ned, angles = ATTITUDES[name]
    state = convert(VisionSample(0, (1.0, 2.0, 3.0), enu))
    assert state.position == (2.0, 1.0, -3.0)
    assert min(math.dist(state.quat_wxyz, ned),
               math.dist(state.quat_wxyz, [-x for x in ned])) < 1e-12
    roll, pitch, yaw = euler_zyx(state.quat_wxyz)
    for found, wanted in zip((roll, pitch, yaw), deg(*angles)):
        assert abs(math.remainder(found - wanted, 2 * math.pi)) < 1e-12


@pytest.mark.parametrize(('rotation', 'angles'), [
    # Motive's y-up axes: positive about y turns the nose left, about z lifts it, about x lowers
    # the right side. With x to the north, yaw in NED is the opposite of the turn about y.
    ((0, 0, 0), (0, 0, 0)), ((0, 40, 0), (0, 0, -40)), ((0, -90, 0), (0, 0, 90)),
    ((0, 0, 25), (0, 25, 0)), ((15, 0, 0), (15, 0, 0))])
def test_from_motive_to_the_autopilot(rotation, angles):
    x, y, z = rotation
    motive = Rotation.from_euler('YZX', (y, z, x), degrees=True).as_quat()
    maps = frame_maps(AxesConfig())
    position = (1.0, 2.0, 3.0)    # north, up, east
    state = convert(VisionSample(0, maps.position_to_enu(position),
                                 maps.quat_to_enu(tuple(motive))))
    assert state.position == (1.0, 3.0, -2.0)
    assert np.allclose(euler_zyx(state.quat_wxyz), deg(*angles), atol=1e-12)


unit = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: math.hypot(*q) > 0.1).map(
    lambda q: tuple(np.array(q) / np.linalg.norm(q)))
vectors = st.tuples(*[st.floats(-20, 20)] * 3)


@given(unit, vectors, vectors, vectors, st.integers(0, 2**32 - 1))
def test_the_axes_change_as_matrices_do(quat, position, velocity, rates, seed):
    random = np.random.default_rng(seed)
    root = random.normal(size=(2, 6, 6))
    pose_covariance, twist_covariance = root @ root.transpose(0, 2, 1)
    state = convert(VisionSample(
        1_234_567_891_234, position, quat, tuple(pose_covariance.ravel()), velocity, rates,
        tuple(twist_covariance.ravel())))
    assert state.time_us == 1_234_567_891
    ned_from_frd = NED_FROM_ENU @ Rotation.from_quat(quat).as_matrix() @ FRD_FROM_FLU
    w, x, y, z = state.quat_wxyz
    assert np.allclose(Rotation.from_quat((x, y, z, w)).as_matrix(), ned_from_frd, atol=1e-9)
    assert abs(math.hypot(w, x, y, z) - 1) < 1e-12
    body = FRD_FROM_FLU @ velocity
    assert np.allclose(state.velocity_body, body)
    assert np.allclose(state.velocity_ned, ned_from_frd @ body, atol=1e-9)
    assert np.allclose(state.rates, FRD_FROM_FLU @ rates)
    both = np.kron(np.eye(2), NED_FROM_ENU)
    assert np.allclose(state.pose_covariance, both @ pose_covariance @ both.T)
    both = np.kron(np.eye(2), FRD_FROM_FLU)
    assert np.allclose(state.twist_covariance, both @ twist_covariance @ both.T)

    messages = {one.get_type(): one.to_dict() for one in make(state, whole_plan(), 7)}
    frd = np.array(state.twist_covariance)[:3, :3]
    assert np.allclose(np.reshape(messages['VISION_SPEED_ESTIMATE']['covariance'], (3, 3)),
                       ned_from_frd @ frd @ ned_from_frd.T, atol=1e-6)
    assert np.allclose(messages['ODOMETRY']['pose_covariance'],
                       np.array(state.pose_covariance)[TRIANGLE])


def whole_plan(autopilot='px4'):
    return plan(BridgeSettings(body='cf1', autopilot=autopilot, message=MESSAGES))


def test_what_is_unknown_is_nan_and_not_zero():
    state = convert(VisionSample(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), (0.0,) * 36))
    messages = {one.get_type(): one.to_dict() for one in make(state, whole_plan(), 0)}
    assert 'VISION_SPEED_ESTIMATE' not in messages, 'there is no velocity to send'
    odometry = messages['ODOMETRY']
    for name in ('vx', 'vy', 'vz', 'rollspeed', 'pitchspeed', 'yawspeed'):
        assert math.isnan(odometry[name])
    for covariance in (odometry['pose_covariance'], odometry['velocity_covariance'],
                       messages['VISION_POSITION_ESTIMATE']['covariance'],
                       messages['ATT_POS_MOCAP']['covariance']):
        assert len(covariance) == 21
        assert math.isnan(covariance[0])


def test_a_velocity_without_covariance_has_nine_entries_that_begin_with_nan():
    state = convert(VisionSample(0, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), None, (1.0, 2.0, 3.0)))
    messages = {one.get_type(): one.to_dict() for one in make(state, whole_plan(), 0)}
    speed = messages['VISION_SPEED_ESTIMATE']
    assert len(speed['covariance']) == 9
    assert math.isnan(speed['covariance'][0])
    assert (speed['x'], speed['y'], speed['z']) == pytest.approx((2.0, 1.0, -3.0))


def test_px4_messages_say_their_frames():
    state = convert(VisionSample(5_000, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), None,
                                 (1.0, 0.0, 0.0)))
    fields = px4_odometry(state, whole_plan(), 9)
    assert (fields['pose_frame'], fields['velocity_frame']) == (2, 3)
    assert fields['timestamp'] == fields['timestamp_sample'] == 5
    assert fields['position'] == [2.0, 1.0, -3.0]
    assert fields['q'] == pytest.approx([S, 0, 0, S])
    assert fields['velocity'] == [1.0, 0.0, 0.0]
    assert all(map(math.isnan, fields['position_variance'] + fields['angular_velocity']))
    assert fields['reset_counter'] == 9
    ned = plan(BridgeSettings(body='cf1', frame='local_ned'))
    assert px4_odometry(state, ned, 0)['pose_frame'] == 1


@given(unit, vectors)
def test_what_ardupilot_makes_of_the_transform_is_ned(quat, position):
    state = convert(VisionSample(0, position, quat))
    pose = ardupilot_transform(state)
    x, y, z = pose.position
    assert (x, -y, -z) == pytest.approx(state.position)
    qx, qy, qz, qw = pose.quat_xyzw
    assert (qw, qx, -qy, -qz) == pytest.approx(state.quat_wxyz)


# -- bytes, decoded by another implementation -----------------------------------------------------

DECODER = Path(__file__).with_name('mavsdk_decoder.py')


class MavsdkDecoder:
    """A process that decodes with mavsdk (mavlink_direct), which shares no code with pymavlink."""

    def __init__(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(('127.0.0.1', 0))
            port = sock.getsockname()[1]
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(('127.0.0.1', port))
        self.process = subprocess.Popen(
            [sys.executable, str(DECODER), str(port)], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ready(self, heartbeat):
        """Send heartbeats until it listens to the system that they come from."""
        import select
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.sock.send(heartbeat)
            except ConnectionRefusedError:
                pass
            if select.select([self.process.stdout], [], [], 0.05)[0]:
                assert self.process.stdout.readline() == 'ready\n'
                return
        raise AssertionError('mavsdk does not find the system')

    def decoded(self):
        """Give the next message: its name and fields."""
        return json.loads(self.process.stdout.readline())


TRUTH = {'bodies': [{'name': 'cf1', 'motion': {
    'type': 'figure_eight', 'centre': [0.3, 1.2, -0.4], 'length': 1.5, 'width': 0.7,
    'climb': 0.3, 'period': 7.3}}], 'rate': 100}
_NED_FROM_MOTIVE = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])


def closed_form(seconds):
    """Give the trajectory by matrices: Motive's x is north, y up, z east (right)."""
    state = World(scenario_from_mapping(TRUTH)).truth('cf1', seconds)
    turned = Rotation.from_matrix(_NED_FROM_MOTIVE)
    ned_from_frd = turned * Rotation.from_quat(state.quat_xyzw[0]) * turned.inv()
    return (_NED_FROM_MOTIVE @ state.position[0], ned_from_frd,
            _NED_FROM_MOTIVE @ state.velocity[0], ned_from_frd.inv().apply(
                _NED_FROM_MOTIVE @ state.angular_velocity[0]))


def sample_at(seconds, stamp_ns):
    """Make the sample that the node would publish, in ENU and FLU, by matrices."""
    position, attitude, velocity, rates = closed_form(seconds)
    enu_from_flu = Rotation.from_matrix(
        NED_FROM_ENU.T @ attitude.as_matrix() @ FRD_FROM_FLU.T)
    pose_covariance = np.diag([1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6])
    twist_covariance = np.diag([1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4])
    return VisionSample(
        stamp_ns, tuple(NED_FROM_ENU.T @ position), tuple(enu_from_flu.as_quat()),
        tuple(pose_covariance.ravel()), tuple(FRD_FROM_FLU @ attitude.inv().apply(velocity)),
        tuple(FRD_FROM_FLU @ rates), tuple(twist_covariance.ravel()))


def close(found, wanted, tolerance=2e-6):
    assert np.allclose(found, wanted, rtol=2e-6, atol=tolerance), (found, wanted)


@pytest.mark.network
def test_mavsdk_reads_every_field_of_the_trajectory_for_both_autopilots():
    pytest.importorskip('mavsdk')
    pytest.importorskip('pymavlink')
    with MavsdkDecoder() as decoder:
        codec = Codec(1, 197)
        decoder.ready(codec.encode(make_message(
            'HEARTBEAT', type=18, autopilot=8, system_status=4, mavlink_version=3)))
        for autopilot in ('px4', 'ardupilot'):
            chosen = whole_plan(autopilot)
            for number in range(12):
                stamp_ns = 1_700_000_000_123_456_789 + number * 20_000_000
                for message in make(convert(sample_at(0.61 * number, stamp_ns)), chosen, 250):
                    decoder.sock.send(codec.encode(message))
                    check_fields(decoder.decoded(), message.get_type(), 0.61 * number, stamp_ns)


def check_fields(decoded, name, seconds, stamp_ns):
    found, fields, sender = decoded
    assert (found, sender) == (name, [1, 197])
    position, attitude, velocity, rates = closed_form(seconds)
    assert fields['usec' if name.startswith('VISION') else 'time_usec'] == stamp_ns // 1000
    if name == 'VISION_SPEED_ESTIMATE':
        close([fields[axis] for axis in 'xyz'], velocity)
        body = np.diag([1e-4, 2e-4, 3e-4])
        close(np.reshape(fields['covariance'], (3, 3)),
              attitude.as_matrix() @ body @ attitude.as_matrix().T, 1e-9)
    else:
        close([fields[axis] for axis in 'xyz'], position)
        covariance = np.zeros((6, 6))
        # Variances of north, east and down, where those of east, north and up were given.
        np.fill_diagonal(covariance, [2e-6, 1e-6, 3e-6, 5e-6, 4e-6, 6e-6])
        close(fields['pose_covariance' if name == 'ODOMETRY' else 'covariance'],
              covariance[TRIANGLE], 1e-9)
    if 'q' in fields:
        w, x, y, z = fields['q']
        assert abs(math.hypot(w, x, y, z) - 1) < 1e-6, 'PX4 refuses more than 1e-5'
        assert (Rotation.from_quat((x, y, z, w)) * attitude.inv()).magnitude() < 2e-6
    if name == 'VISION_POSITION_ESTIMATE':
        same = Rotation.from_euler('ZYX', (fields['yaw'], fields['pitch'], fields['roll']))
        assert (same * attitude.inv()).magnitude() < 2e-6
    if name != 'ATT_POS_MOCAP':
        assert fields['reset_counter'] == 250
    if name == 'ODOMETRY':
        assert (fields['frame_id'], fields['child_frame_id']) == (20, 12)
        assert (fields['estimator_type'], fields['quality']) == (2, 100)
        close([fields[axis] for axis in ('vx', 'vy', 'vz')], attitude.inv().apply(velocity))
        close([fields[axis] for axis in ('rollspeed', 'pitchspeed', 'yawspeed')], rates)
        close(fields['velocity_covariance'],
              np.diag([1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4])[TRIANGLE], 1e-9)
