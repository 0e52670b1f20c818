# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor on a hand-made ROS graph."""

from dataclasses import replace

from doctor_results import body, heard, judged, result
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.node.graph.processes import DISCOVERY_VARIABLES, LocalProcess
from optitrack_vrpn.telling.doctor.results import (
    Graph, Lift, Mismatch, Orphan, RunningNode)
import pytest

SETTINGS = {'server': 'motive', 'port': 3883, 'up_axis': 'y'}


def looked(*nodes, **changes):
    """Make facts with a graph of these nodes."""
    facts = heard()
    facts.graph = Graph(nodes=nodes, **changes)
    return facts


def running(state='active', **changes):
    """Make facts with a graph of one node."""
    return looked(replace(RunningNode('/mocap', 1, state, SETTINGS, 8, 2), **changes))


def streamed(facts, **changes):
    """Change what was heard of the stream."""
    facts.stream = replace(facts.stream, **changes)
    return facts


@pytest.mark.parametrize(('state', 'level', 'said'), [
    ('active', INFO, ''), ('inactive', WARN, 'ros2 lifecycle set /mocap activate'),
    ('unconfigured', WARN, 'ros2 lifecycle set /mocap configure'),
    ('finalized', WARN, 'start the node again'), ('', ERROR, 'hangs')])
def test_each_lifecycle_state_says_what_to_do(state, level, said):
    judged(result('lifecycle', running(state)), level, advice=[said])


def test_two_nodes_of_one_name_are_a_warning():
    # Topics depend on the namespace: a name alone would leave them published twice.
    judged(result('lifecycle', running(count=2)), WARN, 'another node is called /mocap too',
           advice=['__ns:=/NAME'], without=['__node'])


def test_two_nodes_of_one_name_publish_on_the_same_topics():
    """Each topic has then two publishers of one name, which is no other name."""
    found = judged(result('publishers', running(count=3, pose_topics=2)), WARN,
                   '2 other nodes are called /mocap', 'published twice', advice=['__ns:=/NAME'])
    assert 'no other' not in found.found


def test_nodes_that_publish_on_one_topic_are_a_warning():
    judged(result('publishers', running()), None)
    judged(result('publishers', running(pose_topics=2)), INFO)
    mine, theirs = (
        RunningNode(name, 1, 'active', SETTINGS, 8, 2, pose_topics=2,
                    conflicting=dict.fromkeys(('/wand/pose', '/drone/pose'), (peer,)))
        for name, peer in (('/mocap', '/b'), ('/b', '/mocap')))
    judged(result('publishers', looked(mine, theirs)), WARN, '/b and /mocap',
           '/wand/pose', '1 more', advice=['bodies.allow', '__ns:=/NAME'])


def test_a_subscriber_that_gets_nothing_is_a_failure():
    judged(result('qos', running()), INFO)
    judged(result('qos', running(topics=0)), None)
    judged(result('qos', running(mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE'),))),
           ERROR, '/mavros', '/wand/pose (RELIABLE)')
    twins = running(count=2, mismatches=(Mismatch('/wand/pose', '/mavros', 'RELIABLE', 1, 2),))
    judged(result('qos', twins), ERROR, '/mavros', '1 of 2', '/wand/pose (RELIABLE)')
    both = looked(*twins.graph.nodes, RunningNode('/b'))
    judged(result('qos', both), ERROR, 'of /wand/pose of /mocap (RELIABLE)')


def test_a_subscriber_of_a_renamed_body_is_named():
    facts = looked(RunningNode('/mocap', 1, 'active', SETTINGS, 8, 2), orphans=(
        Orphan('/wand_1/pose', ('/rviz', '/mavros'), '/wand_2/pose'),))
    judged(result('qos', facts), WARN, '/rviz and /mavros', '/wand_1/pose', '/wand_2/pose',
           advice=['renamed'])


@pytest.mark.parametrize(('heard', 'settings', 'level', 'said', 'advice'), [
    (None, {}, None, '', ''),
    (7, {}, INFO, '/mocap', ''),
    (0, {}, ERROR, 'VRPN, but /mocap is active and publishes none (silent: no frame)', 'log'),
    (0, {'protocol': 'natnet'}, ERROR, '', 'set protocol: vrpn or auto'),
    (0, {'protocol': 'vrpn', 'interface': 'eth7'}, ERROR, '', 'set interface: eth0')])
def test_an_active_node_that_publishes_none_of_the_poses_that_arrive_is_a_failure(
        heard, settings, level, said, advice):
    facts = running(heard=heard, settings={**SETTINGS, **settings}, connection='silent: no frame')
    judged(result('published', facts), level, said, advice=[advice] if advice else [])


def test_a_node_is_not_blamed_for_poses_that_do_not_arrive_here_either():
    facts = running(heard=0)
    facts.stream = None
    judged(result('published', facts), None)
    facts.stream, facts.by = heard().stream, 'natnet'
    judged(result('published', facts), ERROR, 'NatNet')


@pytest.mark.parametrize(('node', 'here', 'level', 'said'), [
    ({}, {}, INFO, 'other computers can'),
    ({'ROS_LOCALHOST_ONLY': '1'}, {}, WARN, 'ROS_LOCALHOST_ONLY=1'),
    ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}, {}, WARN, 'LOCALHOST'),
    ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'},
     {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}, INFO, 'as here')])
