# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor on hand-made results, and on arbitrary messages of a server."""

from dataclasses import replace
import json
import math

from conftest import examples
from doctor_results import body, check_all, CLOCK, heard, judged, result
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.checks import exit_code, fail, ok, skip, warn
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.config import ClientConfig, LinkConfig
from optitrack_vrpn.drivers.driver import Attempt, LinkStatus, Outcome, ServerFacts
from optitrack_vrpn.drivers.frames import Body as PoseReport
from optitrack_vrpn.drivers.vrpn.codec import PongReport, SenderDescribed, TextReport
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.drivers.vrpn.probe_io import VrpnSurroundings
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.telling.doctor.results import (
    Graph, Lift, Mismatch, RunningNode, Tried, WatchedStream)
from optitrack_vrpn.telling.doctor.watch import Watch
import pytest

OPEN = Attempt(Outcome.OPEN)
SILENT = Attempt(Outcome.SILENT, '192.168.1.20 did not connect back: admit inbound TCP', 3.0)
NOTHING = VrpnSurroundings()
STATED = ServerFacts({'drone': True, 'wand': True}, stated_version='07.38')


def vrpn(address='192.168.1.20', udp=OPEN, tcp=OPEN, connection='auto', unused=False,
         known=STATED, by_tcp=None, around=NOTHING, **changes):
    """Make the facts of a healthy VRPN server, but for what a test changes."""
    probed = heard(**{'listened_s': 4.0 if OPEN in (udp, tcp) else 0.0, **changes})
    attempts = {way: one for way, one in (('udp', udp), ('tcp', tcp)) if one is not None}
    probed.stream.link = LinkStatus(transport='udp', known=known, attempts=attempts)
    probed.addresses, probed.unused = (address,), unused
    probed.tried = {'vrpn': Tried(
        True, ClientConfig(link=LinkConfig(connection)), None, probed.stream, by_tcp, around)}
    return probed


def test_a_server_without_any_name_is_behind_a_network_that_drops_large_packets():
    """Each VRPN server describes its own sender first, but only its greeting is a small packet."""
    for address, advice, not_this in (('192.168.1.20', 'mtu', 'hangs'),
                                      ('127.0.0.1', 'hangs', 'mtu')):
        probed = vrpn(address, poses=0, bodies=(), known=ServerFacts(stated_version='07.38'))
        probed.by = 'vrpn'
        judged(result('data', probed), ERROR, 'no pose within', advice=[advice],
               without=[not_this])


def test_healthy_facts_find_nothing_wrong():
    results = check_all(heard())
    assert exit_code(results) == 0
    assert {one.severity for one in results} == {INFO, None}
    assert all(not one.advice for one in results)


def test_the_worst_level_is_the_exit_code():
    assert exit_code([]) == exit_code([ok('a', ''), skip('b', '')]) == 0
    assert exit_code([ok('a', ''), warn('b', '', '')]) == 1
    assert exit_code([fail('a', '', ''), warn('b', '', ''), ok('c', '')]) == 2


@pytest.mark.parametrize(('rates', 'expected', 'level', 'said'), [
    ({'a': 240.0, 'b': 239.0}, 0.0, INFO, '240.0 Hz'),
    ({'a': 59.94, 'b': 59.94}, 0.0, WARN, 'display'),
    ({'a': 59.94}, 60.0, INFO, '59.9 Hz'),
    ({'a': 62.0}, 0.0, INFO, '62.0 Hz'),
    ({'a': 100.0}, 120.0, WARN, 'where 120 Hz is expected'),
    ({'a': 100.0, 'b': 90.0}, 120.0, WARN, 'where the cameras run at 120 Hz'),
    ({'a': 240.0, 'b': 120.0}, 0.0, WARN, "'b' has 120.0 Hz where 240 Hz"),
    ({}, 0.0, None, 'too few'),
])
def test_rates(rates, expected, level, said):
    facts = replace(heard(bodies=tuple(
        body(name, interval_s=1.0 / rate) for name, rate in rates.items())),
        expected_rate_hz=expected)
    judged(result('rate', facts), level, said)


