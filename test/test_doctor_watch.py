# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor on a stream that it watched for a while."""

from dataclasses import replace
import math
import random
import re

from doctor_results import body, check_all, heard, judged, result
from optitrack_vrpn.core.checks import exit_code
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.frames import Body as PoseReport
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.telling.doctor.watch import Watch
import pytest


def pose(name, time_s, x=None, quat=(0.0, 0.0, 0.0, 1.0)):
    """Make a pose of a body that moves along x unless stated otherwise; 'B' is beside 'A'."""
    place = (math.sin(time_s) if x is None else x, 2.0 if name == 'B' else 1.0, 2.0)
    return PoseReport(name, 0, round((50.0 + time_s) * 1e9), place, quat)


def listened(batches, **changes):
    """Let a watch take batches of (time in s, poses), and make the facts of it."""
    facts = heard(poses=0)
    watch = Watch(facts.stream)
    now_ns = arrival_ns = 10**15
    for time_s, batch in batches:
        arrival_ns = 10**15 + round(time_s * 1e9)
        while now_ns < arrival_ns:
            now_ns += 10**8
            watch.tick(min(now_ns, arrival_ns))
        watch.receive(to_frames(batch), arrival_ns, 10**18)
    watch.fill(arrival_ns)
    facts.stream = replace(facts.stream, **changes)
    return facts


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
                  "'A' was unusable in 66% of its poses: repeats of one pose (FROZEN)", 'cameras'),
    'zeroed': ([(t, [pose('A', t) if t % 1.0 > 0.3 else PoseReport(
        'A', 0, round((50.0 + t) * 1e9), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))])
        for t in frames()], 'of its poses: zeros (ZEROED)', 'cameras'),
    'flipped': ([(t, [pose('A', t, None, (0.0, 0.0, 0.0, 1.0) if t % 1.0 < 0.5 else FLIPPED)])
                 for t in frames(seconds=4.4)],
                "'A' was unusable in 50% of its poses: at positions or attitudes that it cannot "
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
    judged(result('data', facts), INFO)
    judged(result('rate', facts), INFO)
    judged(result('bodies', facts), WARN, said, advice=[advice])
    assert exit_code(check_all(facts)) == 1


def test_a_body_that_comes_and_goes_is_no_failure_at_the_moment_when_it_is_gone():
    times = frames(seconds=3.6)
    facts = listened([(t, [pose('A', t, None, (0.0, 0.0, 0.0, 1.0) if t % 1.0 < 0.5 else FLIPPED)])
                      for t in times])
    assert facts.stream.bodies[0].state is State.JUMPED
    judged(result('bodies', facts), WARN, '0 tracked', "'A' is JUMPED", 'came back 3 times')


def test_what_is_wrong_now_and_then_is_no_word_worth():
    times = frames()
    batches = [(t, [pose('A', t, 5.0 if k % 130 == 60 else None), pose('B', t, t - 9.0)])
               for k, t in enumerate(times) if k not in (77, 200)]
    assert exit_code(check_all(listened(batches))) == 0


@pytest.mark.parametrize('lost', [0, 150])
def test_frames_that_are_missing_are_said_to_be_lost_or_never_sent(lost):
    draw = random.Random(3).random
    facts = listened([(t, [pose('A', t), pose('B', t)]) for t in frames() if draw() >= 0.3],
                     counters={'udp_lost': 2 * lost, 'datagrams': 336})
    judged(result('bodies', facts), INFO)
    if lost:
        judged(result('rate', facts), INFO)
        judged(result('data', facts), WARN, 'in the network')
    else:
        judged(result('rate', facts), WARN, '120.0 Hz', '27% of the frames',
               'the sender', advice=["its machine's load"])


@pytest.mark.parametrize(('share', 'said'), [
    (1.0, 'every frame arrives twice'), (0.5, '% of the frames arrive twice'), (0.005, None)])
def test_frames_that_come_twice(share, said):
    draw = random.Random(4).random
    facts = listened([(t, [pose('A', t)] * (1 + (draw() < share))) for t in frames()])
    judged(result('data', facts), WARN if said else INFO, said or 'poses')
    judged(result('bodies', facts), INFO)


def test_datagrams_that_come_twice_are_the_networks_fault():
    facts = listened([(t, [pose('A', t)] * 2) for t in frames()],
                     counters={'udp_repeated': 480, 'datagrams': 960})
    judged(result('data', facts), WARN, '50% of the datagrams arrived twice',
           without=['every frame'])


def test_datagrams_that_were_overtaken_are_neither_lost_nor_unsent():
    times = frames()
    for k in range(10, 470, 5):
        times[k], times[k + 1] = times[k + 1], times[k]
    facts = listened([(k / 120, [pose('A', t)]) for k, t in enumerate(times)],
                     counters={'udp_reordered': 92, 'datagrams': 480})
    judged(result('data', facts), WARN, '19% of the datagrams arrived out', without=['lost'])
    judged(result('rate', facts), INFO)
    judged(result('stamps', facts), INFO)
    facts.stream.counters = {}
    assert 'older than' in result('stamps', facts).found


@pytest.mark.parametrize(('change', 'check', 'level', 'advice'), [
    (lambda each, t: [each._replace(sender_time_ns=int(t * 100) * 10**7)], 'stamps',
     WARN, ['stamps.mode: arrival']),
    (lambda each, t: [each._replace(sender_time_ns=10**9)], 'bodies', ERROR,
     ['does the server send times?']),
    (lambda each, t: [each, each._replace(position=(9.0, 1.0, 0.0))], 'stamps', WARN,
     ["the name 'A'?", 'Rename one'])], ids=['repeat', 'stand still', 'two bodies of one name'])
def test_times_that_do_not_rise_and_shared_names_have_their_remedy(change, check, level, advice):
    facts = listened([(t, change(pose('A', t), t)) for t in frames()])
    judged(result(check, facts), level, advice=advice)


def test_where_all_bodies_are_silent_at_once_it_is_none_of_theirs():
    facts = listened([(t, [pose('A', t), pose('B', t)]) for t in without(frames(), 0.3, 0.6)])
    judged(result('bodies', facts), INFO)
    judged(result('data', facts), WARN, 'up to 0.31 s', '4 times',
           advice=['Motive paused'])


def test_where_nothing_comes_any_more_it_is_said_since_when():
    judged(result('data', heard(quiet_s=3.04)), WARN, 'the last 3.0 s',
           advice=['paused'])
    slow = listened([(t, [pose('A', t)]) for t in frames(rate=2.0)], quiet_s=0.9)
    judged(result('data', slow), INFO)
    gone = body('A', State.STALE, 'silent for 0.60 s')
    gone.status = gone.status._replace(age_s=3.04)
    judged(result('bodies', heard(bodies=(gone,))), ERROR, "'A' is STALE", '3.0 s')


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
    facts = exchanged(one, other)
    assert {each.name: each.status.swapped_with for each in facts.stream.bodies} == {
        one: other, other: one}
    found = judged(result('bodies', facts), ERROR, without=['?.'],
                   advice=['asymmetric', 'create them again'])
    assert found.found.count(one) == found.found.count(other) == 1


def test_an_exchange_that_is_over_is_told_as_well():
    facts = exchanged('one', 'other', until=2.0, seconds=4.0)
    judged(result('bodies', facts), WARN, '2 tracked', advice=['asymmetric'])


def test_of_many_sick_bodies_the_line_holds_as_many_as_fit():
    sick = tuple(body(f'body {k} ' + 90 * 'x', State.INVALID, 150 * '9') for k in range(9))
    found = result('bodies', heard(bodies=sick)).found
    assert len(found) < 900
    assert 'and 5 more are INVALID' in found


def test_no_advice_ends_in_two_marks():
    states = [state for state in State if state is not State.TRACKED]
    for state in states:
        found = result('bodies', heard(bodies=(body('a', state), body('b', State.STALE))))
        assert found.advice
        assert not re.search(r'[?.!][.]', found.advice)


def test_what_the_server_had_queued_is_no_time_of_observation():
    """As found: of a short observation nothing was left, and each body was seen too briefly."""
    watch, taken = Watch(heard(poses=0).stream), {}
    for number in range(480):
        # Of the first second every frame arrives within a tenth of it.
        sent = number / 120
        arrived = max(sent, 1.0 + (sent - 1.0) / 10)
        now_ns = 10**15 + round(arrived * 1e9)
        watch.receive(to_frames([pose('A', sent)]), now_ns, 10**18)
        watch.tick(now_ns)
        taken.setdefault(watch.taken_ns, sent)
    assert watch.first_pose_ns < 10**15 + 10**9
    assert next(iter(taken)) is None and 10**15 + 10**9 < watch.taken_ns
