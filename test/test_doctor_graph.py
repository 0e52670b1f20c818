# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor beside running nodes: their lifecycle states, their subscribers, their settings."""

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

from conftest import lacking
from doctor_results import result
from geometry_msgs.msg import PoseStamped, TransformStamped
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.node.graph.processes_io import local_nodes
from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.telling.doctor import command as doctor
from optitrack_vrpn.telling.doctor.graph_ros import GraphView
from optitrack_vrpn.telling.doctor.results import Graph, ProbeResults
import pytest
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph import lose_first_requests, NodeHere, Observer, wait_until
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def server():
    with MotiveSimServer(Scenario(bodies=named_bodies(['wand'])), port=0) as running:
        yield running


@pytest.fixture(scope='module')
def view():
    with GraphView() as found:
        yield found


class Foreign(LifecycleNode):
    """A node of another package that has a lifecycle too."""

    def __init__(self, node_name, **kwargs):
        super().__init__(node_name, **kwargs)
        self.declare_parameter('server', 'elsewhere')


def here(server, **parameters):
    """Run the node in this process."""
    return called('optitrack_vrpn', server, **parameters)


def called(name, server, namespace='', **parameters):
    """Run it under its own name."""
    return NodeHere({'server': '127.0.0.1', 'port': server.port, **parameters}, node_name=name,
                    namespace=namespace)


def look(view, server, name='', wait_s=5.0):
    """Look at the graph and judge it as the doctor would."""
    facts = ProbeResults('127.0.0.1', server.port, addresses=('127.0.0.1',))
    facts.graph = view.look(name, wait_s)
    return facts


def wait_for(view, server, so):
    """Look until something is so: what was discovered of an earlier node may linger."""
    def seen(by):
        time.sleep(0.2)    # each look makes clients and takes them back, which others must hear of
        facts = look(by, server)
        return so(facts) and facts
    try:
        return wait_until(lambda: seen(view), 15.0)
    except AssertionError:    # one that has seen many nodes come and go may miss the next
        with GraphView() as fresh:
            return wait_until(lambda: seen(fresh), 45.0)


def test_every_lifecycle_state_is_told_and_what_to_do(view, server):
    with here(server) as node, Observer() as observer:
        for transition, state, level in (
                ('', 'unconfigured', WARN), ('configure', 'inactive', WARN),
                ('activate', 'active', INFO), ('deactivate', 'inactive', WARN),
                ('inactive_shutdown', 'finalized', WARN)):
            if transition:
                assert observer.transition(transition)
            facts = wait_for(view, server, lambda facts, state=state: [
                one.settings and one.state for one in facts.graph.nodes] == [state])
            found = result('lifecycle', facts)
            assert found.severity is level
            assert f'/optitrack_vrpn is {state}' in found.found
            assert result('settings', facts).severity is INFO
        assert node.failure is None


def test_a_subscriber_of_another_quality_of_service_is_named(view, server):
    with here(server, **{'qos.reliability': 'best_effort'}), \
            Observer('picky') as observer:
        assert observer.transition('configure') and observer.transition('activate')
        fitting = observer.poses('/wand/pose', reliable=False)
        fitting.wait(5)
        # A subscription is discovered by each participant in its own time.
        found = result('qos', wait_for(view, server, lambda facts: any(
            one.subscribers == 1 for one in facts.graph.nodes)))
        assert found.severity is INFO
        assert '1 subscription on' in found.found
        observer.listen(PoseStamped, '/wand/pose', QoSProfile(
            depth=1, reliability=ReliabilityPolicy.RELIABLE))
        facts = wait_for(view, server, lambda facts: any(
            bad.node == '/picky' for one in facts.graph.nodes for bad in one.mismatches))
        found = result('qos', facts)
    assert found.severity is ERROR
    assert not lacking(found.found, '/picky', '/wand/pose')
    assert 'eliab' in found.found
    assert found.values['subscriber'] == '/picky'


