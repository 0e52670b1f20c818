# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Stamps of the sender's clock, where they are published unchanged, against this computer's."""

from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from pipeline_kit import HOST, MS, pose_report, ProblemLog, S
import pytest


def run(pipeline, off_ns, seconds=3.0):
    """Send frames whose times are off by so much; give the poses and the warnings."""
    out, events, log = [], [], ProblemLog(pipeline)
    for k in range(round(seconds * 100)):
        arrival_ns = 1000 * S + k * 10 * MS
        time_ns = arrival_ns + HOST + off_ns - 5 * MS
        out += pipeline.process([pose_report('wand', time_ns, (0.001 * k, 1.0, 0.0))],
                                arrival_ns, HOST).samples
        pipeline.tick(arrival_ns)
        events += [*pipeline.take_events(), *log.look(arrival_ns)]
    return out, [event.text for event in events if event.severity == WARN]


def made(**changes):
    return Pipeline(PipelineConfig(stamps=StampConfig(mode='sender'), **changes))


@pytest.mark.parametrize(('off_ns', 'said'), [
    (7200 * S, '7199.995 s in the future'), (-7200 * S, '7200.005 s old when they arrive'),
    (S, '0.995 s in the future'), (-S, '1.005 s old')])
def test_beyond_the_limit_nothing_is_published_in_either_direction(off_ns, said):
    pipeline = made()
    out, lines = run(pipeline, off_ns)
    assert out == []
    (line,) = [line for line in lines if 'stamps of the sender' in line]
    assert said in line and 'stamps.max_age_s: 0' in line
    assert not [line for line in lines if 'reduce the load' in line], 'the cause is known'


@pytest.mark.parametrize(('off_ns', 'said'), [
    (20 * MS, '0.015 s in the future'), (-100 * MS, '0.105 s old')])
def test_within_the_limit_poses_are_published_with_a_warning(off_ns, said):
    out, lines = run(made(), off_ns)
    assert len(out) > 250 and any(said in line for line in lines)


def test_a_clock_that_agrees_and_a_limit_of_none_say_nothing_of_the_kind():
    pipeline = made()
    out, lines = run(pipeline, 0)
    assert len(out) > 250 and not lines
    out, lines = run(made(max_age_s=0.0), -7200 * S)
    assert len(out) > 250 and not any('max_age_s' in line for line in lines)


def test_every_body_of_a_frame_is_published_by_a_clock_that_is_ahead():
    """As found: a body whose message came after another one's of the same frame was not."""
    pipeline, names = made(), []
    for k in range(300):
        arrival_ns = 1000 * S + k * 10 * MS
        for name in ('wand', 'cup'):
            report = pose_report(name, arrival_ns + HOST + 20 * MS, (0.001 * k, 1.0, 0.0))
            names += [sample.channel.names.motive for sample in pipeline.process(
                [report], arrival_ns, HOST).samples]
    assert names.count('wand') == names.count('cup') > 290
