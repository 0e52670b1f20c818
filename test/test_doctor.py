# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor against servers as in labs: healthy, absent, behind a firewall, silent, foreign."""

import contextlib
import http.server
import socket
import threading
import time

from conftest import lacking
import doctor_kit
from doctor_kit import CHECKS, IN_VAIN_S
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.vrpn.request_memory_io import RequestMemory
from optitrack_vrpn.sim.faults import Occlusion
from optitrack_vrpn.sim.motion import BackAndForth
from optitrack_vrpn.sim.scenario_io import (
    named_bodies, Noise, Scenario, scenario_from_mapping, SimBody, SimClock)
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.telling.doctor.probes_io import look_up
from optitrack_vrpn.telling.doctor.results import ProbeResults
import pytest
from server_kit import FakeServer
from transport_kit import COOKIE, pose, say_hello, stream

examine = doctor_kit.examine
#: What depends on how busy the machine is that runs the test.
BUSY = {'clock'}


def motive(**scenario):
    """Make a simulated Motive, with one body unless stated otherwise."""
    return MotiveSimServer(Scenario(**{'bodies': named_bodies(1), **scenario}), port=0)


def hold(server, sock):
    """Shake hands, and never send a pose."""
    say_hello(sock)
    server.hold(sock)


# -- healthy --------------------------------------------------------------------------------------

def test_nothing_is_wrong_with_a_healthy_server(examine):
    result = examine(motive(bodies=named_bodies(3)))
    skipped = {'axes', 'natnet', 'natnet-clock', 'qos',
               'publishers', 'frames', 'published', 'lifecycle', 'shell', 'reach', 'settings'}
    # A machine so busy that the simulator itself leaves frames out cannot be told from a Motive's.
    hiccup = {'data'} if 'no body sent' in result.found('data') else set()
    for check in set(CHECKS) - BUSY - hiccup:
        assert result.level(check) == ('SKIP' if check in skipped else 'OK'), result.checks[check]
    assert result.values('name')['address'] == '127.0.0.1'
    route = result.values('route')
    assert (route['local'], route['card']) == ('127.0.0.1', 'lo')
    assert result.values('handshake')['version'] == '07.38'
    assert "'Rigid Body 1', 'Rigid Body 2', 'Rigid Body 3'" in result.found('senders')
    assert result.values('senders')['count'] == 3
    data = result.values('data')
    assert data['transport'] == 'udp'
    assert 10 < data['poses'] < 3 * 120 * (data['listened_s'] + 0.2)
    assert result.values('rate')['rate_hz'] == pytest.approx(120.0, rel=0.02)
    assert "sender's start" in result.found('stamps')
    assert result.code == (1 if hiccup or result.level('clock') == 'WARN' else 0)


@pytest.mark.parametrize(('way', 'level'), [('tcp', 'SKIP'), ('udp', 'OK')])
def test_a_way_that_is_asked_for_is_examined(examine, way, level):
    result = examine(motive(), '--connection', way, '--interface', 'lo')
    assert result.levels('udp', 'connect-back', 'tcp', 'data') == [level, level, 'OK', 'OK']
    assert result.values('data')['transport'] == way


def test_stamps_of_the_epoch_give_the_offset_of_the_clocks(examine):
    result = examine(motive(clock=SimClock(base='epoch')))
    assert 'Unix epoch' in result.found('stamps')
    assert abs(result.values('stamps')['ahead_s']) < 1.0
    assert abs(result.values('clock')['offset_s']) < 1.0


def test_stamps_of_motives_start_give_its_age(examine):
    clock = SimClock(start=2445995.2)
    result = examine(motive(clock=clock))
    assert '679.44 hours' in result.found('stamps')
    assert result.values('clock')['offset_s'] == pytest.approx(
        time.time() - clock.start, abs=30.0)


# -- ways in --------------------------------------------------------------------------------------

