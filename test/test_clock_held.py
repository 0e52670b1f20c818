# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Delayed, overtaken or reset data: no old pose is stamped as current, and none is lost for long.

The truth is closed: frame i is taken at i / rate on a clock of the test's, and everything else is
that time shifted.
"""

import math
import random

from conftest import examples
from hypothesis import example, given, settings, strategies as st
from optitrack_vrpn.clock import StampConfig, StampSource
from optitrack_vrpn.clock.history import FrameHistory
from optitrack_vrpn.clock.host import HostOffset
from optitrack_vrpn.clock.rollback import Rollback
from pipeline_kit import HOST, make_pipeline, MS, pose_report, S
import pytest

MAX_AGE_S = 0.5
#: Delay and jitter of the test's network (s), which are in every age.
NETWORK_S = 0.002


def moving(seconds):
    """Give the place of a body at a time: 2 m/s, never twice the same."""
    return (2.0 * math.sin(seconds), 1.0 + 1e-4 * seconds, 2.0 * math.cos(seconds))


class Room:
    """
    A body, a network and the pipeline, with the truth beside them.

    :ivar out: (arrival, true time of the pose) of what went out (s).
    """

    def __init__(self, rate=100, **config):
        self.rate = rate
        self.pipeline = make_pipeline(**config)
        self.out = []
        self.random = random.Random(1)

    def frames(self, seconds, begin=0.0):
        """List (true time, arrival) of the frames of a stretch on an idle network (s)."""
        first, count = round(begin * self.rate), round(seconds * self.rate)
        return [(i / self.rate, i / self.rate + 0.001 + 0.0005 * self.random.random())
                for i in range(first, first + count)]

    def feed(self, frames, sender_shift=0.0, host_shift=0.0, noise=False):
        """Let frames arrive."""
        for true, arrival in frames:
            report = pose_report('A', 5 * S + round((true + sender_shift) * 1e9), moving(true))
            host = HOST + round(host_shift * 1e9) + (self.random.randrange(200) if noise else 0)
            for sample in self.pipeline.process([report], S + round(arrival * 1e9), host):
                self.out.append((arrival, true, (sample.stamp_ns - host - S) / 1e9))

    def oldest(self, since=0.0):
        """Give the greatest age with which a pose went out (s)."""
        return max((at - true for at, true, _ in self.out if at >= since), default=0.0)

    def silence(self, begin, end):
        """Give the longest stretch within which nothing went out (s)."""
        times = [begin, *(at for at, _, _ in self.out if begin < at < end), end]
        return max(b - a for a, b in zip(times, times[1:]))


def held(frames, begin, end, pace=0.01):
    """Hold what arrives in a stretch up, and let it come at a pace (s a frame) after it."""
    out, at = [], 0.0
    for true, arrival in frames:
        if begin <= arrival < end:
            arrival = end + pace * (arrival - begin)
        at = max(at + 1e-5, arrival)
        out.append((true, at))
    return out


def swapped(frames, number, by=1):
    """Let a frame overtake those before it."""
    first = frames[number + by][1]
    overtaken = [(true, first + 1e-6 * (i + 1))
                 for i, (true, _) in enumerate(frames[number:number + by])]
    return [*frames[:number], frames[number + by], *overtaken, *frames[number + by + 1:]]


@settings(max_examples=examples(60), deadline=None)
@example(hold=3.0, at=30, by=1, pace=0.01, mode='tracking')
@example(hold=3.0, at=-1, by=1, pace=0.01, mode='tracking')
@example(hold=40.0, at=30, by=1, pace=0.01, mode='tracking')
@given(hold=st.floats(0.3, 40.0), at=st.integers(-3, 250), by=st.integers(1, 8),
       pace=st.floats(0.001, 0.6), mode=st.sampled_from(('tracking', 'min_offset')))
def test_of_a_backlog_only_fresh_poses_are_published(
        hold, at, by, pace, mode):
    room = Room(mode=mode)
    frames = held(room.frames(12.0 + 2.0 * hold), 10.0, 10.0 + hold, pace)
    room.feed(swapped(frames, 1000 + at, by))
    assert room.oldest() < MAX_AGE_S + NETWORK_S
    assert not [n for n in room.pipeline.reports.events if 'epoch' in n.text]
    # The backlog over, every pose goes out again.
    over = 10.0 + hold * (1.0 + pace) + 0.2
    assert room.silence(over, frames[-1][1]) < 0.1


@pytest.mark.parametrize('mode', ['tracking', 'min_offset'])
def test_a_gap_on_both_clocks_is_a_gap(mode):
    room = Room(mode=mode)
    room.feed(room.frames(10.0))
    room.feed(room.frames(5.0, begin=55.0))
    assert room.pipeline.stamps.status().restarts == ({'gap': 1} if mode == 'tracking' else {})
    assert room.silence(55.0, 60.0) < 0.05 and room.oldest() < 0.01


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(delay=st.floats(0.3, 20.0), jitter=st.floats(0.01, 1.0))
def test_a_slow_unsteady_network_is_no_clock_change(delay, jitter):
    room = Room(rate=25)
    room.feed(room.frames(10.0))
    slow, at = [], 0.0
    for true, arrival in room.frames(200.0, begin=10.0):
        at = max(at + 1e-5, arrival + delay + room.random.expovariate(1 / jitter))
        slow.append((true, at))
    room.feed(slow)
    assert room.oldest() < MAX_AGE_S + NETWORK_S
    assert room.pipeline.stamps.status().epoch == 0


def test_a_steady_lag_is_accepted_after_some_seconds():
    for lag, within in ((0.9, 10.2), (0.2, 1.7)):
        source, rnd = StampSource(StampConfig()), random.Random(3)
        for i in range(3000):
            arrival = i * 10 * MS + 50 * S + rnd.randrange(MS // 2)
            late = round(lag * 1e9) if i >= 1000 else 0
            stamp = source.stamp(i * 10 * MS, arrival + late)
            believed = stamp > arrival + late - 50 * MS
            if 1000 <= i < 1000 + 100 * (within - 0.4):
                assert not believed
            assert believed or i < 1000 + 100 * within
        assert source.status().epoch == 1


def test_a_new_conversation_has_no_backlog():
    room = Room()
    room.feed(room.frames(10.0))
    room.pipeline.reconnected()
    # The clock of the sender stood for 0.8 s: little enough to fit at first.
    room.feed([(true, arrival) for true, arrival in room.frames(5.0, begin=10.0)],
              sender_shift=-0.8)
    assert room.silence(10.0, 15.0) < 1.8
    assert room.pipeline.stamps.status().restarts == {'sender_restarted': 1}


# -- senders that are set back --------------------------------------------------------------------

@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'sender'])
@pytest.mark.parametrize('step', [0.03, 0.05, 0.1, 0.19, 0.3, 0.5, 0.9, 1.5])
def test_a_sender_that_is_set_back_costs_a_quarter_of_a_second(step, mode):
    room = Room(rate=240, mode=mode)
    room.feed(room.frames(6.0), noise=True)
    room.feed(room.frames(6.0, begin=6.0), sender_shift=-step, noise=True)
    assert room.pipeline.stamps.status().restarts == {'sender_restarted': 1}
    assert room.silence(6.0, 12.0) < 0.25
    reported = [n.text for n in room.pipeline.reports.events if 'went back' in n.text]
    assert float(reported[0].split(' s')[-2].split()[-1]) == pytest.approx(step, abs=0.01)
    if mode != 'sender':
        assert room.oldest() < 0.01


@settings(max_examples=examples(40), deadline=None)
@given(by=st.integers(1, 20), every=st.integers(25, 60), rate=st.sampled_from((60, 240)))
def test_frames_that_overtake_others_are_no_restart(by, every, rate):
    """Up to 20 frames at once, in order else."""
    room = Room(rate=rate)
    frames = room.frames(10.0)
    for number in range(0, len(frames) - by - 1, every):
        frames = swapped(frames, number, by)
    room.feed(frames)
    assert room.pipeline.stamps.status().epoch == 0


@settings(max_examples=examples(100), deadline=None)
@given(fall=st.integers(20 * MS, S), rate=st.integers(30, 500), late=st.integers(S, 40 * S))
def test_waiting_frames_are_no_rollback_of_the_clock(
        fall, rate, late):
    frames = FrameHistory()
    for sent in (98 * S, 100 * S):
        frames.append(sent, sent, 500 * S - late - fall, 500 * S - late - fall)
    run = Rollback(frames, True)
    assert not run.older(100 * S - fall, 500 * S, 500 * S, False)
    for i in range(1, rate):
        sent = 100 * S - fall + i * S // rate
        if sent > 100 * S:
            assert not run.newer(sent, 500 * S + i * S // rate)
            assert not run.begun
            return
        # A burst comes faster than it was sent.
        arrival = 500 * S + i * S // rate // 10
        assert not run.older(sent, arrival, arrival, False)


@pytest.mark.parametrize('rate, tick_ms, delays_s', [
    (120, 15.6, 0.0), (100, 0.001, 0.01), (240, 0.001, 0.001), (100, 15.6, 0.005)])
def test_a_sender_that_restarts_at_once_with_the_same_times_is_live(
        rate, tick_ms, delays_s):
    """It ran for less than the 0.2 s after which frames below the newest one show a fall."""
    ran_s, silent_s = 0.1, 5.0
    rng = random.Random(f'{rate} {tick_ms}')
    pipeline, tick, live = make_pipeline(max_age_s=MAX_AGE_S), round(tick_ms * MS), []
    for begin, end in ((0.0, ran_s), (ran_s + silent_s, ran_s + silent_s + 1.0)):
        arrival = 0
        for number in range(round((end - begin) * rate)):
            true = begin + number / rate
            sent = (1000 * S + number * S // rate) // tick * tick
            delay = rng.expovariate(1.0 / delays_s) if delays_s else 0.0
            arrival = max(arrival, round((true + NETWORK_S + delay) * S))
            if pipeline.process([pose_report('Wand', sent, moving(true))], arrival, HOST):
                live.append(true)
    assert any(ran_s + silent_s < true < ran_s + silent_s + 1.0 for true in live)


# -- the host's clock -----------------------------------------------------------------------------

@pytest.mark.parametrize('noise', [False, True])
@pytest.mark.parametrize('step', [-0.02, -0.2, -0.9, -3600.0, 0.05, 0.9, 3600.0])
def test_a_step_of_the_host_costs_no_pose(step, noise):
    room = Room(rate=240)
    room.feed(room.frames(6.0), noise=noise)
    before = len(room.out)
    room.feed(room.frames(6.0, begin=6.0), host_shift=step, noise=noise)
    assert len(room.out) - before == 6 * 240
    assert room.pipeline.stamps.status().restarts == {'host_stepped': 1}
    assert all(abs(stamp - true - 0.001) < 0.001 for _, true, stamp in room.out)


@settings(max_examples=examples(60), deadline=None)
@given(readings=st.lists(st.tuples(st.integers(-3 * MS, 3 * MS), st.integers(1, 50)),
                         min_size=1, max_size=30))
def test_repeated_readings_become_the_offset(readings):
    source = StampSource(StampConfig(mode='arrival'))
    at, distance = 50 * S, HOST
    for change, count in readings:
        distance += change
        for _ in range(60 + count):
            at += 4 * MS
            stamp = source.stamp(at, at, distance)
        assert abs(stamp - at - distance) <= 8


def test_the_host_offset_measures_from_its_last_reading():
    host = HostOffset()
    host.follow(0, HOST)
    assert host.settled
    # 50 ms in 6 s may be a slew, in one frame it is none.
    assert not host.follow(6 * S, HOST + 50 * MS)
    host = HostOffset()
    host.follow(0, HOST)
    host.seen(6 * S - 4 * MS)
    assert host.follow(6 * S, HOST + 50 * MS)


# -- stamps by arrival ----------------------------------------------------------------------------

def unusable_time(kind, number, rnd):
    return {
        'constant': 0, 'falling': 10**12 - number * 10 * MS, 'whole seconds': number // 100 * S,
        'random': rnd.randrange(10**18), 'jittery': 10**12 + number * 10 * MS + rnd.randrange(S),
    }[kind]


@pytest.mark.parametrize('kind', ['constant', 'falling', 'whole seconds', 'random', 'jittery'])
def test_mode_arrival_needs_no_sender_times(kind):
    pipeline, rnd = make_pipeline('arrival'), random.Random(5)
    late = []
    for i in range(2000):
        sent, arrival = unusable_time(kind, i, rnd), S + i * 10 * MS
        frame = [pose_report(body, sent, moving(i / 100))
                 for body in ('A', 'B')]
        samples = pipeline.process(frame, arrival, HOST)
        assert len({sample.stamp_ns for sample in samples}) <= 1
        if i >= 1000:
            late.append(len(samples) == 2 and samples[0].stamp_ns == HOST + arrival)
    assert all(late)
    assert pipeline.stamps.status().restarts.get('sender_times_unusable') == 1
    pipeline.reconnected()
    sent = []
    for i in range(2000, 2100):
        report = pose_report('A', i * 10 * MS, moving(i / 100))
        sent.append(len(pipeline.process([report], S + i * 10 * MS, HOST)))
    # The first tenth of a second of a conversation may be a backlog.
    assert sent[15:] == [1] * 85


def test_mode_arrival_publishes_the_newest_of_a_batch():
    pipeline = make_pipeline('arrival')
    out = []
    for batch in range(50):
        frame = [pose_report(
            body, (5 * batch + i) * 10 * MS,
            moving((5 * batch + i) / 100)) for i in range(5) for body in ('A', 'B')]
        out.append(pipeline.process(frame, S + batch * 50 * MS, HOST))
    assert [len(samples) for samples in out] == [0, 0] + [2] * 48
    for batch, samples in enumerate(out[2:], start=2):
        x, y, z = moving((5 * batch + 4) / 100)
        assert {sample.position for sample in samples} == {(z, x, y)}
        assert {sample.stamp_ns for sample in samples} == {HOST + S + batch * 50 * MS}
    assert pipeline.dropped['superseded'] == 2 * (4 * 50)


def test_mode_arrival_uses_sender_times_that_rise():
    """Loss, repeats, overtaken frames and restarts are no reason to do without them."""
    source, rnd = StampSource(StampConfig(mode='arrival')), random.Random(2)
    given_out, start = {}, 0
    for i in range(20_000):
        if i % 5000 == 4999:
            start, given_out = i, {}
        sent = (i - start) * 4 * MS
        if rnd.random() < 0.3:
            sent = max(0, sent - rnd.randrange(1, 12) * 4 * MS)
        stamp = source.stamp(sent, 50 * S + i * 4 * MS)
        assert given_out.setdefault(sent, stamp) == stamp
    assert source.status().restarts == {'sender_restarted': 4}
