# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Freshness: when frames are fresh again after an event, against buffers of known content."""

from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.stream.clock.sender_clock import SenderClock
import pytest

MS = 1_000_000
S = 1_000 * MS


def drained(rate, waits_s, factor, live_s=1.5):
    """Give (sender time, arrival, age) of frames that wait, drain at a factor, and are live."""
    period, last = S // rate, 0
    out = []
    for k in range(round((waits_s + waits_s / max(factor - 1.0, 1e-3) + live_s) * rate)):
        made = k * period
        last = max(made, round(waits_s * S), last + round(period / factor) if k else 0)
        out.append((77 * S + made, S + last + 200_000, last - made))
    return out


@settings(max_examples=examples(150), deadline=None)
@given(rate=st.sampled_from([30, 60, 100, 240, 1000]), waits_s=st.floats(0.02, 3.0),
       factor=st.one_of(st.floats(1.1, 3.0), st.floats(3.0, 1e4)))
def test_no_frame_of_a_draining_buffer_is_fresh(rate, waits_s, factor):
    clock = SenderClock()
    clock.close('a new connection')
    ages = [age for sent, arrival, age in drained(rate, waits_s, factor)
            if clock.update(sent, arrival)]
    assert ages and max(ages) <= 30 * MS
    assert clock.closed == ''


@pytest.mark.parametrize('rate, within_s', [
    (1, 1.1), (5, 0.9), (10, 0.7), (30, 0.5), (240, 0.4), (1000, 0.4)])
