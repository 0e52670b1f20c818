# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Link states, parameters, origin, other senders and agreement, against the fake autopilot."""

import math

from conftest import memory_growth
from optitrack_vrpn.autopilot.agreement import Agreement, judge_attitude, judge_position
from optitrack_vrpn.autopilot.connection import parse
from optitrack_vrpn.autopilot.fake_autopilot import FakeAutopilot, FakeConfig
from optitrack_vrpn.autopilot.gate import Gate, GateConfig
from optitrack_vrpn.autopilot.messages import convert, make, Outgoing, Sample, State
from optitrack_vrpn.autopilot.parameter_protocol import ANSWER_NS, ParameterProtocol
from optitrack_vrpn.autopilot.parameters_check import decode, encode, REAL32, rules
from optitrack_vrpn.autopilot.report import findings, LinkReport, Source
from optitrack_vrpn.autopilot.settings import BridgeSettings, MESSAGES, plan, WIRE_BYTES
from optitrack_vrpn.autopilot.vehicle import Happening, Incoming, Link, TRANSITIONS, Vehicle
from optitrack_vrpn.doctor.result import Level
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.euler import quat_from_angles
import pytest

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS


class Together:
    """A vehicle's model and a fake autopilot with a wire between them, and one clock."""

    def __init__(self, fake=None, parameters=None, **settings):
        self.settings = BridgeSettings(**{'body': 'cf1', **settings})
        self.vehicle = Vehicle(self.settings, plan(self.settings))
        self.fake = FakeAutopilot(fake or FakeConfig(
            self.settings.autopilot, epoch_ns=START, convergence=50), parameters)
        self.now = START
        self.events = []
        self.outgoing = []
        self.alive = True

    def run(self, seconds, step_ms=10):
        """Let time pass; messages travel in one millisecond."""
        for _ in range(round(seconds * 1000 / step_ms)):
            self.now += step_ms * MS
            self.deliver(self.vehicle.tick(self.now, self.now - START + 10**12))
            if self.alive:
                for message in self.fake.tick(self.now):
                    self.take(message)
            self.events += self.vehicle.take_events()

    def take(self, message, component=1, system=None):
        answers = self.vehicle.receive(
            Incoming(message.name, system or self.fake.config.system, component, message.fields),
            self.now, self.now - START + 10**12)
        self.deliver(answers)

    def deliver(self, messages):
        for message in messages:
            self.outgoing.append(message)
            if not self.alive:
                continue
            for answer in self.fake.receive(Incoming(
                    message.name, self.vehicle.own_system, 197, message.fields), self.now):
                self.now += MS
                self.take(answer)

    def said(self, text):
        return [event for event in self.events if text in event.text]

    def finding(self, check):
        """Return one finding of the check, whatever the source and the link."""
        chosen = plan(self.settings)
        return next(one for one in findings(
            self.settings, chosen, Source('/cf1/odom', 1, 'TRACKED', '/cf1/odom', 50.0),
            Gate(GateConfig(chosen.period_ns, chosen.min_interval_ns, 90 * MS)),
            LinkReport(True, '', 'peer', 0, {}), self.vehicle, True, self.now - START + 10**12)
            if one.check == check)


def test_every_state_of_the_link_knows_every_happening():
    assert set(TRANSITIONS) == set(Link)
    assert all(set(row) == set(Happening) for row in TRANSITIONS.values())


def test_the_bridge_introduces_itself_as_an_onboard_controller_of_the_vehicle():
    both = Together(FakeConfig(system=7, epoch_ns=START))
    both.run(3)
    assert both.fake.companion == (7, 197, 18, 8)
    assert sum(one.name == 'HEARTBEAT' for one in both.outgoing) == 3


@pytest.mark.parametrize('autopilot', ['px4', 'ardupilot'])
def test_all_is_well_with_a_vehicle_that_is_set_up(autopilot):
    both = Together(autopilot=autopilot)
    assert not both.vehicle.may_send
    both.run(8)
    assert both.vehicle.link is Link.ALIVE
    assert both.vehicle.may_send
    assert both.vehicle.version == '1.15.4'
    assert both.vehicle.parameters.done
    assert all(verdict.good for verdict in both.vehicle.parameters.verdicts)
    assert [event.severity for event in both.events] == ['info'] * len(both.events)


