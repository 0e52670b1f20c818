# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive on real sockets, against the real library's answers to the same bytes."""

from collections import defaultdict
import contextlib
from functools import partial
import os
import socket
import struct
import threading

import numpy as np
from optitrack_vrpn.drivers.frames import Body, Motion
from optitrack_vrpn.drivers.vrpn.codec import encode_text, TEXT_TYPE
from optitrack_vrpn.sim.scenario_io import named_bodies, Scenario, scenario_from_mapping
from optitrack_vrpn.sim.server_io import MotiveSimServer
import pytest
import rawvrpn
from rawvrpn import RawClient
from server_kit import free_port
import sessions
from transport_kit import black_hole, message, name, wait_until


def server(paced=False, **scenario):
    return MotiveSimServer(scenario_from_mapping(scenario), port=0, paced=paced)


# -- the real client's bytes, and what the real server answered ---------------------------------

def readable(message):
    """Leave of a message what can be compared: no clock, no port, no rubbish behind a text."""
    payload, sender = message.payload, message.sender
    if message.type_id == -3:
        sender = 'port'
    if len(payload) == 1032:
        payload = payload[:8] + payload[8:].split(b'\0')[0]
    # Reports and texts bear stamps that they were given, descriptions and pongs the clock.
    stamp = message.time if message.type_id >= 0 and payload else None
    return stamp, sender, message.type_id, message.sequence, payload


def with_port(stream, port):
    """Put the UDP port of this test into the recorded client's bytes."""
    data = bytearray(stream)
    at = data.find(b'\xff\xff\xff\xfd')
    if at >= 0:
        data[at - 4:at] = struct.pack('>i', port)
    return bytes(data)


@pytest.mark.parametrize('name, index, bodies', [
    ('udp_lob', 0, 3), ('tcp_only', 0, 3), ('two_clients', 0, 2),
    ('late_server_then_restart', 0, 1), ('late_server_then_restart', 1, 1)])
def test_it_answers_the_real_client_as_the_real_server_did(name, index, bodies):
    session = sessions.sessions(name)[index]
    recorded = b''.join(a.data for a in session.server_actions if a.kind == 'tcp')
    wanted = rawvrpn.parse(recorded[24:])
    # Up to the first report or text, or to what another client caused.
    count = next((i for i, m in enumerate(wanted) if m.type_id >= 0 and m.payload), len(wanted))
    pongs = [i for i, m in enumerate(wanted[:count]) if m.type_id == 17]
    if name == 'two_clients':
        count = pongs[0] + 1
    assert count > 20 and pongs
    names = [f'rigid_body_{i + 1}' for i in range(bodies)]
    way = 'tcp' if name == 'tcp_only' else 'udp'
    with server(bodies=names) as sim, RawClient(sim.port, way) as client:
        # The cookie comes unasked.
        assert client.read_until(lambda: len(client.stream) >= 24)
        assert client.stream == recorded[:24]
        client.send(with_port(session.client_stream, client.udp_port))
        assert client.read_until(lambda: len(client.messages) >= count)
        found = [readable(m) for m in client.messages[:count]]
        assert found == [readable(m) for m in wanted[:count]]


def frames_of(name):
    frames = defaultdict(list)
    for row in sessions.sent(name):
        values = (row.body, 0, row.sender_time_ns, row.vector, row.quat_xyzw)
        frames[row.frame].append(Body(*values) if row.kind == 'pose' else Motion(
            *values[:3], row.kind == 'vel', *values[3:], row.dt))
    return [frames[key] for key in sorted(frames)]


