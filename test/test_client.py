# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The client and a server that is absent, silent, foreign or unstable: its reports and retries."""

import socket
from types import SimpleNamespace

from conftest import lacking
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn import handshake_io
import pytest
from server_kit import FakeServer
from transport_kit import (
    client, COOKIE, link, mute, pose, say_hello, stream, udp_port, wait_until)

BOTH = pytest.mark.parametrize('way', ['udp', 'tcp'])


# -- absent ---------------------------------------------------------------------------------------

@BOTH
def test_an_absent_server_is_reported_with_a_remedy(unused_port, way):
    with client(unused_port, link=link(connection=way)) as (running, sink):
        sink.wait_state(LinkState.LOST, 2)
        # An attempt is counted after it was reported.
        wait_until(lambda: running.status().failures >= 2)
        status = running.status()
    reason = sink.reasons(LinkState.LOST)[0]
    assert f'nothing listens on {way.upper()} port {unused_port} of 127.0.0.1' in reason
    assert 'Motive' in reason
    assert status.sessions == 0
    entered = LinkState.REQUESTING if way == 'udp' else LinkState.CONNECTING
    assert sink.states[:3] == [LinkState.RESOLVING, entered, LinkState.LOST]
    assert sink.states[-1] is LinkState.STOPPED


def test_a_port_that_is_connected_to_itself_is_an_absent_server(unused_port, monkeypatch):
    class Unlucky(socket.socket):
        """Of all ports it gets the very one that it is to connect to."""

        def bind(self, address):
            super().bind((address[0], unused_port))

    monkeypatch.setattr(
        handshake_io, 'socket', SimpleNamespace(**{**vars(socket), 'socket': Unlucky}))
    with client(unused_port, link=link(connection='tcp')) as (_, sink):
        sink.wait_state(LinkState.LOST)
    assert f'TCP port {unused_port} of 127.0.0.1' in sink.reasons(LinkState.LOST)[0]


def test_a_name_that_does_not_resolve_is_named():
    with client(3883, server='no-such-host.invalid') as (_, sink):
        # Without a network the system's resolver waits for its servers, each of them twice.
        sink.wait(lambda: LinkState.LOST in sink.states, 60.0)
    assert "'no-such-host.invalid' has no IPv4 address" in sink.reasons(LinkState.LOST)[0]


def test_a_name_of_several_addresses_is_tried_through(monkeypatch):
    real = socket.getaddrinfo

    def two(host, *rest):
        if host != 'motive.lab':
            return real(host, *rest)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, '', (ip, 0))
                for ip in ('127.0.0.9', '127.0.0.1')]
    with FakeServer(stream) as server:
        monkeypatch.setattr(socket, 'getaddrinfo', two)
        with client(server.port, server='motive.lab') as (running, sink):
            sink.wait_state(LinkState.STREAMING)
            assert running.status().server == f'127.0.0.1:{server.port}'
    assert any('127.0.0.9' in reason for reason in sink.reasons(LinkState.LOST))


# -- ways in --------------------------------------------------------------------------------------

@pytest.mark.parametrize(('connection', 'udp'), [('auto', False), ('tcp', False), ('tcp', True)])
def test_a_forwarded_tcp_port_is_enough_and_tcp_sends_no_request(connection, udp):
    def twice(server, sock):
        stream(server, sock, seconds=0.1)
    with FakeServer(twice, udp=udp) as server, client(
            server.port, link=link(connection=connection)) as (running, sink):
        sink.wait_state(LinkState.STREAMING, 3)
        assert running.status().transport == 'tcp'
    assert not server.requests
    assert {way for _, way, _ in server.connections} == {'tcp'}


def test_udp_alone_never_connects_out():
    patient = link(connection='udp', attempt_s=0.25, blocked_s=0.5)
    with FakeServer(stream, connect_back=False) as server:
        with client(server.port, link=patient) as (_, sink):
            sink.wait_state(LinkState.LOST, 2)
            wait_until(lambda: len(server.requests) >= 2)
        assert not server.connections
    assert 'set connection: tcp' in sink.reasons(LinkState.LOST)[0]


# -- foreign and mute -----------------------------------------------------------------------------

