# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Link states, parameters and other senders, against the fake autopilot."""

import math

from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig
from optitrack_vrpn.guests.autopilot.link_io import Codec
from optitrack_vrpn.guests.autopilot.parameters import (
    ANSWER_NS, decode, encode, ParameterProtocol, REAL32, rules)
from optitrack_vrpn.guests.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.guests.autopilot.vehicle import VehicleLink
import pytest
from vehicle_kit import MS, START, Together, vision


def test_the_bridge_introduces_itself_as_an_onboard_controller_of_the_vehicle():
    both = Together(FakeConfig(system=7, epoch_ns=START))
    both.run(3)
    assert both.fake.companion == (7, 197, 18, 8)
    assert sum(one.get_type() == 'HEARTBEAT' for one in both.outgoing) == 3


@pytest.mark.parametrize('autopilot', ['px4', 'ardupilot'])
def test_all_is_well_with_a_vehicle_that_is_set_up(autopilot):
    both = Together(autopilot=autopilot)
    assert not both.vehicle.may_send
    both.run(8)
    assert both.vehicle.link is VehicleLink.ALIVE
    assert both.vehicle.may_send
    assert both.vehicle.version == '1.15.4'
    assert both.vehicle.parameters.done
    assert all(verdict.good for verdict in both.vehicle.parameters.verdicts)
    assert [event.severity for event in both.events] == [INFO] * len(both.events)


PARAMETERS = pytest.mark.parametrize(('autopilot', 'wrong', 'right'), [
    ('px4', {'EKF2_EV_CTRL': 1, 'EKF2_HGT_REF': 1, 'EKF2_EV_DELAY': 175.0},
     {'EKF2_EV_CTRL': 15, 'EKF2_HGT_REF': 3, 'EKF2_EV_DELAY': 0}),
    ('ardupilot', {'VISO_TYPE': 0, 'EK3_SRC1_YAW': 1}, {'VISO_TYPE': 1, 'EK3_SRC1_YAW': 6}),
    # The backends for cameras turn the poses to the vehicle's yaw (2) or shift them (3).
    ('ardupilot', {'VISO_TYPE': 2}, {'VISO_TYPE': 1}),
    ('ardupilot', {'VISO_TYPE': 3}, {'VISO_TYPE': 1})])


@PARAMETERS
def test_wrong_parameters_are_named_with_the_right_values(autopilot, wrong, right):
    both = Together(autopilot=autopilot, parameters=wrong)
    both.run(5)
    bad = {verdict.rule.name: verdict.right for verdict in both.vehicle.parameters.verdicts
           if not verdict.good}
    assert bad == right
    for name, value in right.items():
        assert both.said(f'{name} is {wrong[name]:g}; set it to {value:g}')
    assert not [one for one in both.outgoing if one.get_type() == 'PARAM_SET']
    assert {name: both.fake.values[name][0] for name in wrong} == wrong


@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_a_parameter_without_a_finite_value_counts_as_unanswered(value):
    settings = BridgeSettings(body='drone', autopilot='px4')
    exchange = ParameterProtocol(rules('px4', plan(settings)), bytewise=True, write=False)
    for step in range(100):
        exchange.tick(1, False, step * ANSWER_NS)
        exchange.receive('EKF2_EV_CTRL', value, REAL32)
    assert exchange.done
    assert str(exchange.verdicts[0]).startswith('EKF2_EV_CTRL: no answer')


@PARAMETERS
def test_parameters_are_written_on_demand_and_read_back(autopilot, wrong, right):
    both = Together(autopilot=autopilot, parameters=wrong, set_parameters=True)
    both.run(5)
    assert sorted(rule.name for rule in both.vehicle.parameters.written) == sorted(wrong)
    assert all(verdict.good for verdict in both.vehicle.parameters.verdicts)
    assert {name: both.fake.values[name][0] for name in wrong} == right


