# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""When and how the client reconnects, when it warns, and what of that is logged."""

import math

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.config import LinkConfig
from optitrack_vrpn.drivers.link import Link, LinkState
import pytest

S = 1_000_000_000
MS = 1_000_000


def streaming(config, now_ns=0):
    """Give a link that has just got its first pose."""
    link = Link(config, now_ns)
    link.established(now_ns)
    link.to(LinkState.CONNECTED, 'connected', now_ns)
    assert link.pose_received(now_ns).data is LinkState.STREAMING
    return link


def test_a_change_is_reported_once():
    link = Link(LinkConfig(), 5)
    assert link.to(LinkState.LOST, 'cable', 10, WARN) == (
        WARN, 'link', 'cable', LinkState.LOST)
    assert link.to(LinkState.LOST, 'cable', 20, WARN) is None
    assert link.to(LinkState.LOST, 'firewall', 30, WARN).text == 'firewall'
    assert (link.state, link.reason, link.since_ns) == (LinkState.LOST, 'firewall', 10)


def test_a_remark_leaves_state_and_reason_alone():
    link = streaming(LinkConfig())
    message = link.message('an unexpected peer', WARN)
    assert message == (WARN, 'link', 'an unexpected peer', LinkState.STREAMING)
    assert (link.reason, link.since_ns) == ('poses are arriving', 0)


