# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor's judgement on facts made by hand, and on whatever a server may say."""

from dataclasses import replace
import json
import math
import random
import re

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.bodies.states import BodyStatus, State
from optitrack_vrpn.clock import ClockStatus
from optitrack_vrpn.doctor import bodies, graph, network, stream
from optitrack_vrpn.doctor.checks import judge
from optitrack_vrpn.doctor.probe_results import (
    Attempt, Graph, Lift, LocalProcess, Mismatch, Outcome, ProbeResults, RunningNode, Stream)
from optitrack_vrpn.doctor.result import exit_code, fail, Level, ok, skip, warn
from optitrack_vrpn.doctor.watch import Watch
from optitrack_vrpn.vrpn.messages import PongReport, PoseReport, SenderDescribed, TextReport
import pytest

CLOCK = ClockStatus(
    mode='tracking', epoch=0, learnt=True, offset_ns=10**18, skew_ppm=1.0, uncertainty_s=1e-4,
    restarts={}, samples=400, sender_base='sender_start', jitter_std_s=1e-4, jitter_p99_s=5e-4,
    refused=0)


def body(name, state=State.TRACKED, detail='seen'):
    return BodyStatus(name, state, 0, 120.0, 0.01, 0, 100, 0, 0, detail)


def heard(**changes):
    """Make facts of a healthy conversation, but for what a test changes in its stream."""
    facts = ProbeResults(
        'motive', 3883, addresses=('192.168.1.20',), local='192.168.1.5', card='eth0')
    facts.tcp = Attempt(Outcome.OPEN, version=(7, 38))
    facts.udp = Attempt(Outcome.OPEN)
    facts.stream = replace(Stream(
        'udp', Attempt(Outcome.OPEN, version=(7, 38)), 4.0, 0.01, 960,
        senders=('drone', 'wand'), answered=('drone', 'wand'),
        bodies=(body('drone'), body('wand')), rates={'drone': 120.0, 'wand': 120.0},
        clock=CLOCK, newest_sender_ns=10**12), **changes)
    return facts


def test_healthy_facts_find_nothing_wrong():
    results = judge(heard())
    assert exit_code(results) == 0
    assert {one.level for one in results} == {Level.OK, Level.SKIP}
    assert all(not one.advice for one in results)


def test_the_worst_level_is_the_exit_code():
    assert exit_code([]) == exit_code([ok('a', ''), skip('b', '')]) == 0
    assert exit_code([ok('a', ''), warn('b', '', '')]) == 1
    assert exit_code([fail('a', '', ''), warn('b', '', ''), ok('c', '')]) == 2


@pytest.mark.parametrize(('rates', 'expected', 'level', 'said'), [
    ({'a': 240.0, 'b': 239.0}, 0.0, Level.OK, '240.0 Hz'),
    ({'a': 59.94, 'b': 59.94}, 0.0, Level.WARN, 'display'),
    ({'a': 59.94}, 60.0, Level.OK, '59.9 Hz'),
    ({'a': 62.0}, 0.0, Level.OK, '62.0 Hz'),
    ({'a': 100.0}, 120.0, Level.WARN, 'where the cameras run at 120 Hz'),
    ({'a': 240.0, 'b': 120.0}, 0.0, Level.WARN, "slower: 'b' 120.0 Hz"),
    ({}, 0.0, Level.SKIP, 'too few'),
])
def test_rates(rates, expected, level, said):
    facts = replace(heard(rates=rates), expected_rate_hz=expected)
    found = stream.check_rate(facts)
    assert found.level is level
    assert said in found.found


@pytest.mark.parametrize(('displacement', 'level', 'said'), [
    ((0.02, 0.5, -0.03), Level.OK, 'set up_axis: y'),
    ((0.1, 0.02, 0.6), Level.OK, 'set up_axis: z'),
    ((0.01, 0.05, 0.03), Level.WARN, 'nothing was lifted'),
    ((0.6, 0.1, 0.1), Level.WARN, 'never up'),
    ((0.0, 0.5, 0.4), Level.WARN, 'diagonally'),
    ((0.0, -0.5, 0.1), Level.WARN, 'downwards'),
])
def test_up_is_where_the_body_went_that_went_furthest(displacement, level, said):
    lifts = (Lift('table', (0.0, 0.0, 0.0)), Lift('wand', displacement),
             Lift('mat', (0.01, 0.0, 0.02)))
    found = stream.check_axes(heard(lifts=lifts))
    assert found.level is level
    assert said in found.found
    assert "'wand'" in found.found