def test_a_node_that_no_other_computer_can_discover_is_told(node, here, level, said):
    facts = running()
    facts.graph.variables = {**DISCOVERY_VARIABLES, **node}
    facts.graph.given = {**DISCOVERY_VARIABLES, **here}
    judged(result('reach', facts), None)
    facts.graph.processes = (LocalProcess(7, False, facts.graph.variables),)
    judged(result('reach', facts), level, said)


def test_the_domain_of_another_user_is_never_suggested():
    variables = {**DISCOVERY_VARIABLES, 'ROS_DOMAIN_ID': '42'}
    facts = looked(processes=(LocalProcess(7, False, variables, 'alice'),))
    judged(result('lifecycle', facts), WARN, "'alice' runs the node", without=['42'])
    facts.graph.processes += (LocalProcess(8, False, {**variables, 'ROS_DOMAIN_ID': '43'}),)
    judged(result('lifecycle', facts), ERROR, '43', without=['42', 'process 7'])


@pytest.mark.parametrize(('changes', 'level', 'said'), [
    ({}, INFO, ''),
    ({'server': '192.168.1.20'}, INFO, ''),
    ({'server': '10.0.0.9'}, WARN, 'uses 10.0.0.9 port 3883, not motive'),
    ({'server': 'auto', 'protocol': 'natnet'}, INFO, ''),
    ({'port': 1, 'protocol': 'natnet'}, INFO, ''),
    ({'port': 1, 'protocol': 'vrpn'}, WARN, ''),
    ({'server': 'other', 'protocol': 'natnet'}, WARN, '')])
def test_a_node_that_follows_another_server_is_a_warning(changes, level, said):
    judged(result('settings', running(settings={**SETTINGS, **changes})), level, said)


def test_up_axis_is_compared_where_somebody_has_seen_which_axis_is_up():
    judged(result('settings', running()), INFO, without=['up_axis'])
    for displacement, level, said in (
            ((0.0, 0.5, 0.0), INFO, 'server, port and up_axis'),
            ((0.0, 0.0, 0.5), WARN, 'up_axis: y')):
        facts = streamed(running(), lifts=(Lift('wand', displacement),))
        judged(result('settings', facts), level, said)


@pytest.mark.parametrize(('lists', 'level', 'said'), [
    # On purpose: the result names the bodies, and the exit code stays 0.
    ({'bodies.deny': ['wand']}, INFO, "'wand' is not selected by bodies.allow and bodies.deny"),
    ({'bodies.allow': ['wand', '']}, INFO, "'drone' is not selected"),
    ({'bodies.deny': [''], 'bodies.allow': ['*']}, INFO, ''),
    ({'bodies.deny': [3], 'bodies.allow': 'text'}, INFO, ''),
    # No body is left, or a name is wrong.
    ({'bodies.deny': ['*'], 'bodies.allow': ['none']}, WARN,
     'select none of the bodies that arrive (2)'),
    ({'bodies.deny': ['Wnad*', 'wand']}, WARN,
     "'Wnad*' in bodies.deny matches no body seen so far; did you mean 'wand'?")])
def test_excluded_bodies_are_named_and_lists_that_leave_none_are_a_warning(lists, level, said):
    bodies = (body('wand'), body('drone'))
    facts = streamed(running(settings={**SETTINGS, **lists}), bodies=bodies)
    judged(result('settings', facts), level, said)
    elsewhere = streamed(running(settings={'server': 'b', 'port': 1, **lists}), bodies=bodies)
    judged(result('settings', elsewhere), WARN, without=['bodies.'])


