# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor on what lies between it and the node: variables, servers, shared memory, TF."""

from dataclasses import replace
import os
import socket

from doctor_results import heard, judged, result
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.node.graph.processes import DISCOVERY_VARIABLES, LocalProcess
from optitrack_vrpn.node.graph.processes_io import dead_servers, local_nodes
from optitrack_vrpn.telling.doctor.results import choose_target, Graph, RunningNode
import pytest

SETTINGS = {'server': 'motive', 'port': 3883, 'up_axis': 'y', 'axes': 'enu',
            'frames.world': 'optitrack'}


def looked(*nodes, variables=None, given=None, **changes):
    """Make facts with a graph of these nodes."""
    facts = heard()
    facts.graph = Graph(
        nodes=nodes, waited_s=3.0, variables={**DISCOVERY_VARIABLES, **(variables or {})},
        given={**DISCOVERY_VARIABLES, **(given or {})}, **changes)
    return facts


def running(**settings):
    return RunningNode('/mocap', 1, 'active', {**SETTINGS, **settings}, 8, 2)


@pytest.mark.parametrize(('name', 'value'), [
    ('ROS_DOMAIN_ID', '7'), ('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST'),
    ('ROS_DISCOVERY_SERVER', '10.0.0.1:11811'), ('RMW_IMPLEMENTATION', 'rmw_cyclonedds_cpp')])
def test_what_the_doctor_takes_over_from_the_node_is_a_warning_with_the_variable(name, value):
    facts = looked(running(), variables={name: value})
    judged(result('shell', facts), WARN, f'{name}={value}', 'do not see its topics',
           advice=[f'export {name}={value}'])
    judged(result('shell', looked(running(), variables={name: value}, given={name: value})), INFO)


def test_a_dead_discovery_server_is_the_cause_and_the_healthy_node_is_not_ended():
    dead = '127.0.0.1:11811'
    facts = looked(
        variables={'ROS_DISCOVERY_SERVER': dead}, given={'ROS_DISCOVERY_SERVER': dead},
        dead_servers=(dead,),
        processes=(LocalProcess(7, False, {**DISCOVERY_VARIABLES, 'ROS_DISCOVERY_SERVER': dead}),))
    found = judged(result('lifecycle', facts), ERROR, advice=['discovery_server'],
                   without=['end it'])
    assert found.found.startswith(f'the Discovery Server {dead} does not answer')


def test_a_server_is_dead_if_its_port_is_closed():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as alive, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as closed:
        for sock in (alive, closed):
            sock.bind(('127.0.0.1', 0))
        port, other = (sock.getsockname()[1] for sock in (alive, closed))
        closed.close()
        servers = f';127.0.0.1:{port};127.0.0.1:{other};TCPv4:[10.0.0.1]:5100;name:1;1.2.3.4:99999'
        assert dead_servers(servers) == (f'127.0.0.1:{other}',)


@pytest.mark.parametrize(('process', 'cause', 'remedy'), [
    (LocalProcess(7, False, None, 'alice'), 'process 7 runs the node as alice', 'one user'),
    (LocalProcess(7, False, DISCOVERY_VARIABLES, apart=True), 'another /dev/shm', '--ipc host')])
def test_shared_memory_of_another_user_or_container_is_the_cause(process, cause, remedy):
    facts = looked(processes=(process,), announced=('/optitrack_vrpn',))
    found = judged(result('lifecycle', facts), ERROR, cause, 'shared memory',
                   advice=[remedy, 'FASTDDS_BUILTIN_TRANSPORTS=UDPv4'], without=['end it'])
    assert found.found.startswith("'/optitrack_vrpn' is announced, but no data of it arrives")
    mute = replace(running(), state='')
    judged(result('lifecycle', looked(mute, processes=(process,))), ERROR, cause,
           advice=[remedy], without=['start it again'])


def test_a_process_with_a_dev_shm_of_its_own_is_recognised(tmp_path):
    folder = tmp_path / '41'
    (folder / 'root' / 'dev' / 'shm').mkdir(parents=True)
    (folder / 'cmdline').write_bytes(b'python\0/x/optitrack_vrpn_node\0')
    (folder / 'stat').write_text('41 (python) S 1')
    (folder / 'environ').write_bytes(b'ROS_DOMAIN_ID=7\0')
    (one,) = local_nodes(str(tmp_path))
    assert one.apart and one.variables['ROS_DOMAIN_ID'] == '7'
    (folder / 'root' / 'dev' / 'shm').rmdir()
    (folder / 'root' / 'dev' / 'shm').symlink_to('/dev/shm')
    assert not local_nodes(str(tmp_path))[0].apart
    assert os.path.isdir('/dev/shm')


def test_two_nodes_of_one_server_with_different_ports_are_checked_by_the_first():
    nodes = [running(), replace(running(port=3884), name='/other')]
    target = choose_target({}, nodes, True)
    assert (target.server, target.node, target.values['port']) == ('motive', '/mocap', 3883)
    facts = looked(*nodes)
    facts.taken_from = '/mocap'
    judged(result('settings', facts), INFO, '/other uses port 3884, which is not checked here')


@pytest.mark.parametrize(('axes', 'up_axis', 'stated', 'level', 'said'), [
    ('enu', 'z', 'y', ERROR, 'rotated by 90 degrees'),
    ('enu', 'y', 'z', ERROR, 'rotated by 90 degrees'), ('enu', 'y', 'y', INFO, ''),
    ('enu', 'z', 'x', ERROR, 'x is up'),
    ('enu', 'y', '', INFO, ''), ('enu', 'z', 'z', INFO, ''),
    ('raw', 'y', 'y', WARN, 'z for up'), ('raw', 'y', 'z', INFO, ''),
    ('raw', 'z', 'z', INFO, '')])
def test_the_up_axis_that_motive_states_is_compared(axes, up_axis, stated, level, said):
    facts = looked(running(axes=axes, up_axis=up_axis))
    facts.stated_up = stated
    judged(result('settings', facts), level, said, advice=(
        ['set Up Axis in its streaming settings to Z'] if stated == 'x' else []))


@pytest.mark.parametrize(('mode', 'base', 'ahead_s', 'level', 'said'), [
    ('sender', 'unix_epoch', 7200.0, WARN, '7200.000 s in the future'),
    ('sender', 'unix_epoch', -7200.0, WARN, '7200.000 s old'),
    ('sender', 'unix_epoch', 0.001, WARN, 'in the future'),
    ('sender', 'unix_epoch', -0.01, INFO, ''),
    ('tracking', 'unix_epoch', 7200.0, INFO, ''),
    ('sender', 'sender_start', -1.8e9, WARN, 'old')])
def test_a_senders_clock_whose_times_are_published_is_compared(mode, base, ahead_s, level, said):
    facts = looked(running(**{'stamps.mode': mode}))
    facts.stream = replace(
        facts.stream, ahead_s=ahead_s, clock=replace(facts.stream.clock, sender_base=base))
    judged(result('settings', facts), level, said)


def test_a_frame_with_two_parents_is_named_with_both():
    judged(result('frames', looked(running())), INFO)
    facts = looked(running(), parents={'cf1': ('map', 'optitrack')})
    judged(result('frames', facts), WARN, "the frame 'cf1' of TF has two parents: "
           "'map' and 'optitrack' (of /mocap)", advice=['outputs'])
