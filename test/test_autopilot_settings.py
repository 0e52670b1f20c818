# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the bridge: addresses, combinations, load of the line; what autopilots accept."""

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.messages import convert, make, VisionSample
from optitrack_vrpn.guests.autopilot.settings import (
    BridgeSettings, MESSAGES, parse, plan, WIRE_BYTES)
import pytest
from vehicle_kit import START, Together, vision


@pytest.mark.parametrize('text', [
    'udpout:10.0.0.2:14540', 'udpin:0.0.0.0:14540', 'udpout:localhost:5760',
    'serial:/dev/ttyUSB0:921600', 'serial:/dev/serial/by-id/usb-a:b-if00:57600'])
def test_connections_as_users_write_them(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize('text', [
    '', 'udp', 'udpout:10.0.0.2', 'udpout::14540', 'serial:/dev/ttyUSB0', 'udpin:a b:1',
    'udpout:fe80::1:5760', 'udpout:host:99999', 'serial:/dev/ttyUSB0:3', '/dev/ttyUSB0'])
def test_other_connections_are_refused_with_the_forms(text):
    with pytest.raises(ConfigurationError, match='connection'):
        BridgeSettings(body='cf1', connection=text)


@pytest.mark.parametrize(('settings', 'words'), [
    ({'rate_hz': 60.0, 'autopilot': 'ardupilot'}, 'at most 48 Hz'),
    ({'rate_hz': 0.5}, 'at least 1 Hz'),
    ({'frame': 'local_ned', 'autopilot': 'ardupilot'}, 'ArduPilot drops'),
    ({'message': ('odometry', 'odometry')}, 'once'),
    ({'message': ('auto', 'odometry')}, 'only entry'),
    ({'message': ('vision',)}, 'att_pos_mocap'),
    ({'origin': (91.0, 0.0, 0.0)}, 'latitude'),
    ({'origin': (47.4, 8.5, 488.0), 'autopilot': 'px4'}, 'set it to 0'),
    ({'origin': (47.4, 8.5, 0.0), 'autopilot': 'ardupilot'}, 'altitude of the place'),
    ({'origin': (47.4, 8.5, 0.004), 'autopilot': 'ardupilot'}, 'altitude of the place'),
    ({'body': ''}, 'name the body'),
    ({'connection': 'serial:/dev/ttyUSB0:57600'}, '57600 baud carry'),
])
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ConfigurationError, match=words):
        plan(BridgeSettings(**{'body': 'cf1', **settings}))


def test_no_message_is_longer_on_the_wire_than_its_load_is_reckoned_with():
    pytest.importorskip('pymavlink')
    state = convert(VisionSample(
        START, (1.1, 2.2, 3.3), (0.1, 0.2, 0.3, 0.93), (0.1,) * 36, (1.1, 2.2, 3.3),
        (1.1, 2.2, 3.3), (0.1,) * 36))
    for name, message in zip(MESSAGES, make(state, plan(BridgeSettings(
            body='cf1', message=MESSAGES)), 255)):
        assert len(Codec(255, 197).encode(message)) == WIRE_BYTES[name]


@pytest.mark.parametrize(('autopilot', 'settings', 'dropped'), [
    ('px4', {}, {}),
    ('px4', {'frame': 'local_ned'}, {}),
    ('px4', {'frame': 'local_ned', 'origin': (47.4, 8.5, 0.0)}, {}),
    ('px4', {'message': ('vision_position_estimate',)}, {}),
    ('px4', {'message': ('att_pos_mocap',)}, {'not read by the estimator': 1}),
    ('px4', {'message': ('vision_speed_estimate',)}, {'unsupported message': 1}),
    ('ardupilot', {}, {}),
    ('ardupilot', {'message': ('vision_position_estimate',)}, {}),
    ('ardupilot', {'message': ('att_pos_mocap',)}, {}),
    ('ardupilot', {'message': ('vision_speed_estimate',)}, {}),
])
def test_defaults_are_accepted_and_what_is_not_has_a_warning(autopilot, settings, dropped):
    fake = FakeAutopilot(FakeConfig(autopilot, epoch_ns=START))
    for message in vision(autopilot, **settings):
        fake.receive(message, START)
    assert dict(fake.dropped) == dropped
    both = Together(autopilot=autopilot, **settings)
    both.run(2)
    warnings = plan(both.settings).warnings
    assert bool(warnings) == bool(dropped)
    assert (both.finding('sending').severity is WARN) == bool(dropped)
