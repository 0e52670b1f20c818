# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor on a hand-made ROS graph."""

from dataclasses import replace

from conftest import lacking
from doctor_results import body, heard
from optitrack_vrpn.doctor import graph
from optitrack_vrpn.doctor.probe_results import (
    DISCOVERY_VARIABLES, Graph, Lift, LocalProcess, Mismatch, RunningNode)
from optitrack_vrpn.doctor.result import Level
import pytest


def running(state='active', **changes):
    facts = heard()
    stated = {'server': 'motive', 'port': 3883, 'up_axis': 'y'}
    node = RunningNode('/mocap', 1, state, stated, 8, 2)
    facts.graph = Graph(nodes=(replace(node, **changes),))
    return facts


@pytest.mark.parametrize(('state', 'level', 'said'), [
    ('active', Level.OK, ''), ('inactive', Level.WARN, 'ros2 lifecycle set /mocap activate'),
    ('unconfigured', Level.WARN, 'ros2 lifecycle set /mocap configure'),
    ('finalized', Level.WARN, 'start the node again'), ('', Level.FAIL, 'hangs')])
def test_each_lifecycle_state_says_what_to_do(state, level, said):
    found = graph.check_lifecycle(running(state))
    assert found.level is level
    assert said in found.advice


def test_two_nodes_of_one_name_are_a_warning():
    found = graph.check_lifecycle(running(count=2))
    assert found.level is Level.WARN
    assert '2 nodes are called /mocap' in found.found
    # Topics depend on the namespace: a name alone would leave them published twice.
    assert '__ns:=/NAME' in found.advice and '__node' not in found.advice


def test_nodes_that_publish_on_one_topic_are_a_warning():
    assert graph.check_publishers(running()).level is Level.SKIP
    found = graph.check_publishers(running(pose_topics=2))
    assert (found.level, found.values['shared']) == (Level.OK, 0)
    facts = running(pose_topics=2, conflicting={'/wand/pose': ('/b',), '/drone/pose': ('/b',)})
    mine = facts.graph.nodes[0]
    theirs = replace(mine, name='/b', conflicting={
        '/wand/pose': (mine.name,), '/drone/pose': (mine.name,)})
    facts.graph = replace(facts.graph, nodes=(mine, theirs))
    found = graph.check_publishers(facts)
    assert found.level is Level.WARN
    assert not lacking(found.found, '/b and /mocap', '/wand/pose', '1 more')
    assert 'bodies.allow' in found.advice and '__ns:=/NAME' in found.advice
    assert found.values['shared'] == 2


