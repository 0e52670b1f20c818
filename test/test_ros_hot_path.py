# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A process that is stopped in the middle of a batch discards the rest of it."""

from types import SimpleNamespace

from optitrack_vrpn.core.names import BodyNames
from optitrack_vrpn.core.throttle import FrameDecimator
from optitrack_vrpn.node.body_output import BodyOutput
from optitrack_vrpn.node.configuration import make_configuration
from optitrack_vrpn.node.receiver import publish_samples, publish_server_motion, publish_view
from optitrack_vrpn.node.shared_output import SharedOutput
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.stream.bodies.states import Disposition
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.motion.estimator import EstimateConfig, Estimator
from optitrack_vrpn.stream.roster import Sample, ServerMotion, TrackedBody
from optitrack_vrpn.stream.server_data import MarkerCloud
from output_kit import every_output, poses_alone
import pytest

SECOND = 1_000_000_000
STAMP = 1_700_000_000 * SECOND
MAX_AGE = SECOND // 2
#: Transforms without a receiver.
NOWHERE = list, len
NAMES = BodyNames('wand', 'wand', {name: name for name in KINDS}, {
    'body': 'wand', 'body_ned': 'wand_ned'}, None)


class Stopped:
    """
    A clock of a process that is stopped once.

    :param looks: how often the clock is read before that.
    :param seconds: for how long.
    """

    def __init__(self, looks, seconds):
        self.looks = looks
        self.seconds = seconds

    def __call__(self):
        self.looks -= 1
        return STAMP + 1000 + (round(self.seconds * SECOND) if self.looks < 0 else 0)


def channel_of(name, out):
    """Make a body's channel; what it sends out is noted."""
    channel = TrackedBody(
        NAMES, Tracker('wand'), Estimator(EstimateConfig(learn_noise=False)))
    return channel, poses_alone(channel, out.append, name, tf=True)


def stamp_of(message):
    """Return the stamp of a message (ns)."""
    return message.header.stamp.sec * SECOND + message.header.stamp.nanosec


def publish(clock, frames, allowance_ns=MAX_AGE, delays=None):
    """Publish a pose of a body each; gives poses, transforms and what was too old of each."""
    poses, transforms = [], []
    outputs = dict(channel_of(number, poses) for number in range(len(frames)))
    channels = [*outputs]
    publish_samples(
        [Sample(channel, frame_ns - delay_ns, frame_ns, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), None)
         for channel, frame_ns, delay_ns in zip(channels, frames, delays or [0] * len(frames))],
        outputs, (list, transforms.append), clock, allowance_ns)
    return poses, transforms, [channel.dropped[Disposition.TOO_OLD] for channel in channels]


def test_nothing_is_left_out_while_the_process_runs():
    assert publish(Stopped(99, 5), [STAMP] * 4) == ([0, 1, 2, 3], [[0, 1, 2, 3]], [0] * 4)


def test_old_poses_of_a_stopped_process_are_not_published():
    poses, transforms, too_old = publish(Stopped(2, 5), [STAMP] * 4)
    assert poses == [0, 1]
    assert transforms == [], 'those of the first two are as old by now'
    assert too_old == [0, 0, 1, 1]


