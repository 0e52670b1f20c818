# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The status reports data that wait unread in the sockets, and none once they are read."""

import contextlib
import socket
import sys
import threading
import time

from optitrack_vrpn.drivers import sockets_io as sockets
from optitrack_vrpn.drivers.link import LinkState
import pytest
from server_kit import FakeServer
from transport_kit import client, greeted, link, pose, SlowRecorder, wait_until

linux = pytest.mark.skipif(
    not sys.platform.startswith('linux'), reason='only Linux tells what waits in sockets')


BOTH = pytest.mark.parametrize('way', ['udp', 'tcp'])


@contextlib.contextmanager
def standing_client(way, count, **limits):
    """
    Run a client whose sink stands still after the first of two poses; all others wait unread.

    :param count: of all poses.
    :returns: client and sink, which goes on when its event ``go_on`` is set.
    """
    resume, sent, sink = threading.Event(), threading.Event(), SlowRecorder()
    sink.go_on.set()

    def serve(server, sock):
        with greeted(sock, way) as send:
            for frame in range(count):
                send(pose(time_us=1_000_000 + frame * 4000, x=frame / 1000.0))
                if frame == 0:
                    resume.wait(10.0)
                if frame == 1:
                    wait_until(lambda: len(sink.poses) == 2)
            sent.set()
            server.hold(sock)
    with FakeServer(serve) as server, client(
            server.port, sink, link=link(connection=way, **limits)) as (running, _):
        sink.wait(lambda: len(sink.poses) == 1)
        queue = running.status().queue
        assert queue['unread_tcp_bytes'] == queue.get('unread_udp_bytes', 0) == 0
        sink.go_on.clear()
        resume.set()
        assert sent.wait(10.0)
        try:
            yield running, sink
        finally:
            sink.go_on.set()


@linux
@BOTH
def test_unread_data_is_reported_while_it_waits(way):
    with standing_client(way, 51) as (running, sink):
        wait_until(lambda: running.status().queue[f'unread_{way}_bytes'] >= 49 * len(pose()))
        # Of datagrams that have just arrived, one is read at a time.
        time.sleep(0.1)
        sink.go_on.set()
        sink.wait(lambda: len(sink.poses) == 51)
        most = running.status().queue['most_datagrams_at_once']
        assert most > 25 if way == 'udp' else most == 0
        wait_until(lambda: not running.status().queue[f'unread_{way}_bytes'])
        assert running.status().queue.get('dropped_unread', 0) == 0
        assert running.status().queue['most_datagrams_at_once'] == 0
    assert running.status().queue == {}


@linux
@BOTH
def test_a_halted_client_reads_what_arrived_before_it_reconnects(way):
    with standing_client(way, 31, silent_after_s=0.5, reconnect_after_s=0.5) as (running, sink):
        sink.wait(lambda: len(sink.poses) == 2)
        over = time.monotonic() + 0.6
        wait_until(lambda: time.monotonic() > over and running.status().queue[
            f'unread_{way}_bytes'])
        sink.go_on.set()
        sink.wait(lambda: len(sink.poses) == 31)
        assert not {LinkState.SILENT, LinkState.LOST} & set(sink.states)
        sink.wait_state(LinkState.LOST)    # silence without unread data


def test_a_socket_that_has_been_closed_meanwhile_is_no_error():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        sock = socket.socket(socket.AF_INET, kind)
        sock.close()
        assert sockets.unread(sock, kind == socket.SOCK_STREAM) is None


@linux
def test_datagrams_that_the_kernel_had_no_room_for_are_counted():
    with sockets.datagram_socket('127.0.0.1') as sock, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert sockets.unread(sock, False) == (0, 0)
        for _ in range(100):
            sender.sendto(bytes(500), sock.getsockname())
        waiting, dropped = sockets.unread(sock, False)
        assert waiting >= 500
        assert 50 < dropped < 100
