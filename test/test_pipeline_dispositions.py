# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Every received pose is published or counted under one reason, for arbitrary input."""

from collections import Counter
import math

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.node.receiver import publish_samples
from optitrack_vrpn.node.report import body_entry
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import BY_GATE, Disposition
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.telling.facts import facts_of_body
from output_kit import poses_alone
from pipeline_kit import altered, HOST, make_pipeline, MS, pose_report, S
import pytest

#: What a server may do to a pose.
SPOIL = {
    'good': lambda r: r,
    'zero': lambda r: altered(r, position=(0.0, 0.0, 0.0), quat_xyzw=(0.0, 0.0, 0.0, 0.0)),
    'nan': lambda r: altered(r, position=(math.nan, 0.0, 0.0)),
    'norm': lambda r: altered(r, quat_xyzw=(0.0, 0.0, 0.0, 0.5)),
    'away': lambda r: altered(r, position=(30.0, 0.0, 0.0)),
    'flip': lambda r: altered(r, quat_xyzw=(1.0, 0.0, 0.0, 0.0)),
    'late': lambda r: altered(r, sender_time_ns=r.sender_time_ns - 50 * MS),
    'coarse': lambda r: altered(r, sender_time_ns=r.sender_time_ns // (40 * MS) * (40 * MS)),
    'restart': lambda r: altered(r, sender_time_ns=r.sender_time_ns % S),
    'absurd': lambda r: altered(r, sender_time_ns=(1 << 62) + r.sender_time_ns),
}


class Node:
    """A pipeline and publishers, as the node connects them."""

    def __init__(self, config, topics=True):
        self.now = 10 * S
        self.outputs = {}
        self.publishers = {}
        self.received = Counter()
        self.topics = topics
        self.pipeline = Pipeline(config, self.discovered)

    def discovered(self, channel):
        if self.topics:
            self.outputs[channel] = sent = []
            self.publishers[channel] = poses_alone(channel, sent.append)

    def receive(self, reports, waited_ns=0, active=True, stopped_ns=0):
        """Process reports that waited, and publish after having been stopped for some time."""
        self.received.update(
            (body.name, body.sensor) for report in reports for body in report.bodies)
        samples = self.pipeline.process(reports, self.now, HOST, self.now + waited_ns).samples
        if active:
            publish_samples(
                samples, self.publishers, (list, len),
                lambda: self.now + waited_ns + stopped_ns, self.pipeline.max_age_ns - HOST)
        else:
            for sample in samples:
                sample.channel.dropped[Disposition.INACTIVE] += 1

    def check(self):
        """Compare the counters with what was received and sent."""
        for key, channel in self.pipeline.roster.channels.items():
            if channel is None:
                continue
            counts = channel.dispositions()
            assert sum(counts.values()) == self.received[key]
            assert min(counts.values()) >= 0
            sent = len(self.outputs[channel]) if channel in self.outputs else 0
            assert counts[Disposition.PUBLISHED] == sent
            values = body_entry('x', facts_of_body(channel, self.now), counts, 0).values
            assert values['received'] == str(self.received[key])
            assert values['published'] == str(sent)
        dropped = self.pipeline.dropped
        assert sum(dropped.values()) == sum(self.received.values()) - sum(
            map(len, self.outputs.values()))


def report(name, frame):
    return pose_report(name, 1000 * S + frame * 10 * MS, (0.01 * frame, 1.0, 0.001 * frame))


steps = st.lists(st.tuples(
    st.sampled_from(sorted(SPOIL)), st.integers(1, 12), st.integers(1, 3), st.booleans(),
    st.sampled_from([0, 0, 30 * MS, 700 * MS]), st.sampled_from([0, 0, 700 * MS]),
    st.sampled_from([0, 0, 200 * MS, 2 * S])), min_size=2, max_size=10)


@settings(max_examples=60, deadline=None)
@given(steps=steps, mode=st.sampled_from(['tracking', 'min_offset', 'arrival', 'sender']),
       lowpass=st.booleans(), topics=st.booleans())
def test_dispositions_sum_to_the_poses_received(steps, mode, lowpass, topics):
    node = Node(PipelineConfig(
        stamps=StampConfig(mode=mode),
        estimate=EstimateConfig(learn_noise=False, lowpass=LowpassConfig(
            cutoff_hz=10.0 if lowpass else 0.0))), topics)
    frame = 0
    for spoil, count, together, active, waited, stopped, pause in steps:
        node.now += pause
        if pause > S:
            node.pipeline.reconnected()
        for _ in range(count):
            node.now += 10 * MS
            reports = []
            for _ in range(together):
                frame += 1
                reports += [SPOIL[spoil](report('a', frame)), report('b', frame)]
            node.receive(reports, waited, active, stopped)
        node.pipeline.tick(node.now)
        node.check()


def run(node, frames, spoil='good', **more):
    for frame in range(*frames):
        node.now += 10 * MS
        node.receive([SPOIL[spoil](report('a', frame))], **more)
    node.check()
    return node.pipeline.bodies[0].dispositions()


@pytest.mark.parametrize('spoil, expected', [
    ('zero', 'zeroed'), ('nan', 'not_finite'), ('norm', 'norm'), ('flip', 'jumped'),
    ('absurd', 'unstamped')])
def test_a_pose_is_counted_under_its_reason(spoil, expected):
    node = Node(PipelineConfig())
    before = run(node, (0, 100))
    assert before == {Disposition.PUBLISHED: 98, Disposition.ACQUIRING: 2}
    after = run(node, (100, 120), spoil)
    assert after[Disposition.PUBLISHED] == 98
    assert after[Disposition(expected)] >= 19
    status = node.pipeline.bodies[0].status(0)
    assert status.good == 98
    assert status.withheld == {reason.value: after[reason] for reason in BY_GATE & after.keys()}


@pytest.mark.parametrize('more, expected', [
    ({'active': False}, 'inactive'), ({'waited_ns': 700 * MS}, 'too_old'),
    ({'stopped_ns': 700 * MS}, 'too_old')])
def test_good_poses_that_are_not_published_have_a_reason_too(more, expected):
    node = Node(PipelineConfig())
    run(node, (0, 100))
    after = run(node, (100, 120), **more)
    assert after[Disposition(expected)] == 20


def test_poses_of_a_backlog_at_the_beginning_are_counted():
    node = Node(PipelineConfig())
    node.pipeline.reconnected()
    counts = run(node, (0, 100))
    assert counts[Disposition.BACKLOG] > 3
    assert counts[Disposition.PUBLISHED] > 45


def test_poses_before_the_topics_are_made_are_counted():
    node = Node(PipelineConfig(), topics=False)
    assert run(node, (0, 100))[Disposition.NO_TOPICS] == 98


def test_of_poses_that_arrive_together_the_newest_has_the_stamp_of_the_arrival():
    pipeline = make_pipeline('arrival', body=BodyConfig(acquire_frames=1))
    for k in range(3):
        samples = pipeline.process([
            pose_report('a', (2 * k + i) * 10 * MS, (0.01 * (2 * k + i), 1.0, 0.0))
            for i in (1, 2)], S + k * 20 * MS, HOST).samples
    assert [sample.channel.newest_ns for sample in samples] == [S + HOST + 40 * MS]
    assert [sample.channel.gate.last_pose[0] for sample in samples] == [(0.06, 1.0, 0.0)]
    assert pipeline.bodies[0].dropped == {Disposition.SUPERSEDED: 3}