def test_pauses_double_up_to_the_longest():
    link = Link(LinkConfig(retry_min_s=0.25, retry_max_s=2.0), 0)
    assert [link.attempt_failed() for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


def test_a_long_conversation_makes_pauses_short_again():
    link = Link(LinkConfig(), 0)
    for _ in range(5):
        link.attempt_failed()
    link.established(10 * S)
    link.pose_received(10 * S)
    assert link.ended(13 * S) == 0.25
    assert link.failures == 0


def test_brief_conversations_lengthen_the_pauses_like_failures():
    link = Link(LinkConfig(), 0)
    pauses = []
    for n in range(5):
        link.established(n * S)
        link.pose_received(n * S)
        pauses.append(link.ended(n * S + 100 * MS))
    assert pauses == [0.25, 0.5, 1.0, 2.0, 2.0]
    assert link.failures == 0


def test_conversations_that_end_without_a_pose_at_once_are_failed_attempts():
    link = Link(LinkConfig(), 0)
    for n in range(3):
        assert link.failures == n
        link.established(n * S)
        link.ended(n * S + 100 * MS)
    assert link.failures == 3


def test_a_server_counts_as_blocked_beyond_every_connect_timeout():
    linux_s = sum(2**n for n in range(7))    # tcp_syn_retries 6: 1 + 2 + 4 ... + 64 s
    windows_s = 3 + 6 + 12                   # two retransmissions
    assert LinkConfig().blocked_s > max(linux_s, windows_s)


def test_silence_is_noticed_then_ends_the_conversation():
    link = streaming(LinkConfig(silent_after_s=1.0, reconnect_after_s=3.0))
    link.pose_received(5 * S)
    assert link.check(6 * S - 1) is None
    change = link.check(6 * S)
    assert (change.data, change.severity) == (LinkState.SILENT, WARN)
    assert link.check(7 * S) is None
    assert link.must_reconnect(8 * S - 1) is None
    assert 'no pose for 3 s' in link.must_reconnect(8 * S)


def test_a_connection_without_a_first_pose_is_reported_like_silence():
    link = Link(LinkConfig(silent_after_s=1.0), 0)
    link.established(2 * S)
    link.to(LinkState.CONNECTED, 'connected; no bodies yet', 2 * S)
    assert link.next_check_s(2 * S) <= 1.0 and link.check(3 * S - 1) is None
    event = link.check(3 * S)
    assert (event.severity, event.data) == (WARN, LinkState.SILENT)
    assert 'no pose within 1 s of' in event.text and 'ticked for streaming' in event.text
    assert link.check(4 * S) is None
    assert link.pose_received(5 * S).data is LinkState.STREAMING


def test_a_halted_process_reads_what_arrived_before_it_checks_for_silence():
    link = streaming(LinkConfig(silent_after_s=1.0, reconnect_after_s=10.0))
    assert link.due(S // 2, lambda: pytest.fail('asked before a deadline'))
    assert not link.due(20 * S, lambda: 100)
    link.pose_received(20 * S)
    assert link.due(20 * S, lambda: 100)
    assert link.check(20 * S) is None and link.must_reconnect(20 * S) is None
    # Data without poses postpones the check once.
    assert [link.due(40 * S, lambda: 100) for _ in range(2)] == [False, True]
    assert link.check(40 * S).data is LinkState.SILENT
    assert link.due(41 * S, lambda: 0)


def test_the_last_failure_is_kept_until_the_next_conversation():
    link = Link(LinkConfig(), 0)
    link.to(LinkState.LOST, 'no route', 1, WARN)
    link.to(LinkState.CONNECTING, 'connecting', 2)
    assert link.last_failure == 'no route'
    link.to(LinkState.REFUSED, 'too old', 3, ERROR)
    assert link.last_failure == 'too old'
    link.established(4)
    assert link.last_failure == ''


def test_the_wait_doubles_while_reconnecting_does_not_help():
    link = Link(LinkConfig(reconnect_after_s=10.0), 0)
    patience, now = [], 0
    for _ in range(5):
        link.established(now)
        began = now
        while link.must_reconnect(now) is None:
            now += S
        patience.append((now - began) // S)
        link.to(LinkState.LOST, 'silent', now)
    assert patience == [10, 20, 40, 60, 60]
    link.established(now)
    link.pose_received(now)
    assert link.must_reconnect(now + 10 * S) is not None


def test_zero_switches_the_watchdog_off():
    link = streaming(LinkConfig(silent_after_s=0.0, reconnect_after_s=0.0))
    assert link.check(10**15) is None
    assert link.must_reconnect(10**15) is None
    assert link.next_check_s(10**15) == 1.0


@settings(deadline=None, derandomize=True)
@given(st.floats(0.01, 20.0), st.floats(0.01, 40.0), st.integers(0, 10 * S))
def test_silence_is_found_in_time(silent_s, reconnect_s, began_ns):
    link = streaming(LinkConfig(silent_after_s=silent_s, reconnect_after_s=reconnect_s), began_ns)
    now, silent_at = began_ns, None
    while True:
        step = link.next_check_s(now)
        assert 0 < step <= 1.0
        now += math.ceil(step * S)
        change = link.check(now)
        if change is not None:
            assert silent_at is None
            silent_at = now
        if link.must_reconnect(now) is not None:
            break
    assert 0 <= now - began_ns - reconnect_s * S <= 2 * MS
    if silent_at is None:
        assert reconnect_s <= silent_s + 0.001
    else:
        assert 0 <= silent_at - began_ns - silent_s * S <= 2 * MS


@settings(deadline=None, derandomize=True)
@given(st.sampled_from(['auto', 'udp', 'tcp']), st.floats(0.001, 5.0), st.floats(0.01, 50.0),
       st.lists(st.tuples(st.sampled_from('fFepgcm'), st.integers(0, 100 * S)), max_size=60))
def test_pauses_and_states_stay_in_bounds(connection, least, most, story):
    config = LinkConfig(connection=connection, retry_min_s=least, retry_max_s=most)
    link, now = Link(config, 0), 0
    for what, passed in story:
        now += passed
        sessions, since, state = link.sessions, link.since_ns, link.state
        if what in 'fF':
            assert 0 < link.attempt_failed() <= most
        elif what == 'e':
            link.established(now)
            assert link.sessions == sessions + 1
        elif what == 'g':
            assert 0 < link.ended(now) <= most
        elif what == 'p':
            link.pose_received(now)
            assert link.state is LinkState.STREAMING
        elif what == 'c':
            change = link.check(now)
            assert change is None or state is LinkState.STREAMING
        else:
            link.must_reconnect(now)
        assert (link.since_ns == since) or (link.state is not state)
        assert 0 < link.next_check_s(now) <= 1.0


# -- what is logged -------------------------------------------------------------------------------

OUTAGE = ((LinkState.LOST, WARN), (LinkState.REQUESTING, INFO))
RETURN = ((LinkState.CONNECTED, INFO), (LinkState.STREAMING, INFO))


def reported(changes, step_ms, log=None):
    """Let changes come so far apart; gives (time in ms, state) of those that are logged."""
    log = log or Repetition()
    return [(number * step_ms, state) for number, (state, severity) in enumerate(changes)
            if log.outage(
                state, f'because of port {40000 + number}', number * step_ms * MS,
                severity != INFO, state is LinkState.CONNECTED, state is LinkState.STREAMING)]


def test_every_state_of_an_outage_is_logged_once():
    changes = [*RETURN, *OUTAGE * 10, *RETURN]
    assert [state for _, state in reported(changes, 2500)] == [
        s for s, _ in (*RETURN, *OUTAGE, *RETURN)]


def test_a_lasting_outage_is_logged_once_a_minute():
    lost = [at for at, state in reported(OUTAGE * 100, 1000) if state is LinkState.LOST]
    assert lost == [0, 60_000, 120_000, 180_000]


def test_the_end_of_an_outage_is_always_logged():
    changes = [*RETURN, *OUTAGE, *RETURN]
    assert len(reported(changes, 100)) == len(changes)


def test_poses_after_a_silence_are_logged_also_in_the_first_minute():
    changes = [*RETURN, (LinkState.SILENT, WARN), (LinkState.STREAMING, INFO)]
    assert [state for _, state in reported(changes, 10_000)] == [state for state, _ in changes]


def test_a_flapping_connection_does_not_fill_the_log():
    seconds, step_ms = 60, 50
    changes = [*RETURN, *OUTAGE] * (seconds * 1000 // step_ms // 4) + [*RETURN]
    lines = reported(changes, step_ms)
    assert len(changes) == 1202 and len(lines) <= 6 * (seconds // 5 + 1)
    assert lines[-1][1] is LinkState.STREAMING
    last = {state: at for at, state in lines}
    assert last[LinkState.STREAMING] > last[LinkState.LOST]
