# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry, twist, acceleration, covariance and status as a subscriber receives them."""

import time

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import AccelStamped, PoseWithCovarianceStamped, TwistStamped
from nav_msgs.msg import Odometry
import numpy as np
from optitrack_vrpn.sim.acceptor_io import raw_clock_ns
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import quat_xyzw, stamp_ns, wait_until
from scipy.spatial.transform import Rotation

ENU_FROM_MOTIVE = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
TOPICS = {'odom': Odometry, 'twist': TwistStamped, 'accel': AccelStamped,
          'pose_cov': PoseWithCovarianceStamped}
LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def vector(message):
    return np.array([message.x, message.y, message.z])


@pytest.fixture
def motive(world):
    return world.motive(
        [{'name': 'wand', 'motion': {'type': 'circle'}}], rate=240, velocities=True,
        noise={'position_mm': 0.05, 'attitude_deg': 0.02})


@pytest.fixture
def node_of(world):
    """Give a function that runs a node with the sender's own stamps."""
    return lambda motive, protocol='vrpn', **parameters: world.node(motive, protocol, **{
        'stamps__mode': 'sender', 'stamps__max_age_s': 0.0, **parameters})


def steady(topic):
    """Return whether the last quarter of a second came whole: its gaps are in the estimates."""
    stamps = [stamp_ns(message) for message in topic.messages(-60)]
    return len(stamps) == 60 and max(np.diff(stamps)) < 20e6


@pytest.mark.parametrize('source, accuracy, protocol', [
    ('estimate', 0.05, 'vrpn'), ('server', 1e-3, 'vrpn'), ('estimate', 0.05, 'natnet')])
def test_velocities_reach_subscribers_in_the_right_axes(
        node_of, motive, user, source, accuracy, protocol):
    # Over NatNet the sender's clock counts from its boot.
    begin_ns = motive.base_ns if protocol == 'vrpn' else motive.serving('natnet').server_ns(
        raw_clock_ns() - round(motive.time_at(raw_clock_ns()) * 1e9))

    def truth_at(sim, message):
        return sim.world.truth('wand', (stamp_ns(message) - begin_ns) * 1e-9)
    node_of(motive, protocol, velocity_source=source, outputs=list(TOPICS))
    heard = {kind: user.listen(message, f'/wand/{kind}', 1000)
             for kind, message in TOPICS.items()}
    last = {}
    for kind, topic in heard.items():
        topic.wait(240)
        # A busy machine may have kept the simulated Motive from sending a moment ago.
        wait_until(lambda topic=topic: steady(topic), 30.0, f'steady {kind}')
        last[kind] = topic.messages(-1)[0]

    twist, truth = last['twist'], truth_at(motive, last['twist'])
    assert twist.header.frame_id == 'optitrack'
    speed, rate = ENU_FROM_MOTIVE @ truth.velocity[0], ENU_FROM_MOTIVE @ truth.angular_velocity[0]
    assert np.linalg.norm(speed) > 0.2 and np.linalg.norm(rate) > 0.2
    np.testing.assert_allclose(vector(twist.twist.linear), speed, atol=accuracy)
    np.testing.assert_allclose(vector(twist.twist.angular), rate, atol=2 * accuracy)

    odom, truth = last['odom'], truth_at(motive, last['odom'])
    assert (odom.header.frame_id, odom.child_frame_id) == ('optitrack', 'wand')
    world_from_body = Rotation.from_quat(quat_xyzw(odom.pose.pose))
    np.testing.assert_allclose(
        world_from_body.apply(vector(odom.twist.twist.linear)),
        ENU_FROM_MOTIVE @ truth.velocity[0], atol=0.05)
    np.testing.assert_allclose(
        vector(odom.pose.pose.position), ENU_FROM_MOTIVE @ truth.position[0], atol=1e-3)
    assert all(odom.twist.covariance[7 * i] > 0 for i in range(6)), 'always the estimate'

    accel, truth = last['accel'], truth_at(motive, last['accel'])
    np.testing.assert_allclose(
        vector(accel.accel.linear), ENU_FROM_MOTIVE @ truth.acceleration[0], atol=20 * accuracy)


def test_motion_without_subscribers_is_not_computed(world, node_of, observer):
    # A name of its own: the user of all tests still listens to that of other tests.
    here = node_of(world.motive(['alone']), outputs=['pose', 'odom'])
    made = here.node.pipelines
    wait_until(lambda: made and made[0].bodies, what='a body')
    channel = made[0].bodies[0]
    wait_until(lambda: channel.published, what='publishers')
    assert not channel.wants_motion
    topic = observer.listen(Odometry, '/alone/odom', 100)
    topic.wait(1)
    assert channel.wants_motion
    observer.node.destroy_subscription(topic.subscription)
    wait_until(lambda: not channel.wants_motion, what='the end of the odometry')


def test_the_latched_status_reports_why_a_body_is_gone(node_of, motive, user):
    # Not sooner, for a busy machine may keep the simulated Motive from sending for a while.
    node_of(motive, validation__stale_after_s=1.0)
    states = user.listen(DiagnosticStatus, '/wand/status', LATCHED)

    def said(key):
        return [{v.key: v.value for v in m.values}[key] for m in states.messages()]
    wait_until(lambda: any(float(rate) > 0 for rate in said('rate_hz')), what='a rate')
    paused_s = time.time()
    motive.pause()
    wait_until(lambda: said('state')[-1] == 'STALE' and float(said('since')[-1]) > paused_s,
               what='STALE')
    late = user.listen(DiagnosticStatus, '/wand/status', LATCHED)
    late.wait(1)
    status = late.messages()[0]
    values = {v.key: v.value for v in status.values}
    assert values['state'] == 'STALE' and 'last valid pose' in status.message
    # The last that was known; what a busy machine does not send is missing in it.
    assert 100 < float(values['rate_hz']) < 252
    assert paused_s < float(values['since']) < time.time()
    motive.resume()
    wait_until(lambda: said('state')[-1] == 'TRACKED', what='TRACKED again')


def test_published_is_what_has_left_this_node(node_of, motive, user):
    here = node_of(motive, activate=False)
    states = user.listen(DiagnosticStatus, '/wand/status', LATCHED)

    def said(key):
        messages = states.messages()
        return int({v.key: v.value for v in messages[-1].values}[key]) if messages else 0
    wait_until(lambda: said('good') > 200, what='good poses')
    assert said('published') == 0
    here.node.trigger_activate()
    wait_until(lambda: said('published') > 200, what='poses that go out')
    assert said('good') > said('published') + 200