def test_the_clock_of_the_autopilot_is_found():
    both = Together(FakeConfig(epoch_ns=START, boot_ns=77 * 10**9, skew_ppm=100))
    both.run(10)
    offset = both.vehicle.timesync.best.offset_ns
    assert abs(offset - (both.fake.local_ns(both.now) - both.now)) < 2 * MS
    assert both.vehicle.timesync.answered >= 90, 'the fake asks ten times a second'


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
    assert not [one for one in both.outgoing if one.name == 'PARAM_SET']
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
        name = out.fields['param_id']
        if out.name == 'PARAM_SET':
            sent.append(name)
            if name == 'EKF2_HGT_REF':
                exchange.receive(name, out.fields['param_value'], REAL32)
        else:
            exchange.receive(name, wrong.get(name, 0.0), REAL32)
    assert exchange.done and exchange.refused.endswith(' EKF2_EV_CTRL, EKF2_MAG_TYPE')
    assert 'EKF2_HGT_REF' in [rule.name for rule in exchange.written]
    assert 1 < sent.count('EKF2_EV_CTRL') < 10


def test_nothing_is_written_to_an_armed_vehicle():
    both = Together(FakeConfig(epoch_ns=START, armed=True), {'EKF2_HGT_REF': 1},
                    set_parameters=True)
    both.run(5)
    assert not [one for one in both.outgoing if one.name == 'PARAM_SET']
    assert both.said('armed')


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


def test_the_origin_is_sent_where_the_autopilot_has_none():
    both = Together(origin=(47.3977419, 8.5455938, 0.0))
    both.run(6)
    assert both.fake.origin == (473977419, 85455938, 0)
    assert both.vehicle.origin.problem == ''
    assert both.vehicle.origin.sent == 1


def first_permission(both, seconds=12):
    """Give the time (s) at which poses may be sent, and whether the fake had the origin then."""
    for step in range(seconds * 10):
        if both.vehicle.may_send:
            return step / 10, both.fake.origin is not None
        both.run(0.1)
    return None, None


ORIGIN = (47.3977419, 8.5455938, 488.0)


def test_ardupilot_gets_its_origin_before_the_first_pose():
    """It shifts its local height by that of the poses at the time when the origin comes."""
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    seconds, has_origin = first_permission(both)
    assert has_origin
    assert seconds < 6
    both.run(1)
    assert both.vehicle.may_send
    # With an origin that is there already, there is nothing to wait for.
    both.alive = False
    both.run(4)
    assert both.vehicle.may_send, 'a link that works one way must not cost the poses'
    both.vehicle = Vehicle(both.settings, plan(both.settings))
    both.alive = True
    seconds, has_origin = first_permission(both)
    assert seconds < 1.5


@pytest.mark.parametrize(('fake', 'settings', 'limit'), [
    (FakeConfig('ardupilot', epoch_ns=START, armed=True), {'origin': ORIGIN}, 0.2),
    (FakeConfig('ardupilot', epoch_ns=START), {}, 0.2),
    (FakeConfig('px4', epoch_ns=START), {'autopilot': 'px4', 'origin': (*ORIGIN[:2], 0.0)}, 0.2)])
def test_poses_wait_for_no_origin_that_is_not_to_be_set_before_them(fake, settings, limit):
    both = Together(fake, **{'autopilot': 'ardupilot', **settings})
    assert first_permission(both)[0] <= limit


def test_a_late_confirmation_of_the_origin_does_not_interrupt_the_poses(monkeypatch):
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    receive = both.fake.receive

    def silent(message, now):
        """Take the origin, and answer only later requests for it."""
        answers = receive(message, now)
        about_origin = [one for one in answers if one.name == 'GPS_GLOBAL_ORIGIN']
        return [] if about_origin and len(permitted) < 700 else answers
    monkeypatch.setattr(both.fake, 'receive', silent)
    permitted = []
    for _ in range(1400):
        both.run(0.01)
        permitted.append(both.vehicle.may_send)
    assert permitted == sorted(permitted)
    assert permitted[-1]
    assert both.vehicle.origin.present is not None


def test_an_autopilot_that_takes_no_origin_gets_poses_without(monkeypatch):
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    monkeypatch.setattr(both.fake, 'receive', lambda message, now: [])
    assert first_permission(both)[0] < 8
    assert 'no origin' in both.vehicle.origin.problem


def test_an_origin_of_altitude_0_that_another_has_set_fails_the_check_of_ardupilot():
    both = Together(autopilot='ardupilot', origin=ORIGIN)
    both.fake.origin = (473977419, 85455938, 0)
    both.run(4)
    found = both.finding('origin')
    assert found.level is Level.FAIL
    assert 'reboot' in found.advice


def test_no_origin_is_set_while_the_vehicle_is_armed():
    """It may have one already: the answer that says so can be lost."""
    both = Together(FakeConfig(epoch_ns=START, armed=True), origin=(47.3977419, 8.5455938, 0.0))
    both.run(8)
    assert both.fake.origin is None
    both.fake.config = both.fake.config._replace(armed=False)
    both.run(4)
    assert both.fake.origin == (473977419, 85455938, 0)