def test_a_second_parent_of_a_frame_is_seen(view, server):
    with here(server) as node, Observer('other') as observer:
        assert observer.transition('configure') and observer.transition('activate')
        publisher = observer.node.create_publisher(TFMessage, '/tf', 10)
        message = TFMessage(transforms=[TransformStamped(child_frame_id='wand')])
        message.transforms[0].header.frame_id = 'map'
        timer = observer.node.create_timer(0.02, lambda: publisher.publish(message))
        facts = wait_for(view, server, lambda facts: facts.graph.parents)
        assert facts.graph.parents == {'wand': ('map', 'optitrack')}
        assert 'optitrack' in result('frames', facts).found
        observer.node.destroy_timer(timer)
        assert node.failure is None


def test_the_lists_and_the_settings_of_bodies_are_read(view, server):
    given = {'up_axis': 'z', 'bodies.deny': ['wand'], 'bodies.drone 1.name': 'd1',
             'bodies.drone.2.validation.max_speed': 3.0}
    with here(server, **given):
        node = wait_for(view, server, lambda facts: any(
            one.bodies for one in facts.graph.nodes)).graph.nodes[0]
    assert node.settings['bodies.deny'] == ['wand']
    assert node.settings['bodies.allow'] == ['*']
    assert sorted(node.bodies) == ['drone 1', 'drone.2']


def test_a_node_that_does_not_answer_is_a_failure(view, server):
    """Its process lives and is discovered, but nothing in it turns any more."""
    parameters = {'server': '127.0.0.1', 'port': server.port}
    with NodeHere(parameters, spin=False, node_name='optitrack_vrpn_stuck'):
        facts = wait_until(lambda: (
            facts := look(view, server, 'optitrack_vrpn_stuck')) and facts.graph.nodes and facts,
            60.0)
        found = result('lifecycle', facts)
    assert found.severity is ERROR
    assert '/optitrack_vrpn_stuck' in found.found


def test_an_answer_that_gets_lost_is_asked_for_again(view, server, monkeypatch):
    with here(server):
        lost = lose_first_requests(monkeypatch)
        node = wait_for(view, server, lambda facts: any(
            one.state and one.settings for one in facts.graph.nodes)).graph.nodes[0]
    assert node.state == 'unconfigured' and len(lost) >= 2


def test_nodes_are_found_whatever_they_are_called(view, server):
    """And those of others are left alone, even where they are called alike and hang."""
    with called('ot_a', server), called('ot_b', server, '/lab'), \
            NodeHere(cls=Foreign, node_name='camera'), \
            NodeHere(cls=Foreign, node_name='optitrack_vrpn_bridge'), \
            NodeHere(cls=Foreign, node_name='stuck', spin=False), Observer() as other:
        wait_until(lambda: {'camera', 'optitrack_vrpn_bridge', 'stuck'} <= set(
            other.node.get_node_names()))
        facts = wait_for(view, server, lambda facts: len(facts.graph.nodes) == 2)
        began = time.monotonic()
        look(view, server, wait_s=0.0)
        assert time.monotonic() - began < 20.0
    assert sorted(node.name for node in facts.graph.nodes) == ['/lab/ot_b', '/ot_a']
    found = result('lifecycle', facts)
    assert found.severity is WARN
    assert '/ot_a is unconfigured' in found.found and '/lab/ot_b is unconf' in found.found
    assert result('settings', facts).severity is INFO


def test_two_nodes_on_one_topic_are_found_whatever_they_are_called(view, server):
    with called('ot_a', server, autostart=True):
        facts = wait_for(view, server, lambda facts: any(
            one.pose_topics for one in facts.graph.nodes) and len(facts.graph.nodes) == 1)
        assert result('publishers', facts).severity is INFO
        with called('ot_b', server, autostart=True):
            facts = wait_for(view, server, lambda facts: sum(
                len(one.conflicting) for one in facts.graph.nodes) == 4)
    found = result('publishers', facts)
    assert found.severity is WARN
    assert '/ot_a and /ot_b publish on /wand/pose and 1 more' in found.found


