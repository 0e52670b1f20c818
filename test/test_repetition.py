# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a log leaves out, and what it never leaves out: any course of problems, by an oracle."""

from hypothesis import given, strategies as st
from optitrack_vrpn.core.findings import Finding
from optitrack_vrpn.core.repetition import REMIND_S, Repetition
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.telling.facts import GraphFacts, StreamFacts
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import BY_CODE, of_log

S = 10**9


@given(st.lists(st.tuples(st.integers(1, 40), st.sets(st.sampled_from('abc'))), max_size=60))
def test_begins_and_ends_alternate_and_no_begin_is_written_twice_a_minute(course):
    repetition, now, written, begun = Repetition(), 0, {}, {}
    for step, present in course:
        now += step * S
        begins, ends = repetition.problems(dict.fromkeys(present, 0), now)
        for key in ends:
            assert written.pop(key) and key not in present, 'the end of what was written'
        for key in begins:
            assert key in present and key not in written
            assert now - begun.get(key, -REMIND_S * S) >= REMIND_S * S
            written[key], begun[key] = True, now
        # What lasts is written at the latest when the minute is over.
        assert all(key in written or now - begun[key] < REMIND_S * S for key in present)
        assert set(written) <= present


def test_a_problem_that_began_within_the_minute_and_lasts_is_written_after_it():
    repetition = Repetition()
    assert repetition.problems({'a': 1}, 0)[0] and repetition.problems({}, S)[1]
    assert not any(repetition.problems({'a': 1}, at * S)[0] for at in (10, 30, 59))
    assert repetition.problems({'a': 2}, 60 * S) == ({'a': 2}, {})


def lines(repetition, now_s, *present):
    return [(line.severity, line.text) for line in problem_lines(repetition, present, now_s * S)]


def test_one_cause_is_one_line_for_all_bodies_and_says_its_end_with_the_last_figures():
    repetition = Repetition()
    far = [Finding(BY_CODE['unit'], (name,), {'far': 500.0}) for name in 'ab']
    ((severity, text),) = lines(repetition, 0, *far)
    assert severity is WARN and "'a', 'b' are 500 m" in text
    assert lines(repetition, 1, *far) == []
    ((_, text),) = lines(repetition, 2, *far, Finding(BY_CODE['unit'], ('c',), {'far': 400.0}))
    assert "'c' is 400 m" in text, 'of a further body alone'
    shed = {'patience': 1.0, 'standing': 50.0}
    assert len(lines(repetition, 3, Finding(BY_CODE['overload'], (), {**shed, 'shed': 5}))) == 1
    lines(repetition, 4, Finding(BY_CODE['overload'], (), {**shed, 'shed': 70}))
    ((severity, text),) = lines(repetition, 5)
    assert severity is INFO and 'keeps up again; 70 poses' in text


def test_losses_that_change_their_cause_are_one_problem():
    repetition = Repetition()
    assert len(lines(repetition, 0, Finding(BY_CODE['unread'], (), {'share': '5%'}))) == 1
    assert lines(repetition, 1, Finding(BY_CODE['lost'], (), {'share': '5%'})) == []
    assert lines(repetition, 2) == [(INFO, 'losses have ended')]


def test_neighbours_have_a_line_each_and_frames_of_two_parents_one_for_all():
    graph = GraphFacts('/a', sharing={'/b': '/x/pose', '/c': '/x/pose'}, parents={
        'wand': ('optitrack', 'map'), 'drone': ('optitrack', 'map'), 'cart': ('world', 'map')})
    repetition = Repetition()
    found = lines(repetition, 0, *of_log(StreamFacts(graph=graph)))
    assert [text.partition(':')[0] for _, text in found] == [
        '/b publishes on /x/pose too, so that subscribers receive both',
        '/c publishes on /x/pose too, so that subscribers receive both',
        "the frame 'drone', 'wand' of TF has two parents",
        "the frame 'cart' of TF has two parents"]
    assert all(severity is WARN for severity, _ in found)
    graph.same_name = 2
    graph.unmatched = ["'x' in bodies.deny matches no body; did you mean 'y'?"]
    found = lines(repetition, 1, *of_log(StreamFacts(graph=graph)))
    assert '2 other nodes are called /a too' in found[0][1] and "mean 'y'? write" in found[1][1]
    assert lines(repetition, 2, *of_log(StreamFacts(graph=graph))) == []


def test_bodies_with_remedies_of_their_own_have_a_line_each():
    held = [Finding(BY_CODE['held'], (name,), {
        'seconds': 2.0, 'why': 'x', 'accept': f'call {name}'})
            for name in 'ab']
    found = lines(Repetition(), 0, *held)
    assert [text[-6:] for _, text in found] == ['call a', 'call b']


def test_a_state_is_written_when_it_changes_and_again_after_it_ended():
    repetition = Repetition()
    assert [repetition.state('a', text) for text in ('', 'x', 'x', '', 'x', 'y', 'y')] == [
        False, True, False, False, True, True, False]
    assert repetition.state('b', 'x'), 'each key by itself'
    repetition.restart()
    assert repetition.state('a', 'y')
    assert sum(repetition.state(number, 'x') for number in range(1000)) == 99
    assert repetition.state('a', 'z'), 'of a key that is known'


def test_a_state_that_comes_and_goes_is_written_once_in_5_s_and_the_last_one_in_the_end():
    repetition, written = Repetition(), []
    for tick in range(200):    # of 0.1 s; it stays from the 101st on
        text = 'xy'[min(tick, 101) % 2]
        if repetition.state('a', text, tick * 100_000_000):
            written.append((tick, text))
    assert written == [(0, 'x'), (1, 'y'), (50, 'x'), (51, 'y'), (100, 'x'), (101, 'y')]
