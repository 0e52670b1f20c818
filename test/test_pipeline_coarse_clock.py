# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames with equal times of a coarse sender clock are all published."""

import math
import random

from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from pipeline_kit import altered, HOST, make_pipeline, MS, pose_report, S
import pytest

TICK = 15_625_000


def report(name, k, rate, tick=TICK, start=1000 * S, radius=0.5):
    """Give frame k as a sender with a coarse clock sends it, of a body that moves in a circle."""
    t = k / rate
    sent = start + k * S // rate
    return pose_report(
        name, sent - sent % tick if tick else sent,
        (radius * math.cos(t), 1.0, radius * math.sin(t)))


class Session:
    """A sender that is k / rate old when it sends frame k; the way takes 1 ms and some jitter."""

    def __init__(self, rate=240, tick=TICK, jitter_ms=0.3, seed=1, bodies=('wand',), apart=0,
                 start=1000 * S, radius=0.5, hidden=(), copies=1, **config):
        self.start, self.radius, self.hidden, self.copies = start, radius, hidden, copies
        self.pipeline = make_pipeline(**config)
        self.rate, self.tick, self.jitter = rate, tick, jitter_ms * MS
        self.bodies, self.apart = bodies, apart
        self.random = random.Random(seed)
        self.frame, self.last = 0, 0
        self.out = []
        self.events = []

    def run(self, frames):
        for _ in range(frames):
            k, self.frame = self.frame, self.frame + 1
            arrival = k * S // self.rate + MS + round(
                self.random.expovariate(1.0) * self.jitter if self.jitter else 0)
            arrival = self.last = max(arrival, self.last + 1000)
            for number, name in enumerate(self.bodies):
                if k + bool(number) in self.hidden:
                    continue
                at = arrival + number * self.apart
                self.out += [(k, at, sample) for sample in self.pipeline.process(
                    [report(name, k, self.rate, self.tick, self.start, self.radius)] * self.copies,
                    at, HOST)]
            if k % 24 == 0:
                self.pipeline.tick(arrival)
                self.events += self.pipeline.take_events()
        return self

    @property
    def beats(self):
        """Whether poses may be lost: ticks above 50 ms, or of 2, 3, ... intervals within 1 %."""
        number = self.tick * self.rate / S
        multiple = number > 1.5 and abs(number - round(number)) < 0.01 * number
        return self.tick > 50 * MS or multiple

    def of(self, name):
        return [(k, at, s) for k, at, s in self.out if s.channel.names.motive == name]


def check(session, frames):
    """Expect poses in order, with stamps that rise and are not later than the arrival."""
    for name in session.bodies:
        out = session.of(name)
        numbers = [k for k, _, _ in out]
        if not session.beats:
            assert len(out) >= frames - 2
            assert numbers == list(range(frames - len(out), frames))
            assert session.pipeline.bodies[0].gate.resets == 0
        assert len(out) >= frames - 2 - max(10, session.rate // 2)
        assert numbers == sorted(set(numbers)) and numbers[-1] == frames - 1
        stamps = [sample.stamp_ns for _, _, sample in out]
        assert all(a <= b for a, b in zip(stamps, stamps[1:]))
        assert all(sample.stamp_ns <= HOST + at for _, at, sample in out)


@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'sender'])
@pytest.mark.parametrize('rate', [100, 240])
@pytest.mark.parametrize('copies', [1, 2])
def test_all_frames_of_a_tick_are_published(mode, rate, copies):
    session = Session(rate, mode=mode, copies=copies).run(2400)
    out = session.of('wand')
    assert len(out) == 2400 - 2
    stamps = [sample.stamp_ns for _, _, sample in out]
    assert all(a < b for a, b in zip(stamps, stamps[1:]))
    if mode != 'sender':
        check(session, 2400)


def test_the_known_rate_determines_the_stamps_also_after_a_restart():
    """Arrivals jitter by 2 ms; by the arrivals stamps would be up to 10 ms wrong."""
    session = Session(jitter_ms=2.0)
    for start in (1000 * S, -1 * S, 500 * S):
        session.start = start
        session.run(2400)
        late = [sample.stamp_ns - HOST - k * S / 240
                for k, _, sample in session.of('wand') if k >= session.frame - 1200]
        assert len(late) == 1200 and max(late) - min(late) < 0.3 * MS


def test_a_fast_body_is_not_taken_for_two_of_one_name():
    session = Session(radius=12.0).run(1200)    # 5 cm from frame to frame
    assert len(session.out) >= 1200 - 2 - 3     # those of the first tick


def test_the_warning_names_the_tick_once():
    session = Session().run(2400)
    (event,) = [event for event in session.events if event.key == 'coarse clock']
    assert event.severity == 'warn' and '15.6 ms' in event.text
    assert event.data == TICK


