# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The list of what can be wrong, and the rules that find it."""

import string

from hypothesis import given, strategies as st
from optitrack_vrpn.core.findings import Case, find, Finding, merge, Rule, Span
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.core.stats import Intervals
from optitrack_vrpn.drivers.frames import Body, Frame
from optitrack_vrpn.drivers.link_rules import CHOICE, SILENCE
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.takes.assess.rules import NO_FAULT, TAKE_RULES
from optitrack_vrpn.takes.dashboard.page_rules import PAGE_RULES
from optitrack_vrpn.takes.evaluate.evaluation_rules import EVALUATION_RULES, GOOD_ESTIMATE
from optitrack_vrpn.telling.doctor.checks import DOCTOR_RULES
from optitrack_vrpn.telling.facts import (
    BodyFacts, facts_of_body, RateFacts, StreamFacts, Twins)
from optitrack_vrpn.telling.rules import BY_CODE, of_check, of_entry, RULES, TWO_PARENTS
from pipeline_kit import make_pipeline, MS, S
import pytest

#: All rows, of all kinds of facts.
EVERY = [
    *RULES, *SILENCE, *CHOICE, *DOCTOR_RULES, TWO_PARENTS, *TAKE_RULES, NO_FAULT,
    *EVALUATION_RULES, GOOD_ESTIMATE, *PAGE_RULES]


def seen(name, state=State.TRACKED, **intervals):
    status = BodyStatus(name, state, 0, 120.0, 0.01, 0, 400, 0, 0, 'seen')
    return BodyFacts(status, Intervals(**{
        'frames': 480, 'interval_s': 1 / 120, 'span_s': 4.0, **intervals}))


@pytest.mark.parametrize('rule', EVERY, ids=lambda rule: rule.code)
def test_every_rule_has_a_text_and_a_remedy_that_one_body_and_many_fit(rule):
    names = {name for _, name, *_ in string.Formatter().parse(
        rule.text + rule.remedy + rule.end) if name}
    figures = dict.fromkeys(names - {'bodies', 'is', 'was', 'has', 'its', 'stays'}, 1.0)
    for bodies in ((), ('a',), ('a', 'b')):
        found = Finding(rule, bodies, figures)
        assert found.text and '{' not in found.text + found.remedy
        assert bool(found.remedy) == (found.severity > INFO)


def test_one_stall_of_the_network_is_one_finding_for_all_bodies():
    silences = {'silences': 1, 'silent_s': 0.6, 'longest_s': 0.6, 'silence_s': 1.2}
    stream = StreamFacts(1440, tuple(seen(name, **silences) for name in 'abc'),
                         Intervals(480, 1 / 120, 4.0, **silences), {})
    assert of_check('bodies', stream) == []
    found, = of_check('data', stream)
    assert found.code == 'paused' and found.begin_s == 1.2


@given(st.lists(st.tuples(st.sampled_from(['silent', 'lacked']), st.sampled_from('abcdefgh'),
                          st.sampled_from([0.2, 1.2, 3.4]))))
def test_bodies_with_one_cause_at_one_time_are_one_finding(rows):
    found = [Finding(BY_CODE[key], (name,), {'silence': '1 s', 'share': '2 %'}, (Span(begin),))
             for key, name, begin in rows]
    merged = merge(found)
    assert len(merged) == len({(one.code, one.begin_s) for one in found})
    assert sorted((one.code, name) for one in merged for name in one.bodies) == sorted(
        (one.code, name) for one in found for name in one.bodies)


@pytest.mark.parametrize(('far_m', 'keys'), [
    (0.0, ['JUMPED', 'NEW', 'was JUMPED']), (1000.0, ['unit', 'unit'])])
def test_a_body_in_millimetres_is_no_body_of_two_that_have_one_name(far_m, keys):
    bodies = [seen('drone', State.NEW), seen('base', State.JUMPED)]
    bodies[1].status = bodies[1].status._replace(withheld={'jumped': 100})
    for body in bodies:
        body.far_m = far_m
    stream = StreamFacts(960, tuple(bodies), Intervals(480, 1 / 120, 4.0), {})
    assert sorted(one.code for one in of_check('bodies', stream)) == keys