def test_frames_of_a_backlog_are_judged_each_by_its_own_stamp():
    stamps = [STAMP - SECOND, STAMP - SECOND // 4, STAMP]
    poses, transforms, too_old = publish(Stopped(99, 0), stamps)
    assert (poses, transforms, too_old) == ([1, 2], [[1], [2]], [1, 0, 0])


def test_a_stop_shorter_than_the_greatest_age_costs_nothing():
    assert publish(Stopped(2, 0.4), [STAMP] * 3)[2] == [0] * 3
    assert publish(Stopped(0, 9), [STAMP] * 3, allowance_ns=1 << 63)[2] == [0] * 3


def test_ages_are_those_of_frames():
    """Stamps that are older by more than the greatest age, of all bodies or of one of them."""
    frames = [STAMP, STAMP, STAMP + 4_000_000]
    for delays in ([MAX_AGE + SECOND] * 3, [0, MAX_AGE + SECOND, 0]):
        assert publish(Stopped(99, 0), frames, delays=delays) == (
            [0, 1, 2], [[0, 1], [2]], [0] * 3), 'one message of transforms a frame'
        # But waiting is: of poses, and of transforms that were written in time.
        assert publish(Stopped(0, 0.6), frames, delays=delays) == ([], [], [1] * 3)
        assert publish(Stopped(2, 0.6), frames[:2], delays=delays) == ([0, 1], [], [0] * 2)


def test_a_body_that_occurs_twice_begins_another_frame():
    """Frames that arrive together can have one stamp; a message has one transform of a body."""
    poses, transforms = [], []
    outputs = dict(channel_of(number, poses) for number in range(2))
    samples = [Sample(channel, STAMP, STAMP, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), None)
               for channel in outputs] * 2
    publish_samples(samples, outputs, (list, transforms.append), lambda: STAMP, MAX_AGE)
    assert transforms == [[0, 1], [0, 1]]


def test_what_does_not_leave_is_counted():
    channel, output = channel_of('wand', [])
    samples = [Sample(channel, stamp, stamp, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), None)
               for stamp in (STAMP - SECOND * late for late in (1, 0, 1, 0, 0))]
    publish_samples(samples, {channel: output}, NOWHERE, Stopped(99, 0), MAX_AGE)
    assert (channel.published, channel.dropped) == (3, {Disposition.TOO_OLD: 2})
    publish_samples(samples, {}, NOWHERE, Stopped(99, 0), MAX_AGE)
    assert (channel.published, channel.dropped) == (
        3, {Disposition.TOO_OLD: 2, Disposition.NO_TOPICS: 5})


def test_under_load_a_body_publishes_its_poses_alone():
    sent = {}
    channel, _ = channel_of('wand', [])
    kinds = ['pose', 'pose_ned', 'own', 'pose_cov', 'odom', 'twist', 'accel']
    output = every_output(channel, kinds, sent)
    assert channel.has_more
    publish_samples(
        [Sample(channel, STAMP, STAMP, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), None, True)],
        {channel: output}, NOWHERE, lambda: STAMP, SECOND)
    assert set(sent) == {'pose', 'pose_ned', 'own'} and channel.published == 1
    for few in (['pose', 'pose_ned'], ['odom', 'twist']):
        every_output(channel, few, sent)
        assert not channel.has_more, 'a body without poses keeps its outputs'


def test_a_motion_has_the_stamp_of_its_estimate():
    """A low-pass smooths the pose; the motion has a stamp of its own."""
    sent = {}
    channel, _ = channel_of('wand', [])
    output = every_output(channel, ['pose_cov', 'odom', 'twist', 'accel'], sent)
    channel.estimator = estimator = Estimator(EstimateConfig(estimate_motion=True))
    smooth, measured, upright = (9.0, 9.0, 9.0), (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)
    for number in range(100):
        estimator.update(STAMP + 5_000_000 * number, measured, upright, 200.0, 0)
    motion = estimator.motion_estimate()
    earlier = motion.stamp_ns - 100_000_000
    publish_samples(
        [Sample(channel, earlier, motion.stamp_ns, smooth, upright, motion)],
        {channel: output}, NOWHERE, lambda: STAMP, SECOND)
    assert stamp_of(sent['pose_cov']) == earlier
    assert sent['pose_cov'].pose.pose.position.x == smooth[0]
    assert {stamp_of(sent[kind]) for kind in ('odom', 'twist', 'accel')} == {motion.stamp_ns}
    assert sent['odom'].pose.pose.position.x == measured[0]


