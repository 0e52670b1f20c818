# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the node writes in its diagnostics, every reader reads again, and nothing breaks one."""

import math
from types import SimpleNamespace

from hypothesis import given, strategies as st
from optitrack_vrpn.core.severity import INFO, Severity, STALE
from optitrack_vrpn.core.status import number_of, StatusReport, written
from optitrack_vrpn.node.report import body_entry
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.telling.facts import BodyFacts
import pytest


def message(name, level, text, values):
    return SimpleNamespace(
        name=name, level=level, message=text,
        values=[SimpleNamespace(key=key, value=value) for key, value in values.items()])


@given(
    st.sampled_from(State), st.floats(0.0, 1e4), st.integers(0, 10**6), st.text('ab_', max_size=9))
def test_the_report_of_a_body_is_read_as_it_was_written(state, rate_hz, resets, name):
    status = BodyStatus('Wand', state, 0, rate_hz, 0.01, resets, 100, 0, 0, 'seen')
    made = body_entry(name, BodyFacts(status), {}, 0)
    made.values.update(session='a1', node_state='inactive')
    read = StatusReport.of(message(
        f'mocap: {made.subject}', bytes([made.severity]), made.message, made.values))
    assert (read.subject, read.severity, read.message, read.values) == (
        made.subject, made.severity, made.message, made.values)
    assert (read.node, read.body, read.name) == ('mocap', name, f'mocap: body {name}')
    assert (read.state, read.count('resets')) == (state.value, resets)
    assert read.number('rate_hz') == pytest.approx(rate_hz, abs=0.051)
    assert read.session == 'a1' and read.is_inactive
    assert read == StatusReport.decoded({
        'name': read.name, 'level': int(read.severity), 'message': read.message, 'values': {
            i: {'key': key, 'value': value}
            for i, (key, value) in enumerate(read.values.items())}})


@given(st.text(), st.integers(0, 255), st.text(), st.dictionaries(st.text(), st.text()), st.text())
def test_whatever_a_peer_writes_can_be_read(name, level, text, values, key):
    read = StatusReport.of(message(name, bytes([level]), text, {**values, key: text}))
    number, count = read.number(key), read.count(key)
    assert isinstance(read.severity, Severity) and isinstance(read.state, str)
    assert number is None or math.isfinite(number)
    assert count is None or 0 <= count < 10**19


def test_a_count_of_thousands_of_digits_and_an_unknown_number_are_none():
    values = {'resets': '9' * 5000, 'rate_hz': written(math.nan)}
    read = StatusReport('body wand', INFO, 'TRACKED: seen', values)
    assert read.count('resets') is None and read.number('rate_hz') is None
    assert number_of(values, 'missing') is None and read.state == 'TRACKED'
    assert StatusReport.of(message('x', bytes([200]), '', {})).severity is STALE