def test_a_subscriber_that_gets_nothing_is_a_failure():
    found = graph.check_qos(running(mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE'),)))
    assert found.level is Level.FAIL
    assert not lacking(found.found, '/mavros', '/wand/pose (RELIABLE)')
    assert graph.check_qos(running()).level is Level.OK
    twins = running(count=2, mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE', 1, 2),))
    assert not lacking(
        graph.check_qos(twins).found, '/mavros', '1 of 2', '/wand/pose (RELIABLE)')
    twins.graph = replace(twins.graph, nodes=(*twins.graph.nodes, RunningNode('/b')))
    assert 'of /wand/pose of /mocap (RELIABLE)' in graph.check_qos(twins).found
    assert graph.check_qos(running(topics=0)).level is Level.SKIP


def test_a_node_that_follows_another_server_or_axis_is_a_warning():
    assert graph.check_settings(running()).level is Level.OK
    by_address = {'server': '192.168.1.20', 'port': 3883, 'up_axis': 'y'}
    assert graph.check_settings(running(settings=by_address)).level is Level.OK
    other = graph.check_settings(running(settings={**by_address, 'server': '10.0.0.9'}))
    assert other.level is Level.WARN
    assert 'uses 10.0.0.9 port 3883, not motive' in other.found
    facts = running()
    facts.stream = replace(facts.stream, lifts=(Lift('wand', (0.0, 0.0, 0.5)),))
    found = graph.check_settings(facts)
    assert found.level is Level.WARN
    assert 'up_axis: y' in found.found


def test_up_axis_is_only_said_to_fit_where_somebody_has_seen_which_axis_is_up():
    facts = running()
    assert 'up_axis' not in graph.check_settings(facts).found
    facts.stream = replace(facts.stream, lifts=(Lift('wand', (0.0, 0.5, 0.0)),))
    found = graph.check_settings(facts)
    assert found.level is Level.OK
    assert 'server, port and up_axis' in found.found


@pytest.mark.parametrize(('lists', 'said'), [
    ({'bodies.deny': ['wand']}, "'wand' is excluded by bodies.deny"),
    ({'bodies.deny': ['*'], 'bodies.allow': ['none']},
     "'wand', 'drone' are excluded by bodies.deny of /mocap"),
    ({'bodies.allow': ['wand', '']}, "'drone' is excluded by bodies.allow"),
    ({'bodies.deny': ['Wnad*', 'wand']},
     "'Wnad*' in bodies.deny matches no body seen so far; did you mean 'wand'?"),
    ({'bodies.deny': [''], 'bodies.allow': ['*']}, ''),
    ({'bodies.deny': [3], 'bodies.allow': 'text'}, '')])
def test_bodies_that_the_nodes_lists_hide_are_a_warning(lists, said):
    facts = running(settings={'server': 'motive', 'port': 3883, **lists})
    facts.stream = replace(facts.stream, bodies=(body('wand'), body('drone')))
    found = graph.check_settings(facts)
    assert found.level is (Level.WARN if said else Level.OK)
    assert said in found.found
    elsewhere = replace(facts.graph.nodes[0], settings={'server': 'b', 'port': 1, **lists})
    facts.graph = Graph(nodes=(elsewhere,))
    assert 'bodies.' not in graph.check_settings(facts).found


@pytest.mark.parametrize(('settings', 'level'), [
    ({'server': 'auto', 'port': 3883, 'protocol': 'natnet'}, Level.OK),
    ({'server': 'motive', 'port': 1, 'protocol': 'natnet'}, Level.OK),
    ({'server': 'motive', 'port': 1, 'protocol': 'vrpn'}, Level.WARN),
    ({'server': 'other', 'port': 3883, 'protocol': 'natnet'}, Level.WARN)])
def test_a_node_that_searches_for_its_server_or_uses_natnet_is_no_mismatch(settings, level):
    assert graph.check_settings(running(settings=settings)).level is level


def test_settings_of_bodies_that_were_not_heard_are_a_warning():
    facts = running(bodies=('Wand',))
    facts.stream = replace(facts.stream, bodies=(body('wand'),))
    found = graph.check_settings(facts)
    assert found.level is Level.WARN
    assert not lacking(found.found, "'Wand'", "mean 'wand'?")


def test_a_node_that_was_asked_for_must_be_there():
    facts = heard()
    facts.graph = Graph(waited_s=3.0)
    for judged in (graph.check_qos, graph.check_publishers, graph.check_settings):
        assert judged(facts).level is Level.SKIP
    facts.graph = Graph(wanted='/mocap', waited_s=3.0)
    assert graph.check_lifecycle(facts).level is Level.FAIL
    facts.graph = Graph(wanted='/mocap', absent='ROS 2 is not available')
    assert graph.check_lifecycle(facts).level is Level.SKIP


def variables(domain, **others):
    return {**DISCOVERY_VARIABLES, 'ROS_DOMAIN_ID': domain, **others}


def test_a_ros_that_does_not_start_is_a_failure_and_an_absent_one_is_not():
    facts = heard()
    facts.graph = Graph(absent='ROS 2 is not available: source its setup.bash')
    assert graph.check_lifecycle(facts).level is Level.SKIP
    facts.graph = Graph(
        absent='ROS 2 does not start here (ROS_DOMAIN_ID is not a number)', broken=True)
    found = graph.check_lifecycle(facts)
    assert found.level is Level.FAIL and 'unset the variable' in found.advice


def test_without_any_node_nothing_reaches_ros_which_is_a_warning():
    facts = heard()
    facts.graph = Graph(waited_s=3.0, variables=variables('7'))
    found = graph.check_lifecycle(facts)
    assert found.level is Level.WARN
    assert 'ROS_DOMAIN_ID=7' in found.found
    for remedy in ('ros2 launch optitrack_vrpn', 'ROS_DOMAIN_ID', '--node /NAME'):
        assert remedy in found.advice


@pytest.mark.parametrize(('process', 'said', 'remedy'), [
    (LocalProcess(41, True, variables('7')), 'process 41 runs the node and is stopped',
     'kill -CONT 41'),
    (LocalProcess(42, False, variables('9')), 'process 42 runs the node with ROS_DOMAIN_ID=9',
     'export ROS_DOMAIN_ID=9'),
    (LocalProcess(45, False, variables('7', ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')),
     'process 45 runs the node with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST',
     'export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST'),
    (LocalProcess(43, False, variables('7')), 'process 43 runs the node but does not answer',
     'its log'),
    (LocalProcess(44, False, None), 'process 44 runs the node but does not answer', 'its log')])
def test_a_node_process_that_is_not_on_the_graph_is_a_failure(process, said, remedy):
    facts = heard()
    facts.graph = Graph(waited_s=3.0, variables=variables('7'), processes=(process,))
    found = graph.check_lifecycle(facts)
    assert found.level is Level.FAIL
    assert said in found.found and remedy in found.advice


def test_nodes_of_several_users_are_all_named():
    facts = heard()
    facts.graph = Graph(waited_s=3.0, variables=variables('7'), processes=(
        LocalProcess(42, False, variables('9')), LocalProcess(46, False, variables('8'))))
    found = graph.check_lifecycle(facts)
    assert not lacking(found.found, 'process 42', 'process 46')
    assert not lacking(found.advice, 'ROS_DOMAIN_ID=9', 'ROS_DOMAIN_ID=8')


@pytest.mark.parametrize(('reason', 'remedies'), [
    ('ERROR: Best effort publisher and reliable subscription', ['qos.reliability: reliable']),
    ('ERROR: Volatile publisher and transient local subscription', ['durability volatile']),
    ('ERROR: Best effort publisher and reliable subscription;ERROR: Volatile publisher and '
     'transient local subscription', ['qos.reliability: reliable', 'durability volatile']),
    ('ERROR: Subscription has a deadline, but publisher does not', ['no deadline']),
    ('ERROR: Subscription has a liveliness lease duration, but publisher does not', ['lease']),
    ('something new', ['default quality of service'])])
def test_each_policy_that_does_not_match_has_its_own_remedy(reason, remedies):
    found = graph.check_qos(running(mismatches=(Mismatch('/wand/pose', '/mavros', reason),)))
    assert all(remedy in found.advice for remedy in remedies)
    assert ('qos.reliability' in found.advice) == ('reliable sub' in reason)