def test_an_absent_server_is_told_by_both_ports(examine, unused_port):
    result = examine(unused_port, timeout=0.4)
    assert result.code == 2
    for check, kind in (('udp', 'UDP'), ('tcp', 'TCP')):
        result.judged(check, 'FAIL', f'nothing listens on {kind} port {unused_port}',
                      advice=['start Motive'])
    assert result.levels('name', 'route') == ['OK', 'OK']
    assert {result.level(check) for check in CHECKS if check not in (
        'name', 'route', 'udp', 'tcp')} == {'SKIP'}


def test_a_server_that_answers_by_tcp_alone_is_reached(examine):
    with FakeServer(stream, udp=False) as server:
        result = examine(server.port)
        assert result.levels('udp', 'connect-back', 'tcp') == ['SKIP', 'SKIP', 'OK']
        result.judged('data', 'OK')
        assert result.values('data')['transport'] == 'tcp'
        result = examine(server.port, '--connection', 'udp', timeout=IN_VAIN_S)
    assert result.levels('udp', 'data') == ['FAIL', 'SKIP']


def test_without_a_connect_back_the_server_hangs_and_the_other_way_is_named(examine):
    with FakeServer(stream, connect_back=False) as server:
        result = examine(server.port, '--connection', 'udp', timeout=IN_VAIN_S)
        assert server.requests
        assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['OK', 'FAIL', 'OK', 'SKIP']
        assert 'back to 127.0.0.1' in result.found('connect-back')
        assert result.advice('connect-back').startswith('the server hangs')
        assert 'ufw' not in result.advice('connect-back')
        assert 'connection: tcp' in result.advice('connect-back')
        assert result.code == 2


def test_a_server_that_does_not_connect_back_is_asked_once(examine):
    """A dropped connect-back stops a real server for all its clients."""
    with FakeServer(stream, connect_back=False) as server:
        result = examine(server.port)
        assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['OK', 'WARN', 'OK', 'OK']
        asked = len(server.requests)
        result = examine(server.port)
        assert len(server.requests) == asked
    assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['SKIP', 'WARN', 'OK', 'OK']
    assert not lacking(result.advice('connect-back'), 'connection: udp', str(
        RequestMemory('127.0.0.1', '127.0.0.1').path))


def test_with_udp_alone_and_no_connect_back_there_is_no_way_in(examine):
    result = examine(FakeServer(stream, connect_back=False, accept=False), timeout=0.4)
    assert result.levels('udp', 'connect-back', 'tcp') == ['OK', 'FAIL', 'FAIL']
    assert 'connection: tcp' not in result.advice('connect-back')
    result.judged('handshake', 'SKIP')


def test_a_server_without_tcp_listener_that_connects_back_is_enough(examine):
    result = examine(FakeServer(stream, accept=False))
    assert result.levels('udp', 'connect-back', 'tcp', 'data') == ['OK', 'OK', 'WARN', 'OK']
    assert 'Motive' not in result.advice('tcp')    # it runs, and poses arrive


def test_a_connect_back_from_another_network_card_is_named(examine):
    result = examine(FakeServer(stream, back_from='127.0.0.2', accept=False), timeout=IN_VAIN_S)
    result.judged('connect-back', 'FAIL')
    assert 'came from 127.0.0.2, not from 127.0.0.1' in result.found('connect-back')
    assert 'set server to 127.0.0.2' in result.advice('connect-back')


def test_names_that_do_not_resolve(examine, monkeypatch):
    def nobody(*_):
        raise socket.gaierror(-2, 'Name or service not known')
    monkeypatch.setattr(socket, 'getaddrinfo', nobody)
    result = examine(3883, server='motive.lab')
    result.judged('name', 'FAIL', "'motive.lab' has no IPv4 address", advice=['IPv4 address'])
    assert {result.level(check) for check in CHECKS[1:]} == {'SKIP'}


def test_a_name_that_cannot_be_one_has_its_whole_reason(examine):
    examine(3883, server='.').judged('name', 'FAIL', "'.' has no IPv4 address", 'host name)')


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch):
    let_go = threading.Event()
    monkeypatch.setattr(socket, 'getaddrinfo', lambda *_: let_go.wait(20.0) and [])
    probed = ProbeResults('hangs.lab', 3883)
    try:
        look_up(probed, ClientConfig(server='hangs.lab'), None, 0.2)
    finally:
        let_go.set()
    assert 'not resolved within 0.2 s' in probed.name_error