@pytest.mark.parametrize('version', [b'06.12', b'08.00'])
def test_another_major_version_is_refused_and_tried_again(version):
    def other(server, sock):
        sock.sendall(COOKIE.replace(b'07.38', version))
        server.hold(sock)
    with FakeServer(other) as server, client(server.port) as (running, sink):
        sink.wait_state(LinkState.REFUSED, 2)
        assert running.status().sessions == 0
    change = next(c for c in sink.changes if c.data is LinkState.REFUSED)
    assert change.severity == ERROR
    assert f'speaks VRPN {version.decode()}' in change.text


@pytest.mark.parametrize('answer', [
    b'HTTP/1.1 400 Bad Request\r\n\r\n', b'\x15\x03\x01\x00\x02\x02\x46', b'SSH-2.0-OpenSSH_9',
    COOKIE.replace(b'  0', b'  7'), bytes(24)])
def test_other_programs_on_the_port_are_recognised(answer):
    def foreign(server, sock):
        sock.sendall(answer)
        server.hold(sock)
    with FakeServer(foreign, connect_back=False, udp=False) as server:
        with client(server.port, link=link(connection='tcp')) as (_, sink):
            sink.wait_state(LinkState.LOST)
    reason = sink.reasons(LinkState.LOST)[0]
    assert 'not speak VRPN' in reason or 'broken VRPN cookie' in reason
    assert repr(answer[:7])[2:-1] in reason


def dribble(server, sock):
    """Send a cookie that never ends."""
    for byte in COOKIE[:20]:
        sock.sendall(bytes([byte]))
        if server.stopping.wait(0.05):
            return


@pytest.mark.parametrize(('serve', 'way'), [(mute, 'udp'), (mute, 'tcp'), (dribble, 'tcp')])
def test_a_server_without_a_greeting_is_reported_and_left(serve, way):
    quick = link(connection=way, attempt_s=0.1, blocked_s=0.3)
    with FakeServer(serve) as server, client(server.port, link=quick) as (running, sink):
        sink.wait_state(LinkState.LOST, 2)
        assert running.status().sessions == 0
    late = next(c for c in sink.changes if 'greeting within 0.1 s' in c.text)
    assert (late.data, late.severity) == (LinkState.HANDSHAKING, WARN)
    assert 'up to 0.3 s' in late.text
    for said in (late.text, sink.reasons(LinkState.LOST)[0]):
        assert not lacking(said, 'blocked', 'firewall')
    assert 'greeting within 0.3 s' in sink.reasons(LinkState.LOST)[0]


@pytest.mark.parametrize('after', ['nothing', 'hello', 'pose', 'reset'])
def test_a_server_that_hangs_up_at_once_is_called_ever_more_rarely(after):
    def hang_up(server, sock):
        if after in ('hello', 'pose'):
            say_hello(sock)
            sock.sendall(pose() if after == 'pose' else b'')
        elif after == 'reset':
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    with FakeServer(hang_up) as server:
        calm = link(connection='tcp', retry_min_s=0.05, retry_max_s=0.4)
        with client(server.port, link=calm) as (running, sink):
            # 0.05 + 0.1 + 0.2 + 0.4 s of pauses at the least
            sink.wait_state(LinkState.LOST, 5)
            # Counted after it was reported. Conversations with poses are no failures.
            wait_until(lambda: running.status().failures >= 5 or after == 'pose')
            assert after != 'pose' or not running.status().failures
        calls = [at for at, _, _ in server.connections[:5]]
    assert calls[4] - calls[0] >= 0.74
    reason = sink.reasons(LinkState.LOST)[0]
    assert 'closed the connection' in reason
    assert after in ('hello', 'pose') or 'handshake' in reason or 'TCP port' in reason


# -- silence --------------------------------------------------------------------------------------