def test_settings_of_bodies_that_were_not_heard_are_a_warning():
    facts = streamed(running(bodies=('Wand',)), bodies=(body('wand'),))
    judged(result('settings', facts), WARN, "'Wand'", "mean 'wand'?")


ABSENT = 'ROS 2 is not available'


@pytest.mark.parametrize(('check', 'graph', 'level', 'advice'), [
    *((check, {'waited_s': 3.0}, None, '')
      for check in ('qos', 'publishers', 'settings')),
    ('lifecycle', {'wanted': '/mocap', 'waited_s': 3.0}, ERROR, ''),
    ('lifecycle', {'wanted': '/mocap', 'absent': ABSENT}, None, ''),
    ('lifecycle', {'absent': ABSENT}, None, ''),
    # ROS 2 that does not start, as with a wrong ROS_DOMAIN_ID.
    ('lifecycle', {'absent': ABSENT, 'broken': True}, ERROR, 'unset the variable')])
def test_a_node_that_was_asked_for_and_a_broken_ros_are_failures(check, graph, level, advice):
    judged(result(check, looked(**graph)), level, advice=[advice])


def variables(domain, **others):
    return {**DISCOVERY_VARIABLES, 'ROS_DOMAIN_ID': domain, **others}


def test_without_any_node_nothing_reaches_ros_which_is_a_warning():
    judged(result('lifecycle', looked(waited_s=3.0, variables=variables('7'))), WARN,
           'ROS_DOMAIN_ID=7',
           advice=['ros2 launch optitrack_vrpn', 'ROS_DOMAIN_ID', '--node /NAME'])


@pytest.mark.parametrize(('processes', 'said', 'remedies'), [
    ([LocalProcess(41, True, variables('7'))], ['process 41 runs the node and is stopped'],
     ['kill -CONT 41']),
    ([LocalProcess(42, False, variables('9'))],
     ['process 42 runs the node with ROS_DOMAIN_ID=9'], ['export ROS_DOMAIN_ID=9']),
    ([LocalProcess(45, False, variables('7', ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST'))],
     ['process 45 runs the node with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST'],
     ['export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST']),
    ([LocalProcess(43, False, variables('7'))],
     ['process 43 runs the node but does not answer'], ['its log']),
    ([LocalProcess(44, False, None)], ['process 44 runs the node but does not answer'],
     ['its log']),
    ([LocalProcess(42, False, variables('9')), LocalProcess(46, False, variables('8'))],
     ['process 42', 'process 46'], ['export ROS_DOMAIN_ID=9'])])
def test_a_node_process_that_is_not_on_the_graph_is_a_failure(processes, said, remedies):
    facts = looked(waited_s=3.0, variables=variables('7'), processes=tuple(processes))
    judged(result('lifecycle', facts), ERROR, *said, advice=remedies)


def test_a_stopped_node_beside_a_running_one_is_a_failure():
    facts = running()
    facts.graph = replace(facts.graph, processes=(
        LocalProcess(41, True, variables('0')), LocalProcess(42, False, variables('0')),
        LocalProcess(43, True, variables('9')), LocalProcess(44, True, None)))
    judged(result('lifecycle', facts), ERROR, 'process 41 runs', '/mocap is active',
           advice=['kill -CONT 41;'], without=['42', '43', '44'])


@pytest.mark.parametrize(('reason', 'remedies'), [
    ('ERROR: Best effort publisher and reliable subscription', ['qos.reliability: reliable']),
    ('ERROR: Volatile publisher and transient local subscription', ['durability volatile']),
    ('ERROR: Best effort publisher and reliable subscription;ERROR: Volatile publisher and '
     'transient local subscription', ['qos.reliability: reliable', 'durability volatile']),
    ('ERROR: Subscription has a deadline, but publisher does not', ['no deadline']),
    ('ERROR: Subscription has a liveliness lease duration, but publisher does not', ['lease']),
    ('something new', ['default quality of service'])])
def test_each_policy_that_does_not_match_has_its_own_remedy(reason, remedies):
    found = judged(result('qos', running(mismatches=(Mismatch('/wand/pose', '/mavros', reason),))),
                   ERROR, advice=remedies)
    assert ('qos.reliability' in found.advice) == ('reliable sub' in reason)