def rates(hz, expected_hz=0.0):
    return of_check('rate', StreamFacts(rate=RateFacts(hz, expected_hz)))


def test_a_slow_body_is_named_and_slow_cameras_are_not_blamed_on_bodies():
    assert rates({'a': 240.0, 'b': 240.0}) == []
    found, = rates({'a': 240.0, 'b': 100.0, 'c': 120.0})
    assert (found.code, found.bodies) == ('slow body', ('b', 'c'))
    assert rates({'a': 100.0, 'b': 100.0}, 120.0)[0].code == 'slow cameras'
    assert rates({'a': 60.0})[0].code == 'display rate'
    assert rates({'a': 60.0}, 60.0) == []


def follow(places, seconds=4.0, step_ns=50 * MS):
    """Look at bodies as the node does, in a pipeline; gives when each pair is found (s)."""
    pipeline, twins, found = make_pipeline('arrival'), Twins(), {}
    for now in range(S, S + round(seconds * S), step_ns):
        # Noise, so that no pose is frozen, and the same of all.
        noise = 1e-5 * (now // step_ns % 7)
        pipeline.process([Frame(now, [
            Body(name, 0, now, (x + noise, y, z), (0.0, 0.0, 0.0, 1.0))
            for name, (x, y, z) in places(now / S - 1.0).items()])], now, 0)
        pipeline.tick(now)
        twins.update(pipeline.bodies, now)
        for body in pipeline.bodies:
            facts = facts_of_body(body, now, twins.of(body.names.motive))
            for one in of_entry('body', StreamFacts(bodies=(facts,))):
                found.setdefault((one.code, one.bodies), now / S - 1.0)
    return found


def test_two_bodies_of_one_set_of_markers_are_one_finding_after_two_seconds():
    found = follow(lambda t: {
        'b': (0.0, 1.0, 0.0), 'a': (0.0003, 1.0, 0.0), 'c': (0.0, 1.002, 0.0)})
    assert list(found) == [('in one place', ('a', 'b'))]
    assert found['in one place', ('a', 'b')] == pytest.approx(2.0, abs=0.2)


def test_bodies_that_touch_for_a_moment_or_lie_beside_each_other_are_none():
    assert not follow(lambda t: {
        'a': (0.0, 1.0, 0.0), 'b': (0.0003 if t % 1.9 < 1.6 else 0.01, 1.0, 0.0)}, 8.0)
    assert not follow(lambda t: {'a': (0.0, 1.0, 0.0), 'b': (0.0, 1.0, 0.0015)})
    found = follow(lambda t: {
        'a': (0.0, 1.0, 0.0), 'b': (0.0, 1.0, 0.0), 'c': (5.0, 1.0, 0.0),
        'd': (5.0 + max(0.0, 1.5 - t), 1.0, 0.0)}, 6.0)
    assert found['in one place', ('c', 'd')] == pytest.approx(3.5, abs=0.2), 'its own time'


@given(st.lists(st.tuples(
    st.sampled_from('abcdef'), st.sampled_from(['', 'x', 'y']),
    st.sets(st.sampled_from([*'abcdef', 'x', 'y'])), st.integers(0, 2)), max_size=6,
    unique_by=lambda row: row[0]))
def test_what_another_row_explains_is_left_out_and_nothing_else_is(rows):
    table = [Rule(code, WARN, list, '', '', check=check,
                  explains=tuple(explains)).by(lambda _, cases=cases: [Case()] * cases)
             for code, check, explains, cases in rows]
    explained, expected = set(), []
    for code, check, explains, cases in rows:
        if not {code, check} & explained and cases:
            expected += [code] * cases
            explained |= explains
    assert [one.code for one in find(table, 0)] == expected