@pytest.mark.parametrize('name', ['tcp_only', 'udp_lob', 'motive_like_5x240'])
def test_frames_go_out_as_the_real_server_sent_them_byte_by_byte(name):
    """Feed what the recorded server was instructed to send; compare the whole of its session."""
    session, = sessions.sessions(name)
    names = list(dict.fromkeys(row.body for row in sessions.sent(name)))
    recorded = b''.join(a.data for a in session.server_actions if a.kind == 'tcp')
    wanted = rawvrpn.parse(recorded[24:])
    recorded_udp = [a.data for a in session.server_actions if a.kind == 'udp']
    texts = {m.time[0] * 10**9 + m.time[1] * 1000: m.payload[8:].split(b'\0')[0].decode()
             for m in wanted if len(m.payload) == 1032}
    way = 'tcp' if name == 'tcp_only' else 'udp'
    with server(bodies=names) as sim, RawClient(sim.port, way) as client:
        client.send(with_port(session.client_stream, client.udp_port))
        assert client.read_until(
            lambda: sum(m.type_id == 17 for m in client.messages)
            == sum(m.type_id == 17 for m in wanted))
        vrpn = sim.serving('vrpn')
        for frame in frames_of(name):
            sim.send(frame)
            text = texts.get(frame[0].sender_time_ns)
            if text is not None:
                sim.call(partial(
                    vrpn.send_message, names[0], TEXT_TYPE, encode_text(text, 1, 7),
                    frame[0].sender_time_ns))
            client.pump()
        assert client.read_until(lambda: len(client.messages) >= len(wanted)
                                 and len(client.datagrams) >= len(recorded_udp))
    assert [readable(m) for m in client.messages] == [readable(m) for m in wanted]
    # Not only the messages: they share datagrams in the same way.
    assert client.datagrams == recorded_udp
    assert recorded_udp or name == 'tcp_only'


# -- frames -------------------------------------------------------------------------------------

@pytest.mark.parametrize('way, udp', [('tcp', False), ('tcp', True), ('udp', True)])
def test_poses_are_the_scenarios_to_the_last_bit(way, udp):
    names = ['Rigid Body 1', '1drone', 'drone/left']
    with server(bodies=names, clock={'start': 1234.567}) as sim, RawClient(sim.port, way) as c:
        c.hello(udp=udp)
        frames = [sim.send_frame() for _ in range(20)]
        source = (lambda: c.udp_messages) if udp else (lambda: c.messages)
        assert c.read_until(lambda: len(rawvrpn.poses(source(), c.senders)) == 60)
        found = rawvrpn.poses(source(), c.senders)
        sent = [(r.name, r.sender_time_ns // 1000, r.position, r.quat_xyzw)
                for frame in frames for r in frame.reports]
        assert found == sent
        truth = sim.world.truth('1drone', np.arange(20) / 120.0)
        np.testing.assert_array_equal([p[2] for p in found if p[0] == '1drone'], truth.position)
        assert found[0][1] == 1234_567_000


def test_thirty_bodies_need_two_datagrams_and_five_hundred_more():
    for count, wanted in ((16, [16]), (30, [16, 14]), (500, [16] * 31 + [4])):
        with server(bodies=count) as sim, RawClient(sim.port) as client:
            client.hello(udp=True)
            sim.send_frame()
            assert client.read_until(lambda: len(client.udp_messages) == count)  # noqa: B023
            assert [len(rawvrpn.parse(d)) for d in client.datagrams] == wanted
            assert max(map(len, client.datagrams)) <= 1472


# -- clients ------------------------------------------------------------------------------------

def test_two_clients_are_served_alike_and_pongs_reach_both():
    with server(bodies=2) as sim, RawClient(sim.port) as one, RawClient(sim.port, 'udp') as two:
        one.hello()
        two.hello(udp=True)
        sim.send_frame()
        assert one.read_until(lambda: len(rawvrpn.poses(one.messages, one.senders)) == 2)
        assert two.read_until(lambda: len(two.udp_messages) == 2)
        assert rawvrpn.poses(one.messages, one.senders) == rawvrpn.poses(
            two.udp_messages, two.senders)
        # Sender 'Rigid Body 1' and the ping type under numbers of the client's own.
        one.send(name(77, 'Rigid Body 1') + name(9, 'vrpn_Base ping_message', -2)
                 + message(77, 9, b''))
        for client in (one, two):
            assert client.read_until(
                lambda: any(m.type_id == 17 for m in client.messages))  # noqa: B023
            pong = client.messages[-1]
            assert client.senders[pong.sender] == 'Rigid Body 1' and not pong.payload
        assert sim.clients == 2


def test_a_restart_keeps_the_port_and_changes_clock_and_ids():
    with server(paced=True, bodies=['a', 'b'], rate=200.0, clock={'start': 10.0}) as sim:
        with RawClient(sim.port) as client:
            client.hello(udp=True)
            assert client.read_until(lambda: len(client.datagrams) > 40)
            port, before = sim.port, client.senders
            sim.restart()
            assert client.read_until(lambda: client.closed)
        assert sim.port == port and sim.counters.restarts == 1
        with RawClient(port, 'udp') as client:
            client.hello(udp=True)
            assert client.read_until(lambda: client.datagrams)
            assert client.senders == {0: 'VRPN Control', 1: 'b', 2: 'a'}
            assert before == {0: 'VRPN Control', 1: 'a', 2: 'b'}
            assert 10 <= client.udp_messages[0].time[0] <= 20


# -- clients that fail --------------------------------------------------------------------------

def served(sim, client):
    """Return whether a client gets the next frame."""
    client.pump()
    count = len(client.datagrams) + len(client.messages)
    sim.send_frame()
    return client.read_until(lambda: len(client.datagrams) + len(client.messages) > count, 0.3)


@pytest.mark.parametrize('udp', [False, True])
def test_a_client_that_does_not_read_misses_frames_and_stops_nobody(udp):
    with server(bodies=100) as sim, RawClient(sim.port) as other, RawClient(sim.port) as client:
        other.hello(udp=True)
        (client.udp if udp else client.tcp).setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.hello(udp=udp)
        assert all(served(sim, other) for _ in range(100))
        wait_until(lambda: served(sim, client))    # whole messages again, once it reads
        assert udp or len(client.messages) < 50 * 100
        assert sim.failure is None and not client.closed


def test_an_unanswered_connect_back_stops_all_until_its_timeout():
    with server(bodies=1, server={'connect_timeout': 1.0}) as sim, \
            RawClient(sim.port) as other, black_hole() as port, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        other.hello(udp=True)
        sock.sendto(b'127.0.0.1 %d\0' % port, ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.requests)
        assert not served(sim, other)
        wait_until(lambda: served(sim, other))


def test_a_server_that_waits_can_be_stopped():
    with server(bodies=1, server={'firewall': True}) as sim, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b'127.0.0.1 30009\0', ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.requests)
    assert sim.failure is None


