# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the dashboard decides: who may do what, what is live, findings, answers to commands."""

import math
import struct
from types import SimpleNamespace

from hypothesis import example, given, strategies as st
from optitrack_vrpn.control.protocol import Command, Kind
from optitrack_vrpn.core.findings import find
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.takes.dashboard.access import Access, Right
from optitrack_vrpn.takes.dashboard.causes import FindingLog, page_findings
from optitrack_vrpn.takes.dashboard.control import ControlLog, System
from optitrack_vrpn.takes.dashboard.lab import FORCE, Lab, LabReport, line_frame, plate_lines
from optitrack_vrpn.takes.dashboard.page_rules import NodeFacts, PAGE_RULES, RecordingFacts
import pytest

OK, WARN, ERROR, STALE = range(4)
POSE = (1.0, 2.0, 0.5, 0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize('header, allowed', [
    ('127.0.0.1:8080', True), ('localhost', True), ('LOCALHOST:1', True), ('[::1]:8080', True),
    ('192.168.1.5:8080', True), ('lab.example', True), ('lab.example:9', True), ('', False),
    ('evil.example', False), ('127.0.0.1.evil.example', False), ('0.0.0.0:8080', False),
    ('localhost:80@evil.example', False), ('192.168.1.6', False), ('localhost:evil', False)])
def test_only_known_names_are_allowed_in_host(header, allowed):
    access = Access('0.0.0.0', ('lab.example',), 'secret')
    assert access.allows_host(header, '192.168.1.5') is allowed


@given(st.text(), st.text(min_size=1))
def test_the_origin_must_be_the_host(origin, host):
    allowed = Access('127.0.0.1').allows_origin(origin, host)
    assert allowed is (origin.lower() in (f'http://{host.lower()}', f'https://{host.lower()}'))
    assert Access('127.0.0.1').allows_origin(f'http://{host}', host)
    assert not Access('127.0.0.1').allows_origin('null', host)


@pytest.mark.parametrize('token, read_only, given_token, right', [
    ('', False, '', Right.CONTROL), ('', True, '', Right.READ), ('', True, 'x', Right.READ),
    ('secret', False, '', Right.NONE), ('secret', False, 'secre', Right.NONE),
    ('secret', False, 'secret', Right.CONTROL), ('secret', True, '', Right.READ),
    ('secret', True, 'secret', Right.CONTROL),
    ('geheim\u00fc', False, 'geheim\u00fc', Right.CONTROL)])
def test_rights_by_token(token, read_only, given_token, right):
    access = Access('127.0.0.1', (), token, read_only)
    assert access.right(given_token) is right
    if token:
        assert access.right('', access.cookie) is Right.CONTROL
        assert token not in access.cookie


def report(name, level, message, values):
    """Make a report as a reader does: from a message."""
    return StatusReport.of(SimpleNamespace(
        name=name, level=bytes([level]), message=message,
        values=[SimpleNamespace(key=key, value=value) for key, value in values.items()]))


class Fed:
    """A lab with one node and its reports."""

    def __init__(self, *names):
        self.lab = Lab()
        self.names = names
        self.stamp = 0
        self.published, self.at = 0.0, None

    def step(self, now, states=None, poses=True, reports=True, hz=240.0):
        """Let the node report, and transforms arrive; ``hz`` poses a second were published."""
        if reports:
            self.published += hz * (now - (now if self.at is None else self.at))
            self.at = now
        if reports:
            for subject in ('connection', 'clock', 'frames'):
                self.lab.add_report(report(f'mocap: {subject}', OK, 'streaming', {}), now)
        for name in self.names:
            state = (states or {}).get(name, 'TRACKED')
            if reports:
                level = {'TRACKED': OK, 'STALE': STALE}.get(state, WARN)
                self.lab.add_report(report(f'mocap: body {name}', level, f'{state}: why', {
                    'state': state, 'frame': f'lab/{name}', 'world': 'lab', 'rate_hz': '240.0',
                    'published': f'{self.published:.0f}', 'latency_p50_us': '400'}), now)
            self.stamp += 1
            if poses and state == 'TRACKED':
                self.lab.add_transform('lab', f'lab/{name}', self.stamp, POSE, now)
        return {row['name']: row for row in self.lab.body_rows(now)}


def test_a_body_is_live_only_with_a_tracked_state_a_present_report_and_a_new_transform():
    fed = Fed('drone')
    assert fed.step(0.0)['drone']['sign'] == 'ok'
    silent = fed.step(0.6, poses=False)['drone']
    assert (silent['sign'], silent['state'], silent['age_s']) == ('lost', 'NO POSE', 0.6)
    assert fed.step(1.0)['drone']['sign'] == 'ok'
    lost = fed.step(1.1, {'drone': 'STALE'})['drone']
    assert (lost['sign'], lost['state'], lost['reason']) == ('lost', 'STALE', 'why')
    assert lost['position'] == [1.0, 2.0, 0.5], 'it stays at its last place'
    again = fed.step(2.0)['drone']
    assert again['sign'] == 'ok' and again['lost_s'] == pytest.approx(0.9)
    for step in range(40):    # transforms go on, but the node does not report any more
        row = fed.step(2.0 + 0.1 * step, reports=False)['drone']
    assert (row['sign'], row['state'], row['rate_hz']) == ('lost', 'NO NEWS', None)
    for at in (20.0, 21.0):    # a node that was away is silent as soon as before
        fed.step(at)
    assert fed.step(25.0, reports=False)['drone']['state'] == 'NO NEWS'
    for at in (30.0, 40.0, 50.0):    # one that reports seldom is not
        fed.step(at)
    assert fed.step(59.0, reports=False)['drone']['sign'] == 'ok'
    fed.step(60.0)
    fed.lab.states['mocap'] = 'inactive'
    assert fed.step(60.1)['drone']['state'] == 'INACTIVE'


def test_rate_and_latency_are_those_of_poses_that_are_published_now():
    """The node repeats the rate of the sender's stamps and its last latencies while it runs."""
    fed = Fed('drone')
    assert fed.step(0.0)['drone']['rate_hz'] is None, 'one report is no rate'
    for at in (1.0, 1.001, 2.0, 3.0):    # on two topics, and at a change
        row = fed.step(at, hz=180.0)['drone']
    assert row['rate_hz'] == pytest.approx(180.0, abs=1.0) and row['latency_ms'] == 0.4
    for at in (4.0, 5.0, 6.0):
        row = fed.step(at, hz=90.0)['drone']
    assert row['rate_hz'] == pytest.approx(90.0, abs=1.0), 'the network loses half of them'
    row = fed.step(7.0, hz=0.0)['drone']
    assert row['sign'] == 'ok' and row['rate_hz'] is row['latency_ms'] is row['jitter_ms'] is None
    fed.step(8.0), fed.step(9.0)
    fed.lab.states['mocap'] = 'inactive'    # STOP
    row = fed.step(9.1, poses=False)['drone']
    assert row['rate_hz'] is row['latency_ms'] is None
    node, = fed.lab.node_rows(9.1)
    assert node['frames']['values'] == {} and node['frames']['message'] == 'no poses now'
    fed.lab.set_state('mocap', 'active', 9.5)    # START: its first transform is awaited
    row = fed.step(9.9, poses=False)['drone']
    assert (row['state'], row['sign']) == ('WAITING', 'lost')
    assert not page_findings(fed.lab, 9.9)
    fed.published = 0.0    # configured again
    assert fed.step(10.0)['drone']['rate_hz'] is None
    assert fed.step(11.0)['drone']['rate_hz'] == pytest.approx(240.0, abs=1.0)


def test_while_no_page_is_open_no_transform_is_missed():
    fed = Fed('drone')
    fed.step(0.0)
    fed.lab.reading_since = math.inf    # nobody looks: /tf is not read
    fed.step(50.0, poses=False)
    assert not page_findings(fed.lab, 50.0)
    fed.lab.reading_since = 50.1
    first = fed.step(50.2, poses=False)['drone']
    assert (first['sign'], first['state']) == ('lost', 'WAITING')
    assert not page_findings(fed.lab, 50.2)
    assert fed.step(51.2, poses=False)['drone']['state'] == 'NO POSE'
    assert page_findings(fed.lab, 51.2)
    assert fed.step(51.3)['drone']['sign'] == 'ok'
    for at in (51.9, 52.3, 54.4):    # killed, and a page is opened meanwhile
        row = fed.step(at, poses=False, reports=False)['drone']
        assert (row['sign'], row['state']) == ('lost', 'NO POSE')


def test_a_repeated_stamp_another_parent_and_nan_are_no_news():
    fed = Fed('drone')
    fed.step(0.0)
    pose = fed.lab.bodies['mocap: drone'].pose
    for parent, child, stamp_ns, x in (
            ('lab', 'lab/drone', 1, 9.0), ('lab_ned', 'lab/drone', 2, 9.0),
            ('lab', 'lab/drone', 3, math.nan), ('lab', 'lab/drone', 5, 1e300),
            ('lab', 'other', 4, 9.0)):
        fed.lab.add_transform(parent, child, stamp_ns, (x, *POSE[1:]), 0.9)
    assert fed.lab.bodies['mocap: drone'].pose == pose
    assert fed.step(1.0, poses=False)['drone']['sign'] == 'lost'


def test_a_frame_contains_recent_poses_with_their_ages():
    fed = Fed('a', 'b')
    fed.step(0.0)
    fed.step(5.0, {'a': 'STALE'})
    frame = fed.lab.frame(5.25)
    kind, _, count, age = struct.unpack_from('<BBHf', frame)
    index, age_ms, *pose = struct.unpack('<HH7f', frame[8:])
    assert (kind, count, age, age_ms, tuple(pose)) == (1, 1, 0.25, 250, POSE)
    assert index == fed.lab.bodies['mocap: b'].index


def test_a_force_is_drawn_from_the_middle_of_its_plate_and_no_line_that_is_none():
    upside_down = (2.0, 0.0, 0.0, 0.0)    # of no unit norm
    lines = plate_lines((1.0, 2.0, 0.0, *upside_down), (0.0, 100.0, -500.0))
    assert lines[-1] == ((1.0, 2.0, 0.0), pytest.approx((1.0, 1.9, 0.5)), FORCE)
    assert plate_lines((1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0)) == []
    frame = line_frame([*lines, ((math.nan, 0.0, 0.0), (0.0, 0.0, 0.0), FORCE)])
    assert struct.unpack_from('<BBHf', frame) == (3, 0, 3, 0.0) and len(frame) == 8 + 3 * 28


def test_what_is_heard_of_no_more_is_forgotten_and_the_memory_is_bounded():
    fed = Fed('a')
    fed.step(0.0)
    for number in range(2000):
        fed.lab.add_report(report(f'n{number}: connection', OK, '', {}), 1.0)
        fed.lab.add_report(report(f'n: body b{number}', OK, '', {'state': 'NEW'}), 1.0)
    assert len(fed.lab.bodies) == 500 and len(fed.lab.nodes) == 50
    fed.lab.forget(200.0)
    assert not fed.lab.bodies and not fed.lab.nodes


@example('', 0, 'not active', {})    # a key of the findings, but no state of a body
@given(st.text(), st.integers(0, 255), st.text(), st.dictionaries(st.text(), st.text()))
def test_any_diagnostic_of_anybody_is_taken(name, level, message, values):
    lab, log = Lab(), FindingLog()
    for one in (name, f'{name}: connection', f'{name}: body {name}'):
        lab.add_report(report(one, level, message, values), 0.0)
        lab.add_report(report(one, level, message, {**values, 'state': message}), 0.0)
    lab.body_rows(0.1), lab.node_rows(0.1), log.update(page_findings(lab, 0.1), 0.1)


def test_one_cause_is_one_line_with_its_remedy_newest_first_and_kept_a_while():
    fed, log = Fed('a', 'b', 'c'), FindingLog()
    fed.step(0.0)
    assert log.update(page_findings(fed.lab, 0.0), 0.0) == []
    fed.step(1.0, {'a': 'STALE', 'b': 'STALE'})
    line, = log.update(page_findings(fed.lab, 1.0), 1.0)
    assert line['bodies'] == ['a', 'b'] and line['remedy'] and line['severity'] == 'error'
    fed.step(2.0, {'a': 'STALE', 'b': 'STALE', 'c': 'FROZEN'})
    frozen, stale = log.update(page_findings(fed.lab, 2.0), 2.0)
    assert frozen['bodies'] == ['c'] and (stale['since_s'], stale['over_s']) == (1.0, None)
    fed.step(3.0)
    assert [row['over_s'] for row in log.update(page_findings(fed.lab, 3.0), 3.0)] == [1.0, 1.0]
    fed.step(10.0, {'a': 'STALE'})
    again, = [row for row in log.update(page_findings(fed.lab, 10.0), 10.0)
              if row['over_s'] is None]
    assert again['since_s'] == 0.0, 'it begins anew'
    fed.step(80.0)
    assert log.update(page_findings(fed.lab, 80.0), 80.0) == []


@pytest.mark.parametrize('rate, slow', [('30.0', True), ('120.0', False)])
def test_a_warning_of_a_body_is_one_finding_the_rate_if_it_is_low(rate, slow):
    body = SimpleNamespace(
        name='a', report=SimpleNamespace(values={'rate_hz': rate, 'nominal_rate_hz': '120.0'}),
        condition=lambda now, reading_since: ('warn', 'TRACKED', 'a reason'))
    lab = SimpleNamespace(states={}, waiting_since=lambda node: 0.0)
    found, = find(PAGE_RULES, NodeFacts('mocap', {'x': LabReport(OK, at=1.0)}, [body], lab, 1.0))
    assert (found.code == 'reported warning') is not slow and found.bodies == ('a',)


def test_a_lost_connection_a_silent_node_and_an_inactive_one_are_one_finding_each():
    for change, key in (
            (lambda lab: lab.add_report(report('mocap: connection', ERROR, 'lost: off', {}), 1.0),
             'connection'), (lambda lab: lab.states.update(mocap='inactive'), 'inactive')):
        fed = Fed('a', 'b')
        fed.step(1.0, dict.fromkeys('ab', 'STALE'))
        change(fed.lab)
        line, = FindingLog().update(page_findings(fed.lab, 1.0), 1.0)
        assert key in line['text']
    line, = FindingLog().update(page_findings(fed.lab, 9.0), 9.0)
    assert 'no diagnostics' in line['text']


def ack(source, kind=Kind.ACK_START, session=''):
    return Command(int(kind), 10**9, source, session, ())


def test_answers_have_their_delay_and_a_missing_one_is_named_after_two_seconds():
    log = ControlLog()
    log.systems = {'optitrack': System('optitrack'), 'imu': System('imu')}
    log.add(Kind.START, 'take_1', (), 'Ada (10.0.0.2)', 100.0, 10**9)
    log.record(ack('optitrack', session='take_1'), 100.004, 10**9 + 5_000_000)
    row, = log.rows(100.5)
    assert row['answers'] == [{'system': 'optitrack', 'after_ms': 4.0}]
    assert (row['waiting'], row['no_answer'], row['by']) == (['imu'], [], 'Ada (10.0.0.2)')
    row, = log.rows(102.1)
    assert (row['waiting'], row['no_answer']) == ([], ['imu'])
    log.record(ack('imu', session='take_1'), 103.0, 10**9)
    row, = log.rows(103.0)
    assert row['no_answer'] == [] and row['answers'][1]['after_ms'] == 3000.0


def test_two_pages_that_press_start_at_once_have_an_answer_each():
    log = ControlLog()
    log.systems = {'a': System('a'), 'b': System('b')}
    for at, by in ((10.0, 'Ada'), (10.001, 'Bob')):
        log.add(Kind.START, '', (), by, at, 0)
    log.add(Kind.START, '', ('b',), 'rqt', 10.002, 0)
    for at, name in ((10.003, 'a'), (10.004, 'a'), (10.005, 'b'), (10.006, 'b'), (10.007, 'b')):
        log.record(ack(name), at, 0)
    assert [(row['by'], [(one['system'], one['after_ms']) for one in row['answers']])
            for row in log.rows(10.1)] == [
        ('rqt', [('b', 5.0)]), ('Bob', [('a', 3.0), ('b', 5.0)]),
        ('Ada', [('a', 3.0), ('b', 5.0)])]
    log.add(Kind.START, '', (), 'Ada', 20.0, 0)
    log.add(Kind.START, '', (), 'Bob', 25.0, 0)    # the one before was lost on the way
    log.record(ack('a'), 25.1, 0)
    bob, ada, *_ = log.rows(25.2)
    assert [one['system'] for one in bob['answers']] == ['a'] and not ada['answers']


def test_a_command_of_another_tool_is_shown_with_its_sender():
    log = ControlLog()
    log.systems = {'optitrack': System('optitrack')}
    log.record(Command(int(Kind.STOP), 0, 'rqt\n', '', ('', 'optitrack')), 5.0, 0)
    log.record(ack('optitrack', Kind.ACK_STOP), 5.01, 0)
    row, = log.rows(5.1)
    assert row['kind'] == 'STOP' and row['by'] == 'rqt\\n (ROS)' and len(row['answers']) == 1


@pytest.mark.parametrize('system, listens', [
    (System('recorder', 'active', heard=True), True),
    (System('recorder', 'active', heard=True, gone=True), False),
    (System('recorder', 'deactivating', heard=True), True),
    (System('recorder', 'active'), False), (System('camera', 'active', heard=True), False)])
def test_a_recorder_is_one_that_listens(system, listens):
    log = ControlLog()
    log.systems = {system.name: system}
    assert log.recorders == ((system.name,) if listens else ()) and log.recording is listens


def test_a_recorder_that_answers_no_more_records_no_more_and_is_a_finding():
    lab, log = Lab(), ControlLog()
    system = log.systems['recorder'] = System('recorder', heard=True)
    shown = {}
    for step in range(200):
        now = 0.1 * step
        if step == 150 or (step <= 60 and step % 10 == 0):
            lab.set_state('recorder', 'active', now)
        system.state, system.mute = lab.states['recorder'], lab.mute('recorder', now)
        found = page_findings(lab, now, RecordingFacts([system]))
        assert bool(found) is not log.recording
        shown[step] = [one.text for one in found.values()]
    assert not any(shown[step] for step in (*range(90), *range(150, 179)))
    assert all(shown[step] == ['recorder does not answer; it was active']
               for step in range(92, 150))
    lab.forget_state('recorder')
    assert not lab.mute('recorder', 100.0)
    found, = page_findings(lab, 20.0, RecordingFacts((), 'take_1')).values()
    assert 'take_1' in found.text and 'record --recover' in found.remedy
