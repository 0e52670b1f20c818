# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node in this process: its resources, failures around it, and other nodes beside it."""

import gc
import itertools
import os
import random
import threading
import time
from types import SimpleNamespace

from conftest import BOTH_PROTOCOLS
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState
from optitrack_vrpn.client.link import link_event, LinkState
from optitrack_vrpn.errors import OptitrackVrpnError
from optitrack_vrpn.graph import conflicts_ros
from optitrack_vrpn.graph.conflicts_ros import ConflictingPublishers, DuplicateNames, TURN_NS
from optitrack_vrpn.node import node as node_module
from optitrack_vrpn.node.publishers import Publishers
from optitrack_vrpn.ros.qos_advice import what_helps
from optitrack_vrpn.sim.scenario_io import named_bodies, NatNet, Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest
from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile
from rosgraph import (
    NodeHere, Observer, port_parameters, silence, stamp_ns, wait_until)

pytestmark = [pytest.mark.ros, pytest.mark.network]


@pytest.fixture(scope='module')
def observer():
    with Observer('onlooker') as observer:
        yield observer


@pytest.fixture
def motive():
    """Make simulated Motives with bodies of given names; gives their ports."""
    servers = []

    def start(*names, rate=100.0, protocol='vrpn'):
        server = MotiveSimServer(Scenario(
            bodies=named_bodies(names), rate=rate, protocol=protocol, natnet=NatNet(port=0)),
            port=0)
        servers.append(server.start())
        return server.port if protocol == 'vrpn' else server.natnet_port
    yield start
    for server in servers:
        server.stop()


def parameters(port, protocol='vrpn', **more):
    return {'server': '127.0.0.1', **port_parameters(protocol, port), 'connect.retry_max_s': 0.1,
            **{name.replace('__', '.'): value for name, value in more.items()}}


def logged(console, text):
    """Wait until something was logged in this process; gives the log since the last call."""
    parts = []

    def found():
        parts.append(console.news())
        return text in ''.join(parts)
    wait_until(found, 20.0, f'{text!r} in the log')
    return ''.join(parts)


def bug(*_):
    raise ArithmeticError('made up')


# -- nothing leaks --------------------------------------------------------------------------------

def held(node):
    """Count what a node and this process hold."""
    gc.collect()
    return {
        'threads': sorted(t.name for t in threading.enumerate()),
        'files': len(os.listdir('/proc/self/fd')),
        'publishers': sorted(p.topic_name for p in node.publishers),
        'subscriptions': len(list(node.subscriptions)), 'timers': len(list(node.timers)),
        'clients': len(list(node.clients)), 'services': len(list(node.services)),
        'waitables': len(list(node.waitables)), 'guards': len(list(node.guards)),
        'parameters': len(node._parameters),
    }


def released(node, before):
    """
    Tell whether no more is held than before.

    The simulated Motive is in this process too, and closes its ends a moment later: it may have
    been about to when that was counted.
    """
    after = held(node)
    return after['files'] <= before['files'] and {**after, 'files': 0} == {**before, 'files': 0}


MOVES = {
    'configure': {'unconfigured': 'inactive'}, 'activate': {'inactive': 'active'},
    'deactivate': {'active': 'inactive'}, 'cleanup': {'inactive': 'unconfigured'},
}


@BOTH_PROTOCOLS
def test_a_hundred_transitions_in_any_order_leak_nothing(motive, protocol):
    """Possible and impossible ones; bodies stream all the while, and come and go with them."""
    chance = random.Random(5)
    port = motive('Rigid Body 1', 'wand', protocol=protocol)
    with NodeHere(parameters(port, protocol)) as here:
        node = here.node

        def trigger(move):
            result = here.run(getattr(node, f'trigger_{move}'))
            # rclpy raises where there is no such transition; from Kilted on it gives ERROR.
            if isinstance(result, Exception) or result.name == 'ERROR':
                return 'impossible'
            return result.name
        for move in MOVES:
            assert trigger(move) == 'SUCCESS'
        before = held(node)
        assert not any('pose' in topic for topic in before['publishers'])
        state, tried, bodies_seen = 'unconfigured', set(), False
        for _ in range(100):
            possible = [move for move in MOVES if state in MOVES[move]]
            move = chance.choice(possible if chance.random() < 0.7 else list(MOVES))
            expected = MOVES[move].get(state)
            assert trigger(move) == ('SUCCESS' if expected else 'impossible'), (state, move)
            tried.add((state, move))
            state = expected or state
            if chance.random() < 0.4:
                time.sleep(chance.random() * 0.1)    # somewhere between request and first pose
            if not bodies_seen and state == 'active':
                # Here once for sure: elsewhere the next move may come before the first pose.
                wait_until(lambda: len(list(node.publishers)) > len(before['publishers']) + 4)
                bodies_seen = True
        assert len(tried) == 12 and bodies_seen
        if state == 'active':
            trigger('deactivate')
        if state != 'unconfigured':
            trigger('cleanup')
        wait_until(lambda: here.run(lambda: released(node, before)), what=f'release of {before}')
    assert not [thread for thread in threading.enumerate() if thread.name.endswith(' client')]