def test_arbitrary_bytes_end_nothing():
    stream = sessions.sessions('two_clients')[0].client_stream
    with server(bodies=1) as sim:
        for damaged in (b'', b'GET / HTTP/1.1\r\n\r\n' * 3, stream[:10], stream[:-9] + b'\xff' * 9,
                        stream[:30] + b'\xff' * 99, message(0, -4, struct.pack('>ii', 9, 9))):
            with socket.create_connection(('127.0.0.1', sim.port), 5) as sock, \
                    contextlib.suppress(ConnectionError):
                sock.sendall(damaged)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for damaged in (b'', b'\xff' * 300, b'localhost 5\0', b'127.0.0.1 99999\0'):
                sock.sendto(damaged, ('127.0.0.1', sim.port))
        wait_until(lambda: sim.counters.malformed_requests == 4)
        with RawClient(sim.port) as client:
            client.hello()
            assert served(sim, client)


# -- starting and stopping ----------------------------------------------------------------------

def descriptors():
    return len(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else 0


def test_stopping_releases_threads_sockets_and_the_port():
    port = free_port()
    before, threads = descriptors(), threading.active_count()
    for _ in range(20):
        scenario = Scenario(bodies=named_bodies(2), rate=1000.0)
        with MotiveSimServer(scenario, port=port) as sim:
            assert sim.port == port
            with RawClient(port) as one, RawClient(port, 'udp') as two:
                one.hello()
                two.hello(udp=True)
                assert two.read_until(lambda: two.datagrams)
    # Fewer where something of an earlier test went meanwhile.
    assert threading.active_count() <= threads
    assert descriptors() <= before