@pytest.mark.parametrize(('displacement', 'level', 'said'), [
    ((0.02, 0.5, -0.03), INFO, 'set up_axis: y'),
    ((0.1, 0.02, 0.6), INFO, 'set up_axis: z'),
    ((0.01, 0.05, 0.03), WARN, 'nothing was lifted'),
    ((0.6, 0.1, 0.1), WARN, 'never up'),
    ((0.0, 0.5, 0.4), WARN, 'diagonally'),
    ((0.0, -0.5, 0.1), WARN, 'downwards'),
])
def test_up_is_where_the_body_went_that_went_furthest(displacement, level, said):
    lifts = (Lift('table', (0.0, 0.0, 0.0)), Lift('wand', displacement),
             Lift('mat', (0.01, 0.0, 0.02)))
    judged(result('axes', heard(lifts=lifts)), level, said, "'wand'")


def test_without_a_lift_axes_are_left_out_and_without_bodies_asked_for_again():
    judged(result('axes', heard()), None)
    judged(result('axes', heard(lifts=())), WARN)


@pytest.mark.parametrize(('counters', 'level', 'said', 'advice', 'without'), [
    ({'udp_lost': 5}, INFO, [], [], ['in the network']),
    ({'udp_lost': 50}, WARN, ['in the network'], [], []),
    ({'malformed': 3}, WARN, ['3 malformed'], [], []),
    ({'udp_lost': 300, 'dropped_unread': 200}, WARN, ['was full'], [], ['cable']),
    ({'udp_lost': 300, 'udp_reordered': 100, 'datagrams': 960, 'malformed': 3}, WARN,
     ['3 malformed', 'lost in the network', 'out of order'], ['. Use a cable'], [])])
def test_counted_faults_of_the_data_are_all_said(counters, level, said, advice, without):
    judged(result('data', heard(counters=counters)), level, *said, advice=advice,
           without=without)


def test_jitter_and_restarts_are_warnings():
    def check(**changes):
        return result('clock', heard(clock=replace(CLOCK, **changes)))
    judged(check(), INFO)
    assert judged(check(jitter_p99_s=0.02), WARN).values['jitter_ms'] == 20.0
    judged(check(restarts={'sender_restarted': 2}), WARN, '2 sender_restarted')
    facts = heard(clock=replace(CLOCK, restarts={'sender_restarted': 1}), stalled_s=0.8)
    judged(result('clock', facts), WARN, 'this computer stood still for 0.8 s',
           without=['sender_restarted', 'Motive'])
    assert check(jitter_p99_s=math.nan).values['jitter_ms'] is None


def test_a_body_that_the_server_streams_but_that_sends_no_pose_is_named():
    few = {'bodies': (body('drone'),)}
    judged(result('senders', vrpn(**few)), WARN, "'wand'")
    echo = ServerFacts({'drone': True, 'echo': False}, stated_version='07.38')
    judged(result('senders', vrpn(known=echo, **few)), INFO, "'echo'")
    judged(result('senders', vrpn(known=ServerFacts())), None)


@pytest.mark.parametrize(('seen', 'level'), [
    ((body('a'), body('b', State.JUMPED)), WARN),
    ((body('a', State.STALE), body('b', State.FROZEN)), ERROR),
    ((body('a', State.INVALID, 'nan'),), ERROR),
])
def test_bodies_that_are_not_tracked_are_a_failure_where_none_is(seen, level):
    sick = [one for one in seen if one.state is not State.TRACKED]
    judged(result('bodies', heard(bodies=seen)), level,
           *(f"'{one.name}' is {one.state.value}" for one in sick),
           advice=[one.state.value for one in sick])