def test_without_a_lift_axes_are_left_out_and_without_bodies_asked_for_again():
    assert stream.check_axes(heard()).level is Level.SKIP
    assert stream.check_axes(heard(lifts=())).level is Level.WARN


@pytest.mark.parametrize(('lost', 'level'), [(0, Level.OK), (5, Level.OK), (50, Level.WARN)])
def test_loss_matters_from_one_in_a_hundred_on(lost, level):
    found = stream.check_data(heard(counters={'udp_lost': lost}))
    assert found.level is level
    assert ('lost in the network' in found.found) == (level is Level.WARN)


def test_messages_that_are_no_messages_are_counted():
    found = stream.check_data(heard(counters={'malformed': 3}))
    assert found.level is Level.WARN
    assert '3 malformed' in found.found


def test_jitter_and_restarts_are_warnings():
    assert stream.check_clock(heard()).level is Level.OK
    late = stream.check_clock(heard(clock=CLOCK._replace(jitter_p99_s=0.02)))
    assert (late.level, late.values['jitter_p99_s']) == (Level.WARN, 0.02)
    again = stream.check_clock(heard(clock=CLOCK._replace(restarts={'sender_restarted': 2})))
    assert again.level is Level.WARN
    assert '2 sender_restarted' in again.found
    unknown = stream.check_clock(heard(clock=CLOCK._replace(uncertainty_s=math.nan)))
    assert unknown.values['uncertainty_s'] is None


@pytest.mark.parametrize(('seen', 'level'), [
    ((body('a'), body('b', State.JUMPED)), Level.WARN),
    ((body('a', State.STALE), body('b', State.FROZEN)), Level.FAIL),
    ((body('a', State.INVALID, 'nan'),), Level.FAIL),
])
def test_bodies_that_are_not_tracked_are_a_failure_where_none_is(seen, level):
    found = bodies.check_bodies(heard(bodies=seen))
    assert found.level is level
    for one in seen:
        if one.state is not State.TRACKED:
            assert f"'{one.name}' is {one.state.value}" in found.found
            assert one.state.value in found.advice


def test_one_way_in_is_enough_under_auto_and_not_where_the_other_was_asked_for():
    facts = heard()
    facts.udp = Attempt(Outcome.SILENT, took_s=3.0)
    assert network.check_connect_back(facts).level is Level.WARN
    assert network.check_connect_back(replace(facts, connection='udp')).level is Level.FAIL
    facts = heard()
    facts.tcp = Attempt(Outcome.SILENT, took_s=3.0)
    assert network.check_tcp(facts).level is Level.WARN
    assert network.check_tcp(replace(facts, udp=None, connection='tcp')).level is Level.FAIL


def test_what_stands_between_goes_into_the_advice():
    facts = heard()
    facts.udp = Attempt(Outcome.SILENT, took_s=3.0)
    assert 'container' not in network.check_connect_back(facts).advice
    facts.surroundings = ('container', 'ufw')
    advice = network.check_connect_back(facts).advice
    assert '--network host' in advice and 'ufw is enabled' in advice


@pytest.mark.parametrize('address', ['127.0.0.1', '127.0.1.1', '::1'])
def test_in_this_machine_itself_the_server_hangs_and_no_firewall_is_blamed(address):
    """Nothing filters the loopback interface, and no container or NAT lies on the way."""
    def advice(address, tcp):
        facts = replace(
            heard(poses=0, first_pose_s=None), addresses=(address,), tcp=Attempt(tcp),
            udp=Attempt(Outcome.SILENT, took_s=3.0), tcp_poses=7,
            surroundings=('container', 'wsl', 'ufw'))
        said = [network.check_connect_back(facts), stream.check_data(facts)]
        if tcp is Outcome.SILENT:
            said.append(network.check_tcp(facts))
        return [one.advice for one in said]

    for tcp in (Outcome.OPEN, Outcome.SILENT):
        for one in advice(address, tcp):
            assert one.startswith('the server hangs')
            for word in ('ufw', 'firewall', 'container', 'NAT'):
                assert word not in one
        elsewhere = advice('192.168.1.20', tcp)
        assert 'sudo ufw allow from 192.168.1.20' in elsewhere[0]
        assert 'admit inbound UDP from 192.168.1.20' in elsewhere[1]


