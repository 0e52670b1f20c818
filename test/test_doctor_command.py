# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor as a command, also against a hostile server."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import doctor_kit
from doctor_kit import CHECKS, Result
from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.drivers.sockets_io import is_unused
from optitrack_vrpn.telling.doctor import command as doctor
from optitrack_vrpn.telling.doctor.graph_ros import Extensions
from optitrack_vrpn.telling.doctor.results import ProbeResults
from server_kit import FakeServer
from tool_kit import start_tool
from transport_kit import COOKIE, message, name, pose, POSE_TYPE_ID, say_hello, stream

examine = doctor_kit.examine


# -- hostile --------------------------------------------------------------------------------------

EVIL = '\x1b[2J\x1b]0;owned\x07\r\nOK    all fine\u202e\u0085'


def evil(server, sock):
    """Describe names and say things that would wreck a terminal."""
    sock.sendall(
        COOKIE + name(1, EVIL) + name(2, b'\xff\xfe\x9b31m') + name(3, 'plain')
        + name(POSE_TYPE_ID, 'vrpn_Tracker Pos_Quat', -2)
        + name(5, 'vrpn_Base text_message', -2)
        + message(1, 5, (2).to_bytes(4, 'big') + bytes(4) + EVIL.encode().ljust(1024, b'\0')))
    frame = 0
    while not server.stopping.wait(0.01):
        frame += 1
        for sender in (1, 2, 3):
            sock.sendall(pose(sender, 1_000_000 + frame * 10_000, frame * 1e-3))


def test_names_from_the_network_cannot_touch_the_terminal(capsys):
    with FakeServer(evil) as server:
        common = ['--server', '127.0.0.1', '--port', str(server.port), '--connection', 'tcp',
                  '--seconds', '0.3', '--no-ros']
        code = doctor.main(common)
        text = capsys.readouterr().out
        # How busy the machine is may make anything of them: what is said of it counts here.
        assert {code, doctor.main([*common, '--json'])} <= {0, 1, 2}
        report = capsys.readouterr().out
    for said in (text, report):
        assert all(c == '\n' or c.isprintable() for c in said)
        assert 'owned' in said
    assert not [line for line in text.splitlines() if line.startswith('OK    all fine')]

    def strings(value):
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list):
            return [text for item in value for text in strings(item)]
        return [value] if isinstance(value, str) else []
    # Once decoded nothing may be in them either, for tools that print what they read.
    assert all(c.isprintable() for one in strings(json.loads(report)) for c in one)


def test_a_thousand_senders_make_no_longer_report(examine, capsys):
    def serve(server, sock):
        sock.sendall(COOKIE + b''.join(name(i, f'body {i} ' + 80 * 'x') for i in range(1, 1000))
                     + name(POSE_TYPE_ID, 'vrpn_Tracker Pos_Quat', -2))
        frame = 0
        while not server.stopping.wait(0.02):
            frame += 1
            sock.sendall(b''.join(
                pose(sender, 1_000_000 + frame * 10_000) for sender in range(1, 700)))
    result = examine(FakeServer(serve), '--connection', 'tcp')
    assert result.values('senders')['count'] == 999
    assert 'beyond the limit' in result.found('data')
    assert max(len(result.found(check)) for check in CHECKS) <= 900


def test_a_flood_without_a_pose_is_left_in_time(examine):
    block = message(1, 77, bytes(1000)) * 50

    def serve(server, sock):
        say_hello(sock)
        while not server.stopping.is_set():
            sock.sendall(block)
    began = time.monotonic()
    examine(FakeServer(serve), '--connection', 'tcp').judged('data', 'FAIL')
    assert time.monotonic() - began < 12.0


def test_a_greeting_that_comes_byte_by_byte_is_not_waited_for():
    """Beyond the time for it, however often a byte comes."""
    def serve(server, sock):
        for byte in COOKIE:
            if server.stopping.wait(0.5):
                return
            sock.sendall(bytes([byte]))
    with FakeServer(serve) as server:
        began = time.monotonic()
        assert doctor.main(['--server', '127.0.0.1', '--port', str(server.port), '--no-ros',
                            '--connection', 'tcp', '--timeout', '0.8']) == 2
        assert time.monotonic() - began < 0.5 * len(COOKIE) - 3.0


class Bridge:
    """An extension whose findings come from the ROS graph as they are."""

    def __init__(self, node, robots):
        pass

    def findings(self, spin):
        return [CheckResult('bridge', ERROR, EVIL, '', {'age': EVIL}),
                CheckResult('bridge', WARN, 'late', EVIL)]


def test_findings_of_extensions_cannot_touch_the_terminal_nor_end_the_report(capsys):
    found = Extensions(None, (f'{__name__}:Bridge',)).findings(lambda seconds: None)
    for as_json in (False, True):
        report = doctor.DoctorReport(ProbeResults('127.0.0.1', 3883), as_json)
        for one in found:
            report.add(one)
        assert report.end() == 2
    out = capsys.readouterr().out
    assert all(c == '\n' or c.isprintable() for c in out)
    assert 'doctor: 1 failure and 1 warning' in out and 'owned' in out


# -- the command ----------------------------------------------------------------------------------

