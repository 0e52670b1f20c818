# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The status reports data that wait unread in the sockets, and none once they are read."""

import socket
import sys
import threading
import time

from optitrack_vrpn.client import sockets_io as sockets
from optitrack_vrpn.client.link import LinkState
import pytest
from server_kit import FakeServer
from transport_kit import client, link, pose, Recorder, say_hello, wait_until

linux = pytest.mark.skipif(
    not sys.platform.startswith('linux'), reason='only Linux tells what waits in sockets')


class Slow(Recorder):
    """A sink that can be made to stand still."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()

    def receive(self, *arguments):
        super().receive(*arguments)
        self.go_on.wait(10.0)


@linux
@pytest.mark.parametrize('way', ['udp', 'tcp'])
def test_what_waits_unread_is_told_while_it_waits(way):
    told = threading.Event()

    def serve(server, sock):
        heard = say_hello(sock)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            def send(frame):
                data = pose(time_us=1_000_000 + frame * 4000, x=frame / 1000.0)
                if way == 'udp':
                    udp.sendto(data, ('127.0.0.1', int.from_bytes(heard[36:40], 'big')))
                else:
                    sock.sendall(data)
            send(0)
            told.wait(10.0)
            send(1)
            wait_until(lambda: len(sink.poses) == 2)
            for frame in range(2, 51):
                send(frame)
            server.hold(sock)
    sink = Slow()
    with FakeServer(serve) as server:
        with client(server.port, sink, link=link(connection=way)) as (running, _):
            sink.wait(lambda: len(sink.poses) == 1)
            queue = running.status().queue
            assert queue['unread_tcp_bytes'] == queue.get('unread_udp_bytes', 0) == 0
            sink.go_on.clear()
            told.set()
            try:
                wait_until(lambda: running.status().queue[f'unread_{way}_bytes'] >= (
                    49 * len(pose())))
            finally:
                sink.go_on.set()
            sink.wait(lambda: len(sink.poses) == 51)
            most = running.status().queue['most_datagrams_at_once']
            assert most > 25 if way == 'udp' else most == 0
            wait_until(lambda: not running.status().queue[f'unread_{way}_bytes'])
            assert running.status().queue.get('dropped_unread', 0) == 0
            assert running.status().queue['most_datagrams_at_once'] == 0
        assert running.status().queue == {}


@linux
@pytest.mark.parametrize('way', ['udp', 'tcp'])
def test_a_client_that_was_halted_reads_what_arrived_instead_of_reconnecting(way):
    halted = threading.Event()

    def serve(server, sock):
        heard = say_hello(sock)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            for frame in range(31):
                data = pose(time_us=1_000_000 + frame * 4000, x=frame / 1000.0)
                if way == 'udp':
                    udp.sendto(data, ('127.0.0.1', int.from_bytes(heard[36:40], 'big')))
                else:
                    sock.sendall(data)
                if frame == 0:
                    halted.wait(10.0)
                if frame == 1:
                    wait_until(lambda: len(sink.poses) == 2)
            server.hold(sock)
    sink = Slow()
    limits = {'silent_after_s': 0.5, 'reconnect_after_s': 0.5}
    with FakeServer(serve) as server, client(
            server.port, sink, link=link(connection=way, **limits)) as (running, _):
        sink.wait(lambda: len(sink.poses) == 1)
        sink.go_on.clear()
        halted.set()
        try:
            sink.wait(lambda: len(sink.poses) == 2)
            over = time.monotonic() + 0.6
            wait_until(lambda: time.monotonic() > over and running.status().queue[
                f'unread_{way}_bytes'])
        finally:
            sink.go_on.set()
        sink.wait(lambda: len(sink.poses) == 31)
        assert not {LinkState.SILENT, LinkState.LOST} & set(sink.states)
        sink.wait_state(LinkState.LOST)    # silence without unread data


def test_a_socket_that_has_been_closed_meanwhile_is_no_error():
    for kind, look in ((socket.SOCK_STREAM, sockets.unread_stream_bytes),
                       (socket.SOCK_DGRAM, sockets.unread_datagrams)):
        sock = socket.socket(socket.AF_INET, kind)
        sock.close()
        assert look(sock) is None


@linux
def test_datagrams_that_the_kernel_had_no_room_for_are_counted():
    with sockets.datagram_socket('127.0.0.1') as sock, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert sockets.unread_datagrams(sock) == (0, 0)
        for _ in range(100):
            sender.sendto(bytes(500), sock.getsockname())
        waiting, dropped = sockets.unread_datagrams(sock)
        assert waiting >= 500
        assert 50 < dropped < 100
