# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A connection that starts with a backlog: old poses are withheld, current ones follow soon.

The network is simulated: frames wait in a queue that is delivered in pieces, with pauses between
them, faster than they were made. The true time of a frame is known.
"""

from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.node.report import clock_entry
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.rules import of_entry
from pipeline_kit import HOST, make_pipeline, MS, pose_report, ProblemLog, S
import pytest

#: Sender time of the present on the arrival clock 0.
BASE = 77 * S
#: What a published stamp may differ from the true time: a frame or two that a pause of the
#: delivery let seem fresh, at 60 Hz.
BOUND_NS = 30 * MS


def arrivals(rate, backlog, pauses, drained_at, live, jitter):
    """
    Give (sender time, arrival time) of the frames of a connection, by the arrival clock.

    :param backlog: frames that wait when the connection begins, at 1 s.
    :param pauses: (share of the backlog, s): the delivery stands still there.
    :param drained_at: how many times faster than they were made frames are delivered.
    :param live: seconds of live frames at the end.
    :param jitter: delays of live frames (ns), used in turn.
    """
    period = S // rate
    stalls = {round(share * backlog): round(pause_s * S) for share, pause_s in pauses}
    out = []
    last, number, fresh = S, 0, 0
    while fresh < live * rate:
        made = S + (number - backlog) * period
        last = max(last + max(1, round(period / drained_at)) + stalls.get(number, 0),
                   made + jitter[number % len(jitter)])
        out.append((made + BASE, last))
        fresh = fresh + 1 if last - made <= 2 * MS else 0
        number += 1
    return out


def published(frames, mode='tracking', connect=True):
    """Run frames through a pipeline; gives (true time, stamp) of what it publishes."""
    pipeline = make_pipeline(mode, body=BodyConfig(acquire_frames=1), max_age_s=0.0)
    if connect:
        pipeline.reconnected()
    out = []
    for number, (sender, arrival) in enumerate(frames):
        report = pose_report('wand', sender, (1e-4 * number, 1.0, 0.0))
        out += [(sender - BASE + HOST, sample.stamp_ns)
                for sample in pipeline.process([report], arrival, HOST).samples]
    return out, pipeline


FRAMES = st.builds(
    arrivals, rate=st.sampled_from([60, 100, 240]), backlog=st.integers(0, 300),
    pauses=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 0.4)), max_size=3),
    drained_at=st.floats(1.25, 1e6), live=st.just(1.2),
    jitter=st.lists(st.integers(0, MS), min_size=1, max_size=40))


@settings(deadline=None, derandomize=True, max_examples=examples(400))
@given(FRAMES, st.sampled_from(['tracking', 'min_offset', 'arrival']))
def test_after_any_backlog_every_published_stamp_is_true(frames, mode):
    out, pipeline = published(frames, mode)
    assert max((abs(stamp - true) for true, stamp in out), default=0) <= BOUND_NS
    # Live frames are published, soon.
    late = [sender for sender, arrival in frames if arrival - sender + BASE > 2 * MS]
    live_from = max(late, default=frames[0][0]) - BASE + HOST
    assert out and out[0][0] <= live_from + 800 * MS
    assert pipeline.dropped['backlog'] + len(out) <= len(frames)


@settings(deadline=None, derandomize=True, max_examples=examples(100))
@given(rate=st.sampled_from([60, 100, 240]), stall=st.floats(0.3, 2.0), share=st.floats(0.0, 0.99),
       step=st.one_of(st.floats(2.5, 5000.0), st.floats(-5000.0, -2.5)),
       drained_at=st.floats(1.25, 1e6), mode=st.sampled_from(['tracking', 'min_offset']))
def test_a_backlog_in_which_the_clock_of_the_sender_was_set_is_not_published_as_live(
        rate, stall, share, step, drained_at, mode):
    """Frames wait in the network while the clock is set: their sender times do not show it."""
    pipeline = make_pipeline(mode, body=BodyConfig(acquire_frames=1))
    end, last, first = 5.0 + stall, 0.0, None
    for number in range(round(rate * (6.5 + stall / (1.0 - min(0.9, 1.0 / drained_at))))):
        true = number / rate
        sent = true if true < 5.0 + share * stall else true + step
        waits = 5.0 < true < end
        last = max(true, end if waits else 0.0, last + (1.0 / rate / drained_at if last > true
                                                        else 0.0))
        report = pose_report('wand', 10_000 * S + round(sent * S), (1e-4 * number, 1.0, 0.0))
        if pipeline.process([report], S + round(last * S), HOST).samples:
            assert last - true < 0.51
            first = first or (true > end and last - true < 0.001 and last)
    assert pipeline.stamps.status().restarts['sender_restarted']
    # Live frames are published soon.
    assert first - end < 0.8 + stall / (drained_at - 1.0)


def test_live_frames_are_published_half_a_second_after_the_connection():
    out, pipeline = published(arrivals(240, 0, [], 1e6, 1.0, [0, 300_000, 100_000]))
    delay_ns = (out[0][0] - HOST) - S
    assert delay_ns <= 510 * MS
    assert not [n for n in pipeline.take_events() if 'backlog' in n.text]


def test_a_senders_own_stamps_need_no_gate():
    frames = arrivals(100, 50, [], 1e6, 0.1, [0])
    assert len(published(frames, 'sender')[0]) == len(frames)


@pytest.mark.parametrize('burst', [2, 10, 24])
def test_live_frames_that_always_come_in_bursts_are_admitted(burst):
    """As by a wireless card that saves power: each burst ends with a fresh frame."""
    frames = [(BASE + S + i * 4 * MS, S + (i // burst + 1) * burst * 4 * MS) for i in range(500)]
    out, _ = published(frames)
    assert out[0][0] - HOST - S <= 700 * MS


def test_what_was_seen_before_the_minimum_falls_does_not_count():
    """A backlog with stalls: each minimum recurs once before a faster frame arrives."""
    out, _ = published([
        (BASE + S + i * 30 * MS + (i // 2) * 10 * MS, S + i * 30 * MS) for i in range(100)])
    assert not out


@pytest.mark.parametrize('mode', ['tracking', 'arrival'])
@pytest.mark.parametrize('speed', [1.2, 2.0, 1000.0])
def test_a_recording_played_faster_than_real_time_is_reported_with_a_remedy(speed, mode):
    """It looks like an endless backlog; nothing was published, without any reason."""
    pipeline = make_pipeline(mode)
    for connection in range(2):
        pipeline.reconnected()
        log, when = ProblemLog(pipeline, 0), []
        for i in range(1000):
            now = (20 * connection + 1) * S + i * 10 * MS
            report = pose_report('wand', round(BASE + i * speed * 10 * MS), (0.001 * i, 1.0, 0.0))
            assert not pipeline.process([report], now, HOST).samples
            pipeline.tick(now)
            when += [i / 100] * len([
                line for line in log.look(now) if 'no pose is published' in line.text])
            assert pipeline.clock_status().withheld
        assert when == [1.0]
        found = of_entry('clock', StreamFacts(clock=pipeline.clock_status(), max_age_s=0.5))
        entry = clock_entry(pipeline.clock_status(), None, found)
        assert entry.severity is WARN and 'stamps.mode: sender' in entry.message


@pytest.mark.parametrize('time_ns', [0, 12_345 * S])
@pytest.mark.parametrize('before', [False, True])
def test_a_server_without_times_is_published_also_after_one_with_times(before, time_ns):
    """As found: after a server with times nothing of it was, and the log spoke of a buffer."""
    pipeline = make_pipeline(body=BodyConfig(acquire_frames=1))
    good = 600 if before else 0
    late = []
    for number in range(good + 600):
        if number in (0, good):
            pipeline.reconnected()
        arrival = 100_000 * S + number * 10 * MS + number * 7919 % 300_000
        sender = BASE + number * 10 * MS if number < good else time_ns
        bodies = pose_report('wand', sender, (1e-4 * number, 1.0, 0.0)), pose_report(
            'cup', sender, (1e-4 * number, 1.0, 2.0))
        samples = [sample for body in bodies
                   for sample in pipeline.process([body], arrival, HOST).samples]
        if number >= good + 200:
            late += samples
            assert not pipeline.clock_status().withheld
    assert len(late) >= 2 * 395
