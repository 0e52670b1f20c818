# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The content of /diagnostics about connection, frames and bodies, from hand-made statuses."""

import math

from conftest import lacking_in_lines
from optitrack_vrpn.core.severity import ERROR, INFO, STALE, WARN
from optitrack_vrpn.core.stats import Percentiles
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.node.report import (
    body_entry, frames_entry, link_entry, MAX_REASON)
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.telling.facts import BodyFacts, StreamFacts
import pytest


def entry(rate_hz, state=State.TRACKED, **rates):
    status = BodyStatus('Wand', state, 0, rate_hz, 0.01, 0, 100, 0, 0, 'seen')
    return body_entry('wand', BodyFacts(status), {}, 0, **rates)


@pytest.mark.parametrize(('rate', 'expected', 'fastest', 'level', 'said'), [
    (120.0, 0.0, 120.0, INFO, 'TRACKED'),
    (59.94, 0.0, 59.94, WARN, 'the rate of a display'),
    (60.0, 0.0, 60.0, WARN, 'set expected_rate_hz: 60'),
    (60.0, 60.0, 60.0, INFO, 'TRACKED'),
    (59.94, 60.0, 59.94, INFO, 'TRACKED'),
    (60.0, 240.0, 60.0, WARN, '60.0 Hz where 240 Hz is expected'),
    (60.0, 0.0, 120.0, WARN, '60.0 Hz where 120 Hz is expected'),
    (50.0, 0.0, 50.0, INFO, 'TRACKED'),
    (0.0, 240.0, 0.0, INFO, 'TRACKED'),
])
def test_a_rate_below_the_cameras_and_that_of_a_display_are_warnings(
        rate, expected, fastest, level, said):
    found = entry(rate, expected_hz=expected, fastest_hz=fastest)
    assert found.severity is level
    assert said in found.message
    assert found.values['nominal_rate_hz'] == (
        f'{expected or fastest:.1f}' if expected or fastest else 'unknown')


def test_why_a_body_is_gone_comes_before_its_rate():
    assert entry(60.0, State.FROZEN).message.startswith('FROZEN')
    assert entry(60.0, State.STALE).severity is STALE


def test_how_long_a_body_is_gone_does_not_stand_still():
    status = BodyStatus('Wand', State.STALE, 0, 120.0, 0.16, 0, 9, 0, 0, 'silent for 0.16 s')
    said = [body_entry('wand', BodyFacts(status._replace(age_s=age)), {}, 0).message
            for age in (0.16, 12.34, math.nan)]
    assert not lacking_in_lines(said, ['STALE: ', ' 0.2 s ago'], ['STALE: ', ' 12.3 s ago'],
                                ['STALE: ', 'no valid pose'])


def test_an_attitude_that_time_alone_has_accepted_is_told_with_angle_and_count():
    status = BodyStatus('Wand', State.TRACKED, 0, 120.0, 0.01, 1, 100, 0, 0, 'seen')
    sure, doubtful = (body_entry('wand', BodyFacts(each), {}, 0) for each in (
        status, status._replace(accepted_by_time=2, accepted_by_time_rad=math.radians(90.0))))
    assert [(each.values['accepted_by_time'], each.values['accepted_by_time_deg'])
            for each in (sure, doubtful)] == [('0', '0.0'), ('2', '90.0')]
    assert 'accepted by time, 90 degrees' in doubtful.message
    assert 'accepted by time' not in sure.message


@pytest.mark.parametrize('state, reason, said', [
    (LinkState.CONNECTED, 'connected to 10.0.0.1; no bodies yet',
     'connected to 10.0.0.1; no bodies yet'),
    (LinkState.STOPPED, 'stopped', 'stopped'),
    (LinkState.LOST, 'the server hung up', 'lost: the server hung up'),
])
def test_the_state_of_the_connection_is_said_once(state, reason, said):
    assert link_entry(state, reason, {}, {}).message == said


@pytest.mark.parametrize('state', [
    LinkState.RESOLVING, LinkState.REQUESTING, LinkState.CONNECTING, LinkState.HANDSHAKING])
def test_the_next_attempt_keeps_the_reason_of_the_last_failure(state):
    first = link_entry(state, 'connecting', {}, {})
    assert first.severity is WARN and 'connecting' in first.message
    later = link_entry(state, 'connecting', {}, {}, last_failure='nothing listens there')
    assert (later.severity, later.message) == (ERROR, 'lost: nothing listens there')


def test_a_connection_has_no_failure_any_more():
    assert link_entry(
        LinkState.STREAMING, 'poses are arriving', {}, {},
        last_failure='old').severity is INFO


def test_the_remedy_at_the_end_of_a_reason_is_not_cut_off():
    reason = 'x' * (MAX_REASON - 20) + 'set connection: tcp'
    assert link_entry(LinkState.LOST, reason, {}, {}).message == f'lost: {reason}'


def percentiles(first, step):
    return Percentiles(*(first + step * i for i in range(len(Percentiles._fields))))


def test_the_figures_of_frames_and_bodies_are_in_microseconds_by_name():
    work, latency, wait = (percentiles(k * 1e-6, 1e-3) for k in (1, 2, 3))
    values = frames_entry(
        work, latency, wait, {'too_old': 3, 'duplicate': 4}, StreamFacts()).values
    for name, k in (('work', 1), ('latency', 2), ('wait', 3)):
        for i, field in enumerate(Percentiles._fields):
            assert values.pop(f'{name}_{field}_us') == f'{k + i * 1000:.1f}'
    assert values == {'dropped_too_old': '3', 'dropped_duplicate': '4'}
    values = entry(120.0, latency=latency).values
    figures = latency._asdict()
    assert values['latency_p50_us'] == f"{figures['p50'] * 1e6:.1f}"
    assert values['latency_p99_us'] == f"{figures['p99'] * 1e6:.1f}"
    assert values['jitter_p99_us'] == f"{(figures['p99'] - figures['p50']) * 1e6:.1f}"


def test_bodies_of_which_none_is_selected_are_a_warning_with_the_parameter():
    figures = [percentiles(math.nan, 0.0)] * 3
    assert frames_entry(*figures, {}, StreamFacts()).severity == INFO
    entry = frames_entry(*figures, {}, StreamFacts(only_ignored=3))
    assert entry.severity == WARN and 'bodies.allow' in entry.message


def test_stamps_of_another_clock_give_no_latency():
    entry = frames_entry(*[percentiles(math.nan, 0.0)] * 3, {}, StreamFacts())
    assert 'unknown' in entry.message
    assert entry.values['latency_p50_us'] == 'unknown'
