# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor against servers as labs have them: healthy, absent, walled off, mute, foreign."""

import contextlib
import http.server
import json
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from optitrack_vrpn.cli import doctor
from optitrack_vrpn.sim.faults import Occlusion
from optitrack_vrpn.sim.motion import Line
from optitrack_vrpn.sim.scenario import Body, Clock, named_bodies, Noise, Scenario
from optitrack_vrpn.sim.server import MotiveSimServer
from optitrack_vrpn.transport import probe
import pytest
from replay_server import pair_of_sockets
from transport_kit import (
    COOKIE, FakeServer, message, name, pose, POSE_TYPE_ID, say_hello, stream)

ROOT = Path(__file__).resolve().parent.parent
CHECKS = [
    'name', 'route', 'udp', 'connect-back', 'tcp', 'handshake', 'senders', 'data', 'rate',
    'bodies', 'axes', 'stamps', 'clock', 'qos', 'lifecycle', 'settings']
#: What depends on how busy the machine is that runs the test.
BUSY = {'clock'}


class Result:
    """What one run of the doctor said."""

    def __init__(self, code, out, err):
        self.code = code
        self.err = err
        self.report = json.loads(out)
        self.checks = {check['check']: check for check in self.report['checks']}

    def level(self, check):
        return self.checks[check]['level']

    def levels(self, *checks):
        return [self.level(check) for check in checks]

    def found(self, check):
        return self.checks[check]['found']

    def advice(self, check):
        return self.checks[check]['advice']

    def values(self, check):
        return self.checks[check]['values']


@pytest.fixture
def examine(capsys):
    """Run the doctor in this process, against the loopback interface unless told otherwise."""
    def run(port, *arguments, server='127.0.0.1', timeout=0.4, seconds=0.3):
        capsys.readouterr()
        began = time.monotonic()
        code = doctor.main([
            '--server', server, '--port', str(port), '--json', '--no-ros',
            '--timeout', str(timeout), '--seconds', str(seconds), *arguments])
        assert time.monotonic() - began < 15.0
        out, err = capsys.readouterr()
        result = Result(code, out, err)
        assert [check['check'] for check in result.report['checks']] == CHECKS
        assert result.report['exit_code'] == code
        worst = {check['level'] for check in result.report['checks']}
        assert code == (2 if 'FAIL' in worst else 1 if 'WARN' in worst else 0)
        for check in result.report['checks']:
            assert bool(check['advice']) == (check['level'] in ('WARN', 'FAIL')), check
        return result
    return run


@pytest.fixture
def nobodys_port():
    """Give a port that nobody listens on, by TCP or UDP."""
    listener, udp = pair_of_sockets()
    port = udp.getsockname()[1]
    listener.close()
    udp.close()
    return port


def hold(server, sock):
    """Shake hands, and never send a pose."""
    say_hello(sock)
    server.hold(sock)


# -- healthy --------------------------------------------------------------------------------------

def test_nothing_is_wrong_with_a_healthy_server(examine):
    with MotiveSimServer(Scenario(bodies=named_bodies(3)), port=0) as server:
        result = examine(server.port)
    skipped = {'axes', 'qos', 'lifecycle', 'settings'}
    for check in set(CHECKS) - BUSY:
        assert result.level(check) == ('SKIP' if check in skipped else 'OK'), result.checks[check]
    assert result.values('name')['address'] == '127.0.0.1'
    assert result.values('route') == {'local': '127.0.0.1', 'card': 'lo'}
    assert result.values('handshake')['version'] == '07.38'
    assert "'Rigid Body 1', 'Rigid Body 2', 'Rigid Body 3'" in result.found('senders')
    assert result.values('senders')['send_poses'] == 3
    data = result.values('data')
    assert data['way'] == 'udp'
    assert 10 < data['poses'] < 3 * 120 * (data['listened_s'] + 0.2)
    assert result.values('rate')['rate_hz'] == pytest.approx(120.0, rel=0.02)
    assert result.values('stamps')['base'] == 'sender_start'
    assert result.code == (1 if result.level('clock') == 'WARN' else 0)


def test_the_other_way_in_serves_as_well(examine):
    with MotiveSimServer(Scenario(bodies=named_bodies(1)), port=0) as server:
        result = examine(server.port, '--connection', 'tcp', '--interface', 'lo')
    assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['SKIP', 'SKIP', 'OK', 'OK']
    assert result.values('data')['way'] == 'tcp'


