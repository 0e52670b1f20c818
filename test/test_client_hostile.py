# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Misbehaving servers: the client stays bounded, reports why it disconnects, and reconnects."""

import gc
import itertools
import os
import socket
import time

from optitrack_vrpn.drivers.link import LinkState
from server_kit import FakeServer, unread
from transport_kit import (
    client, COOKIE, link, message, name, pose, PREAMBLE, say_hello, stream,
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
