# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node beside others: nodes of its name, publishers on its topics, subscribers."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

from conftest import BOTH_PROTOCOLS
from geometry_msgs.msg import PoseStamped, TransformStamped
from optitrack_vrpn.node.graph import conflicts_ros
from optitrack_vrpn.node.graph.conflicts_ros import (
    ConflictingPublishers, DuplicateNames, ForeignParents, TF_NS, TURN_NS)
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from rosgraph import NodeHere, Observer, wait_until
from tf2_msgs.msg import TFMessage
from world import logged, parameters

pytestmark = [pytest.mark.ros, pytest.mark.network]


@pytest.fixture
def looks(monkeypatch):
    """Look for other nodes ten times as often; gives the topics of each look."""
    monkeypatch.setattr(conflicts_ros, 'TURN_NS', TURN_NS // 10)
    monkeypatch.setattr(conflicts_ros, 'CHECKS_NS', tuple(
        after_ns // 10 for after_ns in conflicts_ros.CHECKS_NS))
    done, look = [], ConflictingPublishers.look

    def counted(self, topics):
        done.extend([topics] if topics else [])
        return look(self, topics)
    monkeypatch.setattr(ConflictingPublishers, 'look', counted)
    return done


@BOTH_PROTOCOLS
def test_two_nodes_in_one_process_each_follow_their_own_server(user, motive, protocol):
    left, right = (parameters(motive(name, protocol=protocol), protocol, autostart=True)
                   for name in ('left', 'right'))
    with NodeHere(left, namespace='/lab_a') as a, NodeHere(right, node_name='second') as b:
        expected = {'/lab_a/left/pose', '/lab_a/left/pose_ned', '/right/pose', '/right/pose_ned'}
        wait_until(lambda: set(user.topics()) == expected)
        topics = [user.poses(name) for name in ('/lab_a/left/pose', '/right/pose')]
        tf = user.transforms()
        for topic in (*topics, tf):
            topic.wait(50)
        assert user.state('/lab_a/optitrack_vrpn') == user.state('/second') == 'active'
        # Transforms share one tree whatever the namespace, as everywhere in ROS.
        wait_until(lambda: {t.child_frame_id for m in tf.messages() for t in m.transforms} == {
            'left', 'left_ned', 'right', 'right_ned'})
        assert user.transition('deactivate', '/second')
        count = len(topics[0])
        topics[0].wait(count + 50)
        assert a.failure is None and b.failure is None
        assert user.transition('active_shutdown', '/lab_a/optitrack_vrpn')
        wait_until(lambda: all('/right' in topic for topic in user.topics()))


def test_a_second_node_of_the_same_name_is_reported(motive, console):
    port = motive('wand')
    with NodeHere(parameters(port)), Observer('counter') as onlooker:
        twins = ('optitrack_vrpn', '/')
        wait_until(lambda: twins in onlooker.node.get_node_names_and_namespaces())
        with NodeHere(parameters(port, autostart=True)):
            said = logged(console, 'called /optitrack_vrpn too')
            assert 'node is called' in said
            # A name alone would leave the topics where they are.
            assert '__ns:=/NAME' in said and '__node' not in said


def test_another_node_on_a_pose_topic_is_reported_once(motive, console, looks):
    port = motive('wand')
    with NodeHere(parameters(port, autostart=True), node_name='ot_a'), \
            NodeHere(parameters(port, autostart=True), node_name='ot_b'), \
            Observer('counter') as onlooker:
        wait_until(lambda: onlooker.node.count_publishers('/wand/pose') == 2)
        said = logged(console, '/ot_b publishes on /wand/pose too')
        if '/ot_a publishes on' not in said:
            said += logged(console, '/ot_a publishes on /wand/pose too')
        assert 'bodies.allow' in said and '__ns:=/NAME' in said and 'frames.body' in said
        count = len(looks)
        wait_until(lambda: len(looks) >= count + 8, what='further looks')
        assert 'publishes on' not in console.unread()


def test_what_was_found_in_the_graph_does_not_outlast_a_configuration(user, motive):
    with NodeHere(parameters(motive('wand'))) as here:
        assert user.transition('configure')
        here.node._status.graph.sharing = {'/other': '/wand/pose'}
        here.node._status.graph.unmatched = ('bodies.allow: nothing is called cart',)
        assert user.transition('cleanup') and user.transition('configure')
        graph = here.node._status.graph
        assert graph.name == '/optitrack_vrpn' and not graph.sharing and not graph.unmatched


def test_nodes_in_namespaces_of_their_own_have_nothing_in_common(motive, console, looks):
    port = motive('wand')
    more = {'autostart': True, 'frames.body': 'lab_{body}', 'frames.body_ned': 'lab_{body}_ned'}
    with NodeHere(parameters(port, autostart=True)), \
            NodeHere(parameters(port, **more), namespace='/lab'), Observer('counter') as onlooker:
        wait_until(lambda: {'/wand/pose', '/lab/wand/pose'} <= set(onlooker.topics()))
        transforms = onlooker.transforms()
        wait_until(lambda: {piece.child_frame_id for message in transforms.messages()
                            for piece in message.transforms} >= {'wand', 'lab_wand'})
        count = len(looks)
        wait_until(lambda: len(looks) >= count + 8, what='further looks')
        said = console.unread()
        assert 'publishes on' not in said and 'called' not in said and 'parents' not in said


@pytest.mark.parametrize('topic', ['/tf', '/tf_static'])
def test_a_second_parent_of_a_frame_is_reported_once(motive, console, looks, topic):
    port = motive('wand', 'drone')
    with Observer('other') as other:
        message = TFMessage(transforms=[
            TransformStamped(child_frame_id=frame) for frame in ('base', 'wand', 'drone_ned')])
        for transform in message.transforms:
            transform.header.frame_id = 'map'
        publisher = other.node.create_publisher(TFMessage, topic, QoSProfile(
            depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        timer = other.node.create_timer(0.02, lambda: publisher.publish(message))
        with NodeHere(parameters(port, autostart=True)) as node:
            said = logged(console, "frame 'wand' of TF has two parents")
            assert "'optitrack' (this node), 'map'" in said
            if "'drone_ned' of TF" not in said:
                said += logged(console, "'drone_ned' of TF has two parents")
            assert "'base'" not in said
            # The readers are there for some seconds only.
            wait_until(lambda: not [one for one in node.node.subscriptions
                                    if one.topic_name == topic], what='the end of reading')
            count = len(looks)
            wait_until(lambda: len(looks) >= count + 8, what='further looks')
            assert 'two parents' not in console.unread()
            assert node.failure is None
        other.node.destroy_timer(timer)


def test_tf_is_read_for_some_seconds_after_a_change_and_only_beside_other_publishers():
    class Graph:
        """A node with a number of publishers on /tf, and messages that wait for each reader."""

        def __init__(self):
            self.publishers, self.readers, self.waiting = 1, [], []
            self.handle = contextlib.nullcontext()
            self.handle.take_message = lambda kind, raw: (
                serialize_message(self.waiting.pop()), {}) if self.waiting else None

        def count_publishers(self, topic):
            return self.publishers if topic == '/tf' else 1

        def create_subscription(self, kind, topic, callback, qos, **options):
            self.readers.append(SimpleNamespace(handle=self.handle, msg_type=kind))
            return self.readers[-1]

        def destroy_subscription(self, reader):
            self.readers.remove(reader)

    def sent(parent, child):
        message = TFMessage(transforms=[TransformStamped(child_frame_id=child)])
        message.transforms[0].header.frame_id = parent
        return message
    graph, own = Graph(), {'wand': 'optitrack'}
    parents = ForeignParents(graph)
    parents.begin(lambda: own, 1, 0)
    assert not graph.readers, 'nobody else publishes'
    graph.publishers = 2
    parents.begin(dict, 0, 1)
    assert not graph.readers, 'this node broadcasts nothing'
    parents.begin(lambda: own, 1, 2)
    assert len(graph.readers) == 2
    graph.waiting = [sent('optitrack', 'wand'), sent('wand', 'camera'), sent('map', 'wand'),
                     sent('map', 'wand')]
    assert parents.look(3) == {'wand': ('optitrack', 'map')}
    graph.waiting = [sent('map', 'wand')]
    assert parents.look(4) == {'wand': ('optitrack', 'map')}, 'a fact stays'
    assert parents.look(2 + TF_NS) and not graph.readers
    parents.begin(lambda: own, 1, 3 + TF_NS)
    assert not graph.readers, 'nothing has changed'
    parents.begin(lambda: {**own, 'cart': 'optitrack'}, 2, 4 + TF_NS)
    assert len(graph.readers) == 2
    graph.waiting = [sent('map', 'cart')]
    assert {*parents.look(5 + TF_NS)} == {'wand', 'cart'}, 'until the reading has ended'
    assert {*parents.look(5 + 2 * TF_NS)} == {'cart'}, 'the other publisher of wand has ended'
    graph.publishers = 1
    parents.begin(lambda: own, 1, 6 + 2 * TF_NS)
    assert parents.look(7 + 2 * TF_NS) == {}
    graph.publishers = 2
    parents.begin(lambda: own, 1, 8 + 2 * TF_NS)
    parents.close()
    assert not graph.readers


def test_each_conflicting_publisher_is_found_with_a_topic():
    class Topics:
        looked = []
        others = {'/x': [('b', '/lab')]}

        def count_publishers(self, topic):
            return 1 if topic == '/alone' else 2

        def get_name(self):
            return 'a'

        def get_namespace(self):
            return '/'

        def get_publishers_info_by_topic(self, topic):
            self.looked.append(topic)
            return [SimpleNamespace(node_name=name, node_namespace=namespace)
                    for name, namespace in (
                        ('a', '/'), ('_NODE_NAME_UNKNOWN_', '_NODE_NAMESPACE_UNKNOWN_'),
                        *self.others.get(topic, ()))]
    conflicts = ConflictingPublishers(Topics(), 5)
    turns = [conflicts.turn(5 + 10**9 + k * TURN_NS // 4) for k in range(12)]
    assert turns == [0, None, None, None, 1, None, None, None, 2, None, None, None]
    assert conflicts.look(['/w']) == {}
    assert conflicts.look(['/w', '/x']) == conflicts.look(['/w']) == {'/lab/b': '/x'}
    conflicts.look(['/alone'])
    assert '/alone' not in Topics.looked, 'without another publisher the list is not asked for'
    Topics.others = {'/y': [(f'n{number}', '/') for number in range(20)]}
    conflicts.look(['/w'])
    found = conflicts.look(['/y'])
    assert '/lab/b' not in found, 'it has ended'
    assert len(found) == 8 and conflicts.turn(10**12) == 3, 'a bound, and further turns'
    Topics.others['/y'][0:1] = []
    assert len(conflicts.look(['/w'])) in (7, 8) and '/n0' not in conflicts.look(['/y'])


def test_a_node_that_is_alone_finds_no_others():
    class Alone:
        names = [('a', '/'), ('a', '/lab'), ('b', '/')]

        def get_name(self):
            return 'a'

        def get_namespace(self):
            return '/'

        def get_node_names_and_namespaces(self):
            return self.names
    duplicates = DuplicateNames(Alone(), 5)
    assert [duplicates.look(5 + k * 10**8) for k in range(50)] == [0] * 50
    Alone.names = [*Alone.names, ('a', '/'), ('a', '/')]
    assert duplicates.look(10**10) == duplicates.look(10**11) == 2


@pytest.mark.parametrize('offered, latched, said', [
    ({'qos__reliability': 'best_effort'}, False, [
        'more RELIABILITY', 'qos.reliability: reliable']),
    ({}, True, ['more DURABILITY', 'durability volatile']),
])
def test_an_incompatible_subscriber_is_reported(
        user, motive, console, offered, latched, said):
    with NodeHere(parameters(motive('wand'), autostart=True, **offered), namespace='/lab'):
        wait_until(lambda: '/lab/wand/pose' in user.topics())
        strict = user.listen(PoseStamped, '/lab/wand/pose', QoSProfile(
            depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL if latched
            else DurabilityPolicy.VOLATILE))
        easy = user.poses('/lab/wand/pose', reliable=False)
        log = logged(console, said[-1])
        assert 'a subscriber of /lab/wand/pose ' in log and said[0] in log
        easy.wait(50)
        assert len(strict) == 0


HUMBLE = """
from rclpy.subscription import Subscription
del Subscription.get_publisher_count
import rclpy
from geometry_msgs.msg import PoseStamped, TransformStamped
from optitrack_vrpn.node.graph.reach import pose_reach
from optitrack_vrpn.node.graph.streams_ros import BoundSubscription, pose_of
rclpy.init()
taking, one, two = (rclpy.create_node(name) for name in ('taking', 'one', 'two'))
used = []
subscription = BoundSubscription(
    taking, PoseStamped, '/pose', used.append, 10, identify=pose_of, reach=pose_reach)
taken = [each for each in taking.subscriptions if each.topic_name == '/pose'][0]
taken._callback_type = Subscription.CallbackType.MessageOnly
publishers = [(one.create_publisher(PoseStamped, '/pose', 10), 0.0)]

def send(until):
    for _ in range(400):
        for publisher, x in publishers:
            message = PoseStamped()
            message.pose.position.x = x
            publisher.publish(message)
        for _ in range(4):
            rclpy.spin_once(taking, timeout_sec=0.01)
        subscription.look()
        if until():
            return
    raise SystemExit('not in time')

send(lambda: len(used) > 5)
publishers.append((two.create_publisher(PoseStamped, '/pose', 10), 5.0))
send(lambda: subscription.others)
print(subscription.problem, subscription.others, {message.pose.position.x for message in used})
rclpy.try_shutdown()
"""


def test_one_publisher_is_followed_with_the_rclpy_of_humble():
    """There a subscription counts no publishers, and a callback gets the message alone."""
    run = subprocess.run([sys.executable, '-c', HUMBLE], capture_output=True, text=True,
                         timeout=60)
    assert run.stdout == (' /one and /two publish /pose: only those that continue the first are '
                          'used {0.0}\n'), run.stderr