def test_where_nobody_has_the_address_no_firewall_is_blamed():
    facts = heard()
    facts.stream = None
    facts.udp, facts.tcp = Attempt(Outcome.SILENT), Attempt(Outcome.SILENT)
    facts.address_unused = True
    assert network.check_udp(facts).level is Level.FAIL
    assert 'no machine in the network of eth0 has the address' in network.check_udp(facts).found
    assert network.check_connect_back(facts).level is Level.SKIP


# -- all the while ------------------------------------------------------------------------------

def pose(name, time_s, x=None, quat=(0.0, 0.0, 0.0, 1.0)):
    """Make a pose of a body that moves along x unless told otherwise."""
    place = (math.sin(time_s) if x is None else x, 1.0, 2.0)
    return PoseReport(name, 0, round((50.0 + time_s) * 1e9), place, quat)


def listened(batches, **changes):
    """Let a watch take batches of (time in s, poses), and make the facts of it."""
    watch = Watch()
    now_ns = arrival_ns = 10**15
    for time_s, batch in batches:
        arrival_ns = 10**15 + round(time_s * 1e9)
        while now_ns < arrival_ns:
            now_ns += 10**8
            watch.tick(min(now_ns, arrival_ns))
        watch.receive(batch, arrival_ns, 10**18)
    watch.tick(arrival_ns)
    return heard(
        poses=watch.poses, bodies=watch.bodies(arrival_ns), rates=watch.rates(),
        paces=watch.paces(), pace=watch.pace(), returns=watch.returns,
        exchanged=watch.exchanged, clock=watch.clock(), **changes)


def frames(rate=120.0, seconds=4.0):
    return [k / rate for k in range(round(rate * seconds))]


def without(times, begin, end, every=1.0):
    """Leave a part of every so many seconds out."""
    return [t for t in times if not begin <= t % every < end]


FLIPPED = (0.0, 1.0, 0.0, 0.0)
SICK = {
    # what a body does: its poses, what is said of it, what is to be done
    'silent': ([(t, [pose('A', t)]) for t in without(frames(), 0.3, 0.7)],
               "'A' was silent for up to 0.41 s at a time, 4 times, 41% of the time", 'cameras'),
    'repeating': ([(t, [pose('A', t, math.sin(int(t)) if t % 1.0 < 0.7 else None)])
                   for t in frames()],
                  "'A' was unusable in 69% of its poses: repeats of one pose (FROZEN)", 'cameras'),
    'zeroed': ([(t, [pose('A', t) if t % 1.0 > 0.3 else PoseReport(
        'A', 0, round((50.0 + t) * 1e9), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))])
        for t in frames()], 'of its poses: zeros (ZEROED)', 'cameras'),
    'flipped': ([(t, [pose('A', t, None, (0.0, 0.0, 0.0, 1.0) if t % 1.0 < 0.5 else FLIPPED)])
                 for t in frames(seconds=4.4)],
                "'A' was unusable in 45% of its poses: at positions or attitudes that it cannot "
                'reach (JUMPED)',
                'symmetric'),
    'not a number': ([(t, [pose('A', t, math.nan if t % 1.0 < 0.2 else None)])
                      for t in frames()], 'not a pose (INVALID)', 'the body in Motive'),
    'flickering': ([(t, [pose('A', t)] * (k % 5 != 0) + [pose('B', t)])
                    for k, t in enumerate(frames())], "'A' lacked 20% of the frames", 'cameras'),
    'late': ([(t, [pose('A', t)] * (t > 2.0) + [pose('B', t)]) for t in frames()],
             "'A' was absent for the first 2.0 s", 'cameras'),
}


@pytest.mark.parametrize('how', SICK)
def test_a_body_that_was_bad_for_a_part_of_the_time_is_a_warning(how):
    batches, said, advice = SICK[how]
    facts = listened(batches)
    assert stream.check_data(facts).level is Level.OK
    assert stream.check_rate(facts).level is Level.OK
    found = bodies.check_bodies(facts)
    assert found.level is Level.WARN
    assert said in found.found
    assert advice in found.advice
    assert exit_code(judge(facts)) == 1


def test_a_body_that_comes_and_goes_is_no_failure_at_the_moment_when_it_is_gone():
    times = frames(seconds=3.6)
    facts = listened([(t, [pose('A', t, None, (0.0, 0.0, 0.0, 1.0) if t % 1.0 < 0.5 else FLIPPED)])
                      for t in times])
    assert facts.stream.bodies[0].state is State.JUMPED
    found = bodies.check_bodies(facts)
    assert found.level is Level.WARN
    assert "none tracked at the end, and 'A' is JUMPED" in found.found
    assert 'came back 3 times' in found.found