def test_stamps_of_either_base_are_told_apart(examine):
    for clock, base, seconds in (
            (Clock(base='epoch'), 'unix_epoch', time.time()),
            (Clock(start=2445995.2), 'sender_start', 2445995.2)):
        with MotiveSimServer(Scenario(bodies=named_bodies(1), clock=clock), port=0) as server:
            result = examine(server.port)
        values = result.values('stamps')
        assert values['base'] == base
        assert values['sender_time_s'] == pytest.approx(seconds, abs=30.0)
        if base == 'unix_epoch':
            assert abs(values['ahead_s']) < 1.0
            assert abs(result.values('clock')['offset_s']) < 1.0
        else:
            assert '679.44 hours' in result.found('stamps')
            assert result.values('clock')['offset_s'] == pytest.approx(
                time.time() - seconds, abs=30.0)


# -- ways in --------------------------------------------------------------------------------------

def test_an_absent_server_is_told_by_both_ports(examine, nobodys_port):
    result = examine(nobodys_port)
    assert result.code == 2
    for check, kind in (('udp', 'UDP'), ('tcp', 'TCP')):
        assert result.level(check) == 'FAIL'
        assert f'nothing listens on {kind} port {nobodys_port}' in result.found(check)
        assert 'is Motive running' in result.advice(check)
    assert result.levels('name', 'route') == ['OK', 'OK']
    assert {result.level(check) for check in CHECKS if check not in (
        'name', 'route', 'udp', 'tcp')} == {'SKIP'}


def test_a_server_that_answers_by_tcp_alone_is_reached_and_the_rest_a_warning(examine):
    with FakeServer(stream, udp=False) as server:
        result = examine(server.port)
        assert result.levels('udp', 'connect-back', 'tcp') == ['WARN', 'SKIP', 'OK']
        assert result.level('data') == 'OK'
        assert result.values('data')['way'] == 'tcp'
        result = examine(server.port, '--connection', 'udp')
    assert result.levels('udp', 'data') == ['FAIL', 'SKIP']


def test_without_a_connect_back_firewalls_are_named_and_the_other_way(examine):
    with FakeServer(stream, connect_back=False) as server:
        result = examine(server.port)
        assert server.requests
        assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['OK', 'WARN', 'OK', 'OK']
        assert '127.0.0.1 did not connect back to 127.0.0.1' in result.found('connect-back')
        assert 'firewall' in result.advice('connect-back')
        assert 'connection: tcp' in result.advice('connect-back')
        result = examine(server.port, '--connection', 'udp')
    assert result.levels('connect-back', 'data') == ['FAIL', 'SKIP']
    assert result.code == 2


def test_with_udp_alone_and_no_connect_back_there_is_no_way_in(examine):
    with FakeServer(stream, connect_back=False, accept=False) as server:
        result = examine(server.port)
    assert result.levels('udp', 'connect-back', 'tcp') == ['OK', 'FAIL', 'FAIL']
    assert 'connection: tcp' not in result.advice('connect-back')
    assert result.level('handshake') == 'SKIP'


def test_a_server_without_tcp_listener_that_connects_back_is_enough(examine):
    with FakeServer(stream, accept=False) as server:
        result = examine(server.port)
    assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['OK', 'OK', 'WARN', 'OK']


def test_a_connect_back_from_another_network_card_is_named(examine):
    with FakeServer(stream, back_from='127.0.0.2', accept=False) as server:
        result = examine(server.port)
    assert result.level('connect-back') == 'FAIL'
    assert 'came from 127.0.0.2, not from 127.0.0.1' in result.found('connect-back')
    assert 'set server to 127.0.0.2' in result.advice('connect-back')


def test_names_that_do_not_resolve(examine, monkeypatch):
    def nobody(*_):
        raise socket.gaierror(-2, 'Name or service not known')
    monkeypatch.setattr(socket, 'getaddrinfo', nobody)
    result = examine(3883, server='motive.lab')
    assert result.level('name') == 'FAIL'
    assert "'motive.lab' has no IPv4 address" in result.found('name')
    assert 'IPv4 address' in result.advice('name')
    assert {result.level(check) for check in CHECKS[1:]} == {'SKIP'}


def test_a_resolver_that_hangs_is_not_waited_for(examine, monkeypatch):
    let_go = threading.Event()
    monkeypatch.setattr(socket, 'getaddrinfo', lambda *_: let_go.wait(20.0) and [])
    monkeypatch.setattr(probe, '_LOOKUP_S', 0.2)
    try:
        result = examine(3883, server='hangs.lab')
    finally:
        let_go.set()
    assert result.level('name') == 'FAIL'
    assert 'not resolved within 0.2 s' in result.found('name')


