# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of VRPN, the table of protocols, and a third protocol that is added from outside."""

import os
from pathlib import Path
import subprocess
import sys

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.sources import (
    Body, check_server, Choice, Frame, lacking, LinkState, Motion, ServerText, source_settings,
    SOURCES)
from optitrack_vrpn.sources.vrpn import (
    AccelerationReport, PongReport, PoseReport, TextReport, to_frames, VelocityReport)
import pytest

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
TESTS = Path(__file__).resolve().parent


def pose(name, time_ns):
    return PoseReport(name, 0, time_ns, (1.0, 2.0, 3.0), UPRIGHT)


def test_poses_of_one_time_are_a_frame_and_the_library_is_no_body():
    items = to_frames([
        pose('a', 1), pose('VRPN Control', 1), pose('b', 1), PongReport('a', 1), pose('a', 2),
        VelocityReport('a', 0, 2, (1.0, 0.0, 0.0), UPRIGHT, 0.1),
        AccelerationReport('a', 0, 2, (2.0, 0.0, 0.0), UPRIGHT, 0.1),
        TextReport('a', 2, 1, 0, 'hot'), pose('b', 2)])
    first, second, velocity, acceleration, text = items
    assert [body.name for body in first.bodies] == ['a', 'b']
    assert [body.name for body in second.bodies] == ['a', 'b']
    assert first == Frame(1, [Body('a', 0, 1, (1.0, 2.0, 3.0), UPRIGHT, True, 0.0),
                              Body('b', 0, 1, (1.0, 2.0, 3.0), UPRIGHT, True, 0.0)])
    assert velocity == Motion('a', 0, 2, True, (1.0, 0.0, 0.0), UPRIGHT, 0.1)
    assert not acceleration.is_velocity and text == ServerText('a', 'warn', 'hot')


def test_a_frame_has_its_bodies_however_its_poses_arrive():
    time_ns = 1_700_000_000_000_000_000
    poses = [pose('a', time_ns), pose('b', int(str(time_ns)))]    # equal times, two objects
    later = pose('a', time_ns + 1)
    frame, control = Frame(time_ns, poses), pose('VRPN Control', time_ns)
    assert to_frames(poses) == to_frames([*poses, control]) == [frame]
    assert to_frames([control, *poses, PongReport('a', 1)]) == to_frames(tuple(poses)) == [frame]
    assert to_frames([*poses, later]) == [frame, Frame(time_ns + 1, [later])]
    assert to_frames([]) == to_frames([control]) == []


def test_the_table_says_what_a_protocol_can_do():
    assert lacking('vrpn', 'markers') == 'natnet or auto' and not lacking('natnet', 'markers')
    assert source_settings().natnet.port == 1510
    for protocol in SOURCES:
        check_server(protocol, '10.0.0.1')
    for protocol, server in (('vrpn', 'auto'), ('nothing', '10.0.0.1')):
        with pytest.raises(ConfigurationError):
            check_server(protocol, server)


def test_the_best_protocol_that_streams_is_chosen_and_kept_until_it_ends():
    second, now = 10**9, 0
    of = a, b, c = tuple(SOURCES)[:3]
    for streams, wanted in ((of, a), ((b, c), b), ((c,), c), ((), '')):
        choice, started, chosen = Choice(of, now), [a], ''
        for protocol in streams:
            choice.changed(protocol, LinkState.STREAMING, 'poses', now)
        for _ in range(50):
            decision = choice.decide(now)
            started += decision.start
            chosen = chosen or decision.chosen
            now += second // 10
        assert chosen == wanted and set(started) == ({a} if wanted == a else set(of))
        for protocol in of:
            choice.changed(protocol, LinkState.STREAMING, 'poses', now)
        assert not wanted or (not choice.decide(now).chosen and choice.chosen == wanted)
        for protocol in of:
            choice.changed(protocol, LinkState.LOST, 'off', now)
        choice.decide(now)
        assert choice.decide(now + 6 * second).reset == bool(wanted)


NODE = """
import socket, time
import text_source
from optitrack_vrpn.node.node import OptitrackVrpnNode
import rclpy
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind(('127.0.0.1', 0))
    port = sock.getsockname()[1]
rclpy.init(args=['node', '--ros-args', '-p', 'protocol:=text', '-p', f'text.port:={port}'])
node = OptitrackVrpnNode()
assert node.trigger_configure().name == 'SUCCESS'
assert node.trigger_activate().name == 'SUCCESS'
from geometry_msgs.msg import PoseStamped
heard = []
node.create_subscription(PoseStamped, '/wand/pose', heard.append, 10)
end = time.monotonic() + 30.0
number = 0
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    while len(heard) < 20 and time.monotonic() < end:
        number += 1
        sock.sendto(f'{time.time_ns()} wand {0.001 * number} 2 3 0 0 0 1'.encode(),
                    ('127.0.0.1', port))
        rclpy.spin_once(node, timeout_sec=0.01)
node.trigger_deactivate()
node.trigger_cleanup()
node.destroy_node()
rclpy.shutdown()
print(len(heard) >= 20, heard[-1].pose.position.z)
"""


@pytest.mark.ros
@pytest.mark.network
def test_the_node_publishes_what_a_protocol_from_outside_sends(unused_domain):
    done = subprocess.run(
        [sys.executable, '-c', NODE], capture_output=True, text=True, timeout=100,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(
            [str(TESTS), str(TESTS.parent), os.environ.get('PYTHONPATH', '')])})
    assert done.stdout.split() == ['True', '2.0'], done.stderr[-3000:]
