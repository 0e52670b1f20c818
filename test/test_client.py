# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The client and a server that is absent, silent, foreign or unstable: its reports and retries."""

import socket
from types import SimpleNamespace

from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn import handshake_io
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.rules import of_log
import pytest
from server_kit import FakeServer
from transport_kit import (
    client, link, pose, say_hello, stream, udp_port, wait_until)

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


# -- strangers ------------------------------------------------------------------------------------

def test_unexpected_connect_backs_are_refused_counted_and_reported_once():
    with FakeServer(stream, back_from='127.0.0.2', accept=False) as server:
        with client(server.port, link=link(connection='udp', blocked_s=0.3)) as (running, sink):
            wait_until(lambda: running.status().unexpected_peers >= 3)
            (remark,) = of_log(StreamFacts(link=running.status()))
    assert remark.severity == WARN
    assert remark.text == (
        'a TCP connection from 127.0.0.2 was refused: the server is 127.0.0.1')
    assert 'set server: 127.0.0.2' in remark.remedy
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
    assert status.refused == {'127.0.0.2': 'a datagram'}


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
