# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node end to end: simulated Motive and node in separate processes, and a user."""

import os
import signal
import time

from conftest import BOTH_PROTOCOLS
import pytest
from rosgraph import NodeProcess, port_parameters, silence, stamp_ns, wait_until
from server_kit import free_port

pytestmark = [pytest.mark.ros, pytest.mark.network]
STATES = ('unconfigured', 'inactive', 'active', 'finalized')
#: Nobody waits for an end that takes longer; it has 5 s of patience with the middleware in it.
QUICKLY_S = 20.0


def motive(*arguments, port=0):
    """Start a simulated Motive; gives the process."""
    return NodeProcess('--port', port, *arguments, tool='motive_sim', ros=False)


def port_of(sim):
    """Wait until a simulated Motive listens; gives its port."""
    return int(sim.wait_for(r'listening on 127\.0\.0\.1:(\d+)')[1])


def at(port, *arguments, protocol='vrpn'):
    """Start the node for a server on this machine."""
    where = (f'{name}:={value}' for name, value in port_parameters(protocol, port).items())
    return NodeProcess('-p', 'server:=127.0.0.1', '-p', 'connect.retry_max_s:=0.2',
                       *(word for pair in where for word in ('-p', pair)), *arguments)


def test_a_life_by_its_services(user):
    """That its poses are where the bodies are is shown in test_ros_replay.py."""
    names = ('Rigid Body 1', 'wand')
    with motive('--names', *names, '--rate', 100) as sim, at(port_of(sim)) as node:
        assert user.state() == 'unconfigured'
        assert not user.transition('activate'), 'there is no way from unconfigured to active'
        assert not user.transition('cleanup')
        assert user.state() == 'unconfigured'

        assert user.transition('configure')
        assert user.state() == 'inactive'
        expected = ['/Rigid_Body_1/pose', '/Rigid_Body_1/pose_ned', '/wand/pose', '/wand/pose_ned']
        wait_until(lambda: user.topics() == expected)
        topics = [user.poses(topic) for topic in expected]
        careless = user.poses('/wand/pose', depth=1000, reliable=False)
        tf = user.transforms()
        everything = [*topics, careless, tf]
        wait_until(lambda: all(topic.matched for topic in everything))
        silence(everything)
        assert not any(map(len, everything)), 'an inactive node has published'

        assert user.transition('activate')
        for topic in everything:
            topic.wait(100)
        check_threads(node.process.pid)

        assert user.transition('deactivate')
        assert user.state() == 'inactive'
        silence(everything)
        count = len(topics[0])
        assert user.transition('activate')
        # It has never stopped to listen: no new conversation, no body to be found again.
        topics[0].wait(count + 10)
        assert len([line for line in node.lines if 'connected:' in line]) == 1
        assert len([line for line in node.lines if 'new body' in line]) == len(names)

        assert user.transition('deactivate') and user.transition('cleanup')
        wait_until(lambda: user.topics() == [])
        assert user.transition('configure') and user.transition('activate')
        count = len(topics[0])
        topics[0].wait(count + 10)
        assert user.transition('active_shutdown')
        assert user.state() == 'finalized'
        wait_until(lambda: user.topics() == [])
        code, seconds = node.end()
        assert code == 0 and seconds < QUICKLY_S, node.log
        assert 'Traceback' not in node.log


def check_threads(pid):
    """Expect that of the threads that run one may interrupt others: that which brings poses."""
    def woken():
        counts = {}
        for thread in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{thread}/status') as stream:
                counts[int(thread)] = int(stream.read().split('\nvoluntary_ctxt_switches:')[1]
                                          .split()[0])
        return counts

    def policies():
        return [os.sched_getscheduler(thread) for thread, count in woken().items()
                if count > before.get(thread, count)]

    before = woken()
    time.sleep(0.5)
    # A busy machine may let some wait for longer than that.
    found = wait_until(lambda: len(found := policies()) >= 3 and os.SCHED_OTHER in found and found)
    assert found.count(os.SCHED_OTHER) == 1, found


@BOTH_PROTOCOLS
def test_a_server_that_is_absent_late_killed_and_started_again(user, protocol):
    port = free_port()
    flag = '--port' if protocol == 'vrpn' else '--natnet-port'
    with at(port, '-p', 'autostart:=true', protocol=protocol) as node:
        node.wait_for(rf'\[WARN.*lost: .*{port}')
        assert user.state() == 'active', 'an absent server is no reason not to be active'
        topic = user.poses('/wand/pose')
        for killed in range(2):
            with NodeProcess('--names', 'wand', '--rate', 100, '--protocol', protocol, flag, port,
                             tool='motive_sim', ros=False) as sim:
                topic.wait(len(topic) + 100)
                sim.process.kill()
                sim.process.wait()
            if not killed:    # the log does not repeat itself so soon
                node.wait_for(r'body .wand.: TRACKED -> STALE')
                node.wait_for(r'lost: .*\n(.*\n)*.*lost: .*(closed|ended|broke|gone)'
                              if protocol == 'vrpn' else r'silent: ')
        # Motive's clock began again; on the host's it went on.
        stamps = [stamp_ns(message) for message in topic.messages()]
        steps = [b - a for a, b in zip(stamps, stamps[1:])]
        assert min(steps) >= 0
        # Frames that piled up while a conversation began arrived at the same moment.
        assert steps.count(0) < len(steps) / 2
        assert abs(time.time() - stamps[-1] / 1e9) < 30.0
        code, seconds = node.end(signal.SIGTERM)
        assert code == 0 and seconds < QUICKLY_S


def test_signals_end_the_process_cleanly_and_quickly_in_every_state(user):
    """Started together, for they take their time to start."""
    cases = [(state, number) for state in STATES
             for number in (signal.SIGINT, signal.SIGTERM)]
    with motive('--names', 'wand') as sim:
        port = port_of(sim)
        nodes = [at(port, '-r', f'__node:=node_{i}') for i in range(len(cases))]
        try:
            for node in nodes:
                node.wait_for('unconfigured; ', 60.0)
            for i, (state, _) in enumerate(cases):
                name = f'/node_{i}'
                if state in ('inactive', 'active', 'finalized'):
                    assert user.transition('configure', name)
                if state == 'active':
                    assert user.transition('activate', name)
                    nodes[i].wait_for('new body')
                if state == 'finalized':
                    assert user.transition('inactive_shutdown', name)
                assert user.state(name) == state
            for node, (state, number) in zip(nodes, cases):
                if number == signal.SIGINT:
                    # As in a terminal under `ros2 launch`: one more comes at once.
                    node.process.send_signal(number)
                code, seconds = node.end(number)
                assert code == 0, f'{state}, {number!r}: {node.log}'
                assert seconds < QUICKLY_S, f'{state}, {number!r}: {seconds} s'
                assert 'Traceback' not in node.log
        finally:
            for node in nodes:
                node.__exit__()