# -- several nodes --------------------------------------------------------------------------------

@BOTH_PROTOCOLS
def test_two_nodes_in_one_process_each_follow_their_own_server(observer, motive, protocol):
    left, right = (parameters(motive(name, protocol=protocol), protocol, autostart=True)
                   for name in ('left', 'right'))
    with NodeHere(left, namespace='/lab_a') as a, NodeHere(right, node_name='second') as b:
        expected = {'/lab_a/left/pose', '/lab_a/left/pose_ned', '/right/pose', '/right/pose_ned'}
        wait_until(lambda: set(observer.topics()) == expected)
        topics = [observer.poses(name) for name in ('/lab_a/left/pose', '/right/pose')]
        tf = observer.transforms()
        for topic in (*topics, tf):
            topic.wait(50)
        assert observer.state('/lab_a/optitrack_vrpn') == observer.state('/second') == 'active'
        # Transforms share one tree whatever the namespace, as everywhere in ROS.
        wait_until(lambda: {t.child_frame_id for m in tf.messages() for t in m.transforms} == {
            'left', 'left_ned', 'right', 'right_ned'})
        assert observer.transition('deactivate', '/second')
        count = len(topics[0])
        topics[0].wait(count + 50)
        assert a.failure is None and b.failure is None
        assert observer.transition('active_shutdown', '/lab_a/optitrack_vrpn')
        wait_until(lambda: all('/right' in topic for topic in observer.topics()))