@BOTH
def test_silence_is_reported_and_then_ends_the_connection(way):
    def half_open(server, sock):
        """
        Send poses, then hold the connection and send nothing, as a black hole does.

        All at once: a stream on a busy machine has silences of its own.
        """
        say_hello(sock)
        sock.sendall(b''.join(pose(time_us=1_000_000 + 10_000 * n) for n in range(15)))
        server.hold(sock)
    quick = link(connection=way, silent_after_s=0.2, reconnect_after_s=0.5)
    with FakeServer(half_open) as server, client(server.port, link=quick) as (running, sink):
        sink.wait_state(LinkState.STREAMING, 2)
        status = running.status()
    assert status.sessions == 2
    order = [state for state in sink.states if state in (
        LinkState.STREAMING, LinkState.SILENT, LinkState.LOST)]
    assert order[:4] == [
        LinkState.STREAMING, LinkState.SILENT, LinkState.LOST, LinkState.STREAMING]
    silent, lost = (next(c for c in sink.changes if c.data is s)
                    for s in (LinkState.SILENT, LinkState.LOST))
    assert silent.severity == lost.severity == WARN
    assert 'no pose for 0.2 s' in silent.text
    assert 'no pose for 0.5 s' in lost.text
    silent_ns, lost_ns = (sink.changed_ns[sink.changes.index(c)] for c in (silent, lost))
    # Counted from its arrival: the sink may be called any time later.
    last_pose_ns = max(b[1] for b in sink.batches if b[3] < silent_ns)
    assert 0.2e9 <= silent_ns - last_pose_ns < 2.0e9
    assert 0.5e9 <= lost_ns - last_pose_ns < 5.0e9


# -- strangers ------------------------------------------------------------------------------------

def test_unexpected_connect_backs_are_refused_counted_and_reported_once():
    with FakeServer(stream, back_from='127.0.0.2', accept=False) as server:
        with client(server.port, link=link(connection='udp', blocked_s=0.3)) as (running, sink):
            wait_until(lambda: running.status().unexpected_peers >= 3)
    remarks = [c for c in sink.changes if '127.0.0.2' in c.text]
    assert len(remarks) == 1
    assert remarks[0].severity == WARN
    assert 'from 127.0.0.2 was refused' in remarks[0].text
    assert 'set server: 127.0.0.2' in remarks[0].text
    assert not sink.events


def test_unexpected_datagrams_are_refused_and_counted():
    def serve(server, sock):
        heard = say_hello(sock)
        port = udp_port(heard)
        for address, x in (('127.0.0.2', 666.0), ('127.0.0.1', 1.0)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                udp.bind((address, 0))
                for frame in range(5):
                    udp.sendto(pose(time_us=frame, x=x), ('127.0.0.1', port))
        server.hold(sock)
    with FakeServer(serve) as server, client(
            server.port, link=link(connection='udp')) as (running, sink):
        sink.wait(lambda: len(sink.poses) == 5)
        status = running.status()
    # Another port than the server's own is no stranger's: real servers send from any.
    assert [p.position[0] for p in sink.poses] == [1.0] * 5
    assert status.unexpected_peers == 5
    assert (status.state, status.reason) == (LinkState.STREAMING, 'poses are arriving')
    (remark,) = [c for c in sink.changes if '127.0.0.2' in c.text]
    assert 'a datagram from 127.0.0.2 was refused' in remark.text


# -- local addresses ------------------------------------------------------------------------------

@BOTH
@pytest.mark.parametrize(('interface', 'address'), [
    ('', '127.0.0.1'), ('127.0.0.3', '127.0.0.3'), ('lo', '127.0.0.1')])
def test_the_interface_is_the_one_that_the_server_sees(interface, address, way):
    with FakeServer(stream) as server:
        with client(server.port, interface=interface, link=link(connection=way)) as (
                running, sink):
            sink.wait_state(LinkState.STREAMING)
            assert running.status().local == address
        assert server.connections[0][2][0] == address
        if way == 'udp':
            assert server.requests[0].split(b' ')[0] == address.encode()


@pytest.mark.parametrize(('interface', 'said'), [
    ('nocard0', "'nocard0'"),
    ('192.0.2.77', '192.0.2.77')])
def test_an_interface_that_is_not_there_is_named(interface, said):
    with client(3883, interface=interface) as (_, sink):
        sink.wait_state(LinkState.LOST)
    assert said in sink.reasons(LinkState.LOST)[0]
    if interface == 'nocard0':
        assert ' lo' in sink.reasons(LinkState.LOST)[0]
