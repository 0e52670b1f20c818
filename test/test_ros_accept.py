# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A flipped body in the running node: its status, its log, and the service that accepts it."""

import re

from diagnostic_msgs.msg import DiagnosticStatus
import numpy as np
from optitrack_vrpn.sim.faults import Flip
from optitrack_vrpn.sim.motion import arranged
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import wait_until
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.ros, pytest.mark.network]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def values(status):
    return {pair.key: pair.value for pair in status.values}


class FlippedOnRequest:
    """A motion that is flipped when the node publishes the body, however late that is."""

    def __init__(self):
        self.flipped = False
        self._motion = arranged('figure_eight', 0, 1)

    def at(self, time):
        state = self._motion.at(time)
        Flip().apply(state.position, state.quat_xyzw, np.full(len(state.position), self.flipped))
        return state


@pytest.fixture
def flipped(world, user):
    """Give a node of two bodies, one of which is flipped when it is tracked; watch both."""
    wand = FlippedOnRequest()
    here = world.node(world.motive(['wand', 'rover'], live={'wand': wand}),
                      validation__attitude_accept_s=0.0)
    topic = user.listen(DiagnosticStatus, '/wand/status', LATCHED)
    poses = user.poses('/wand/pose')
    poses.wait(50)
    wand.flipped = True

    def held():
        messages = topic.messages(-1)
        return messages[-1] if messages and 'turned in place' in messages[-1].message else None
    return here, user, wait_until(held, 30.0, 'a flip in the status'), poses


def test_a_flip_can_be_accepted_by_the_service(flipped, console):
    _, user, status, poses = flipped
    assert 'JUMPED' in status.message and 'wrong marker solution' in status.message
    log = []

    def advice():
        log.append(console.unread())
        return re.search(r'stays so.*ros2 service call (\S+) std_srvs/srv/Trigger', ''.join(log))
    name = wait_until(advice, 20.0, 'a warning in the log').group(1)
    assert name == '/wand/accept_pose'
    services = dict(user.node.get_service_names_and_types())
    assert {name, '/rover/accept_pose'} <= set(services)    # of each body, from the first pose on
    before = len(poses)
    answer = user.call(Trigger, name, Trigger.Request())
    assert answer.success, answer.message
    poses.wait(before + 50)
    again = user.call(Trigger, name, Trigger.Request())
    assert not again.success and 'TRACKED' in again.message
    assert user.set(bodies__deny=['wand']) == ''
    deselected = user.call(Trigger, name, Trigger.Request())
    assert not deselected.success and 'no longer selected' in deselected.message


def test_an_attitude_that_time_has_accepted_is_told_and_becomes_certain(flipped, console):
    _, user, _, _ = flipped
    assert user.set(validation__attitude_accept_s=0.5) == ''
    topic = user.listen(DiagnosticStatus, '/wand/status', LATCHED)

    def found(degrees):
        messages = topic.messages(-1)
        last = values(messages[-1]) if messages else {}
        return last.get('accepted_by_time') == '1' and abs(
            float(last['accepted_by_time_deg']) - degrees) < 10.0
    wait_until(lambda: found(180.0), 20.0, 'an acceptance in the status')
    wait_until(lambda: 'accepted by time, 1' in console.unread(), 20.0, 'a line')
    answer = user.call(Trigger, '/wand/accept_pose', Trigger.Request())
    assert answer.success and 'certain' in answer.message
    wait_until(lambda: found(0.0), 20.0, 'the attitude is certain')
    assert not user.call(Trigger, '/wand/accept_pose', Trigger.Request()).success


def test_a_late_subscriber_gets_a_status_of_the_last_second(flipped):
    """Nothing has subscribed to this one: what is latched is refreshed all the same."""
    here, user, _, _ = flipped
    (rover,) = [body for body in here.node.pipelines[0].bodies if body.names.ros == 'rover']
    wait_until(lambda: rover.published > 300, 30.0, 'poses')
    before = rover.published
    topic = user.listen(DiagnosticStatus, '/rover/status', LATCHED)
    topic.wait(1)
    first = values(topic.messages()[0])
    assert int(first['published']) > before - 250