def test_what_is_wrong_now_and_then_is_no_word_worth():
    times = frames()
    batches = [(t, [pose('A', t, 5.0 if k % 130 == 60 else None), pose('B', t, t - 9.0)])
               for k, t in enumerate(times) if k not in (77, 200)]
    assert exit_code(judge(listened(batches))) == 0


@pytest.mark.parametrize('lost', [0, 150])
def test_frames_that_are_missing_are_said_to_be_lost_or_never_sent(lost):
    draw = random.Random(3).random
    facts = listened([(t, [pose('A', t), pose('B', t)]) for t in frames() if draw() >= 0.3],
                     counters={'udp_lost': 2 * lost, 'datagrams': 336})
    rate = stream.check_rate(facts)
    assert bodies.check_bodies(facts).level is Level.OK
    if lost:
        assert rate.level is Level.OK
        assert 'were lost in the network' in stream.check_data(facts).found
    else:
        assert rate.level is Level.WARN
        assert '120.0 Hz, but 27% of the frames are missing at the sender' in rate.found
        assert "its machine's load" in rate.advice


@pytest.mark.parametrize(('share', 'said'), [
    (1.0, 'every frame arrives twice'), (0.5, '% of the frames arrive twice'), (0.005, None)])
def test_frames_that_come_twice(share, said):
    draw = random.Random(4).random
    facts = listened([(t, [pose('A', t)] * (1 + (draw() < share))) for t in frames()])
    found = stream.check_data(facts)
    assert found.level is (Level.WARN if said else Level.OK)
    assert (said or 'poses') in found.found
    assert bodies.check_bodies(facts).level is Level.OK


def test_datagrams_that_come_twice_are_the_networks_fault():
    facts = listened([(t, [pose('A', t)] * 2) for t in frames()],
                     counters={'udp_repeated': 480, 'datagrams': 960})
    found = stream.check_data(facts)
    assert '50% of the datagrams arrived twice' in found.found
    assert 'every frame' not in found.found


def test_datagrams_that_were_overtaken_are_neither_lost_nor_unsent():
    times = frames()
    for k in range(10, 470, 5):
        times[k], times[k + 1] = times[k + 1], times[k]
    facts = listened([(k / 120, [pose('A', t)]) for k, t in enumerate(times)],
                     counters={'udp_reordered': 92, 'datagrams': 480})
    found = stream.check_data(facts)
    assert '19% of the datagrams arrived out of order' in found.found
    assert 'lost' not in found.found
    assert stream.check_rate(facts).level is Level.OK
    assert stream.check_stamps(facts).level is Level.OK
    facts.stream.counters = {}
    assert 'older than the one before' in stream.check_stamps(facts).found


def test_times_that_repeat_call_for_stamps_by_arrival():
    found = stream.check_stamps(listened(
        [(t, [pose('A', t)._replace(sender_time_ns=int(t * 100) * 10**7)]) for t in frames()]))
    assert found.level is Level.WARN
    assert 'have the time of the pose before' in found.found
    assert 'stamps.mode: arrival' in found.advice


def test_where_all_bodies_are_silent_at_once_it_is_none_of_theirs():
    facts = listened([(t, [pose('A', t), pose('B', t)]) for t in without(frames(), 0.3, 0.6)])
    assert bodies.check_bodies(facts).level is Level.OK
    found = stream.check_data(facts)
    assert 'no body sent a pose for up to 0.31 s at a time, 4 times' in found.found
    assert 'Motive paused' in found.advice


def test_where_nothing_comes_any_more_it_is_said_since_when():
    found = stream.check_data(heard(quiet_s=3.04))
    assert found.level is Level.WARN
    assert 'none in the last 3.0 s' in found.found
    assert 'paused' in found.advice
    slow = listened([(t, [pose('A', t)]) for t in frames(rate=2.0)], quiet_s=0.9)
    assert stream.check_data(slow).level is Level.OK
    gone = body('A', State.STALE, 'silent for 0.60 s')._replace(age_s=3.04)
    found = bodies.check_bodies(heard(bodies=(gone,)))
    assert "'A' is STALE (no valid pose for the last 3.0 s)" in found.found