def test_several_addresses_and_a_loopback_name_are_remarked_upon(examine, monkeypatch):
    def answer(*addresses):
        monkeypatch.setattr(socket, 'getaddrinfo', lambda *_: [
            (socket.AF_INET, socket.SOCK_STREAM, 6, '', (ip, 0)) for ip in addresses])
    with MotiveSimServer(Scenario(bodies=named_bodies(1)), port=0) as server:
        answer('127.0.0.1', '127.0.0.9')
        result = examine(server.port, server='two.lab')
        assert result.level('name') == 'WARN'
        assert '127.0.0.9' in result.found('name')
        answer('127.0.0.1')
        result = examine(server.port, server='own.lab')
    assert result.level('name') == 'WARN'
    assert '/etc/hosts' in result.advice('name')
    assert result.level('data') == 'OK'


def test_an_interface_that_is_not_there_is_named(examine):
    result = examine(3883, '--interface', 'nocard0')
    assert result.level('route') == 'FAIL'
    assert "'nocard0' is no network card" in result.found('route')
    assert result.levels('udp', 'tcp') == ['SKIP', 'SKIP']


# -- handshake ------------------------------------------------------------------------------------

@pytest.mark.parametrize('connection', ['tcp', 'udp'])
def test_another_major_version_is_refused(examine, connection):
    def serve(server, sock):
        sock.sendall(b'vrpn: ver. 08.01  0\0\0\0\0\0')
        server.hold(sock)
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', connection)
    assert result.level('handshake') == 'FAIL'
    assert '08.01' in result.found('handshake')
    assert result.level('data') == 'SKIP'


def test_another_minor_version_is_noted(examine):
    def serve(server, sock):
        sock.sendall(COOKIE.replace(b'07.38', b'07.33'))
        server.stopping.wait(0.1)
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.level('handshake') == 'OK'
    assert result.values('handshake')['version'] == '07.33'
    assert 'compatible' in result.found('handshake')


