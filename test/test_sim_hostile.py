# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""No peer of the simulated Motive can interrupt the poses of the others."""

import contextlib
import socket
import struct
import time

from hypothesis import given, HealthCheck, settings, strategies as st
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.vrpn.messages import PoseReport
import pytest
from rawvrpn import COOKIE, RawClient
import sessions
from transport_kit import black_hole, message, name, wait_until


def server(paced=False, limits=None, **scenario):
    scenario = {'bodies': 2, 'server': limits or {}, **scenario}
    return MotiveSimServer(scenario_from_mapping(scenario), port=0, paced=paced)


class Witness:
    """A well-behaved client that must not notice anything."""

    def __init__(self, sim):
        self.sim = sim
        self.client = RawClient(sim.port).hello(udp=True)

    def still_served(self, timeout=20.0):
        count = len(self.client.datagrams)
        self.sim.send_frame()
        served = self.client.read_until(lambda: len(self.client.datagrams) > count, timeout)
        return served and not self.client.closed and self.sim.failure is None


@contextlib.contextmanager
def watched(limits=None, **scenario):
    """Run a server and a client that is served to the end."""
    with server(limits=limits, **scenario) as sim:
        witness = Witness(sim)
        yield sim, witness
        assert witness.still_served()
        witness.client.close()


@pytest.fixture(scope='module')
def target():
    with watched({'client_timeout': 2.0, 'max_clients': 60}) as both:
        yield both


FUZZ = settings(max_examples=60, deadline=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture])


# -- arbitrary bytes ---------------------------------------------------------------------------

REQUESTS = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=40).map(str.encode),
    st.tuples(st.sampled_from(['127.0.0.1', '8.8.8.8', 'localhost', '0', '127.1', '::1']),
              st.integers(-10, 70000)).map(lambda t: f'{t[0]} {t[1]}\0'.encode()))


@FUZZ
@given(st.lists(REQUESTS, min_size=1, max_size=20))
def test_arbitrary_datagrams_to_the_request_port_change_nothing(target, datagrams):
    sim, witness = target
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for datagram in datagrams:
            sock.sendto(datagram, ('127.0.0.1', sim.port))
    assert witness.still_served()


PIECES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([
        COOKIE, COOKIE[:10], b'GET / HTTP/1.1\r\n\r\n', b'\x16\x03\x01\x02\x00\x01', b'\0' * 24,
        b'vrpn: ver. 06.00  0\0\0\0\0\0', b'vrpn: ver. 07.33  3\0\0\0\0\0',
        *(struct.pack('>I', size) + message(5, 5, b'')[4:] for size in (0, 23, 60000, 2**32 - 1)),
        message(-1, -1, b''), message(2**31 - 1, -1, b'\0' * 64),
        message(1, -3, b'127.0.0.1\0'), message(0, -3, b''), message(-5, -3, b'8.8.8.8\0'),
        message(70000, -3, b''), message(0, -4, struct.pack('>ii', 9, 9) + b'/tmp/in\0/tmp/out\0'),
        message(0, -5, b''), message(0, -77, b'x' * 1000)]),
    st.builds(name, st.integers(-10, 2100), st.binary(max_size=120), st.sampled_from([-1, -2])),
    st.builds(message, st.integers(-2**31, 2**31 - 1), st.integers(-10, 30),
              st.binary(max_size=100)))


@FUZZ
@given(st.booleans(), st.lists(PIECES, max_size=12))
def test_arbitrary_bytes_by_tcp_change_nothing_for_others(target, cookie_first, pieces):
    sim, witness = target
    with socket.create_connection(('127.0.0.1', sim.port), 5) as sock:
        try:
            sock.sendall(b''.join(([COOKIE] if cookie_first else []) + pieces))
        except ConnectionError:
            pass
        assert witness.still_served()
    wait_until(lambda: sim.clients == 1)


