# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Two rigid bodies of one name: none is published, the cause is reported, others are as before."""

import math

from optitrack_vrpn.stream.bodies.states import State
from pipeline_kit import HOST, make_pipeline, MS, pose_report, S
import pytest

RATE = 240
COARSE = 15_625_000
NAN = math.nan


class Motive:
    """Sends bodies at 240 Hz: 'other', and 'wand' once or, from one place to another, twice."""

    def __init__(self, mode='tracking', tick=1, start=1000 * S, second=((1.0, 0.0, 0.0), 0.0)):
        self.pipeline = make_pipeline(mode)
        self.tick, self.start, self.second = tick, start, second
        self.frame = 0
        self.events = []

    def report(self, name, offset=(0.0, 0.0, 0.0), turn=0.0):
        t = self.frame / RATE
        sent = self.start + self.frame * S // RATE
        position = (0.5 * math.cos(t) + offset[0], 1.0 + offset[1], 0.5 * math.sin(t) + offset[2])
        return pose_report(
            name, sent - sent % self.tick, position,
            (0.0, math.sin(turn / 2), 0.0, math.cos(turn / 2)))

    def send(self, frames, twice):
        """Send frames; return the samples of 'wand' and of 'other'."""
        out = {'wand': [], 'other': []}
        for _ in range(frames):
            reports = [self.report('other', (3.0, 0.0, 0.0)), self.report('wand')]
            if twice:
                reports.append(self.report('wand', *self.second))
            arrival = self.frame * S // RATE + MS + self.frame * 7919 % 200_000
            # A server sends the bodies of a frame together.
            frame = reports[0]._replace(bodies=[each.bodies[0] for each in reports])
            for sample in self.pipeline.process([frame], arrival, HOST).samples:
                out[sample.channel.names.motive].append(sample)
            self.frame += 1
        self.pipeline.tick(arrival)
        self.events += self.pipeline.take_events()
        return out['wand'], out['other']

    @property
    def wand(self):
        return self.pipeline.roster.channels['wand', 0].gate


@pytest.mark.parametrize('second', [
    ((1.0, 0.0, 0.0), 0.0), ((0.0, 0.04, 0.0), 0.0), ((0.0, 0.0, 0.0), 1.0),
    ((NAN, 0.0, 0.0), 0.0)])
@pytest.mark.parametrize('tick', [1, COARSE])
def test_none_of_two_bodies_of_one_name_is_published(second, tick):
    motive = Motive(tick=tick, second=second)
    assert not motive.send(480, twice=True)[0]


@pytest.mark.parametrize('mode, tick', [
    ('tracking', 1), ('tracking', COARSE), ('min_offset', 1), ('sender', 1)])
def test_the_stamps_of_other_bodies_do_not_change(mode, tick):
    """The second poses once counted as frames: stamps of all bodies were 5 ms wrong."""
    alone, doubled = Motive(mode, tick), Motive(mode, tick)
    parts = [(240, False), (480, True), (240, False)]
    expected = [s.stamp_ns for n, _ in parts for s in alone.send(n, False)[1]]
    found = [s.stamp_ns for n, twice in parts for s in doubled.send(n, twice)[1]]
    # The times of the coarse sender are judged from 200 frames.
    assert len(found) == (960 - 2 if tick == 1 else 808)
    if mode == 'min_offset':    # it counts messages to the end of its measurement
        assert max(abs(a - b) for a, b in zip(found, expected)) < MS // 5
    else:
        assert found == expected
    assert ('tick or jitter by 15.6 ms' in doubled.pipeline.clock_status().sender_fault) is (
        tick == COARSE)


@pytest.mark.parametrize('tick', [1, COARSE])
def test_the_cause_is_reported_once_and_the_body_returns(tick):
    motive = Motive(tick=tick)
    assert len(motive.send(480, twice=False)[0]) == (480 - 2 if tick == 1 else 328)
    assert not motive.send(480, twice=True)[0][20:]
    assert motive.wand.state is State.INVALID
    detail = motive.wand.status(0).detail
    assert 'two rigid bodies' in detail and 'Rename' in detail
    assert sum(detail in event.text for event in motive.events) == 1
    frames = 20 * max(1, round(tick * RATE / S)) + 10
    assert len(motive.send(480, twice=False)[0]) > 480 - frames
    assert motive.wand.state is State.TRACKED


@pytest.mark.parametrize('start', [S, 10_000 * S])
def test_a_single_body_is_published_after_a_restart(start):
    motive = Motive()
    motive.send(480, twice=True)
    motive.start = start
    assert len(motive.send(480, twice=False)[0]) > 480 - 130


def test_a_second_body_that_is_often_out_of_view_is_found():
    motive = Motive()
    for _ in range(60):
        motive.send(3, twice=True)
        motive.send(1, twice=False)
    assert motive.wand.state is State.INVALID


def test_repeated_datagrams_are_not_a_second_body():
    motive = Motive(second=((0.0, 0.0, 0.0), 0.0))
    assert len(motive.send(480, twice=True)[0]) == 480 - 2


@pytest.mark.parametrize('apart, most, tick', [
    (0.01, 8, 1), (0.03, 0, 1), (0.045, 0, 1), (0.07, 0, 1), (0.03, 0, COARSE), (0.07, 0, COARSE)])
def test_two_bodies_near_each_other_are_not_published_in_turns(apart, most, tick):
    """The second is where the first could have moved to: 36 poses once alternated, or all."""
    motive = Motive(tick=tick, second=((0.0, apart, 0.0), 0.0))
    motive.send(480, twice=False)
    heights = [sample.position[2] for sample in motive.send(480, twice=True)[0]]
    assert sum(a != b for a, b in zip(heights, heights[1:])) <= most
    assert motive.wand.state is State.INVALID
