# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node itself under mocap control: simulated Motive, node and controllers as processes."""

import re
import subprocess

from control_graph import (
    ACK_START, ACK_STOP, Controller, latched, START, STOP)
import pytest
from rosgraph import NodeProcess, silence
from tool_kit import start_tool

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.timeout(300)]
NAME, NODE = 'optitrack_vrpn', '/lab/optitrack_vrpn'


@pytest.fixture
def controller():
    with Controller() as found:
        yield found


def motive(port, *names):
    return NodeProcess('--port', port, '--rate', 100, '--names', *names, tool='motive_sim',
                       ros=False)


def inactive_node(port, *arguments):
    """Start the node in a namespace, configured and waiting for a START."""
    return NodeProcess(
        '-r', '__ns:=/lab', '-p', 'server:=127.0.0.1', '-p', f'port:={port}',
        '-p', 'connect.retry_max_s:=0.2', '-p', 'autostart:=true', '-p', 'activate:=false',
        *arguments)


def announced(tool, infos, *topics, absent=()):
    """Wait until the latest announcement holds some topics, and lacks others."""
    def found():
        latest = infos[-1].topics if infos else ()
        return bool(infos) and set(topics) <= set(latest) and not set(absent) & set(latest)
    assert tool.spin_until(found), infos
    assert {info.mocap4r2_source for info in infos} == {NAME}


def control(*arguments):
    """Run the command line's controller in its own process."""
    return start_tool('mocap_control', *arguments, stderr=subprocess.STDOUT)


def controlled(pattern, *arguments):
    """Run it, and look for what it says."""
    output, _ = control(*arguments, '--timeout', 8, '--discovery', 30).communicate(timeout=100)
    assert re.search(pattern, output), output


def test_the_node_starts_stops_and_tells_of_its_bodies(observer, controller, unused_port):
    with inactive_node(unused_port) as node:
        poses = [observer.poses(f'/lab/{name}/pose') for name in ('wand', 'drone')]
        # It listens, and has said so without a single body.
        announced(controller, controller.infos, '/tf')
        assert controller.state(NODE) == 'inactive'
        controller.wait_for(1)
        with motive(unused_port, 'wand') as sim:
            announced(controller, controller.infos, '/lab/wand/pose', '/lab/wand/pose_ned')
            assert controller.spin_until(lambda: poses[0].matched)
            silence(poses)
            assert not any(map(len, poses)), 'it was not started'
            controller.send(START, ['', NAME], 'take 1')
            assert controller.answers(1) == [(ACK_START, NAME, 'take 1')]
            poses[0].wait(50)
            assert controller.state(NODE) == 'active'
            sim.process.kill()
            sim.process.wait()
        with motive(unused_port, 'wand', 'drone'):
            announced(controller, controller.infos, '/lab/wand/pose', '/lab/drone/pose')
            poses[1].wait(50)

            topics, = latched(NAME)
            assert set(topics) >= {'/tf', '/lab/wand/pose', '/lab/drone/pose'}

            controller.send(STOP)
            assert controller.answers(1) == [(ACK_STOP, NAME, 'take 1')]
            assert controller.state(NODE) == 'inactive'
            silence(poses)

            counts = [len(topic) for topic in poses]
            controlled(rf'{NAME} +ACK_START .* [0-9.]+ m?s on /lab/(wand|drone)/pose',
                       'start', NAME, '--session', 'take 2')
            for topic, count in zip(poses, counts):
                topic.wait(count + 50)
            controlled(rf'{NAME} +ACK_STOP', 'stop', NAME)
            assert controller.state(NODE) == 'inactive'
            silence(poses)
        code, _ = node.end()
        assert code == 0 and 'Traceback' not in node.log, node.log


def test_topics_that_parameters_take_away_or_bring_are_announced_and_none_once_cleaned_up(
        observer, controller, unused_port):
    with motive(unused_port, 'wand', 'drone'), inactive_node(unused_port):
        infos = controller.infos
        announced(controller, infos, '/lab/wand/pose', '/lab/drone/pose', '/lab/drone/pose_ned')
        assert observer.set(NODE, bodies__deny=['drone']) == ''
        announced(controller, infos, '/lab/wand/pose', absent=[
            '/lab/drone/pose', '/lab/drone/pose_ned'])
        assert observer.set(NODE, bodies__deny=[''], bodies__allow=['drone']) == ''
        announced(controller, infos, '/lab/drone/pose', absent=['/lab/wand/pose'])
        assert observer.set(NODE, outputs=['pose', 'odom', 'tf']) == ''
        announced(controller, infos, '/lab/drone/odom', absent=['/lab/drone/pose_ned'])
        assert observer.transition('cleanup', NODE)
        announced(controller, infos, absent=['/tf', '/lab/drone/pose'])
        assert latched(NAME) == [[]]
        assert observer.transition('configure', NODE)
        announced(controller, infos, '/tf', '/lab/drone/pose')
        assert observer.transition('inactive_shutdown', NODE)
        announced(controller, infos, absent=['/tf', '/lab/drone/pose'])
        assert latched(NAME) == [[]]