def test_parameters_that_the_autopilot_does_not_take_are_reported_and_others_are_written():
    wrong = {'EKF2_EV_CTRL': 1.0, 'EKF2_HGT_REF': 1.0}    # EKF2_MAG_TYPE is 0 and wrong too
    exchange = ParameterProtocol(
        rules('px4', plan(BridgeSettings(body='drone', autopilot='px4'))), bytewise=False,
        write=True)
    sent = []
    for step in range(200):
        out = exchange.tick(1, False, step * ANSWER_NS)
        if out is None:
            continue
        name = out.param_id
        if out.get_type() == 'PARAM_SET':
            sent.append(name)
            if name == 'EKF2_HGT_REF':
                exchange.receive(name, out.param_value, REAL32)
        else:
            exchange.receive(name, wrong.get(name, 0.0), REAL32)
    assert exchange.done and exchange.refused.endswith(' EKF2_EV_CTRL, EKF2_MAG_TYPE')
    assert 'EKF2_HGT_REF' in [rule.name for rule in exchange.written]
    assert 1 < sent.count('EKF2_EV_CTRL') < 10


def test_names_of_parameters_that_are_bytes_are_names():
    """Old versions of pymavlink decode them so."""
    class Old(Together):

        def take(self, message, component=1, system=None):
            if message.get_type() == 'PARAM_VALUE':
                message.param_id = message.param_id.encode()
            super().take(message, component, system)

    both = Old()
    both.run(5)
    assert both.vehicle.parameters.done
    assert not [one for one in both.vehicle.parameters.verdicts if 'no answer' in str(one)]


def test_a_parameter_that_the_firmware_lacks_is_reported_and_does_not_stop_the_others():
    both = Together()
    del both.fake.values['EKF2_EV_CTRL']
    both.run(8)
    assert both.said('EKF2_EV_CTRL: no answer')
    assert len(both.vehicle.parameters.verdicts) == 6
    assert sum(verdict.good for verdict in both.vehicle.parameters.verdicts) == 5


@pytest.mark.parametrize(('mav_type', 'value'), [
    (6, -1), (6, 2**31 - 1), (5, 2**31), (1, 200), (2, -3), (3, 60000), (4, -30000), (6, 0)])
def test_integers_go_through_the_bytes_of_a_float_as_px4_has_them(mav_type, value):
    assert decode(encode(value, mav_type, True), mav_type, True) == value


def test_the_time_of_a_halt_of_the_bridge_is_no_silence_of_the_autopilot():
    """A turn comes before the heartbeats that have arrived meanwhile are read."""
    both = Together()
    both.run(5)
    begun = both.vehicle.interruptions
    for _ in range(3):
        both.now += 10_000 * MS
        both.alive = False
        both.run(0.5)
        assert both.vehicle.link is VehicleLink.ALIVE
        both.alive = True
        both.run(2)
    assert both.vehicle.interruptions == begun
    both.now += 10_000 * MS
    both.alive = False
    both.run(3)
    assert both.vehicle.link is VehicleLink.LOST


def test_a_lost_heartbeat_is_a_state_and_its_return_begins_anew():
    both = Together()
    both.run(5)
    both.alive = False
    both.run(2)
    assert both.vehicle.link is VehicleLink.ALIVE
    both.run(2.5)
    assert both.vehicle.link is VehicleLink.LOST
    assert both.vehicle.may_send, 'a link that works one way must not cost the poses'
    assert [event.severity for event in both.said('still sent')] == [ERROR]
    both.alive = True
    both.outgoing.clear()
    both.run(3)
    assert both.vehicle.link is VehicleLink.ALIVE
    assert [one for one in both.outgoing if one.get_type() == 'PARAM_REQUEST_READ'], 'asked again'
    keys = {event.key for text in ('is there', 'still sent') for event in both.said(text)}
    assert len(keys) == 2, 'logs limit the lines of one key'


