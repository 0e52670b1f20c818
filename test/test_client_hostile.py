# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Misbehaving servers: the client stays bounded, reports why it disconnects, and reconnects."""

import gc
import itertools
import os
import random
import select
import socket
import struct
import time

from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn.codec import SenderDescribed
import pytest
import rawvrpn
from server_kit import FakeServer, unread
import sessions
from transport_kit import (
    client, COOKIE, link, message, name, pose, POSE_TYPE_ID, PREAMBLE, say_hello, stream,
    stream_on, udp_port, wait_until)

MIB = 1 << 20


def resident_bytes():
    gc.collect()
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def once(evil):
    """Serve an evil first conversation and sound ones after it."""
    turns = itertools.count()

    def serve(server, sock):
        if next(turns):
            stream(server, sock)
        else:
            evil(server, sock)
    return serve


@pytest.mark.parametrize('size', [0, 64001, 0xffffffff])
def test_an_impossible_length_ends_the_connection_with_a_reason(size):
    def evil(server, sock):
        say_hello(sock)
        sock.sendall(pose() + struct.pack('>IIIiiI', size, 0, 0, 1, POSE_TYPE_ID, 0) + bytes(64))
        server.hold(sock)
    with FakeServer(once(evil)) as server, client(server.port) as (_, sink):
        sink.wait_state(LinkState.STREAMING, 2)
    (lost,) = [c for c in sink.changes if c.data is LinkState.LOST]
    assert f'message of {size} bytes' in lost.text
    assert lost.severity == ERROR


def test_pings_for_changing_names_are_bounded():
    """A client that asked after each new name at once would say more than it hears."""
    heard = bytearray()

    def evil(server, sock):
        say_hello(sock)
        for number in range(0, 20_000, 500):
            sock.sendall(b''.join(
                name(5, f'body {n % 400}') for n in range(number, number + 500)))
            if select.select([sock], [], [], 0)[0]:
                heard.extend(sock.recv(1 << 20))
        sock.sendall(pose())
        while not server.stopping.is_set():
            if select.select([sock], [], [], 0.02)[0]:
                data = sock.recv(1 << 20)
                if not data:
                    return
                heard.extend(data)
    with FakeServer(evil) as server, client(server.port) as (_, sink):
        sink.wait_state(LinkState.STREAMING)
        assert sum(isinstance(e, SenderDescribed) for e in sink.noted) >= 20_000
        wait_until(
            lambda: len(rawvrpn.described(rawvrpn.parse(bytes(heard)), -1)) >= 402 - 1)
        time.sleep(0.1)
    said = rawvrpn.parse(bytes(heard))
    assert len(rawvrpn.described(said, -1)) == 402 - 1
    # Each name once described and five times asked after, and the type of the question.
    assert len(said) <= 400 * 6 + 1