def test_two_nodes_of_one_name_are_counted_and_judged_each(view, server, monkeypatch):
    """
    That one publisher suits a subscriber says nothing of the other.

    The second node may be discovered while the first one is asked.
    """
    names = Node.get_node_names_and_namespaces
    early = [True]
    monkeypatch.setattr(Node, 'get_node_names_and_namespaces', lambda node: list(
        dict.fromkeys(names(node))) if early and early.pop() else names(node))

    def both(facts):
        early.append(True)    # for the next look
        return any(bad.node == '/picky' and bad.publishers == 2
                   for one in facts.graph.nodes for bad in one.mismatches)
    with here(server, autostart=True), \
            here(server, autostart=True, **{'qos.reliability': 'best_effort'}), \
            Observer('picky') as observer:
        observer.poses('/wand/pose')
        facts = wait_for(view, server, both)
    found = result('qos', facts)
    assert found.severity is ERROR
    assert not lacking(found.found, '/picky', '1 of 2', '/wand/pose')
    for check in ('lifecycle', 'publishers'):
        assert 'another node is called /optitrack_vrpn too' in result(check, facts).found


def test_another_node_of_this_package_is_named_where_the_requested_one_is_missing(view, server):
    with called('mocap', server, 'lab'):
        wait_for(view, server, lambda facts: '/lab/mocap' in [
            one.name for one in facts.graph.nodes])
        found = result('lifecycle', look(view, server, 'mocap', wait_s=0.1))
    assert found.severity is ERROR
    assert not lacking(found.found, 'no /mocap was discovered', '/lab/mocap')


def test_a_stopped_node_is_named_with_its_process(view, server):
    """A node that is stopped before the doctor starts never appears on the graph."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'optitrack_vrpn_node', '--ros-args', '-p',
         f'port:={server.port}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: Path(f'/proc/{process.pid}/cmdline').read_bytes(), 10.0)
        process.send_signal(signal.SIGSTOP)
        found = wait_until(lambda: next(
            (one for one in local_nodes() if one.pid == process.pid and one.stopped), None), 10.0)
        assert found.variables['ROS_DOMAIN_ID'] == os.environ.get('ROS_DOMAIN_ID', '0')
        judged = result('lifecycle', ProbeResults('127.0.0.1', server.port, graph=Graph(
            processes=(found,), variables=found.variables)))
        assert judged.severity is ERROR and f'kill -CONT {process.pid}' in judged.advice
    finally:
        process.kill()
        process.wait()
    assert all(one.pid != process.pid for one in local_nodes())


def run_doctor(capsys, *arguments):
    """Run the command; return its exit code and its results by check."""
    capsys.readouterr()
    # A simulator that has just been started sends its first frames at once: they are withheld
    # until they arrive at their pace, about 0.4 s.
    code = doctor.main(['--json', '--seconds', '1.0', '--timeout', '1', *arguments,
                        '--ros-args', '--log-level', 'info'])
    return code, {one['check']: one for one in json.loads(capsys.readouterr().out)['checks']}


def test_the_whole_command_beside_an_active_node(server, capsys):
    """No option states server, port or protocol: they are those of the node."""
    with here(server), Observer() as observer:
        assert observer.transition('configure') and observer.transition('activate')
        observer.listen(PoseStamped, '/wand_1/pose', 1)
        code, checks = run_doctor(capsys, '--node', '/optitrack_vrpn')
        assert code < 2, checks
        for name in ('data', 'publishers', 'published', 'lifecycle', 'settings'):
            assert checks[name]['level'] == 'OK', checks[name]
        assert checks['lifecycle']['values'] == {'node': '/optitrack_vrpn', 'state': 'active'}
        assert checks['qos']['level'] == 'WARN'
        assert not lacking(checks['qos']['found'], '/wand_1/pose', '/wand/pose')
        # The node itself goes on as before.
        topic = observer.poses('/wand/pose')
        topic.wait(5)


def test_an_active_node_that_waits_for_another_protocol_is_a_failure(server, capsys):
    with called('mocap', server, protocol='natnet', **{'natnet.port': 9}), \
            Observer() as observer:
        assert all(observer.transition(word, '/mocap') for word in ('configure', 'activate'))
        code, checks = run_doctor(capsys, '--node', '/mocap')
        assert code == 2 and checks['data']['level'] == 'OK', checks
        assert checks['natnet']['level'] == 'FAIL', checks
        assert 'set protocol: vrpn or auto' in checks['natnet']['advice']
        assert checks['published']['level'] == 'FAIL', checks
        # Also where the user asks for the protocol that works.
        code, checks = run_doctor(capsys, '--node', '/mocap', '--protocol', 'vrpn')
        assert code == 2 and checks['published']['level'] == 'FAIL'
        assert 'NatNet' in checks['published']['found']