@FUZZ
@given(st.data())
def test_a_damaged_recording_of_the_real_client_changes_nothing_for_others(target, data):
    sim, witness = target
    stream = bytearray(sessions.sessions('two_clients')[0].client_stream)
    for _ in range(data.draw(st.integers(1, 8))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    with socket.create_connection(('127.0.0.1', sim.port), 5) as sock:
        try:
            sock.sendall(stream[:data.draw(st.integers(0, len(stream)))])
        except ConnectionError:
            pass
        assert witness.still_served()


# -- clients that take their time --------------------------------------------------------------

def test_half_a_handshake_stops_nobody_and_is_not_waited_for_long():
    # Long enough for the witness's own handshake on a busy machine.
    with watched(limits={'client_timeout': 1.0}) as (sim, witness):
        beginnings = [b'', COOKIE[:7], COOKIE[:23]]
        clients = [RawClient(sim.port) for _ in beginnings]
        for client, said in zip(clients, beginnings):
            client.send(said)
        assert witness.still_served()
        for client in clients:
            assert client.read_until(lambda: client.closed)  # noqa: B023
            client.close()
        assert sim.counters.dropped['handshake'] == 3


def test_half_a_message_stops_nobody():
    with watched() as (sim, witness):
        with RawClient(sim.port) as client:
            client.hello()
            client.send(message(0, 5, b'x' * 400)[:100])
            for _ in range(20):
                assert witness.still_served()
            assert not client.closed


@pytest.mark.parametrize('limits, wait_s', [
    ({'client_buffer': 50_000, 'client_timeout': 60.0}, 0),
    ({'client_buffer': 100_000_000, 'client_timeout': 1.0}, 0.6)])
def test_a_client_that_stops_reading_is_dropped_and_stops_nobody(limits, wait_s):
    with watched(bodies=200, limits=limits) as (sim, witness):
        with RawClient(sim.port) as client:
            client.hello()  # takes its poses by TCP
            client.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(1000):
                assert witness.still_served()
                if sim.clients == 1:
                    break
                time.sleep(wait_s / 100)
            assert sim.counters.dropped['stalled'] == 1


def test_few_connect_backs_wait_at_a_time_and_not_for_ever():
    with server(limits={'client_timeout': 0.5}) as sim, contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        for port in [stack.enter_context(black_hole()) for _ in range(10)]:
            sock.sendto(b'127.0.0.1 %d\0' % port, ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.requests + sim.counters.refused_requests == 10)
        assert sim.counters.refused_requests == 2
        RawClient(sim.port, 'udp').hello().close()


# -- somebody else's address -------------------------------------------------------------------

def test_it_connects_back_to_where_the_request_came_from_and_nowhere_else():
    with server() as sim, socket.create_server(('127.0.0.2', 0)) as other, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(('127.0.0.1', 0))
        for host in ('127.0.0.2', 'localhost', '127.0.0.1.nip.io'):
            sock.sendto(f'{host} {other.getsockname()[1]}\0'.encode(), ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.refused_requests == 3)
        assert sim.counters.requests == 0
        other.settimeout(0.2)
        with pytest.raises(TimeoutError):
            other.accept()


def test_it_connects_back_anywhere_where_that_is_asked_for():
    with server(limits={'connect_back_anywhere': True}) as sim, \
            socket.create_server(('127.0.0.2', 0)) as other, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(f'127.0.0.2 {other.getsockname()[1]}\0'.encode(), ('127.0.0.1', sim.port))
        other.settimeout(20)
        connection, _ = other.accept()
        connection.close()


def test_a_repeated_request_is_answered_once():
    with server() as sim, socket.create_server(('127.0.0.1', 0)) as listener, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(20):
            sock.sendto(b'127.0.0.1 %d\0' % listener.getsockname()[1], ('127.0.0.1', sim.port))
        listener.settimeout(20)
        connection, _ = listener.accept()
        listener.settimeout(0.3)
        with pytest.raises(TimeoutError):
            listener.accept()
        connection.close()
        assert sim.counters.requests == 1


def test_poses_go_to_the_client_that_asked_whatever_host_it_names():
    with server() as sim, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim, \
            RawClient(sim.port) as client:
        victim.bind(('127.0.0.2', client.udp_port))
        victim.settimeout(0.2)
        client.send(COOKIE + message(client.udp_port, -3, b'127.0.0.2\0'))
        assert sim.wait_for_clients(1)
        assert client.read_until(lambda: sim.send_frame() and client.datagrams)
        with pytest.raises(TimeoutError):
            victim.recv(2048)


# -- too much of everything --------------------------------------------------------------------

def test_more_clients_than_allowed_are_refused_and_places_become_free_again():
    with server(limits={'max_clients': 3}) as sim:
        clients = [RawClient(sim.port).hello() for _ in range(3)]
        with RawClient(sim.port) as extra:
            assert extra.read_until(lambda: extra.closed)
        assert sim.counters.refused_clients == 1
        clients.pop().close()
        wait_until(lambda: sim.clients == 2)
        clients.append(RawClient(sim.port).hello())
        for client in clients:
            client.close()


def test_a_million_names_fill_no_memory_and_no_table():
    with watched() as (sim, witness):
        with RawClient(sim.port) as client:
            client.hello()
            for i in range(0, 5000, 100):
                client.send(b''.join(
                    name(k % 2000, f'name {k}') for k in range(i, i + 100)))
                client.pump()
            wait_until(lambda: sim.counters.refused_names >= 4900)
        # The library echoes names that it does not know; here only so many.
        assert witness.client.read_until(lambda: len(witness.client.senders) == 3 + 100)
        assert witness.still_served()
        sim.send([])


def test_echoes_leave_room_for_the_servers_own_bodies():
    with server() as sim, RawClient(sim.port) as client:
        client.hello()
        client.send(b''.join(name(k, str(k)) for k in range(1, 2000)))
        wait_until(lambda: sim.counters.refused_names >= 1800)
        sim.send([PoseReport(f'late {i}', 0, 0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
                  for i in range(500)])
        assert client.read_until(lambda: len(client.senders) == 3 + 100 + 500)


def test_pings_are_answered_together_so_that_they_cost_the_pinger_most():
    with watched() as (sim, witness):
        with RawClient(sim.port) as client:
            client.hello()
            client.send(name(5, 'Rigid Body 1') + name(6, 'vrpn_Base ping_message', -2))
            before = time.monotonic()
            client.send(message(5, 6, b'') * 20_000)
            assert client.read_until(lambda: any(m.type_id == 17 for m in client.messages))
            assert witness.still_served()
            wait_until(lambda: sim.clients == 2)
            took = time.monotonic() - before
        pongs = sum(m.type_id == 17 for m in witness.client.messages)
        assert 1 <= pongs <= took / 0.02 + 2


def test_a_client_that_floods_is_dropped():
    with watched(paced=True, rate=500.0) as (sim, _):
        with RawClient(sim.port) as client:
            client.hello()
            try:
                for _ in range(400):
                    client.send(message(0, 0, b'x' * 16000))
            except ConnectionError:
                pass
            wait_until(lambda: sim.counters.dropped['flood'] == 1)


def test_no_file_is_written_at_a_clients_wish(tmp_path):
    wish = str(tmp_path / 'wish').encode()
    with server() as sim, RawClient(sim.port) as client:
        client.send(b'vrpn: ver. 07.38  3\0\0\0\0\0')
        client.send(message(3, -4, struct.pack('>ii', len(wish), len(wish))
                            + wish + b'\0' + wish + b'\0'))
        assert client.read_until(lambda: len(client.messages) > 10)
        sim.send_frame()
    assert list(tmp_path.iterdir()) == []


def test_the_log_stays_readable(caplog):
    began = time.monotonic()
    with caplog.at_level('INFO'), server() as sim, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for k in range(500):
            sock.sendto(b'\x1b[2J\nfake line\r\x07 %d' % k, ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.malformed_requests > 100)
        for _ in range(50):
            with RawClient(sim.port) as client:
                client.send(b'\x1b[2J\n')
                assert client.read_until(lambda: client.closed)
    lines = [record.getMessage() for record in caplog.records]
    # Some lines of each kind a second, and a busy machine takes seconds.
    assert 1 <= len(lines) < 60 + 12 * (time.monotonic() - began)
    assert not any(c in line for line in lines for c in '\n\r\x1b\x07')