@pytest.mark.parametrize('seconds', [0.2, 1.5])
def test_an_autopilot_that_restarts_within_the_heartbeat_timeout_gets_everything_again(seconds):
    both = Together(origin=(47.3977419, 8.5455938, 0.0), set_parameters=True)
    both.run(8)
    both.alive = False
    both.run(seconds)
    both.fake = FakeAutopilot(
        FakeConfig(epoch_ns=both.now, boot_ns=0, convergence=50), {'EKF2_HGT_REF': 1})
    both.alive = True
    both.run(8)
    assert both.vehicle.link is VehicleLink.ALIVE and both.said('has restarted')
    assert both.fake.origin == (473977419, 85455938, 0)
    assert both.fake.values['EKF2_HGT_REF'][0] == 3


def test_what_was_written_or_refused_is_reported_once():
    both = Together(parameters={'EKF2_HGT_REF': 1}, set_parameters=True)
    for _ in range(2):
        both.run(6)
        both.alive = False
        both.run(4)
        both.alive = True
    assert len(both.said('written')) == 1


def test_a_written_parameter_that_needs_a_reboot_is_a_warning_until_the_reboot():
    both = Together(autopilot='ardupilot', parameters={'VISO_TYPE': 0}, set_parameters=True)
    both.run(6)
    assert 'VISO_TYPE' in both.vehicle.parameters.reboot
    assert both.said('reboot')[0].severity == WARN
    both.alive = False
    both.run(4)
    both.alive = True
    both.run(6)
    assert not both.vehicle.parameters.reboot


def test_a_vehicle_that_is_armed_before_all_is_written_says_so():
    both = Together(parameters={'EKF2_HGT_REF': 1, 'EKF2_GPS_CTRL': 7}, set_parameters=True)
    while not both.vehicle.parameters.written:
        both.run(0.01)
    both.fake.config = both.fake.config._replace(armed=True)
    both.vehicle.armed = True
    both.run(2)
    assert len(both.vehicle.parameters.written) == 1
    assert both.said('armed')


@pytest.mark.parametrize('signs', [False, True])
def test_an_autopilot_that_signs_is_reported(signs):
    dialect = pytest.importorskip('pymavlink.dialects.v20.ardupilotmega')
    sender = dialect.MAVLink(None, srcSystem=1, srcComponent=1)
    sender.signing.secret_key, sender.signing.sign_outgoing = b'k' * 32, signs
    heartbeat, = Codec(1, 197).decode(bytes(
        dialect.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3).pack(sender)))
    both = Together()
    both.vehicle.receive(heartbeat, START, 10**12)
    both.run(0.1)
    assert [event.severity for event in both.said('signs')] == [WARN] * signs


def test_another_firmware_than_the_one_that_is_set_gets_nothing():
    both = Together(FakeConfig('ardupilot', epoch_ns=START))
    both.run(2)
    assert both.vehicle.link is VehicleLink.WRONG
    assert not both.vehicle.may_send
    assert both.said('ArduPilot') and both.said('autopilot is px4')


def test_the_autopilot_of_another_vehicle_is_not_taken_and_is_reported():
    both = Together()
    both.run(2)
    heartbeat = FakeAutopilot(FakeConfig(system=9)).tick(START)[0]
    both.take(heartbeat, system=9)
    both.run(0.1)
    assert both.vehicle.system == 1
    assert both.vehicle.other_vehicles(both.now - START + 10**12) == [9]
    assert both.said('system id 9')
    named = Together(FakeConfig(system=9, epoch_ns=START), target_system=9)
    named.take(FakeAutopilot(FakeConfig(system=1)).tick(START)[0], system=1)
    assert named.vehicle.system == 0
    named.run(2)
    assert named.vehicle.system == 9
    assert named.said('system id 1'), 'heard before the right one'


