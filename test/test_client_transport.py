# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The transport that auto chooses, and what it remembers of requests that were not answered."""

import contextlib
import errno
import os
import select
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.sockets_io import listening_socket, program_on_udp_port
from optitrack_vrpn.drivers.vrpn.request_memory_io import remembered_request, RequestMemory
from optitrack_vrpn.drivers.vrpn.transport import (
    choose_transport, closes_input, HostFacts, remember, Remembered, Request, Seen)
from optitrack_vrpn.drivers.vrpn.transport_io import find_firewall, find_route
import pytest
from server_kit import FakeServer
from transport_kit import client, link, stream, wait_until
from two_networks import allowed, inside, TwoNetworks

QUICK_S = 0.3


# -- the decision ---------------------------------------------------------------------------------

@pytest.mark.parametrize(('facts', 'transport', 'reason'), [
    ({}, 'udp', 'directly connected'),
    ({'direct': False}, 'tcp', 'not in a directly connected network'),
    ({'firewall': 'ufw'}, 'tcp', 'ufw'),
    ({'wsl': True}, 'tcp', 'WSL'),
    ({'own': True, 'firewall': 'ufw', 'wsl': True}, 'udp', 'this computer'),
    ({'request': Request.UNANSWERED, 'since': 'Monday', 'own': True}, 'tcp', 'Monday'),
    ({'request': Request.PENDING, 'since': 'Monday'}, 'tcp', 'may still block'),
])
def test_auto_uses_udp_where_the_server_can_connect_back(facts, transport, reason):
    choice = choose_transport('auto', HostFacts(**facts))
    assert choice.transport == transport
    assert choice.reason.startswith('auto: ') and reason in choice.reason
    for connection in 'udp', 'tcp':
        assert choose_transport(connection, HostFacts(**facts)).transport == connection


SENT, ASKED = 100.0, Remembered(Request.PENDING, 100.0)
UNANSWERED = Remembered(Request.UNANSWERED, 50.0)


@pytest.mark.parametrize(('stored', 'seen', 'more', 'found'), [
    # The client listens for the answer to its own request.
    (ASKED, Seen.CONNECT_BACK, {'sent_s': SENT}, Request.NONE),
    (ASKED, Seen.REFUSAL, {'sent_s': SENT}, Request.NONE),
    (ASKED, Seen.UNREACHABLE, {'sent_s': SENT}, Request.NONE),
    (ASKED, Seen.GREETING, {'sent_s': SENT}, Request.UNANSWERED),
    (Remembered(), Seen.GREETING, {'sent_s': SENT}, Request.UNANSWERED),    # removed by another
    # A client that ended before the answer asked: a prompt greeting shows a server that is free.
    (ASKED, Seen.GREETING, {'waited_s': 0.1}, Request.NONE),
    (ASKED, Seen.GREETING, {'waited_s': 20.0}, Request.UNANSWERED),
    # Nothing was asked.
    (Remembered(), Seen.GREETING, {'waited_s': 20.0}, Request.NONE),
    # Only a connection back disproves that none comes.
    (UNANSWERED, Seen.REFUSAL, {'sent_s': SENT}, Request.UNANSWERED),
    (UNANSWERED, Seen.GREETING, {}, Request.UNANSWERED),
    (UNANSWERED, Seen.CONNECT_BACK, {'sent_s': SENT}, Request.NONE),
    (ASKED, Seen.REFUSAL, {'sent_s': SENT, 'before': UNANSWERED}, Request.UNANSWERED),
    (ASKED, Seen.CONNECT_BACK, {'sent_s': SENT, 'before': UNANSWERED}, Request.NONE),
])
def test_only_a_server_that_works_without_connecting_back_is_remembered(
        stored, seen, more, found):
    assert remember(stored, seen, **more).request is found


@pytest.mark.parametrize(('entry', 'now_s', 'left_s'), [
    (ASKED, 101.0, 1.0), (ASKED, 102.0, 0.0), (ASKED, 99.0, 0.0), (UNANSWERED, 51.0, 0.0)])
