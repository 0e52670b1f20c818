# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fast DDS's Discovery Server: why it cannot start, and programs that meet by it alone."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

from optitrack_vrpn.cli.discovery.server_io import ready
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError, TransportError
import pytest
from rosgraph import NodeProcess
from server_kit import free_port

#: Waits for a pose; then lists the topics that it knows, of which a client knows its own.
ROBOT = """
import sys, time
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.qos import qos_profile_sensor_data
rclpy.init()
node = rclpy.create_node('robot')
poses = []
node.create_subscription(PoseStamped, '/wand/own', poses.append, qos_profile_sensor_data)
end = time.monotonic() + float(sys.argv[1])
while not poses and time.monotonic() < end:
    rclpy.spin_once(node, timeout_sec=0.1)
while poses and sys.argv[2:] and time.monotonic() < end and not any(
        name == '/wand/status' for name, _ in node.get_topic_names_and_types()):
    rclpy.spin_once(node, timeout_sec=0.1)
print('pose' if poses else 'none', *(name for name, _ in node.get_topic_names_and_types()))
rclpy.shutdown()
"""
PROFILES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')


def robot(seconds=20, all_topics=False, **variables):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ('ROS_DISCOVERY_SERVER', *PROFILES)}
    done = subprocess.run(
        [sys.executable, '-c', ROBOT, str(seconds), *(['all'] if all_topics else [])],
        env={**environment, **variables}, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@contextlib.contextmanager
def taken(port=0):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(('0.0.0.0', port))
        yield sock.getsockname()[1]


def test_it_is_said_why_it_cannot_start(monkeypatch, tmp_path):
    monkeypatch.delenv('RMW_IMPLEMENTATION', raising=False)
    monkeypatch.setattr(sys, 'executable', str(tmp_path / 'python'))
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(BackendUnavailableError, match='neither in PATH'):
        ready(11811)
    program = tmp_path / 'fast-discovery-server'
    program.write_text('#!/bin/sh\nexit 0\n')
    program.chmod(0o755)
    with taken() as port, pytest.raises(TransportError, match=f'UDP port {port} is in use'):
        ready(port)
    assert ready(port)[0][-1] == str(port)
    with monkeypatch.context() as patch, pytest.raises(ConfigurationError, match='RANGE is OFF'):
        patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'OFF')
        ready(port)
    monkeypatch.setenv('RMW_IMPLEMENTATION', 'rmw_cyclonedds_cpp')
    with pytest.raises(ConfigurationError, match='rmw_cyclonedds_cpp'):
        ready(port)


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timeout(120)
def test_a_robot_meets_the_node_by_the_server_and_by_nothing_else(monkeypatch, tmp_path):
    pytest.importorskip('rclpy')
    monkeypatch.setenv('RMW_IMPLEMENTATION', 'rmw_fastrtps_cpp')
    port = free_port()
    server = NodeProcess('--port', port, tool='discovery_server', ros=False)
    with server, NodeProcess(
            '--names', 'wand', '--port', '0', tool='motive_sim', ros=False) as sim:
        server.wait_for(r'Server is running')
        here = f'127.0.0.1:{port}'
        said = re.search(r'export (ROS_DISCOVERY_SERVER)=(\S+):(\d+)', server.log)
        assert said[3] == str(port)
        monkeypatch.setenv('ROS_DISCOVERY_SERVER', here)
        sender = int(sim.wait_for(r'listening on .*:(\d+)')[1])
        with NodeProcess('-p', 'server:=127.0.0.1', '-p', f'port:={sender}', '-p',
                         'autostart:=true', '-p', 'outputs:=[pose, own, status]') as node:
            node.wait_for('NEW -> TRACKED')
            assert robot(**{said[1]: f'{said[2]}:{port}'})[0] == 'pose'
            assert robot(3)[0] == 'none', 'the node announces itself to nobody but the server'
            assert '/wand/status' in robot(
                all_topics=True, ROS_DISCOVERY_SERVER=here, ROS_SUPER_CLIENT='TRUE')
            seen = subprocess.run(
                [sys.executable, '-m', 'optitrack_vrpn', 'doctor', '--server', '127.0.0.1',
                 '--port', str(sender), '--seconds', '0.3', '--json'],
                capture_output=True, text=True, timeout=60)
            levels = {one['check']: one['level'] for one in json.loads(seen.stdout)['checks']}
            assert levels['lifecycle'] == levels['published'] == 'OK', seen.stdout
            profile = tmp_path / 'super_client.xml'
            profile.write_text(subprocess.run(
                [sys.executable, '-m', 'optitrack_vrpn', 'discovery_server', '--xml', here],
                capture_output=True, text=True, check=True, timeout=60).stdout)
            found = robot(all_topics=True, **dict.fromkeys(PROFILES, str(profile)))
            assert found[0] == 'pose' and '/wand/status' in found
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(20.0) == 0
            seen = subprocess.run(
                [sys.executable, '-m', 'optitrack_vrpn', 'doctor', '--server', '127.0.0.1',
                 '--port', str(sender), '--seconds', '0.3', '--json'],
                capture_output=True, text=True, timeout=60)
            told = {one['check']: one for one in json.loads(seen.stdout)['checks']}['lifecycle']
            assert told['found'].startswith(f'the Discovery Server {here} does not answer')
            assert 'end it' not in told['advice']
    with taken(port):
        pass