def test_without_target_system_no_pose_is_sent_while_two_vehicles_are_heard():
    both = Together()
    other = FakeAutopilot(FakeConfig(system=9)).tick(START)[0]
    both.run(0.5)
    assert both.vehicle.link is VehicleLink.ALIVE
    assert not both.vehicle.may_send, 'it may not be alone'
    both.run(1.5)
    assert both.vehicle.may_send
    both.take(other, system=9)
    assert not both.vehicle.may_send
    assert 'system id 9' in both.finding('autopilot').found
    both.run(2.5)
    assert not both.vehicle.may_send
    both.run(1)
    assert both.vehicle.may_send, 'the other one has been silent for 3 s'
    # A vehicle that flies on the poses keeps them.
    both.fake.config = both.fake.config._replace(armed=True)
    both.run(1.5)
    both.take(other, system=9)
    both.run(1)
    assert both.vehicle.may_send
    assert both.finding('autopilot').severity is ERROR
    both.fake.config = both.fake.config._replace(armed=False)
    both.take(other, system=9)
    both.run(1.5)
    assert not both.vehicle.may_send
    named = Together(target_system=1)
    named.take(other, system=9)
    named.run(0.5)
    assert named.vehicle.may_send


def test_a_wrong_autopilot_does_not_exclude_the_right_one():
    both = Together()
    both.take(FakeAutopilot(FakeConfig('ardupilot', system=9)).tick(START)[0], system=9)
    assert both.vehicle.link is VehicleLink.WRONG
    both.run(2)
    assert (both.vehicle.link, both.vehicle.system) == (VehicleLink.ALIVE, 1)


def test_another_firmware_with_the_ids_of_the_vehicle_stops_no_poses_and_disarms_nothing():
    both = Together(FakeConfig(armed=True, epoch_ns=START), {'EKF2_HGT_REF': 1},
                    set_parameters=True)
    both.run(2)
    heartbeat = FakeAutopilot(FakeConfig('ardupilot')).tick(START)[0]
    for _ in range(5):
        both.take(heartbeat)
        assert both.vehicle.may_send and both.vehicle.armed
        both.run(1)
    assert [event.severity for event in both.said('own system id')] == [ERROR] * 5
    assert not both.said('restarted') and len(both.said('is there')) == 1
    assert not [one for one in both.outgoing if one.get_type() == 'PARAM_SET']
    both.alive = False
    both.run(4)
    both.take(heartbeat)
    assert both.vehicle.link is VehicleLink.WRONG, 'the vehicle itself has another firmware now'


def test_heartbeats_of_gimbals_and_ground_stations_are_no_autopilot():
    both = Together()
    heartbeat = FakeAutopilot(FakeConfig()).tick(START)[0]
    both.take(heartbeat, component=154)
    heartbeat.autopilot = 8
    both.take(heartbeat, system=255)
    assert both.vehicle.link is VehicleLink.WAITING


@pytest.mark.parametrize('sender', [(1, 198), (1, 197), (42, 240)])
def test_a_second_sender_of_poses_is_reported(sender):
    both = Together()
    both.run(2)
    system, component = sender
    both.take(vision()[0], component, system)
    both.run(0.1)
    assert both.vehicle.other_senders(both.now - START + 10**12) == [
        f'ODOMETRY from system {system} component {component}']
    assert both.said('two senders')[0].severity == ERROR
    assert bool(both.said('this bridge')) == (sender == (1, 197))
    both.run(6)
    assert not both.vehicle.other_senders(both.now - START + 10**12), 'it has stopped'


@pytest.mark.parametrize('sender', [(1, 1), (9, 197)], ids=['own autopilot', 'another vehicle'])
def test_poses_of_autopilots_and_for_other_vehicles_are_no_second_sender(sender):
    both = Together(target_system=1)
    both.run(2)
    both.take(FakeAutopilot(FakeConfig(system=9)).tick(START)[0], system=9)
    system, component = sender
    both.take(vision()[0], component, system)
    both.run(0.1)
    assert not both.said('two senders')
