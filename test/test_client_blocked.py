# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""An unanswered connect-back blocks a server for all clients; no client may cause that."""

import contextlib
import threading

from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario, Server
from optitrack_vrpn.sim.server_io import MotiveSimServer
from server_kit import FakeServer
from transport_kit import client, link, stream, wait_until

#: Far longer than any of these tests: they fail rather than wait for it.
LONG_S = 60.0


@contextlib.contextmanager
def asked_server():
    """Run a server whose connect-backs are dropped, and given up after 0.5 s."""
    server = Server(port=0, connect_timeout=0.5, firewall=True)
    with MotiveSimServer(Scenario(bodies=named_bodies(1), rate=200.0, server=server)) as sim:
        yield sim


def test_a_server_that_cannot_connect_back_is_asked_once_and_the_reason_is_reported():
    quick = link(connection='udp', attempt_s=0.1, blocked_s=LONG_S)
    with asked_server() as sim:
        with client(sim.port, link=quick) as (_, sink):
            sink.wait_reason('did not connect back')
            # No further request comes within half a second of poses.
            with client(sim.port, link=link(connection='tcp')) as (_, other):
                other.wait(lambda: len(other.poses) > 100)
        assert sim.counters.requests <= 2    # it is repeated once, a datagram can be lost
    (late,) = [c for c in sink.changes if 'not connect back' in c.text]
    assert (late.data, late.severity) == (LinkState.REQUESTING, WARN)
    assert 'within 0.1 s' in late.text
    assert 'connection: tcp' in late.text and 'blocks the server' in late.text
    assert 'next request after 60 s' in late.text


def test_a_server_blocked_by_another_client_is_awaited():
    patient = link(connection='tcp', attempt_s=0.1, blocked_s=LONG_S)
    with asked_server() as sim:
        free, blocked = threading.Event(), threading.Event()
        blocking = threading.Thread(target=sim.call, args=[
            lambda: blocked.set() or free.wait(20.0)])
        blocking.start()
        assert blocked.wait(20.0)
        with client(sim.port, link=patient) as (running, sink):
            sink.wait_reason('probably blocked, by a client whose firewall')
            free.set()
            sink.wait_state(LinkState.STREAMING)
            assert running.status().sessions == 1
        blocking.join()
    assert LinkState.LOST not in sink.states
    assert not any('whether another program' in c.text for c in sink.changes)


def test_a_silent_server_without_tcp_gets_one_request():
    quick = link(connect_back_s=0.1, blocked_s=LONG_S)
    with FakeServer(stream, accept=False, connect_back=False) as server:
        with client(server.port, link=quick) as (_, sink):
            sink.wait_state(LinkState.LOST, 4)
        wait_until(lambda: server.requests)
        assert len(server.requests) == 1
    assert 'not connect back' in sink.reasons(LinkState.CONNECTING)[0]
    assert 'may still block' in sink.reasons(LinkState.CONNECTING)[1]
    assert 'listens on TCP' in sink.reasons(LinkState.LOST)[0]


def test_a_new_client_sends_no_request_to_a_blocked_server():
    """Cleaning a node up and configuring it again makes a new client."""
    with FakeServer(stream, accept=False, connect_back=False) as server:
        for connection in 'udp', 'udp', 'auto':
            quick = link(connection=connection, attempt_s=0.05, blocked_s=LONG_S)
            with client(server.port, link=quick) as (_, sink):
                wait_until(lambda: server.requests)
                sink.wait(lambda: any(change.severity == WARN for change in sink.changes))
        assert len(server.requests) == 1
        with client(server.port, link=link(connection='udp', attempt_s=0.05, blocked_s=0.2)):
            wait_until(lambda: len(server.requests) == 2)


def test_an_answer_to_any_client_ends_the_wait():
    asking = link(connection='udp', attempt_s=0.05, blocked_s=LONG_S)
    with FakeServer(stream, connect_back=False) as server:
        with client(server.port, link=asking):
            wait_until(lambda: server.requests)
        with client(server.port, link=link(connection='tcp')) as (_, sink):
            sink.wait_state(LinkState.STREAMING)
        with client(server.port, link=asking):
            wait_until(lambda: len(server.requests) == 2)


def test_poses_by_udp_return_after_a_network_that_lost_the_requests():
    quick = link(connection='udp', attempt_s=0.1, silent_after_s=0.1, reconnect_after_s=0.3,
                 blocked_s=LONG_S)

    def serve(server, sock):
        stream(server, sock, seconds=0.2)
        server.connect_back = len(server.connections) > 1
        server.hold(sock)
    with FakeServer(serve) as server, client(server.port, link=quick) as (running, sink):
        wait_until(lambda: len(server.requests) > 3)    # the first one, and lost ones
        assert not running.status().failures
        server.connect_back = True
        sink.wait_state(LinkState.STREAMING, 2)
        assert {way for _, way, _ in server.connections} == {'udp'}
    assert any('is repeated' in change.text for change in sink.changes)