def test_a_server_that_reads_nothing_costs_no_memory():
    def evil(server, sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(COOKIE + PREAMBLE)
        for number in range(0, 40_000, 500):
            sock.sendall(b''.join(name(5, f'body {n}') for n in range(number, number + 500)))
        sock.sendall(pose())
        server.stopping.wait()
    with FakeServer(evil) as server, client(server.port) as (running, sink):
        sink.wait_state(LinkState.STREAMING)
        conversation = running._account[1]
    # Looked at when it has stopped: in between it may be about to ask.
    assert len(conversation._out) < 500 * (128 + 6 * 24)
    assert conversation.driver.connection.data_to_send() == b''


def flood(make):
    """
    Serve a stream of poses beside what a function sends to the client's UDP port.

    No more waits for a busy client than the smallest buffer holds: all of it is to be read.
    """
    def serve(server, sock):
        heard = say_hello(sock)
        target = ('127.0.0.1', udp_port(heard))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(('127.0.0.1', 0))
            for number, datagram in enumerate(make()):
                while unread('udp', target[1]) > 100_000 and not server.stopping.wait(0.001):
                    pass
                udp.sendto(datagram, target)
                if number % 20 == 0:
                    sock.sendall(pose(time_us=1_000_000 + number))
                    server.stopping.wait(0.002)
        stream_on(server, sock)
    return serve


def garbage():
    dice = random.Random(6)
    valid = pose() * 3
    for number in range(1500):
        if number % 3 == 0:
            yield dice.randbytes(dice.randrange(0, 1473))
        else:
            damaged = bytearray(valid)
            for _ in range(dice.randrange(1, 20)):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            yield bytes(damaged[:dice.randrange(1, len(damaged) + 1)])


def test_garbage_by_udp_is_counted_and_the_stream_goes_on():
    by_udp = link(connection='udp')
    with FakeServer(flood(garbage)) as server, client(
            server.port, link=by_udp) as (running, sink):
        sink.wait(lambda: len(sink.batches) and running.status().counters.get(
            'datagrams', 0) >= 1400 and sink.poses[-1].sender_time_ns > 2_000_000_000)
        counters = running.status().counters
        assert running.status().state is LinkState.STREAMING
    assert counters['malformed'] > 400
    assert LinkState.LOST not in sink.states


def test_the_largest_datagrams_are_read_whole():
    most = 65507
    poses = pose(time_us=7_000_000) * (most // 88)

    def make():
        for _ in range(30):
            yield bytes(most)
            yield poses
    by_udp = link(connection='udp')
    with FakeServer(flood(make)) as server, client(server.port, link=by_udp) as (running, sink):
        sink.wait(lambda: sum(p.sender_time_ns == 7_000_000_000 for p in sink.poses)
                  >= 10 * (most // 88))
        assert running.status().counters['malformed'] >= 10
    assert LinkState.LOST not in sink.states


def test_a_tcp_flood_is_bounded_and_starves_no_client():
    # Types that were not described, so that the flood is work and no events.
    block = message(1, 77, bytes(1000)) * 400

    def evil(server, sock):
        say_hello(sock)
        while not server.stopping.is_set():
            sock.sendall(block)
    with FakeServer(evil) as flooding, FakeServer(stream) as sound:
        with client(sound.port) as (_, sink), client(flooding.port) as (running, flooded):
            flooded.wait_state(LinkState.CONNECTED)
            before = resident_bytes()
            had = len(sink.poses)
            began = time.monotonic()
            wait_until(lambda: running.status().counters.get('unknown_type', 0) > 20_000)
            sink.wait(lambda: len(sink.poses) >= had + 30)
            grown = resident_bytes() - before
            took = time.monotonic() - began
            assert running.status().state is LinkState.CONNECTED
    assert grown < 20 * MIB
    # 30 frames of 10 ms: the other client was served all the time, give or take.
    assert took < 20.0


def test_silence_is_noticed_under_a_flood_that_holds_no_pose():
    block = message(1, 77, bytes(1000)) * 50

    def evil(server, sock):
        say_hello(sock)
        sock.sendall(pose())
        while not server.stopping.is_set():
            sock.sendall(block)
    quick = link(silent_after_s=0.2, reconnect_after_s=0.5)
    with FakeServer(once(evil)) as server, client(server.port, link=quick) as (_, sink):
        sink.wait_state(LinkState.STREAMING, 2)
    assert LinkState.SILENT in sink.states
    assert 'no pose for 0.5 s' in sink.reasons(LinkState.LOST)[0]


def test_damaged_recordings_never_end_the_client():
    """Forty conversations with flipped, cut and repeated bytes of the real library's."""
    (session,) = sessions.sessions('tcp_only')
    sound = b''.join(action.data for action in session.server_actions)[24:]
    dice = random.Random(3883)

    def evil(server, sock):
        if len(server.connections) > 40:
            stream(server, sock)
            return
        damaged = bytearray(sound[:dice.randrange(len(sound))])
        for _ in range(dice.randrange(1, 30)):
            at = dice.randrange(len(damaged) or 1)
            damaged[at:at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        sock.sendall(COOKIE + damaged)

    quick = link(connection='tcp', retry_min_s=0.001, retry_max_s=0.01)
    with FakeServer(evil) as server, client(server.port, link=quick) as (running, sink):
        wait_until(lambda: len(server.connections) > 40, 60.0)
        sink.wait(lambda: any(p.name == 'body' for p in sink.poses))
        assert running.status().sessions > 40
    assert not [reason for reason in sink.reasons(LinkState.LOST) if 'bug' in reason]