def test_several_addresses_and_a_loopback_name_are_remarked_upon(examine, monkeypatch):
    def answer(*addresses):
        monkeypatch.setattr(socket, 'getaddrinfo', lambda *_: [
            (socket.AF_INET, socket.SOCK_STREAM, 6, '', (ip, 0)) for ip in addresses])
    with motive() as server:
        answer('127.0.0.1', '127.0.0.9')
        result = examine(server.port, server='two.lab')
        result.judged('name', 'WARN', '127.0.0.9')
        answer('127.0.0.1')
        result = examine(server.port, server='own.lab')
    result.judged('name', 'WARN', advice=['/etc/hosts'])
    result.judged('data', 'OK')


@pytest.mark.parametrize('card, advice', [
    ('nocard0', 'interface'), ('192.0.2.77', 'ip -br address')])
def test_an_interface_that_is_not_there_is_named(examine, card, advice):
    result = examine(3883, '--interface', card)
    result.judged('route', 'FAIL', f"'{card}'", advice=[advice])
    assert result.levels('udp', 'tcp') == ['SKIP', 'SKIP']


# -- handshake ------------------------------------------------------------------------------------

def greeting(data):
    """Make the behaviour of a server that greets with these bytes."""
    def serve(server, sock):
        sock.sendall(data)
        server.hold(sock)
    return serve


@pytest.mark.parametrize(('serve', 'connection', 'level', 'said', 'advice'), [
    (greeting(b'vrpn: ver. 08.01  0\0\0\0\0\0'), 'tcp', 'FAIL', '08.01', ''),
    (greeting(b'vrpn: ver. 08.01  0\0\0\0\0\0'), 'udp', 'FAIL', '08.01', ''),
    (greeting(COOKIE.replace(b'07.38', b'07.33')), 'tcp', 'OK', 'compatible', ''),
    (greeting(b''), 'tcp', 'FAIL', f'no VRPN greeting within {IN_VAIN_S:g} s', 'firewall drops'),
    (lambda server, sock: None, 'tcp', 'FAIL', '', '')],
    ids=['major', 'major by udp', 'minor', 'silence', 'hangs up'])
def test_handshakes_with_other_servers(examine, serve, connection, level, said, advice):
    result = examine(FakeServer(serve), '--connection', connection, timeout=IN_VAIN_S)
    assert result.levels('tcp', 'handshake') == ['OK', level]
    assert said in result.found('handshake')
    assert advice in result.advice('handshake')
    assert level == 'OK' or result.level('data') == 'SKIP'


def test_a_web_server_on_the_port_is_told_from_vrpn(examine):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        """A web server that logs nothing."""

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            result = examine(server.server_address[1], timeout=IN_VAIN_S)
        finally:
            server.shutdown()
            thread.join()
    assert result.levels('udp', 'tcp', 'handshake') == ['SKIP', 'OK', 'FAIL']
    assert 'not speak VRPN' in result.found('handshake')
    assert 'uses port' in result.advice('handshake')
    assert 'firewall' not in result.advice('handshake')


# -- data -----------------------------------------------------------------------------------------

def test_silence_after_the_handshake_is_found_out_within_its_time(examine):
    began = time.monotonic()
    result = examine(FakeServer(hold), '--connection', 'tcp')
    assert time.monotonic() - began < 12.0
    assert result.levels('handshake', 'senders', 'data') == ['OK', 'OK', 'FAIL']
    assert "'body'" in result.found('senders')
    assert 'neither poses nor' in result.found('senders')
    assert 'no pose within 2 s' in result.found('data')
    assert 'edit mode' in result.advice('data')


def test_a_server_on_this_machine_without_any_name_hangs(examine):
    result = examine(FakeServer(greeting(COOKIE)), '--connection', 'tcp')
    assert result.levels('handshake', 'senders', 'data') == ['OK', 'SKIP', 'FAIL']
    result.judged('data', 'FAIL', 'no pose within 2 s', advice=['the server hangs'])
    assert 'mtu' not in result.advice('data')