def test_the_text_says_what_the_json_says(capsys, unused_port):
    assert doctor.main(['--server', '127.0.0.1', '--port', str(unused_port), '--no-ros',
                        '--protocol', 'vrpn', '--natnet-port', '9',
                        '--timeout', '0.2']) == 2
    lines = capsys.readouterr().out.splitlines()
    found = [re.match(r'(OK|WARN|FAIL) +(\S+) +\S', line) for line in lines]
    assert [match[2] for match in found if match] == ['name', 'route', 'udp', 'tcp']
    skipped = ' '.join(line for line in lines if line.startswith((' ', 'SKIP')))
    assert all(check in skipped for check in CHECKS if check not in (
        'name', 'route', 'udp', 'tcp'))
    assert lines[0].startswith('doctor: 127.0.0.1 port')
    verdict = lines.index('doctor: 2 failures')
    assert lines[verdict + 1].startswith('->    udp, tcp      start Motive')
    assert max(map(len, lines)) <= 120


def test_the_report_of_an_absent_server_fits_a_small_terminal(capsys, monkeypatch, unused_port):
    monkeypatch.setenv('COLUMNS', '80')
    monkeypatch.setenv('LINES', '24')
    doctor.main(['--server', '127.0.0.1', '--port', str(unused_port), '--timeout', '0.2',
                 '--natnet-port', '9',
                 '--ros-args', '--log-level', 'info'])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    # Without what other nodes that run on this computer add: up to two of them are named.
    first = next(number for number, line in enumerate(lines) if 'lifecycle' in line)
    others = next(number for number, line in enumerate(lines[first:]) if line.startswith('SKIP'))
    assert len(lines) - others <= 22, 'with the command and the prompt 24'


def test_a_skipped_check_of_another_package_has_its_own_reason(capsys, monkeypatch, unused_port):
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    doctor.main(['--server', '127.0.0.1', '--port', str(unused_port), '--timeout', '0.2',
                 '--robot', '10.0.0.2'])
    assert re.search(r'multicast: +discovery is +limited', ' '.join(
        capsys.readouterr().out.split()))


def test_robots_are_not_ignored_without_the_graph(capsys):
    assert doctor.main(['--server', '127.0.0.1', '--no-ros', '--robot', '10.0.0.2']) == 64
    assert '--robot' in capsys.readouterr().err


def test_without_rclpy_the_graph_alone_is_left_out(examine, capsys, monkeypatch, unused_port):
    monkeypatch.setitem(sys.modules, 'rclpy', None)
    # What another test has imported would be there without rclpy.
    for module in [each for each in sys.modules if each.startswith((
            'optitrack_vrpn.node.base', 'optitrack_vrpn.telling.doctor.graph_ros'))]:
        monkeypatch.delitem(sys.modules, module)
    assert doctor.main(['--server', '127.0.0.1', '--port', str(unused_port), '--json',
                        '--timeout', '0.2']) == 2
    result = Result(2, *capsys.readouterr())
    assert result.levels('qos', 'lifecycle', 'settings') == ['SKIP'] * 3
    assert 'ROS 2 is not available' in result.found('lifecycle')
    result.judged('udp', 'FAIL')


def test_a_middleware_that_is_not_installed_ends_the_checks_of_the_graph_alone(unused_port):
    run = subprocess.run(
        [sys.executable, '-m', 'optitrack_vrpn', 'doctor', '--server', '127.0.0.1', '--port',
         str(unused_port), '--json', '--timeout', '0.2'], capture_output=True, text=True,
        env={**os.environ, 'RMW_IMPLEMENTATION': 'rmw_of_nobody'})
    result = Result(run.returncode, run.stdout, run.stderr)
    assert result.code == 2
    result.judged('udp', 'FAIL')
    result.judged('lifecycle', 'FAIL', 'rmw_of_nobody')


def test_ctrl_c_ends_it_at_once_and_without_a_trace():
    with FakeServer(lambda server, sock: server.hold(sock)) as server:
        process = start_tool('doctor', '--server', '127.0.0.1', '--port', server.port,
                             '--timeout', '60', '--no-ros')
        try:
            while 'route' not in process.stdout.readline():
                assert process.poll() is None
            while not server.connections:
                time.sleep(0.01)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=40.0)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert err.strip() == 'doctor: stopped'
    assert time.monotonic() - began < 30.0


def test_it_leaves_no_descriptor_open(examine, unused_port):
    def count():
        return len(os.listdir('/proc/self/fd'))
    examine(unused_port, timeout=0.4)
    before = count()
    examine(unused_port, timeout=0.4)
    with FakeServer(stream) as server:
        examine(server.port)
    assert count() <= before    # less where something of another test was closed meanwhile


def test_an_address_that_no_machine_has_is_told_from_a_firewall(tmp_path):
    table = tmp_path / 'arp'
    table.write_text(
        'IP address       HW type     Flags       HW address            Mask     Device\n'
        '10.77.0.1        0x1         0x2         86:ea:0f:11:22:33     *        eth0\n'
        '10.77.0.9        0x1         0x0         00:00:00:00:00:00     *        eth0\n')
    assert is_unused('10.77.0.9', str(table))
    assert not is_unused('10.77.0.1', str(table))
    assert not is_unused('10.77.0.2', str(table))
    assert not is_unused('10.77.0.2', str(tmp_path / 'none'))