@pytest.mark.parametrize('source', ['estimate', 'server'])
def test_a_server_motion_goes_to_twist_and_accel_alone_where_it_is_wanted(source):
    sent = {}
    channel, _ = channel_of('wand', [])
    output = every_output(
        channel, ['odom', 'twist', 'accel'], sent, velocity_source=source)
    for is_velocity in (True, False):
        publish_server_motion(output, ServerMotion(
            channel, STAMP, is_velocity, (1.0, 0.0, 0.0), (0.0, 3.0, 0.0)), lambda: STAMP, STAMP)
    assert set(sent) == ({'twist', 'accel'} if source == 'server' else set())
    if sent:
        assert stamp_of(sent['twist']) == STAMP
        assert (sent['twist'].twist.linear.x, sent['accel'].accel.angular.y) == (1.0, 3.0)
    estimator = channel.estimator = Estimator(EstimateConfig(estimate_motion=True))
    for number in range(100):
        estimator.update(STAMP + 5_000_000 * number, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), 200.0,
                         0)
    motion = estimator.motion_estimate()
    sent.clear()
    publish_samples(
        [Sample(channel, motion.stamp_ns, motion.stamp_ns, *motion[1:3], motion)],
        {channel: output}, NOWHERE, lambda: STAMP, SECOND)
    assert set(sent) == ({'odom'} if source == 'server' else {'odom', 'twist', 'accel'})


class Middleware:
    """
    Publishers of every output; one of them takes ten seconds.

    :param slow: number of the message whose publication takes so long.
    :ivar sent: kind of each message, and time of its publication.
    """

    def __init__(self, slow):
        self.slow = slow
        self.now = STAMP
        self.sent = []

    def send(self, kind):
        self.sent.append((kind, self.now))
        if len(self.sent) > self.slow:
            self.now += 10 * SECOND

    def create(self, message_type, topic, kind):
        return SimpleNamespace(
            publish=lambda _: self.send(kind),
            handle=SimpleNamespace(get_subscription_count=lambda: 1))

    def publish_all(self):
        """Publish a frame as the node does, with everything that depends on a pose."""
        settings = make_configuration({
            'server': '127.0.0.1', 'protocol': 'natnet', 'outputs': list(KINDS)}).settings
        channel = TrackedBody(NAMES, Tracker('wand'), Estimator(
            EstimateConfig(estimate_motion=True)))
        output = BodyOutput(channel, self.create, None, False)
        output.create_publishers(settings)
        shared = SharedOutput(self.create, None)
        shared.create_publishers(settings)
        upright = (0.0, 0.0, 0.0, 1.0)
        for number in range(100):
            when, position = STAMP - 5_000_000 * (99 - number), (1.0, 2.0, 1e-6 * number)
            channel.gate.update(when, when, position, upright)
            channel.estimator.update(when, position, upright, 200.0, 0)
        samples = [Sample(channel, STAMP, STAMP, position, upright,
                          channel.estimator.motion_estimate())]

        def clock():
            return self.now

        shared.publish_markers(MarkerCloud(STAMP, 0, b''), clock, MAX_AGE)
        publish_samples(samples, {channel: output},
                        (len, lambda count: self.send(f'{count} tf')), clock, MAX_AGE)
        publish_view(samples, {channel: output}, FrameDecimator(0),
                     lambda pieces: self.send('tf_view'), clock, MAX_AGE)
        for _ in range(2):    # the first frame is complete with the next
            shared.publish(samples, clock, MAX_AGE)
            samples = [samples[0]._replace(frame_ns=STAMP + 1)]
        return self.sent


def test_every_output_obeys_the_maximum_age():
    """Each message in turn takes ten seconds to publish: none follows it."""
    sent = [kind for kind, _ in Middleware(99).publish_all()]
    of_bodies = {name for name, kind in KINDS.items() if kind.needs in ('', 'markers')}
    assert set(sent) == {*of_bodies, '2 tf'} - {'status', 'tf', 'tf_ned'}
    for slow in range(len(sent)):
        assert Middleware(slow).publish_all() == [(kind, STAMP) for kind in sent[:slow + 1]]
