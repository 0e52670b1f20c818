# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A client from start to stop: giving up, being stopped, exceptions, and cleaning up."""

import contextlib
import gc
import logging
import os
import resource
import socket
import threading
import time

from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient
import pytest
from server_kit import FakeServer
from transport_kit import (
    client, hold, link, mute, Recorder, say_hello, stream, wait_until)

BOTH = pytest.mark.parametrize('way', ['udp', 'tcp'])


# -- stopping -------------------------------------------------------------------------------------

@pytest.fixture
def hanging_resolver(monkeypatch):
    """Let name resolution hang until the test is over; gives the names asked for."""
    release, asked, real = threading.Event(), [], socket.getaddrinfo

    def hang(host, *rest):
        if not str(host).endswith('.hangs'):
            return real(host, *rest)
        asked.append(host)
        release.wait(20.0)
        raise socket.gaierror(-3, 'Temporary failure in name resolution')
    monkeypatch.setattr(socket, 'getaddrinfo', hang)
    yield asked
    release.set()
    for thread in threading.enumerate():
        if thread.name == 'vrpn lookup':
            thread.join(5.0)


def test_stopping_while_a_name_is_looked_up(hanging_resolver):
    for _ in range(5):
        with client(3883, server='motive.hangs') as (_, sink):
            sink.wait_state(LinkState.RESOLVING)
            wait_until(lambda: hanging_resolver)
        assert sink.states == [LinkState.RESOLVING, LinkState.STOPPED]
    # The system's resolver cannot be interrupted, but one thread waits for all of them.
    assert [t.name for t in threading.enumerate()].count('vrpn lookup') == 1
    assert hanging_resolver == ['motive.hangs']


def pausing_after_a_moment(server, sock):
    stream(server, sock, seconds=0.05)
    server.hold(sock)


@pytest.mark.parametrize(('state', 'serve', 'settings'), [
    (LinkState.REQUESTING, None, {'connection': 'udp', 'attempt_s': 30.0}),
    (LinkState.HANDSHAKING, mute, {'attempt_s': 30.0}),
    (LinkState.CONNECTED, hold, {}),
    (LinkState.STREAMING, stream, {}),
    (LinkState.SILENT, pausing_after_a_moment, {'silent_after_s': 0.1}),
    (LinkState.LOST, lambda server, sock: None, {'retry_min_s': 30.0, 'retry_max_s': 30.0}),
])
def test_stopping_in_any_state_ends_at_once(state, serve, settings):
    with FakeServer(serve, connect_back=serve is not None) as server:
        with client(server.port, link=link(**settings)) as (running, sink):   # stops within 10 s
            sink.wait_state(state)
        assert sink.states[-1] is LinkState.STOPPED
        count = len(sink.changes), len(sink.batches)
        status = running.status()
        running.stop()
        assert (status.state, status.reason) == (LinkState.STOPPED, 'stopped')
        assert (len(sink.changes), len(sink.batches)) == count


def open_files():
    gc.collect()
    return len(os.listdir('/proc/self/fd'))


def test_a_server_that_ends_can_bind_its_port_again_at_once():
    # Without SO_REUSEADDR, like the VRPN library; a connection in TIME_WAIT prevents that.
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        with client(port, link=link(
                connection='tcp', retry_min_s=30.0, retry_max_s=30.0)) as (_, sink):
            sock, _ = listener.accept()
            say_hello(sock)
            sink.wait_state(LinkState.CONNECTED)
            listener.close()
            sock.shutdown(socket.SHUT_WR)
            sink.wait_state(LinkState.LOST)
            with contextlib.suppress(ConnectionResetError):
                while sock.recv(65536):
                    pass
            sock.close()
            with socket.socket() as again:
                wait_until(lambda: binds(again, port))


def binds(sock, port):
    """Return whether a socket can be bound to a port."""
    try:
        sock.bind(('127.0.0.1', port))
    except OSError:
        return False
    return True


@pytest.mark.parametrize('at', [
    LinkState.RESOLVING, LinkState.CONNECTED, LinkState.STREAMING])
def test_stopping_from_the_sink_ends_the_client(at):
    class Stopping(Recorder):

        def link_changed(self, change):
            super().link_changed(change)
            if change.data is at:
                running.stop()
    sink, before = Stopping(), open_files()
    with FakeServer(stream) as server:
        running = VrpnClient(
            ClientConfig(server='127.0.0.1', port=server.port, link=link()), sink)
        running.start()
        sink.wait_state(LinkState.STOPPED)
    # The sockets are closed without a stop() from another thread.
    wait_until(lambda: open_files() <= before)
    running.stop()
    # A step that waits for nothing may still be taken.
    assert len(sink.states) - sink.states.index(at) <= 3


def test_a_hundred_starts_and_stops_leak_nothing(unused_port):
    def cycle(number):
        with client(ports[number % 4], link=link(
                connection='tcp' if number % 8 < 4 else 'udp')) as (_, sink):
            if number % 4 != 3:
                sink.wait_state(wanted[number % 4])
            # else: stopped as soon as it was started
    wanted = [LinkState.LOST, LinkState.HANDSHAKING, LinkState.STREAMING]
    with FakeServer(mute) as silent, FakeServer(stream) as streaming:
        ports = [unused_port, silent.port, streaming.port, streaming.port]
        for number in range(8):
            cycle(number)
        wait_until(lambda: not any(t.name.startswith('vrpn') for t in threading.enumerate()))
        time.sleep(0.1)
        before = open_files()
        for number in range(100):
            cycle(number)
        assert not [t for t in threading.enumerate() if t.name.startswith('vrpn')]
        wait_until(lambda: open_files() <= before + 1)


# -- bugs and shortages ---------------------------------------------------------------------------

def test_a_bug_in_the_sink_is_logged_and_ends_no_thread(caplog):
    class Faulty(Recorder):
        failed = False

        def receive(self, events, arrival_ns, host_minus_arrival_ns):
            super().receive(events, arrival_ns, host_minus_arrival_ns)
            # Not at the third itself: a client that is late gets several poses at once.
            if len(self.poses) >= 3 and not self.failed:
                self.failed = True
                raise ZeroDivisionError('a bug of the test')

        def link_changed(self, change):
            super().link_changed(change)
            if change.data is LinkState.STREAMING:
                raise KeyError('another bug of the test')
    with caplog.at_level(logging.ERROR), FakeServer(stream) as server:
        with client(server.port, Faulty()) as (_, sink):
            sink.wait_state(LinkState.STREAMING, 2)
            sink.wait(lambda: len(sink.poses) > 10)
    (reason,) = sink.reasons(LinkState.LOST)
    assert 'of the test' in reason
    assert {record.exc_info[0] for record in caplog.records} == {ZeroDivisionError, KeyError}


@BOTH
def test_a_full_file_table_is_survived(way):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with FakeServer(stream) as server:
        sink = Recorder()
        running = VrpnClient(ClientConfig(
            server='127.0.0.1', port=server.port, link=link(connection=way)), sink)
        hoard = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 16, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    hoard.append(os.dup(0))
            running.start()
            sink.wait_state(LinkState.LOST, 2)
        finally:
            for fd in hoard:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        try:
            assert 'open files' in sink.reasons(LinkState.LOST)[0]
            sink.wait_state(LinkState.STREAMING)
        finally:
            running.stop()