def test_without_bodies_it_says_to_make_one(examine):
    result = examine(motive(bodies=()), '--connection', 'tcp')
    assert result.levels('senders', 'data') == ['WARN', 'FAIL']
    assert 'a rigid body' in result.advice('senders')


def test_datagrams_that_get_lost_are_told_from_silence(examine):
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
    result = examine(FakeServer(serve), '--connection', 'udp')
    result.judged('data', 'FAIL', 'arrived by TCP')
    assert result.values('data')['tcp_poses'] > 0
    assert 'connection: tcp' in result.advice('data')
    assert 'firewall' not in result.advice('data')


def test_a_server_that_goes_in_the_middle_is_said_to(examine):
    def serve(server, sock):
        stream(server, sock, seconds=0.3)
    result = examine(FakeServer(serve), '--connection', 'tcp', seconds=5.0)
    result.judged('data', 'WARN', 'closed the connection')


def test_frozen_and_zeroed_bodies_are_told_by_name(examine):
    def lost(called, mode):
        return SimBody(name=called, faults=(Occlusion(start=0.0, mode=mode),))
    bodies = (lost('ice', 'frozen'), lost('null', 'zeroed'), SimBody(name='good'))
    result = examine(motive(bodies=bodies), seconds=0.7)
    result.judged('bodies', 'WARN', "'ice' is FROZEN", "'null' is ZEROED")
    assert result.values('bodies')['tracked'] == 1
    assert 'validation.frozen_after_s' in result.advice('bodies')


@pytest.mark.parametrize(('scenario', 'arguments', 'check', 'said'), [
    ({'faults': [{'type': 'drop_frames', 'probability': 0.3}]}, [], 'rate', 'at the sender'),
    ({'faults': [{'type': 'duplicate_frames', 'probability': 1.0}]}, [], 'data',
     'frame arrives twice'),
    ({'bodies': [{'name': 'A', 'faults': [
        {'type': 'occlusion', 'mode': 'silent', 'start': 0.3, 'end': 0.7, 'every': 1.0}]}]}, [],
     'bodies', "'A' was silent for"),
    ({'rate': 60.0}, [], 'rate', 'display'),
    ({'rate': 60.0}, ['--expect-rate', '120'], 'rate', '120 Hz')])
def test_faults_of_a_stream_are_found_out(examine, scenario, arguments, check, said):
    """The rules have tests of their own; these show that what was heard reaches them."""
    scenario = scenario_from_mapping({
        'noise': {'position_mm': 0.05, 'attitude_deg': 0.02}, 'bodies': ['A'], **scenario})
    result = examine(MotiveSimServer(scenario, port=0), *arguments, seconds=1.5)
    # A body that is frozen at the end of the watch is worse than one that was.
    level = result.level(check) if check == 'bodies' else 'WARN'
    assert level in ('WARN', 'FAIL')
    result.judged(check, level, said)


def test_datagrams_that_are_overtaken_are_not_called_lost(examine):
    scenario = scenario_from_mapping({
        'bodies': ['A', 'B'], 'network': {'reorder': 0.2, 'reorder_ms': 20.0}})
    result = examine(MotiveSimServer(scenario, port=0), '--connection', 'udp', seconds=1.5)
    assert 'out of order' in result.found('data')
    assert 'lost' not in result.found('data')
    result.judged('rate', 'OK')


def test_the_axis_along_which_a_body_was_lifted_is_up(examine):
    lifted = BackAndForth(centre=(1.0, 3.0, 1.0), reach=(0.0, 0.0, 2.0), period=8.0, phase=-0.25)
    bodies = (SimBody(name='wand', motion=lifted), SimBody(name='table'))
    server = motive(bodies=bodies, motion='still', noise=Noise(position_mm=0.2))
    result = examine(server, '--lift', '1.0', seconds=0.2)
    result.judged('axes', 'OK', "'wand'")
    assert result.values('axes')['up_axis'] == 'z'
    assert 'lift one body' in result.err