def test_a_request_can_be_answered_for_a_time_from_its_sending(entry, now_s, left_s):
    """A clock that was set back does not make it wait for ever."""
    assert entry.left_s(2.0, now_s) == left_s


def chain(policy='accept', hook='input'):
    return {'chain': {'family': 'inet', 'table': 'filter', 'hook': hook, 'policy': policy}}


def rule(*expressions, table='filter'):
    return {'rule': {'family': 'inet', 'table': table, 'expr': list(expressions)}}


MATCH = {'match': {'op': '==', 'left': {'meta': {'key': 'iifname'}}, 'right': 'lo'}}


@pytest.mark.parametrize(('rows', 'closed'), [
    ([], False),
    ([chain()], False),
    ([chain('drop')], True),
    ([chain('drop', 'forward')], False),    # as Docker sets it
    ([chain(), rule(MATCH, {'drop': None})], False),
    ([chain(), rule({'counter': {'packets': 0}}, {'reject': {'type': 'icmpx'}})], True),
    ([chain(hook='forward'), rule({'drop': None})], False),
    ([chain(), rule({'drop': None}, table='nat')], False),
])
def test_rules_of_nftables_that_close_the_input(rows, closed):
    assert closes_input({'nftables': [{'metainfo': {'version': '1.0'}}, *rows]}) is closed


# -- gathering ------------------------------------------------------------------------------------

def write(root, path, text=''):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(('files', 'found'), [
    ({}, ''),
    ({'etc/ufw/ufw.conf': '# ufw\nENABLED=no\n'}, ''),
    ({'etc/ufw/ufw.conf': '# ufw\nENABLED=yes\n'}, 'ufw'),
    ({'sys/fs/cgroup/system.slice/firewalld.service/cgroup.procs': ''}, 'firewalld'),
    ({'etc/nftables.conf': 'chain input { type filter hook input priority 0; policy drop; }'}, ''),
    ({'etc/nftables.conf': 'chain input { type filter hook input priority 0; policy drop; }',
      'etc/systemd/system/sysinit.target.wants/nftables.service': ''}, 'nftables'),
    ({'etc/iptables/rules.v4': '*filter\n:INPUT DROP [0:0]\nCOMMIT\n'}, 'iptables'),
    ({'etc/iptables/rules.v4': '*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n'}, ''),
])
def test_a_firewall_is_found_without_root(tmp_path, files, found):
    for path, text in files.items():
        write(tmp_path, path, text)
    assert find_firewall(str(tmp_path)) == found


ROUTES = """\
Iface Destination Gateway  Flags RefCnt Use Metric Mask MTU Window IRTT
eth0  00000000    0101A8C0 0003  0      0   0      00000000 0 0 0
eth0  0001A8C0    00000000 0001  0      0   0      00FFFFFF 0 0 0
tun0  0002000A    FE01A8C0 0003  0      0   0      00FFFFFF 0 0 0
"""


@pytest.mark.parametrize(('server', 'route'), [
    ('192.168.1.77', True), ('10.0.2.7', False), ('8.8.8.8', False)])
def test_the_narrowest_route_decides(tmp_path, server, route):
    write(tmp_path, 'proc/thread-self/net/route', ROUTES)
    assert find_route(server, str(tmp_path)) == route


# -- the memory -----------------------------------------------------------------------------------

def test_a_request_is_remembered_until_it_is_answered():
    memory = RequestMemory('10.0.0.1', '10.0.0.2')
    assert memory.read() == (Request.NONE, 0.0) and not memory.describe()
    assert not memory.write(Remembered(Request.UNANSWERED, 1.5))
    assert RequestMemory('10.0.0.1', '10.0.0.2').read() == (Request.UNANSWERED, 1.5)
    assert str(memory.path) in remembered_request('10.0.0.1', '10.0.0.2')
    assert not remembered_request('10.0.0.1', '10.0.0.3')
    assert not memory.write(Remembered())
    assert memory.read()[0] is Request.NONE


