# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The list of what can be wrong, and the rules that find it."""

import string

from hypothesis import given, strategies as st
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.core.stats import Intervals
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.telling.catalogue import CAUSES, Finding, merge, Span
from optitrack_vrpn.telling.facts import BodyFacts, StreamFacts
from optitrack_vrpn.telling.rules import body_findings, rate_findings, stream_findings
import pytest


def seen(name, state=State.TRACKED, **intervals):
    status = BodyStatus(name, state, 0, 120.0, 0.01, 0, 400, 0, 0, 'seen')
    return BodyFacts(status, Intervals(**{
        'frames': 480, 'interval_s': 1 / 120, 'span_s': 4.0, **intervals}))


@pytest.mark.parametrize('key', CAUSES)
def test_every_cause_has_a_text_and_a_remedy_that_one_body_and_many_fit(key):
    names = {name for _, name, *_ in string.Formatter().parse(''.join(CAUSES[key][1:])) if name}
    figures = dict.fromkeys(names - {'bodies', 'is', 'was', 'has', 'its', 'stays'}, 1.0)
    for bodies in ((), ('a',), ('a', 'b')):
        found = Finding(key, bodies, figures)
        assert found.text and '{' not in found.text + found.remedy
        assert bool(found.remedy) == (found.severity > INFO)


def test_one_stall_of_the_network_is_one_finding_for_all_bodies():
    silences = {'silences': 1, 'silent_s': 0.6, 'longest_s': 0.6, 'silence_s': 1.2}
    stream = StreamFacts(1440, tuple(seen(name, **silences) for name in 'abc'),
                         Intervals(480, 1 / 120, 4.0, **silences), {})
    assert body_findings(stream) == []
    found, = stream_findings(stream)
    assert found.key == 'paused' and found.begin_s == 1.2


@given(st.lists(st.tuples(st.sampled_from(['silent', 'lacked']), st.sampled_from('abcdefgh'),
                          st.sampled_from([0.2, 1.2, 3.4]))))
def test_bodies_with_one_cause_at_one_time_are_one_finding(rows):
    found = [Finding(key, (name,), {'silence': '1 s', 'share': '2 %'}, (Span(begin),))
             for key, name, begin in rows]
    merged = merge(found)
    assert len(merged) == len({(one.key, one.begin_s) for one in found})
    assert sorted((one.key, name) for one in merged for name in one.bodies) == sorted(
        (one.key, name) for one in found for name in one.bodies)


def test_a_slow_body_is_named_and_slow_cameras_are_not_blamed_on_bodies():
    assert rate_findings({'a': 240.0, 'b': 240.0}) == []
    found, = rate_findings({'a': 240.0, 'b': 100.0, 'c': 120.0})
    assert (found.key, found.bodies) == ('slow body', ('b', 'c'))
    assert rate_findings({'a': 100.0, 'b': 100.0}, 120.0)[0].key == 'slow cameras'
    assert rate_findings({'a': 60.0})[0].key == 'display rate'
    assert rate_findings({'a': 60.0}, 60.0) == []