def test_a_web_server_on_the_port_is_told_from_vrpn(examine):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        """A web server that logs nothing."""

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            result = examine(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
    assert result.levels('udp', 'tcp', 'handshake') == ['WARN', 'OK', 'FAIL']
    assert 'does not speak VRPN' in result.found('handshake')
    assert 'another program has port' in result.advice('handshake')


def test_a_program_that_takes_the_connection_and_says_nothing(examine):
    with FakeServer(lambda server, sock: server.hold(sock)) as server:
        result = examine(server.port, timeout=0.3)
    assert result.levels('connect-back', 'tcp', 'handshake') == ['OK', 'OK', 'FAIL']
    assert 'did not say a word of VRPN' in result.found('handshake')


def test_a_program_that_hangs_up_at_once(examine):
    with FakeServer(lambda server, sock: None) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.level('handshake') == 'FAIL'


# -- data -----------------------------------------------------------------------------------------

def test_silence_after_the_handshake_is_found_out_within_its_time(examine):
    with FakeServer(hold) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.levels('handshake', 'senders', 'data') == ['OK', 'OK', 'FAIL']
    assert "'body'" in result.found('senders')
    assert 'neither poses nor an answer' in result.found('senders')
    assert 'no pose within 2 s' in result.found('data')
    assert 2.0 <= result.values('data')['listened_s'] < 4.0
    assert 'edit mode' in result.advice('data')


def test_without_bodies_it_says_to_make_one(examine):
    with MotiveSimServer(Scenario(), port=0) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.levels('senders', 'data') == ['WARN', 'FAIL']
    assert 'make a rigid body' in result.advice('senders')


def test_datagrams_that_a_firewall_drops_are_told_from_silence(examine):
    def serve(server, sock):
        heard = say_hello(sock)
        by_udp = heard[40:44] == b'\xff\xff\xff\xfd'    # the first thing said is a UDP_DESC
        if by_udp:
            server.hold(sock)
        with contextlib.suppress(OSError):
            for frame in range(200):
                sock.sendall(pose(time_us=1_000_000 + frame * 10_000, x=frame * 1e-3))
                if server.stopping.wait(0.01):
                    return
    with FakeServer(serve) as server:
        result = examine(server.port)
    assert result.level('data') == 'FAIL'
    assert 'came by TCP' in result.found('data')
    assert result.values('data')['tcp_poses'] > 0
    assert 'let UDP in from 127.0.0.1' in result.advice('data')


def test_a_server_that_goes_in_the_middle_is_said_to(examine):
    def serve(server, sock):
        stream(server, sock, seconds=0.3)
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', 'tcp', seconds=5.0)
    assert result.level('data') == 'WARN'
    assert 'the server closed the connection' in result.found('data')


def test_frozen_and_zeroed_bodies_are_told_by_name(examine):
    def lost(called, mode):
        return Body(name=called, faults=(Occlusion(start=0.0, mode=mode),))
    bodies = (lost('ice', 'frozen'), lost('null', 'zeroed'), Body(name='good'))
    with MotiveSimServer(Scenario(bodies=bodies), port=0) as server:
        result = examine(server.port, seconds=0.7)
    assert result.level('bodies') == 'WARN'
    assert "'ice' is FROZEN" in result.found('bodies')
    assert "'null' is ZEROED" in result.found('bodies')
    assert result.values('bodies')['tracked'] == 1
    assert 'truth.frozen_after_s' in result.advice('bodies')
    with MotiveSimServer(Scenario(bodies=bodies[:1]), port=0) as server:
        result = examine(server.port, seconds=0.7)
    assert result.level('bodies') == 'FAIL'


def test_sixty_hertz_is_remarked_upon_unless_it_is_meant(examine):
    with MotiveSimServer(Scenario(bodies=named_bodies(1), rate=60.0), port=0) as server:
        result = examine(server.port)
        assert result.level('rate') == 'WARN'
        assert 'display' in result.found('rate')
        result = examine(server.port, '--expect-rate', '60')
        assert result.level('rate') == 'OK'
        result = examine(server.port, '--expect-rate', '120')
    assert result.level('rate') == 'WARN'
    assert 'where the cameras run at 120 Hz' in result.found('rate')


def test_times_that_stand_still_are_found_out(examine):
    def serve(server, sock):
        say_hello(sock)
        frame = 0
        while not server.stopping.wait(0.01):
            frame += 1
            sock.sendall(pose(time_us=1_000_000, x=frame * 1e-3))
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.level('bodies') == 'FAIL'
    assert 'stamps.mode: arrival' in result.advice('bodies')


@pytest.mark.parametrize(('reach', 'axis'), [((0.0, 2.0, 0.0), 'y'), ((0.0, 0.0, 2.0), 'z')])
def test_the_axis_along_which_a_body_was_lifted_is_up(examine, reach, axis):
    lifted = Line(centre=(1.0, 3.0, 1.0), reach=reach, period=8.0, phase=-0.25)
    bodies = (Body(name='wand', motion=lifted), Body(name='table'))
    with MotiveSimServer(Scenario(
            bodies=bodies, motion='still', noise=Noise(position_mm=0.2)), port=0) as server:
        result = examine(server.port, '--lift', '1.0', seconds=0.2)
    assert result.level('axes') == 'OK', result.found('axes')
    assert result.values('axes') == {'up_axis': axis}
    assert "'wand'" in result.found('axes')
    assert 'lift one body' in result.err


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
        # How busy the machine is may make a warning of one and none of the other.
        assert {code, doctor.main([*common, '--json'])} <= {0, 1}
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
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.values('senders')['count'] == 999
    assert 'bodies.max' in result.found('data')
    assert max(len(result.found(check)) for check in CHECKS) <= 900


def test_a_flood_without_a_pose_is_left_in_time(examine):
    block = message(1, 77, bytes(1000)) * 50

    def serve(server, sock):
        say_hello(sock)
        while not server.stopping.is_set():
            sock.sendall(block)
    with FakeServer(serve) as server:
        result = examine(server.port, '--connection', 'tcp')
    assert result.level('data') == 'FAIL'
    assert result.values('data')['listened_s'] < 4.0


def test_a_greeting_that_comes_byte_by_byte_is_not_waited_for():
    """Beyond the time for it, however often a byte comes."""
    def serve(server, sock):
        for byte in COOKIE:
            if server.stopping.wait(0.1):
                return
            sock.sendall(bytes([byte]))
    with FakeServer(serve) as server:
        began = time.monotonic()
        assert doctor.main(['--server', '127.0.0.1', '--port', str(server.port), '--no-ros',
                            '--connection', 'tcp', '--timeout', '0.3']) == 2
        assert time.monotonic() - began < 2.0


# -- the command ----------------------------------------------------------------------------------

def test_the_text_says_what_the_json_says(capsys, nobodys_port):
    assert doctor.main(['--server', '127.0.0.1', '--port', str(nobodys_port), '--no-ros',
                        '--timeout', '0.2']) == 2
    lines = capsys.readouterr().out.splitlines()
    found = [re.match(r'(OK|WARN|FAIL|SKIP) +(\S+) +\S', line) for line in lines]
    assert [match[2] for match in found if match] == CHECKS
    assert lines[0].startswith('doctor: 127.0.0.1 port')
    assert lines[-1] == 'doctor: 2 failures'
    assert sum(line.lstrip().startswith('-> ') for line in lines) == 2
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize('arguments', [
    [], ['--server', 'x', '--port', '0'], ['--server', 'x', '--connection', 'smoke'],
    ['--server', 'a b'], ['--server', 'x', '--seconds', '-1'], ['--server', 'x', '--lift', 'up'],
    ['--server', 'x', '--advertise', 'bad host!']])
def test_a_wrong_command_line_has_an_exit_code_of_its_own(arguments, capsys):
    try:
        code = doctor.main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 3
    out, err = capsys.readouterr()
    assert 'doctor: ' in err and not out


def test_every_exit_code_is_documented(capsys):
    with pytest.raises(SystemExit) as end:
        doctor.main(['--help'])
    assert end.value.code == 0
    text = ' '.join(capsys.readouterr().out.split())
    assert '0 nothing is wrong, 1 warnings, 2 failures, 3 the command line is wrong' in text


def test_without_rclpy_the_graph_alone_is_left_out(examine, capsys, monkeypatch, nobodys_port):
    monkeypatch.setitem(sys.modules, 'rclpy', None)
    monkeypatch.delitem(sys.modules, 'optitrack_vrpn.ros.doctor_graph', raising=False)
    assert doctor.main(['--server', '127.0.0.1', '--port', str(nobodys_port), '--json',
                        '--timeout', '0.2']) == 2
    result = Result(2, *capsys.readouterr())
    assert result.levels('qos', 'lifecycle', 'settings') == ['SKIP'] * 3
    assert 'ROS 2 is not there' in result.found('lifecycle')
    assert result.level('udp') == 'FAIL'


def test_ctrl_c_ends_it_at_once_and_without_a_trace():
    with FakeServer(lambda server, sock: server.hold(sock)) as server:
        process = subprocess.Popen(
            [sys.executable, '-m', 'optitrack_vrpn', 'doctor', '--server', '127.0.0.1', '--port',
             str(server.port), '--timeout', '60', '--no-ros'], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        try:
            while 'route' not in process.stdout.readline():
                assert process.poll() is None
            while not server.connections:
                time.sleep(0.01)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=10.0)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert err.strip() == 'doctor: stopped'
    assert time.monotonic() - began < 3.0


def test_it_leaves_no_descriptor_open(examine, nobodys_port):
    def count():
        return len(os.listdir('/proc/self/fd'))
    examine(nobodys_port)
    before = count()
    examine(nobodys_port)
    with FakeServer(stream) as server:
        examine(server.port)
    assert count() == before


def test_what_stands_between_is_read_from_the_system(tmp_path):
    assert probe.surroundings(str(tmp_path)) == ()
    (tmp_path / '.dockerenv').touch()
    for path, text in (('proc/sys/kernel/osrelease', '5.15.90.1-microsoft-standard-WSL2\n'),
                       ('etc/ufw/ufw.conf', '# ufw\nENABLED=yes\n')):
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert probe.surroundings(str(tmp_path)) == ('container', 'wsl', 'ufw')
    (tmp_path / 'etc/ufw/ufw.conf').write_text('ENABLED=no\n')
    assert 'ufw' not in probe.surroundings(str(tmp_path))


def test_an_address_that_no_machine_has_is_told_from_a_firewall(tmp_path):
    table = tmp_path / 'arp'
    table.write_text(
        'IP address       HW type     Flags       HW address            Mask     Device\n'
        '10.77.0.1        0x1         0x2         86:ea:0f:11:22:33     *        eth0\n'
        '10.77.0.9        0x1         0x0         00:00:00:00:00:00     *        eth0\n')
    assert probe.nobody_has('10.77.0.9', str(table))
    assert not probe.nobody_has('10.77.0.1', str(table))
    assert not probe.nobody_has('10.77.0.2', str(table))
    assert not probe.nobody_has('10.77.0.2', str(tmp_path / 'none'))