def test_one_way_in_is_enough_under_auto_and_not_where_the_other_was_asked_for():
    judged(result('connect-back', vrpn(udp=SILENT)), WARN)
    judged(result('connect-back', vrpn(udp=SILENT, connection='udp')), ERROR)
    judged(result('tcp', vrpn(tcp=SILENT)), WARN)
    judged(result('tcp', vrpn(tcp=SILENT, udp=None, connection='tcp')), ERROR)


@pytest.mark.parametrize('address', ['127.0.0.1', '127.0.1.1', '::1'])
@pytest.mark.parametrize('tcp', [OPEN, SILENT])
def test_in_this_machine_itself_the_server_hangs_and_no_firewall_is_blamed(address, tcp):
    """Nothing filters the loopback interface, and no container or NAT lies on the way."""
    def advice(address):
        mute = vrpn(address, OPEN, tcp, poses=0, bodies=(), by_tcp=WatchedStream(7))
        silent = vrpn(address, SILENT, tcp)
        return [one.advice for one in (
            result('connect-back', silent), result('data', mute),
            *[result('tcp', silent)] * (tcp is SILENT))]
    for one in advice(address):
        assert one.startswith('the server hangs')
        for word in ('ufw', 'firewall', 'container', 'NAT'):
            assert word not in one
    elsewhere = advice('192.168.1.20')
    assert 'ufw allow from 192.168.1.20' in elsewhere[0]
    assert 'inbound UDP from 192.168.1.20' in elsewhere[1]


def test_where_nobody_has_the_address_no_firewall_is_blamed():
    facts = vrpn(udp=SILENT, tcp=SILENT, unused=True)
    judged(result('tcp', facts), ERROR, 'network of eth0')
    judged(result('udp', facts), None)
    judged(result('connect-back', facts), None)


# -- whatever is said -----------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=99)
NUMBERS = st.floats(width=64)
POSES = st.builds(
    PoseReport, st.sampled_from(['a', 'b\n', '\x1b[31m']) | NAMES, st.integers(-2, 2),
    st.integers(0, 4 * 10**18), st.tuples(NUMBERS, NUMBERS, NUMBERS),
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS))
EVENTS = st.one_of(
    POSES, st.builds(SenderDescribed, NAMES, st.integers(0, 1999)),
    st.builds(PongReport, NAMES, st.just(0)),
    st.builds(TextReport, NAMES, st.just(0), st.integers(0, 3), st.just(0), st.text(max_size=500)))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.lists(EVENTS, max_size=6), max_size=12), st.text(max_size=60), st.booleans())
def test_whatever_a_server_says_gives_lines_for_a_terminal_and_json(batches, text, lifting):
    facts = vrpn(ended=text, poses=0, bodies=(), known=ServerFacts(stated_version=text))
    watch = Watch(facts.stream)
    for number, batch in enumerate(batches):
        if lifting and number == len(batches) // 2:
            watch.begin_lift()
        facts.stream.link.known.senders.update(
            (event.sender, isinstance(event, PongReport)) for event in batch
            if isinstance(event, (SenderDescribed, PongReport)))
        watch.receive(to_frames(batch), 10**15 + number * 10**7, 10**18)
    watch.fill(10**15 + 10**9)
    facts.graph = Graph(wanted=text, nodes=(RunningNode(
        text, 1, text, {'server': text}, 1, 1, (Mismatch(text, text, text),), (text,), 1,
        {text: (text, 'b')}),))
    for one in check_all(facts):
        assert one.found.isprintable() and one.advice.isprintable()
        assert len(one.found) <= 900
        assert bool(one.advice) == (one.severity in (WARN, ERROR)), one
        json.dumps(one.values, allow_nan=False)


def test_a_server_of_ever_new_names_fills_no_memory():
    stream = heard(poses=0).stream
    watch = Watch(stream)
    for number in range(20_000):
        watch.receive(to_frames([
            PoseReport(f'name {number}', 0, 10**9, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))]),
            10**15 + number, 0)
    watch.fill(10**15)
    assert len(stream.bodies) == 500
    assert (stream.more_bodies, stream.poses) == (19_500, 20_000)