@pytest.mark.parametrize('tick', [0, MS, S // 240])
def test_no_warning_where_each_frame_has_a_time_of_its_own(tick):
    session = Session(tick=tick).run(2000)
    assert len(session.out) == 2000 - 2
    assert not [event for event in session.events if event.key == 'coarse clock']


@settings(max_examples=examples(40), deadline=None)
@given(rate=st.sampled_from([60, 100, 120, 240, 500]), tick_ms=st.floats(1.0, 60.0),
       jitter_ms=st.sampled_from([0.0, 0.1, 2.0]), seed=st.integers(0, 1000),
       mode=st.sampled_from(['tracking', 'min_offset']))
def test_stamps_are_in_order_for_any_tick(
        rate, tick_ms, jitter_ms, seed, mode):
    session = Session(rate, round(tick_ms * MS), jitter_ms, seed, mode=mode).run(600)
    check(session, 600)


# Frames without body a; b and c are missing in the frames before them.
@pytest.mark.parametrize('hidden', [(), range(1200, 2400, 100), range(100, 2400, 10)])
def test_bodies_of_one_frame_share_their_stamp(hidden):
    session = Session(bodies=('a', 'b', 'c'), apart=50_000, jitter_ms=0.3, hidden=hidden).run(2400)
    if not hidden:
        check(session, 2400)
    frames = {}
    for k, _, sample in session.out:
        frames.setdefault(k, set()).add(sample.stamp_ns)
    shared = sum(len(stamps) == 1 for stamps in frames.values())
    assert shared > 0.98 * len(frames)
    late = [sample.stamp_ns - HOST - k * S / 240 for k, _, sample in session.out if k > 1200]
    assert max(late) - min(late) < 0.5 * MS


def test_poses_that_arrive_at_once_are_published_in_order():
    pipeline = make_pipeline()
    for k in range(100):
        pipeline.process([report('wand', k, 100, 0)], k * S // 100, HOST)
    same_time = [altered(report('wand', k, 1000, 0), sender_time_ns=1001 * S)
                 for k in (1000, 1001, 1002)]
    out = pipeline.process(same_time, S, HOST)
    assert [sample.position for sample in out] == [
        (p[2], p[0], p[1]) for p in (each.bodies[0].position for each in same_time)]
    stamps = [sample.stamp_ns for sample in out]
    assert stamps == sorted(stamps) and stamps[-1] <= HOST + S


def test_no_stamp_is_later_than_its_arrival_when_the_host_is_set_back_within_a_tick():
    pipeline = make_pipeline()
    seen = 0
    for k in range(2400):
        arrival, host = k * S // 240 + MS, HOST - 7 * MS * (k // 301)
        for sample in pipeline.process([report('wand', k, 240)], arrival, host):
            seen += 1
            assert sample.stamp_ns <= arrival + host
    assert seen > 2350


def test_a_repeated_pose_of_the_tick_is_not_published():
    session = Session().run(480)
    published = len(session.out)
    for back in (1, 2, 3):
        again = report('wand', session.frame - back, 240)
        session.out += [(0, 0, s) for s in session.pipeline.process([again], session.last, HOST)]
    assert len(session.out) == published
    session.run(480)
    assert len(session.out) == 960 - 2


def test_poses_of_a_clock_that_has_stopped_are_not_published():
    session = Session().run(480)
    published = len(session.out)
    stopped = report('wand', session.frame - 1, 240).sender_time_ns
    for k in range(480, 960):
        session.out += [(k, 0, s) for s in session.pipeline.process(
            [altered(report('wand', k, 240), sender_time_ns=stopped)], k * S // 240 + MS, HOST)]
    assert len(session.out) - published <= 24 + 3


def test_the_tick_of_a_restarted_sender_is_measured_again():
    """With the old tick, stamps within the longer new one would be up to 23 ms too early."""
    session = Session(100, 20 * MS, mode='min_offset').run(480)
    before = len(session.out)
    for k in range(480, 1440):
        session.out += [(k, k * S // 100 + MS, s) for s in session.pipeline.process(
            [report('wand', k, 100, tick=50 * MS, start=-1 * S)], k * S // 100 + MS, HOST)]
        session.pipeline.tick(k * S // 100)
        session.events += session.pipeline.take_events()
    late = [sample.stamp_ns - HOST - k * S / 100 for k, _, sample in session.out[before + 200:]]
    assert max(late) - min(late) < 12 * MS
    assert [event.data for event in session.events if event.key == 'coarse clock'] == [
        20 * MS, 50 * MS]


@pytest.mark.parametrize('burst', [4, 8])
@pytest.mark.parametrize('mode', ['tracking', 'min_offset'])
def test_velocities_survive_frames_that_arrive_in_bursts(mode, burst):
    """Stamps 1 ns apart once ended the filter's arithmetic, and the frame was lost."""
    pipeline = make_pipeline(
        mode, estimate=EstimateConfig(estimate_motion=True, learn_noise=False))
    published, speeds = 0, []
    for k in range(2400):
        for sample in pipeline.process([report('wand', k, 240, radius=2.0)],
                                       (k // burst + 1) * burst * S // 240, HOST):
            sample.channel.wants_motion = True
            published += 1
            if sample.motion is not None and k > 480:
                speeds.append(math.hypot(*sample.motion.velocity))
    assert published == 2400 - 2
    assert sorted(speeds)[len(speeds) // 2] == pytest.approx(2.0, rel=0.3)


def test_velocities_are_those_of_the_motion():
    """Equal times would make the speed infinite, or zero."""
    session = Session(jitter_ms=0.05, estimate=EstimateConfig(
        estimate_motion=True, learn_noise=False))
    session.run(3)
    session.pipeline.bodies[0].wants_motion = True
    session.run(2400)
    speeds = [math.hypot(*s.motion.velocity) for _, _, s in session.out[1200:] if s.motion]
    assert len(speeds) > 1000
    assert max(abs(speed - 0.5) for speed in speeds) < 0.5