def test_loss_for_want_of_room_is_no_cables_fault():
    found = stream.check_data(heard(counters={'udp_lost': 300, 'dropped_unread': 200}))
    assert 'this machine was full' in found.found
    assert 'cable' not in found.advice


def test_everything_that_is_wrong_with_the_data_is_said():
    found = stream.check_data(heard(counters={
        'udp_lost': 300, 'udp_reordered': 100, 'datagrams': 960, 'malformed': 3}))
    for said in ('3 malformed', 'lost in the network', 'out of order'):
        assert said in found.found
    assert '. Use a cable' in found.advice


# -- exchanged names ----------------------------------------------------------------------------

def exchanged(one, other, until=9.0, seconds=3.0):
    """Let two bodies exchange their names from 1 s on."""
    def at(name, t):
        here, there = (one, other) if name == one else (other, one)
        seen = there if 1.0 <= t < until else here
        return pose(name, t, math.sin(t) + 3.0 * (seen == one))
    return listened([(t, [at(one, t), at(other, t)]) for t in frames(seconds=seconds)])


def test_bodies_that_have_exchanged_names_are_told_with_both_names_and_what_to_do():
    one, other = 'a rigid body ' + 60 * 'x', 'a rigid body ' + 59 * 'x' + 'y'
    found = bodies.check_bodies(exchanged(one, other))
    assert found.level is Level.FAIL
    assert f'seems to have exchanged names with {other!r}' in found.found
    assert f'seems to have exchanged names with {one!r}' in found.found
    assert 'asymmetric' in found.advice
    assert 'create them again' in found.advice
    assert '?.' not in found.advice


def test_an_exchange_that_is_over_is_told_as_well():
    found = bodies.check_bodies(exchanged('one', 'other', until=2.0, seconds=4.0))
    assert found.level is Level.WARN
    assert "'one' seemed for a while to have exchanged names with 'other'" in found.found
    assert 'asymmetric' in found.advice


def test_of_many_sick_bodies_the_line_holds_as_many_as_fit():
    sick = tuple(body(f'body {k} ' + 90 * 'x', State.INVALID, 150 * '9') for k in range(9))
    found = bodies.check_bodies(heard(bodies=sick)).found
    assert len(found) < 900
    assert found.endswith('; and 6 more')


def test_no_advice_ends_in_two_marks():
    states = [state for state in State if state is not State.TRACKED]
    for state in states:
        found = bodies.check_bodies(heard(bodies=(body('a', state), body('b', State.STALE))))
        assert found.advice
        assert not re.search(r'[?.!][.]', found.advice)


# -- the graph ------------------------------------------------------------------------------------

def running(state='active', **changes):
    facts = heard()
    told = {'server': 'motive', 'port': 3883, 'up_axis': 'y'}
    node = RunningNode('/mocap', 1, state, told, 8, 2)
    facts.graph = Graph(nodes=(replace(node, **changes),))
    return facts


@pytest.mark.parametrize(('state', 'level', 'said'), [
    ('active', Level.OK, ''), ('inactive', Level.WARN, 'ros2 lifecycle set /mocap activate'),
    ('unconfigured', Level.WARN, 'ros2 lifecycle set /mocap configure'),
    ('finalized', Level.WARN, 'start the node again'), ('', Level.FAIL, 'hangs')])
def test_each_lifecycle_state_says_what_to_do(state, level, said):
    found = graph.check_lifecycle(running(state))
    assert found.level is level
    assert said in found.advice


def test_two_nodes_of_one_name_are_a_warning():
    found = graph.check_lifecycle(running(count=2))
    assert found.level is Level.WARN
    assert '2 nodes are called /mocap' in found.found
    # Topics depend on the namespace: a name alone would leave them published twice.
    assert '__ns:=/NAME' in found.advice and '__node' not in found.advice


def test_nodes_that_publish_on_one_topic_are_a_warning():
    assert graph.check_publishers(running()).level is Level.SKIP
    found = graph.check_publishers(running(pose_topics=2))
    assert (found.level, found.values['shared']) == (Level.OK, 0)
    facts = running(pose_topics=2, conflicting={'/wand/pose': ('/b',), '/drone/pose': ('/b',)})
    mine = facts.graph.nodes[0]
    theirs = replace(mine, name='/b', conflicting={
        '/wand/pose': (mine.name,), '/drone/pose': (mine.name,)})
    facts.graph = replace(facts.graph, nodes=(mine, theirs))
    found = graph.check_publishers(facts)
    assert found.level is Level.WARN
    assert found.found == '/b and /mocap publish on /wand/pose and 1 more of the same topics'
    assert 'bodies.allow' in found.advice and '__ns:=/NAME' in found.advice
    assert found.values['shared'] == 2


