# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of bench/sitl.py without a simulator: room, cameras, faults, pilot."""

import math
from pathlib import Path
import sys
import time

import numpy as np
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.axes import AxesConfig, enu_to_ned, frame_maps, Pose
from optitrack_vrpn.guests.autopilot.parameters import rules
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.world import World
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip('pymavlink')
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'bench')]
import sitl  # noqa: E402
import sitl_pilot  # noqa: E402

pytestmark = pytest.mark.network
ATTITUDE = Rotation.from_euler('ZYX', (0.4, 0.1, -0.2))


@pytest.fixture
def room():
    room = sitl_pilot.Room()
    for _ in range(200):    # the filter of the positions settles
        room.moved((1.0, 2.0, -1.5), (0.0, 0.0, 0.0), ATTITUDE, (0.0, 0.0, 0.0))
    return room


def seen(room):
    """Give the pose in NED that the package makes of what the cameras of a room see."""
    motion = room.at(np.zeros(1))
    maps = frame_maps(AxesConfig(motive_x='north'))
    return enu_to_ned(Pose(maps.position_to_enu(tuple(motion.position[0])),
                           maps.quat_to_enu(tuple(motion.quat_xyzw[0]))))


def test_the_package_turns_what_the_cameras_see_into_the_true_pose(room):
    position, attitude = room.now()
    pose = seen(room)
    assert pose.position == pytest.approx(tuple(position), abs=1e-6)
    assert (Rotation.from_quat(pose.quat_xyzw) * attitude.inv()).magnitude() < 1e-6


@pytest.mark.parametrize('name', sitl.FAULTS)
def test_each_fault_changes_what_the_cameras_see(room, name):
    true = seen(room)
    room.fault = sitl.FAULTS[name]
    with np.errstate(invalid='ignore'):
        wrong = seen(room)
    moved = math.dist(true.position, wrong.position)
    turned = abs(float(np.dot(true.quat_xyzw, wrong.quat_xyzw)))
    assert not (moved < 0.1 and turned > 0.99)


def test_a_hidden_body_is_in_no_frame_of_the_scenario(room):
    world = World(scenario_from_mapping(sitl.MOCAP), {sitl.BODY: room})
    sitl.hide(world, room)
    for hidden, reports in ((True, 0), (False, 1)):
        room.hidden = hidden
        assert len(world.frame(1).reports) == reports


@pytest.mark.parametrize('kind', [sitl.Px4, sitl.ArduCopter])
def test_the_bridge_accepts_settings_and_parameters_of_each_simulator(kind):
    given = {name: parse_yaml(value, name) for name, value in kind.bridge.items()}
    chosen = plan(BridgeSettings(body=sitl.BODY, autopilot=kind.autopilot, target_system=1, **{
        **given, 'origin': tuple(given['origin'])}))
    assert chosen.origin and not chosen.warnings
    for rule in rules(kind.autopilot, chosen):
        value = kind.parameters[rule.name]
        assert rule.right(value) == value, rule


class Vehicle(sitl.ArduCopter):
    """A vehicle on ports that the system chose."""

    def __init__(self, port):
        self.pilot = self.truth = f'udpin:127.0.0.1:{port}'


def test_the_pilot_commands_and_compares_with_the_truth(unused_port):
    """A vehicle that answers each command, and says that it is 0.3 m from where it is."""
    from pymavlink import mavutil
    room = sitl_pilot.Room()
    pilot = sitl_pilot.Pilot(Vehicle(unused_port), room)
    pilot.start()
    vehicle = mavutil.mavlink_connection(
        f'udpout:127.0.0.1:{unused_port}', source_system=1, source_component=1)
    latitude, longitude, altitude = sitl_pilot.HOME
    try:
        begin, end = time.monotonic(), time.monotonic() + 20.0
        while time.monotonic() < end and not (pilot.errors and pilot.armed):
            vehicle.mav.heartbeat_send(2, 3, 128, 4, 4)
            vehicle.mav.sim_state_send(
                1.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, latitude, longitude, altitude, 0,
                0, 0, 0, 0, round(latitude * 1e7), round(longitude * 1e7))
            at = room.now()
            if at is not None:
                (x, y, z), turn = at
                vehicle.mav.attitude_send(0, 0, 0, turn.as_euler('ZYX')[0], 0, 0, 0)
                vehicle.mav.local_position_ned_send(0, x + 0.3, y, z, 0, 0, 0)
            message = vehicle.recv_match(type='COMMAND_LONG', blocking=True, timeout=0.05)
            if message is not None:
                vehicle.mav.command_ack_send(message.command, 0)
        _, largest, height, yaw = pilot.since(begin)
        assert largest == pytest.approx(0.3, abs=0.02) and height < 0.02 and yaw < 0.5
        assert Vehicle(unused_port).flying(pilot), 'armed, in the mode Guided'
        assert not sitl.errors_since(pilot, begin)[1]
    finally:
        pilot.close()
        vehicle.close()


def test_every_row_has_a_name_and_a_function():
    session = sitl.Session.__new__(sitl.Session)
    rows = session.rows()
    assert {'ground', 'square', 'nan', 'lost', 'bridge_killed', 'land'} <= set(rows)
    assert all(map(callable, rows.values()))
