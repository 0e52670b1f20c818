# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of bench/sitl.py without a simulator: room, cameras, faults, pilot."""

from pathlib import Path
import sys

import numpy as np
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.axes import AxesConfig, enu_to_ned, frame_maps, Pose
from optitrack_vrpn.guests.autopilot.parameters import rules
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
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


@pytest.mark.parametrize('kind', [sitl.Px4, sitl.ArduCopter])
def test_the_bridge_accepts_settings_and_parameters_of_each_simulator(kind):
    given = {name: parse_yaml(value, name) for name, value in kind.bridge.items()}
    chosen = plan(BridgeSettings(body=sitl.BODY, autopilot=kind.autopilot, target_system=1, **{
        **given, 'origin': tuple(given['origin'])}))
    assert chosen.origin and not chosen.warnings
    for rule in rules(kind.autopilot, chosen):
        value = kind.parameters[rule.name]
        assert rule.right(value) == value, rule