def test_a_subscriber_that_gets_nothing_is_a_failure():
    found = graph.check_qos(running(mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE'),)))
    assert found.level is Level.FAIL
    assert '/mavros receives nothing from /wand/pose (RELIABLE)' in found.found
    assert graph.check_qos(running()).level is Level.OK
    twins = running(count=2, mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE', 1, 2),))
    assert '/mavros receives nothing from 1 of 2 publishers of /wand/pose (RELIABLE)' in (
        graph.check_qos(twins).found)
    twins.graph = replace(twins.graph, nodes=(*twins.graph.nodes, RunningNode('/b')))
    assert 'of /wand/pose of /mocap (RELIABLE)' in graph.check_qos(twins).found
    assert graph.check_qos(running(topics=0)).level is Level.SKIP


def test_a_node_that_follows_another_server_or_axis_is_a_warning():
    assert graph.check_settings(running()).level is Level.OK
    by_address = {'server': '192.168.1.20', 'port': 3883, 'up_axis': 'y'}
    assert graph.check_settings(running(settings=by_address)).level is Level.OK
    other = graph.check_settings(running(settings={**by_address, 'server': '10.0.0.9'}))
    assert other.level is Level.WARN
    assert 'uses 10.0.0.9 port 3883, not motive' in other.found
    facts = running()
    facts.stream = replace(facts.stream, lifts=(Lift('wand', (0.0, 0.0, 0.5)),))
    found = graph.check_settings(facts)
    assert found.level is Level.WARN
    assert 'has up_axis: y, but z is up' in found.found


def test_up_axis_is_only_said_to_fit_where_somebody_has_seen_which_axis_is_up():
    facts = running()
    assert 'up_axis' not in graph.check_settings(facts).found
    facts.stream = replace(facts.stream, lifts=(Lift('wand', (0.0, 0.5, 0.0)),))
    found = graph.check_settings(facts)
    assert found.level is Level.OK
    assert 'server, port and up_axis' in found.found


@pytest.mark.parametrize(('lists', 'said'), [
    ({'bodies.deny': ['wand']}, "'wand' is excluded by bodies.deny"),
    ({'bodies.deny': ['*'], 'bodies.allow': ['none']},
     "'wand', 'drone' are excluded by bodies.deny of /mocap"),
    ({'bodies.allow': ['wand', '']}, "'drone' is excluded by bodies.allow"),
    ({'bodies.deny': ['Wnad*', 'wand']},
     "'Wnad*' in bodies.deny matches no body seen so far; did you mean 'wand'?"),
    ({'bodies.deny': [''], 'bodies.allow': ['*']}, ''),
    ({'bodies.deny': [3], 'bodies.allow': 'text'}, '')])
def test_bodies_that_the_nodes_lists_hide_are_a_warning(lists, said):
    facts = running(settings={'server': 'motive', 'port': 3883, **lists})
    facts.stream = replace(facts.stream, bodies=(body('wand'), body('drone')))
    found = graph.check_settings(facts)
    assert found.level is (Level.WARN if said else Level.OK)
    assert said in found.found
    elsewhere = replace(facts.graph.nodes[0], settings={'server': 'b', 'port': 1, **lists})
    facts.graph = Graph(nodes=(elsewhere,))
    assert 'bodies.' not in graph.check_settings(facts).found


def test_settings_of_bodies_that_were_not_heard_are_a_warning():
    facts = running(bodies=('Wand',))
    facts.stream = replace(facts.stream, bodies=(body('wand'),))
    found = graph.check_settings(facts)
    assert found.level is Level.WARN
    assert "settings for 'Wand' match no body seen so far; did you mean 'wand'?" in found.found


def test_a_node_that_was_asked_for_must_be_there():
    facts = heard()
    facts.graph = Graph(waited_s=3.0)
    for judged in (graph.check_qos, graph.check_publishers, graph.check_settings):
        assert judged(facts).level is Level.SKIP
    facts.graph = Graph(wanted='/mocap', waited_s=3.0)
    assert graph.check_lifecycle(facts).level is Level.FAIL
    facts.graph = Graph(wanted='/mocap', absent='ROS 2 is not available')
    assert graph.check_lifecycle(facts).level is Level.SKIP


def test_without_any_node_nothing_reaches_ros_which_is_a_warning():
    facts = heard()
    facts.graph = Graph(waited_s=3.0, domain='7')
    found = graph.check_lifecycle(facts)
    assert found.level is Level.WARN
    assert 'ROS_DOMAIN_ID=7' in found.found
    for remedy in ('ros2 launch optitrack_vrpn', 'ROS_DOMAIN_ID', '--node /NAME'):
        assert remedy in found.advice


@pytest.mark.parametrize(('process', 'said', 'remedy'), [
    (LocalProcess(41, True, '7'), 'process 41 runs the node and is stopped', 'kill -CONT 41'),
    (LocalProcess(42, False, '9'), 'process 42 runs the node with ROS_DOMAIN_ID=9',
     'export ROS_DOMAIN_ID=9'),
    (LocalProcess(43, False, '7'), 'process 43 runs the node but does not answer', 'its log'),
    (LocalProcess(44, False, None), 'process 44 runs the node but does not answer', 'its log')])
def test_a_node_process_that_is_not_on_the_graph_is_a_failure(process, said, remedy):
    facts = heard()
    facts.graph = Graph(waited_s=3.0, domain='7', processes=(process,))
    found = graph.check_lifecycle(facts)
    assert found.level is Level.FAIL
    assert said in found.found and remedy in found.advice


@pytest.mark.parametrize(('reason', 'remedies'), [
    ('ERROR: Best effort publisher and reliable subscription', ['qos.reliability: reliable']),
    ('ERROR: Volatile publisher and transient local subscription', ['durability volatile']),
    ('ERROR: Best effort publisher and reliable subscription;ERROR: Volatile publisher and '
     'transient local subscription', ['qos.reliability: reliable', 'durability volatile']),
    ('ERROR: Subscription has a deadline, but publisher does not', ['no deadline']),
    ('ERROR: Subscription has a liveliness lease duration, but publisher does not', ['lease']),
    ('something new', ['default quality of service'])])
def test_each_policy_that_does_not_match_has_its_own_remedy(reason, remedies):
    found = graph.check_qos(running(mismatches=(Mismatch('/wand/pose', '/mavros', reason),)))
    assert all(remedy in found.advice for remedy in remedies)
    assert ('qos.reliability' in found.advice) == ('reliable sub' in reason)


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


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(EVENTS, max_size=6), max_size=12), st.text(max_size=60), st.booleans())
def test_whatever_a_server_says_gives_lines_for_a_terminal_and_json(batches, text, lifting):
    watch = Watch()
    for number, batch in enumerate(batches):
        if lifting and number == len(batches) // 2:
            watch.begin_lift()
        watch.receive(batch, 10**15 + number * 10**7, 10**18)
    watch.tick(10**15 + 10**9)
    facts = heard(
        senders=watch.senders, answered=watch.answered, bodies=watch.bodies(10**15 + 10**9),
        rates=watch.rates(), paces=watch.paces(), pace=watch.pace(), returns=watch.returns,
        exchanged=watch.exchanged, more_bodies=watch.more_bodies, clock=watch.clock(),
        newest_sender_ns=watch.newest_sender_ns, ahead_s=watch.ahead_s, lifts=watch.lifts,
        texts=watch.texts, poses=watch.poses, ended=text)
    facts.graph = Graph(wanted=text, nodes=(RunningNode(
        text, 1, text, {'server': text}, 1, 1, (Mismatch(text, text, text),), (text,), 1,
        {text: (text, 'b')}),))
    for one in judge(facts):
        assert one.found.isprintable() and one.advice.isprintable()
        assert len(one.found) <= 900
        assert bool(one.advice) == (one.level in (Level.WARN, Level.FAIL)), one
        json.dumps(one.values, allow_nan=False)


def test_a_server_of_ever_new_names_fills_no_memory():
    watch = Watch()
    for number in range(20_000):
        watch.receive([
            SenderDescribed(f'name {number}', number % 2000),
            PoseReport(f'name {number}', 0, 10**9, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))],
            10**15 + number, 0)
    assert len(watch.senders) == 2000
    assert len(watch.bodies(10**15)) == 500
    assert watch.more_bodies == 19_500
    assert watch.poses == 20_000