def test_an_origin_that_is_there_is_kept_and_its_distance_told():
    both = Together(origin=(47.3977419, 8.5455938, 0.0))
    both.fake.origin = (473987419, 85455938, 0)    # 0.001 degrees north: 111 m
    both.run(6)
    assert both.fake.origin == (473987419, 85455938, 0)
    assert '111 m from' in both.vehicle.origin.problem


def test_an_origin_above_sea_level_is_reported_for_px4():
    """PX4 1.17 in SITL shifts its height by 488 m at each reset of the poses."""
    both = Together()
    both.run(1)
    both.take(Outgoing('GPS_GLOBAL_ORIGIN', {
        'latitude': 473977419, 'longitude': 85455938, 'altitude': 488000}))
    found = both.finding('origin')
    assert found.level is Level.FAIL
    assert 'reboot' in found.advice and '488.0 m' in found.found


def test_a_lost_heartbeat_is_a_state_and_its_return_begins_anew():
    both = Together()
    both.run(5)
    both.alive = False
    both.run(2)
    assert both.vehicle.link is Link.ALIVE
    both.run(2.5)
    assert both.vehicle.link is Link.LOST
    assert both.vehicle.may_send, 'a link that works one way must not cost the poses'
    assert [event.severity for event in both.said('still sent')] == ['error']
    both.alive = True
    both.outgoing.clear()
    both.run(3)
    assert both.vehicle.link is Link.ALIVE
    assert [one for one in both.outgoing if one.name == 'PARAM_REQUEST_READ'], 'asked again'
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
    assert both.vehicle.link is Link.ALIVE and both.said('has restarted')
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
    assert both.said('reboot')[0].severity == 'warn'
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
    from optitrack_vrpn.autopilot.codec_io import Codec
    sender = dialect.MAVLink(None, srcSystem=1, srcComponent=1)
    sender.signing.secret_key, sender.signing.sign_outgoing = b'k' * 32, signs
    heartbeat, = Codec(1, 197).decode(bytes(
        dialect.MAVLink_heartbeat_message(2, 12, 0, 0, 3, 3).pack(sender)))
    both = Together()
    both.vehicle.receive(heartbeat, START, 10**12)
    both.run(0.1)
    assert [event.severity for event in both.said('signs')] == ['warn'] * signs


def test_another_firmware_than_the_one_that_is_set_gets_nothing():
    both = Together(FakeConfig('ardupilot', epoch_ns=START))
    both.run(2)
    assert both.vehicle.link is Link.WRONG
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


def test_a_wrong_autopilot_does_not_exclude_the_right_one():
    both = Together()
    both.take(FakeAutopilot(FakeConfig('ardupilot', system=9)).tick(START)[0], system=9)
    assert both.vehicle.link is Link.WRONG
    both.run(2)
    assert (both.vehicle.link, both.vehicle.system) == (Link.ALIVE, 1)


def test_heartbeats_of_gimbals_and_ground_stations_are_no_autopilot():
    both = Together()
    heartbeat = FakeAutopilot(FakeConfig()).tick(START)[0]
    both.take(heartbeat, component=154)
    both.take(heartbeat._replace(fields={**heartbeat.fields, 'autopilot': 8}), system=255)
    assert both.vehicle.link is Link.WAITING


def vision(autopilot='px4', **settings):
    chosen = plan(BridgeSettings(body='cf1', autopilot=autopilot, **settings))
    state = convert(Sample(START, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), None, (1.0, 0.0, 0.0)))
    return make(state, chosen, 0)


@pytest.mark.parametrize('sender', [(1, 198), (1, 197), (42, 240)])
def test_a_second_sender_of_poses_is_reported(sender):
    both = Together()
    both.run(2)
    system, component = sender
    both.take(vision()[0], component, system)
    both.run(0.1)
    assert both.vehicle.other_senders(both.now - START + 10**12) == [
        f'ODOMETRY from system {system} component {component}']
    assert both.said('two senders')[0].severity == 'error'
    assert bool(both.said('this bridge')) == (sender == (1, 197))
    both.run(6)
    assert not both.vehicle.other_senders(both.now - START + 10**12), 'it has stopped'


def test_samples_for_comparison_are_bounded_after_the_clock_was_set_back():
    agreement = Agreement()

    def send(number):
        begin_s = 5000 if number < 500 else 0
        agreement.sent(State(
            begin_s * 1_000_000 + number * 20_000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0),
            *[(0.0,) * 3] * 3, None, None))
        agreement.attitude(begin_s * 10**9 + number * 20_000_000, (0.0, 0.0, 0.0))
    assert memory_growth(send, 1000) < 20_000


@pytest.mark.parametrize('sender', [(1, 1), (9, 197)], ids=['own autopilot', 'another vehicle'])
def test_poses_of_autopilots_and_for_other_vehicles_are_no_second_sender(sender):
    both = Together(target_system=1)
    both.run(2)
    both.take(FakeAutopilot(FakeConfig(system=9)).tick(START)[0], system=9)
    system, component = sender
    both.take(vision()[0], component, system)
    both.run(0.1)
    assert not both.said('two senders')