def test_live_frames_are_fresh_soon(rate, within_s):
    clock = SenderClock()
    clock.close('a new connection')
    first = next(k for k in range(10 * rate) if clock.update(
        k * S // rate, S + k * S // rate + k * 7919 % 300_000))
    assert first / rate <= within_s


@pytest.mark.parametrize('frames', [2, 3, 10, 24, 60])
def test_bursts_of_a_poll_are_fresh(frames):
    clock = SenderClock()
    clock.close('a new connection')
    fresh = [clock.update(k * S // 240, S + (k // frames + 1) * frames * S // 240)
             for k in range(960)]
    assert sum(fresh) > 960 - 240 - 2 * frames


def stream(clock, begin, end, rate=240, sender=0, arrival=0):
    """Give arrival number and freshness of live frames, on clocks that are moved (ns)."""
    return [clock.update(50 * S + k * S // rate + sender,
                         S + k * S // rate + arrival + k * 7919 % 100_000)
            for k in range(begin, end)]


def test_a_pause_of_the_sender_costs_nothing():
    """Frames that arrive as late as ever after it have not waited in a buffer."""
    clock = SenderClock()
    assert all(stream(clock, 0, 480)) and all(stream(clock, 720, 960)) and clock.change == ''


def test_a_stall_whose_frames_come_back_to_the_line_costs_a_quarter_of_a_second():
    clock = SenderClock()
    assert all(stream(clock, 0, 480))
    # What waited for a second arrives at once.
    waited = [clock.update(50 * S + k * S // 240, S + 720 * S // 240 + k * 1000)
              for k in range(480, 720)]
    assert not any(waited[:170])
    after = stream(clock, 720, 960)
    assert 55 <= after.index(True) <= 66 and all(after[66:]) and clock.change == ''


def test_a_step_of_the_senders_clock_inside_a_stall_does_not_hide_a_backlog():
    """2 s of frames wait; the sender's clock was set forward by 1 s after half of them."""
    clock = SenderClock()
    assert all(stream(clock, 0, 480))
    for k in range(480, 960):
        stepped = S if k >= 720 else 0
        assert not clock.update(
            50 * S + k * S // 240 + stepped, S + 960 * S // 240 + (k - 480) * 500_000)
    after = stream(clock, 1020, 1300, sender=S)
    assert after.index(True) <= 125 and clock.line.lag(51 * S) == pytest.approx(
        -50 * S, abs=S // 1000)


def test_all_clocks_stood_while_frames_were_buffered():
    """A virtual machine is paused for 3 s: of 720 old frames, two are not recognised."""
    clock = SenderClock()
    assert all(stream(clock, 0, 480))
    old = [clock.update(50 * S + k * S // 240, S + 480 * S // 240 + (k - 480) * 1000)
           for k in range(480, 1200)]
    assert sum(old) <= 3
    after = stream(clock, 1200, 1500, arrival=-3 * S)
    assert after.index(True) <= 125
    # The sender's clock went on: bodies and motion do not restart.
    assert clock.change == '' and clock.frames < 400


def test_a_longer_route_moves_the_line_and_ends_no_run():
    clock, changes = SenderClock(), []
    stream(clock, 0, 2400)
    for k in range(2400, 3000):
        clock.update(50 * S + k * S // 240, S + k * S // 240 + 30 * MS)
        changes += [clock.change] if clock.change else []
    assert changes == ['line'] and clock.above_ns < MS


def test_late_frames_that_drain_are_no_longer_route():
    """A queue of 0.2 s that empties over 3 s is late in every frame."""
    clock = SenderClock()
    stream(clock, 0, 2400)
    for k in range(2400, 3120):
        late = max(0.0, 0.2 * (1.0 - (k - 2400) / 720))
        clock.update(50 * S + k * S // 240, S + k * S // 240 + round(late * S))
        assert clock.change == ''


def test_what_a_second_path_repeats_while_the_first_one_is_silent_is_no_fall():
    clock = SenderClock()
    stream(clock, 0, 480)
    assert not any(clock.update(50 * S + k * S // 240, S + (k + 12) * S // 240)
                   for k in range(468, 480))
    assert clock.run == 'line' and all(stream(clock, 500, 600))


@pytest.mark.parametrize('rate, apart', [(60, MS), (240, MS), (60, 5 * MS), (1000, MS // 10)])
def test_overtaken_frames_that_come_faster_than_they_were_sent_are_no_fall(rate, apart):
    """Ten frames wait at an access point that the computer has left."""
    clock = SenderClock()
    stream(clock, 0, 2 * rate, rate)
    stream(clock, 2 * rate + 10, 2 * rate + 11, rate)
    for number in range(10):
        assert not clock.update(50 * S + (2 * rate + number) * S // rate,
                                S + (2 * rate + 10) * S // rate + (number + 1) * apart)
    assert all(stream(clock, 2 * rate + 20, 3 * rate, rate))


@pytest.mark.parametrize('apart', [0, MS // 10, MS])
def test_overtaken_frames_in_reverse_order_are_no_fall(apart):
    clock = SenderClock()
    stream(clock, 0, 480)
    stream(clock, 483, 484)
    for k, number in enumerate((482, 481, 480)):
        assert not clock.update(50 * S + number * S // 240,
                                S + 484 * S // 240 + k * apart)
    assert all(stream(clock, 490, 720))


@settings(max_examples=examples(300), deadline=None)
@given(rate=st.sampled_from([30, 60, 100, 240]), at_s=st.floats(0.02, 1.0),
       stall_s=st.floats(0.1, 5.0), factor=st.one_of(st.floats(1.1, 3.0), st.just(1e4)),
       second=st.booleans())
def test_a_stall_in_the_first_moments_of_a_connection_makes_no_old_frame_fresh(
        rate, at_s, stall_s, factor, second):
    """As found by random sessions: frames 2 s old, and the line lifted by them."""
    clock, period, last, fresh = SenderClock(), S // rate, 0, []
    if second:    # a reconnection, of another server
        stream(clock, 0, 5 * 240)
    begin = 100 * S
    clock.close('a new connection')
    for k in range(round((at_s + stall_s + stall_s / (factor - 1.0) + 2.0) * rate)):
        made = begin + k * period
        stalled = begin + round(at_s * S) <= made < begin + round((at_s + stall_s) * S)
        last = max(made, last + round(period / factor),
                   begin + round((at_s + stall_s) * S) if stalled else 0)
        if clock.update(7000 * S + made, last + 200_000 + k * 7919 % 100_000):
            fresh.append((last - made, clock.above_ns, last))
    assert max(age for age, *_ in fresh) <= 251 * MS
    assert fresh[-1][0] <= 2 * MS and abs(fresh[-1][1] - fresh[-1][0]) <= 2 * MS
    if factor > 2.0:
        assert len([1 for *_, at in fresh if at > last - S]) > 0.5 * rate


@pytest.mark.parametrize('uptime_s', [10, 1e5, 1e7])
@pytest.mark.parametrize('moved_s', [-5000, 5000, 80])
def test_a_server_that_comes_back_with_another_time_is_a_new_run(uptime_s, moved_s):
    """As found: a jump over a reconnection counted only if it exceeded the uptime of the host."""
    clock, up = SenderClock(), round(uptime_s * S)
    stream(clock, 0, 5 * 240, arrival=up, sender=10_000 * S)
    clock.close('a new connection')
    changes = []
    for k in range(6 * 240, 9 * 240):
        stream(clock, k, k + 1, arrival=up, sender=10_000 * S + round(moved_s * S))
        changes.append(clock.change)
    assert [change for change in changes if change] == ['fall' if moved_s < 0 else 'jump']
    assert not clock.line.known


def test_frames_of_a_new_connection_are_not_older_ones_of_the_last():
    """A server that is started again sends what waited at once, by a clock that is behind."""
    clock = SenderClock()
    stream(clock, 0, 240)
    clock.close('a new connection')
    clock.update(20 * S, 2 * S)
    assert clock.run == 'fall' and clock.newest_ns == 20 * S