@pytest.mark.parametrize('text', ['', '{', '[]', '{"request": "x", "time": 1}', '{"time": 1}'])
def test_an_entry_that_cannot_be_understood_counts_as_unanswered(text):
    memory = RequestMemory('10.0.0.1', '10.0.0.2')
    memory.path.parent.mkdir(parents=True, exist_ok=True)
    memory.path.write_text(text)
    assert memory.read()[0] is Request.UNANSWERED


def test_without_a_state_folder_auto_sends_no_request(monkeypatch, tmp_path):
    write(tmp_path, 'file')
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'file'))
    with FakeServer(stream) as server, client(server.port) as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        assert running.status().transport == 'tcp'
        assert str(tmp_path / 'file') in running.status().transport_reason
    assert not server.requests


# -- the client -----------------------------------------------------------------------------------

def remembered(port=0):
    return RequestMemory('127.0.0.1', '127.0.0.1', port).read()[0]


def test_a_socket_that_cannot_listen_is_closed_with_an_error(monkeypatch):
    seen = []

    def listen(sock, _):
        seen.append(sock)
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    monkeypatch.setattr(socket.socket, 'listen', listen, raising=False)
    with pytest.raises(TransportError, match='cannot listen on 127.0.0.1'):
        listening_socket('127.0.0.1')
    (sock,) = seen
    assert sock.fileno() == -1


def test_a_process_that_ends_while_the_owner_of_a_port_is_searched_is_no_fault(
        monkeypatch, tmp_path):
    write(tmp_path, 'net/udp', 'header\n 0: 00000000:05E7 0 0 0 0 0 0 0 4711\n')
    write(tmp_path, '17/comm', 'other\n')
    write(tmp_path, '17/fd/.keep')
    os.symlink('socket:[4711]', tmp_path / '17' / 'fd' / '3')
    assert program_on_udp_port(1511, str(tmp_path)) == 'other (process 17)'

    def glob(self, pattern):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f'{self}/18/fd')
    monkeypatch.setattr(type(tmp_path), 'glob', glob)
    assert program_on_udp_port(1511, str(tmp_path)) == ''


def test_a_server_that_does_not_connect_back_is_asked_in_one_attempt_only():
    quick = link(connect_back_s=QUICK_S)
    with FakeServer(stream, connect_back=False) as server:
        for _ in range(2):
            with client(server.port, link=quick) as (running, sink):
                sink.wait_state(LinkState.STREAMING)
                assert running.status().transport == 'tcp'
                assert 'connect back' in running.status().transport_reason
            assert remembered() is Request.UNANSWERED
        assert len(server.requests) == 1
        (told,) = [c.text for c in sink.changes if 'connection: udp' in c.text] or [None]
    assert told is None    # the second client repeats nothing


def test_what_is_remembered_is_told_once_with_its_file():
    with FakeServer(stream, connect_back=False) as server:
        with client(server.port, link=link(connect_back_s=QUICK_S)) as (_, sink):
            sink.wait_state(LinkState.STREAMING)
    (told,) = [c for c in sink.changes if c.severity == WARN]
    assert str(RequestMemory('127.0.0.1', '127.0.0.1').path) in told.text


def test_a_connection_by_udp_that_works_ends_the_memory():
    RequestMemory('127.0.0.1', '127.0.0.1').write(
        Remembered(Request.UNANSWERED, time.time() - 1000.0))
    with FakeServer(stream) as server:
        for connection, transport in ('auto', 'tcp'), ('udp', 'udp'), ('auto', 'udp'):
            with client(server.port, link=link(connection=connection)) as (running, sink):
                sink.wait_state(LinkState.STREAMING)
                assert running.status().transport == transport
    assert remembered() is Request.NONE


def test_a_lost_request_is_repeated_within_its_attempt():
    class Deaf(FakeServer):
        """Does not see the first datagram."""

        def _run(self):
            select.select([self.udp], [], [])
            self.requests.append(self.udp.recv(65536))
            super()._run()

    with Deaf(stream) as server, client(server.port) as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        assert running.status().transport == 'udp'
    assert len(server.requests) == 2
    assert remembered() is Request.NONE