# -- the fake's rules, which stand for PX4's and ArduPilot's --------------------------------------

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
        fake.receive(Incoming(message.name, 1, 197, message.fields), START)
    assert dict(fake.dropped) == dropped
    both = Together(autopilot=autopilot, **settings)
    both.run(2)
    warnings = plan(both.settings).warnings
    assert bool(warnings) == bool(dropped)
    assert (both.finding('sending').level is Level.WARN) == bool(dropped)


def test_an_origin_that_px4_cannot_use_has_a_warning():
    """PX4 1.17 in SITL has no global position with poses in local_frd."""
    assert plan(BridgeSettings(body='cf1', origin=(47.4, 8.5, 0.0))).warnings


# -- agreement ------------------------------------------------------------------------------------

LEVEL, SENT = (0, 0, 0), (1.0, 2.0, -3.0)


@pytest.mark.parametrize(('own', 'sent', 'position', 'words'), [
    ((1, 2, 10), (0, 0, 14), (1.1, 2.1, -3.1), ''),
    ((0, 0, 90), LEVEL, SENT, "yaw differs by 90 degrees: the body's x axis in Motive does not"),
    ((0, 0, -175), (0, 0, 100), SENT, 'yaw differs by 90 degrees'),
    ((0, 0, 179), LEVEL, SENT, 'yaw differs by 180 degrees'),
    ((0, 0, 40), LEVEL, SENT, 'yaw differs by 40 degrees: the body was created'),
    ((0, 8, 0), LEVEL, SENT, 'was not level'),
    ((12, -9, 0), (-12, 9, 0), SENT, 'opposite sign'),
    ((12, 0, 0), (0, 12, 0), SENT, 'exchanged'),
    (LEVEL, LEVEL, (0.0, 0.0, 0.0), 'differs by 3.7 m'),
])
def test_verdicts_on_attitude_and_position(own, sent, position, words):
    made = Agreement()
    x, y, z, w = quat_from_angles(*map(math.radians, sent))
    for i in range(5):
        made.sent(State(START // 1000 + i * 20_000, SENT, (w, x, y, z),
                        *[(math.nan,) * 3] * 3, None, None))
        made.attitude(START + i * 20 * MS, tuple(map(math.radians, own)))
        made.position(START + i * 20 * MS, position)
    found = judge_attitude(made.attitudes) + judge_position(made.positions)
    assert bool(found) == bool(words)
    assert words in ' '.join(found)


def test_attitudes_of_another_time_are_not_compared():
    made = Agreement()
    made.sent(State(
        START // 1000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), *[(0.0,) * 3] * 3, None, None))
    made.attitude(START + 500 * MS, (0.0, 0.0, 1.0))
    assert not made.attitudes


def test_a_verdict_does_not_outlive_the_poses():
    made = Agreement()
    made.sent(State(
        START // 1000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), *[(0.0,) * 3] * 3, None, None))
    for ms in (0, 4000):
        made.attitude(START + ms * MS, (0.0, 0.0, 0.0))
        made.position(START + ms * MS, (0.0, 0.0, 0.0))
        assert made.attitudes and made.positions
    made.attitude(START + 6000 * MS, (0.0, 0.0, 0.0))
    assert not made.attitudes and not made.positions


# -- settings -------------------------------------------------------------------------------------

@pytest.mark.parametrize('text', [
    'udpout:10.0.0.2:14540', 'udpin:0.0.0.0:14540', 'tcp:localhost:5760',
    'serial:/dev/ttyUSB0:921600', 'serial:/dev/serial/by-id/usb-a:b-if00:57600'])
def test_connections_as_users_write_them(text):
    assert str(parse(text)) == text


@pytest.mark.parametrize('text', [
    '', 'udp', 'udpout:10.0.0.2', 'udpout::14540', 'serial:/dev/ttyUSB0', 'udpin:a b:1',
    'tcp:fe80::1:5760', 'udpout:host:99999', 'serial:/dev/ttyUSB0:3', '/dev/ttyUSB0'])
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
    from optitrack_vrpn.autopilot.codec_io import Codec
    state = convert(Sample(
        START, (1.1, 2.2, 3.3), (0.1, 0.2, 0.3, 0.93), (0.1,) * 36, (1.1, 2.2, 3.3),
        (1.1, 2.2, 3.3), (0.1,) * 36))
    for name, message in zip(MESSAGES, make(state, plan(BridgeSettings(
            body='cf1', message=MESSAGES)), 255)):
        assert len(Codec(255, 197).encode(message)) == WIRE_BYTES[name]