@pytest.fixture
def looks(monkeypatch):
    """Look for other nodes ten times as often; gives the topics of each look."""
    monkeypatch.setattr(conflicts_ros, 'TURN_NS', TURN_NS // 10)
    monkeypatch.setattr(conflicts_ros, '_CHECKS_NS', tuple(
        after_ns // 10 for after_ns in conflicts_ros._CHECKS_NS))
    done, look = [], ConflictingPublishers.look

    def counted(self, topics):
        done.extend([topics] if topics else [])
        return look(self, topics)
    monkeypatch.setattr(ConflictingPublishers, 'look', counted)
    return done


# -- what goes wrong ------------------------------------------------------------------------------

def test_a_bug_in_configure_is_an_error_with_its_reason_and_the_node_lives_on(
        observer, motive, monkeypatch, console):
    port = motive('wand')
    with NodeHere(parameters(port)) as here:
        with monkeypatch.context() as patch:
            patch.setattr(node_module, 'make_backend', bug)
            assert not observer.transition('configure')
        log = logged(console, 'ArithmeticError: made up')
        assert 'Traceback' in log
        assert observer.state() == 'unconfigured'
        assert not [p for p in here.node.publishers if 'tf' in p.topic_name]
        assert observer.transition('configure') and observer.transition('activate')
        observer.poses('/wand/pose').wait(10)


def test_a_bug_in_activate_releases_everything(observer, motive, monkeypatch, console):
    with NodeHere(parameters(motive('wand'))) as here:
        # diagnostic_updater, where it is installed, stays from the first time on
        assert observer.transition('configure') and observer.transition('cleanup')
        before = held(here.node)
        assert observer.transition('configure')
        wait_until(lambda: '/wand/pose' in observer.topics())
        with monkeypatch.context() as patch:
            patch.setattr(Publishers, 'send_static', bug)
            assert not observer.transition('activate')
        logged(console, 'ArithmeticError: made up')
        assert observer.state() == 'unconfigured'
        wait_until(lambda: released(here.node, before), what='release')


@pytest.mark.parametrize('error, after', [
    (ArithmeticError, 'unconfigured'), (OptitrackVrpnError, 'inactive')])
def test_autostart_tells_of_an_activation_that_fails(observer, monkeypatch, console, error, after):
    def failing(*_):
        raise error('made up')
    monkeypatch.setattr(Publishers, 'send_static', failing)
    with NodeHere(parameters(3883, autostart=True)):
        logged(console, f'autostart stops: activate failed; the node is {after}')
        assert observer.state() == after


def test_the_way_up_is_told_with_the_full_name_of_the_node(console):
    with NodeHere(parameters(3883), namespace='/lab'):
        logged(console, 'ros2 lifecycle set /lab/optitrack_vrpn configure, then activate')
    with NodeHere(parameters(3883, server='motive pc', autostart=True), namespace='/lab'):
        logged(console, 'configure with ros2 lifecycle set /lab/optitrack_vrpn configure')


def test_a_transition_out_of_turn_is_refused_in_plain_words(observer, console):
    with NodeHere(parameters(3883)):
        assert not observer.transition('activate')
        logged(console, 'activate refused: the node is unconfigured; configure it first')
        by_label = ChangeState.Request()
        by_label.transition.label = 'deactivate'
        assert not observer.call(
            ChangeState, '/optitrack_vrpn/change_state', by_label).success
        assert observer.transition('configure')


def test_an_end_of_the_connection_that_was_asked_for_is_said_in_one_word(observer, console):
    with NodeHere(parameters(3883)) as here:
        assert observer.transition('configure')
        assert observer.transition('cleanup')
        here.node.link_changed(link_event(LinkState.STOPPED, 'stopped', 'info'))
        assert 'stopped: stopped' not in logged(console, 'stopped')


def test_a_second_node_of_the_same_name_is_told_of(motive, console):
    port = motive('wand')
    with NodeHere(parameters(port)), Observer('counter') as onlooker:
        twins = ('optitrack_vrpn', '/')
        wait_until(lambda: twins in onlooker.node.get_node_names_and_namespaces())
        with NodeHere(parameters(port, autostart=True)):
            said = logged(console, 'called /optitrack_vrpn too')
            assert 'another node is called' in said
            # A name alone would leave the topics where they are.
            assert '__ns:=/NAME' in said and '__node' not in said


def test_another_node_on_a_pose_topic_is_told_of_once(motive, console, looks):
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
        assert 'publishes on' not in console.news()


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
        said = console.news()
        assert 'publishes on' not in said and 'called' not in said


def test_topics_are_looked_at_now_and_then_and_each_rival_is_told_of_once():
    class Topics:
        looked = []

        def get_name(self):
            return 'a'

        def get_namespace(self):
            return '/'

        def get_publishers_info_by_topic(self, topic):
            self.looked.append(topic)
            return [SimpleNamespace(node_name=name, node_namespace=namespace)
                    for name, namespace in (
                        ('a', '/'), ('_NODE_NAME_UNKNOWN_', '_NODE_NAMESPACE_UNKNOWN_'),
                        *([('b', '/lab')] if topic == '/x' else []))]
    rivals = ConflictingPublishers(Topics(), 5)
    turns = [rivals.turn(5 + 10**9 + k * TURN_NS // 4) for k in range(12)]
    assert turns == [0, None, None, None, 1, None, None, None, 2, None, None, None]
    assert rivals.look(['/w']) == []
    line, = rivals.look(['/w', '/x'])
    assert '/lab/b publishes on /x too' in line
    assert rivals.look(['/x']) == []


def test_a_node_that_is_alone_says_nothing_of_others():
    class Alone:
        names = [('a', '/'), ('a', '/lab'), ('b', '/')]

        def get_name(self):
            return 'a'

        def get_namespace(self):
            return '/'

        def get_fully_qualified_name(self):
            return '/a'

        def get_node_names_and_namespaces(self):
            return self.names
    duplicates = DuplicateNames(Alone(), 5)
    assert [duplicates.look(5 + k * 10**8) for k in range(50)] == [''] * 50
    Alone.names = [*Alone.names, ('a', '/'), ('a', '/')]
    assert '2 other nodes are called /a too' in duplicates.look(10**10)
    assert duplicates.look(10**11) == ''


def test_settings_that_match_no_body_are_named(motive, console):
    given = {'bodies.rigid body 1.name': 'cf1', 'bodies.deny': ['Wnad*', 'wand']}
    with NodeHere({**parameters(motive('Rigid Body 1', 'wand'), autostart=True), **given}):
        said = logged(console, "'Wnad*' in bodies.deny matches no body seen so far; did you mean")
        assert ("settings for 'rigid body 1' match no body seen so far; "
                "did you mean 'Rigid Body 1'?") in said


def test_a_server_name_that_cannot_be_is_a_failure_without_a_trace(observer, console):
    with NodeHere(parameters(3883, server='motive pc')) as here:
        before = held(here.node)
        assert not observer.transition('configure')
        logged(console, "cannot configure: server is 'motive pc'")
        assert observer.state() == 'unconfigured'
        wait_until(lambda: released(here.node, before), what='release')
        assert observer.set(server='127.0.0.1') == ''
        assert observer.transition('configure')


def test_simulated_time_is_refused(observer, console):
    with NodeHere(parameters(3883, use_sim_time=True)):
        assert not observer.transition('configure')
        logged(console, 'cannot configure: use_sim_time is true, but a motion capture system')
        assert observer.set(use_sim_time=False) == ''
        assert observer.transition('configure')
        assert 'real time' in observer.set(use_sim_time=True)


def test_a_frame_lost_to_a_bug_costs_no_other(observer, motive, monkeypatch, console):
    publish, calls = Publishers.publish, itertools.count(1)

    def failing(self, *arguments):
        if next(calls) == 20:
            bug()
        return publish(self, *arguments)
    monkeypatch.setattr(Publishers, 'publish', failing)
    with NodeHere(parameters(motive('wand'), autostart=True)):
        topic = observer.poses('/wand/pose')
        topic.wait(100)
        logged(console, 'ArithmeticError: made up')
        stamps = [stamp_ns(message) for message in topic.messages()]
        assert stamps == sorted(set(stamps))


def test_a_bug_in_the_watchdog_ends_neither_it_nor_the_node(
        observer, motive, monkeypatch, console):
    with NodeHere(parameters(motive('wand'), autostart=True)) as here:
        wait_until(lambda: '/wand/pose' in observer.topics())
        with monkeypatch.context() as patch:
            patch.setattr(type(here.node._pipeline), 'tick', bug)
            logged(console, 'bug in tick')
        assert observer.state() == 'active'
        here.node._pipeline._report('info', 'test', 'made up')
        logged(console, 'made up')


@pytest.mark.parametrize('names', [('tf', 'wand'), ('wand', 'tf')])
def test_a_body_whose_topic_is_refused_costs_the_others_nothing(
        observer, motive, monkeypatch, console, names):
    """Its plain topic would be that of the transforms, which has another type."""
    create = Publishers._create

    def refusing(self, message_type, topic, kind):
        if topic == 'tf':
            raise RuntimeError('another type')
        return create(self, message_type, topic, kind)
    monkeypatch.setattr(Publishers, '_create', refusing)
    with NodeHere(parameters(
            motive(*names), autostart=True, topics__pose='{body}')) as here:
        topic = observer.poses('/wand')
        topic.wait(100)
        # They are told after the first poses.
        wait_until(lambda: '/wand' in (here.node._info_topics or ()), what='word to controllers')
        log = logged(console, "body 'tf' cannot be published: another type")
        assert log.count('cannot be published') == 1


def test_a_new_body_whose_topics_take_long_holds_nobody_up(observer, motive, monkeypatch):
    prepare, released = Publishers.prepare, threading.Event()

    def slow(self, channel):
        assert channel.names.motive != 'slow' or released.wait(30.0)
        return prepare(self, channel)
    monkeypatch.setattr(Publishers, 'prepare', slow)
    with NodeHere(parameters(motive('wand', 'slow'), autostart=True)):
        try:
            observer.poses('/wand/pose').wait(100)
            assert '/slow/pose' not in observer.topics()
        finally:
            released.set()
        observer.poses('/slow/pose').wait(10)


def test_publishers_are_destroyed_by_the_executor_whoever_is_done_with_them(
        observer, motive, monkeypatch, console):
    """It may be looking at their events, and another thread would pull them out from under it."""
    prepare, create = Publishers.prepare, Publishers._create
    denied, switched = threading.Event(), threading.Event()
    switching = threading.Event()

    def slow(self, channel):
        output = prepare(self, channel)
        if channel.names.motive == 'denied':
            assert denied.wait(30.0)
        elif channel.names.motive == 'switched':
            switching.set()
            assert switched.wait(30.0)
        return output

    def refusing(self, message_type, topic, kind):
        if topic == 'half/pose_ned':
            raise RuntimeError('another type')
        return create(self, message_type, topic, kind)
    monkeypatch.setattr(Publishers, 'prepare', slow)
    monkeypatch.setattr(Publishers, '_create', refusing)
    with NodeHere(parameters(motive('wand', 'half', 'denied', 'switched'))) as here:
        destroy, found = here.node.destroy_publisher, []

        def noting(publisher):
            found.append((publisher.topic_name, threading.get_ident()))
            return destroy(publisher)
        here.node.destroy_publisher = noting
        executor = here.run(threading.get_ident)
        assert observer.transition('configure') and observer.transition('activate')
        # Two that go before anybody has heard of them, then one that has lost a topic meanwhile.
        wait_until(lambda: len(here.node._pipeline.bodies) == 4)
        assert observer.set(bodies__deny=['denied']) == ''
        denied.set()
        assert switching.wait(30.0)
        assert observer.set(outputs=['pose', 'tf', 'status']) == ''
        switched.set()
        expected = {'/half/pose', '/denied/pose', '/denied/pose_ned', '/wand/pose_ned',
                    '/switched/pose_ned'}
        wait_until(lambda: expected <= {topic for topic, _ in found})
        assert {thread for _, thread in found} == {executor}
        wait_until(lambda: observer.topics() == ['/switched/pose', '/wand/pose'])
        assert observer.transition('deactivate') and observer.transition('cleanup')
        wait_until(lambda: observer.topics() == [])
        assert {thread for _, thread in found} == {executor}


@pytest.mark.parametrize('offered, latched, said', [
    ({'qos__reliability': 'best_effort'}, False, [
        'more RELIABILITY', 'qos.reliability: reliable']),
    ({}, True, ['more DURABILITY', 'request volatile']),
])
def test_a_subscriber_that_asks_for_more_than_is_offered_is_told_of(
        observer, motive, console, offered, latched, said):
    with NodeHere(parameters(motive('wand'), autostart=True, **offered), namespace='/lab'):
        wait_until(lambda: '/lab/wand/pose' in observer.topics())
        strict = observer.listen(PoseStamped, '/lab/wand/pose', QoSProfile(
            depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL if latched
            else DurabilityPolicy.VOLATILE))
        easy = observer.poses('/lab/wand/pose', reliable=False)
        log = logged(console, said[-1])
        assert 'a subscriber of /lab/wand/pose ' in log and said[0] in log
        easy.wait(50)
        assert len(strict) == 0


def test_a_policy_that_is_not_known_ends_nothing():
    assert 'of policy 0 than' in what_helps('/wand/pose', 0)
    assert 'more DEADLINE than' in what_helps('/wand/pose', QoSPolicyKind.DEADLINE)


def test_settings_of_publishing_take_effect_at_once(observer, motive):
    with NodeHere(parameters(motive('wand', 'ghost'), autostart=True)):
        tf = observer.transforms()
        wait_until(lambda: len(observer.topics()) == 4)
        assert observer.set(outputs=['pose', 'tf', 'status']) == ''
        wait_until(lambda: observer.topics() == ['/ghost/pose', '/wand/pose'])
        assert observer.set(bodies__deny=['ghost']) == ''
        wait_until(lambda: observer.topics() == ['/wand/pose'])
        # Not the very next: this process may have fallen behind.
        wait_until(lambda: {
            t.child_frame_id for m in tf.messages(-1) for t in m.transforms} == {'wand'})
        assert observer.set(
            bodies__deny=[''], outputs=['pose', 'pose_ned', 'tf', 'tf_ned', 'status']) == ''
        wait_until(lambda: len(observer.topics()) == 4)
        assert observer.set(outputs=['pose', 'pose_ned', 'status']) == ''
        silence([tf], 0.2)


def test_what_is_latched_ends_with_what_it_tells_of(observer, motive, monkeypatch):
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publish, sent = Publishers.publish_status, []

    def noting(self, channel, status):
        sent.append((channel.names.motive, status))
        publish(self, channel, status)
    monkeypatch.setattr(Publishers, 'publish_status', noting)
    with NodeHere(parameters(motive('wand', 'ghost'), autostart=True)):
        states = observer.listen(DiagnosticStatus, '/ghost/status', latched)
        states.wait(1)
        assert observer.set(bodies__deny=['ghost']) == ''
        # Its last word; its topic goes right after, and may overtake that on a busy machine.
        last = [status for name, status in sent if name == 'ghost'][-1]
        assert (last.level, last.message) == (DiagnosticStatus.STALE, 'no longer selected')
        wait_until(lambda: not observer.node.count_publishers('/ghost/status'))
        late = observer.listen(DiagnosticStatus, '/ghost/status', latched)
        silence([late])
        assert len(late) == 0

        def worlds():
            static = observer.transforms(static=True)
            static.wait(1)
            return [t.child_frame_id for t in static.messages()[-1].transforms]
        assert worlds() == ['optitrack_ned']
        assert observer.set(outputs=['pose', 'tf', 'status']) == ''
        assert worlds() == []
        assert observer.set(outputs=['pose', 'pose_ned', 'tf', 'tf_ned', 'status']) == ''
        assert worlds() == ['optitrack_ned']