def test_a_client_that_ends_before_the_answer_leaves_its_request():
    with FakeServer(stream, accept=False, connect_back=False) as server:
        with client(server.port) as (stopped, _):
            wait_until(lambda: server.requests)
    assert remembered(server.port) is Request.PENDING
    assert not stopped.status().attempts    # it had no outcome
    assert remembered(server.port + 1) is Request.NONE


def test_a_second_client_waits_for_the_answer_to_the_first():
    memory = RequestMemory('127.0.0.1', '127.0.0.1')
    memory.write(Remembered(Request.PENDING, time.time()))
    threading.Timer(0.3, memory.write, (Remembered(),)).start()
    with FakeServer(stream) as server, client(server.port) as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        assert running.status().transport == 'udp'


def test_a_connection_back_that_comes_late_is_no_reason_for_tcp():
    """A server that was halted, for example to load a project, connects back later."""
    def serve(server, sock):
        if sock.getsockname()[1] == server.port:    # by TCP: it connects back before it greets
            address = server.requests[0].rstrip(b'\0').split()
            with socket.create_connection((address[0].decode(), int(address[1])), 5.0):
                stream(server, sock)
        else:
            stream(server, sock)

    with FakeServer(serve, connect_back=False) as server:
        with client(server.port, link=link(connect_back_s=QUICK_S)) as (running, sink):
            sink.wait_state(LinkState.STREAMING)
            assert running.status().transport == 'tcp'
    assert remembered() is Request.NONE


# -- networks -------------------------------------------------------------------------------------

NAMESPACES = pytest.mark.skipif(not allowed(), reason='no right to make network namespaces')


@pytest.fixture
def networks():
    with TwoNetworks() as networks:
        yield networks


@contextlib.contextmanager
def serve_in(networks, back_from='0.0.0.0'):
    with inside(networks.motive):
        server = FakeServer(stream, host='0.0.0.0', port=3883, back_from=back_from).__enter__()
    with contextlib.closing(SimpleNamespace(close=server.__exit__)):
        yield server


@NAMESPACES
@pytest.mark.parametrize('connection', ['udp', 'auto'])
def test_a_server_in_the_network_connects_back(networks, connection):
    with inside(networks.robot), serve_in(networks), client(
            3883, server=networks.lab[1], link=link(connection=connection)) as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        assert running.status().transport == 'udp'


@NAMESPACES
def test_a_server_behind_a_gateway_is_not_asked(networks):
    subprocess.run(
        f'ip -n {networks.motive} addr add 10.99.0.1/32 dev lo && '
        f'ip -n {networks.robot} route add 10.99.0.0/16 via {networks.lab[1]}',
        shell=True, check=True)
    with inside(networks.robot), serve_in(networks) as server, client(
            3883, server='10.99.0.1') as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        assert running.status().transport == 'tcp'
        assert 'directly' in running.status().transport_reason
    assert not server.requests


@NAMESPACES
def test_a_firewall_that_drops_connections_back_is_met_once(networks):
    """Routing rules drop all TCP packets to the robot that are not from the server's own port."""
    for rule in ('add pref 100 iif lab0 ipproto tcp sport 3883 lookup local',
                 'add pref 101 iif lab0 ipproto tcp blackhole', 'add pref 102 lookup local',
                 'del pref 0'):
        subprocess.run(f'ip -n {networks.robot} rule {rule}', shell=True, check=True)
    with inside(networks.robot), serve_in(networks) as server:
        for _ in range(2):
            with client(3883, server=networks.lab[1]) as (running, sink):
                sink.wait_state(LinkState.STREAMING)
                assert running.status().transport == 'tcp'
        assert len(set(server.requests)) == 1
        assert remembered_request(networks.lab[0], networks.lab[1])


@NAMESPACES
def test_an_absent_computer_is_asked_again_when_it_comes(networks):
    with inside(networks.robot), client(
            3883, server='10.214.1.7') as (_, sink):
        sink.wait_state(LinkState.LOST)
        subprocess.run(f'ip -n {networks.motive} addr add 10.214.1.7/24 dev lab0', shell=True,
                       check=True)
        with serve_in(networks, back_from='10.214.1.7'):
            sink.wait_state(LinkState.STREAMING)
