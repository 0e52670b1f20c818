# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Shared by tests of the client: a sink that records, and hand-made bytes.

Nothing here uses the package's codec, so that a peer's bytes are what the layout says and not
what the package makes of it.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import threading
import time
from typing import Callable, Optional
from unittest import SkipTest

from optitrack_vrpn.drivers.config import ClientConfig, LinkConfig
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from rawvrpn import COOKIE
from server_kit import FakeServer, TIMEOUT_S

POSE_TYPE_ID = 4
#: Less than any wait that stopping must cut short.
_STOPS_WITHIN_S = 10.0


def link(**changes) -> LinkConfig:
    """
    Make settings that are quick, and patient with a busy server unless stated otherwise.

    A test in which nobody answers, so that an attempt must run out, says how soon.
    """
    return LinkConfig(**{
        'attempt_s': 2.0, 'retry_min_s': 0.02, 'retry_max_s': 0.1,
        'silent_after_s': 5.0, 'reconnect_after_s': 0.0, **changes})


class Recorder:
    """
    A sink that remembers everything and lets a test wait for it.

    :ivar batches: (events, arrival_ns, host_minus_arrival_ns, when the sink was called).
    :ivar changes: changes of the connection, and remarks.
    :ivar changed_ns: times of the changes (ns).
    """

    def __init__(self) -> None:
        self.batches: list[tuple] = []
        self.changes: list = []
        self.changed_ns: list[int] = []
        self._news = threading.Condition()

    def receive(self, events, arrival_ns, host_minus_arrival_ns) -> None:
        with self._news:
            self.batches.append(
                (list(events), arrival_ns, host_minus_arrival_ns, HostClock.now_ns()))
            self._news.notify_all()

    def link_changed(self, change) -> None:
        with self._news:
            self.changes.append(change)
            self.changed_ns.append(HostClock.now_ns())
            self._news.notify_all()

    @property
    def events(self) -> list:
        return [event for batch in list(self.batches) for event in batch[0]]

    @property
    def poses(self) -> list:
        """Give the bodies of all frames."""
        return [pose for event in self.events if isinstance(event, Frame)
                for pose in event.bodies]

    @property
    def states(self) -> list[LinkState]:
        return [change.data for change in list(self.changes)]

    def reasons(self, state: LinkState) -> list[str]:
        return [change.text for change in list(self.changes) if change.data is state]

    def wait(self, so: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until something is so; fails with what was heard instead."""
        with self._news:
            if not self._news.wait_for(so, timeout_s):
                heard = '\n'.join(f'{c.data.value}: {c.text}' for c in self.changes[-12:])
                raise AssertionError(f'after {timeout_s} s, {len(self.poses)} poses, and\n{heard}')

    def wait_state(self, state: LinkState, count: int = 1) -> None:
        """Wait until a state was entered so many times."""
        self.wait(lambda: self.states.count(state) >= count)

    def wait_reason(self, text: str) -> None:
        """Wait for a change whose reason has a text in it."""
        self.wait(lambda: any(text in change.text for change in self.changes))


class SlowRecorder(Recorder):
    """A recorder that stands still after each pose unless ``go_on`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def receive(self, events, arrival_ns, host_minus_arrival_ns) -> None:
        super().receive(events, arrival_ns, host_minus_arrival_ns)
        if self.poses:
            self.go_on.wait(TIMEOUT_S)


def wait_until(so: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Wait for what cannot be notified."""
    end = time.monotonic() + timeout_s
    while not so():
        assert time.monotonic() < end, f'not so after {timeout_s} s'
        time.sleep(0.002)


@contextlib.contextmanager
def client(port: int, sink=None, server: str = '127.0.0.1', **config):
    """Run a client against a port; gives it and its sink."""
    sink = Recorder() if sink is None else sink
    config.setdefault('link', link())
    running = VrpnClient(ClientConfig(server=server, port=port, **config), sink)
    running.start()
    try:
        yield running, sink
    finally:
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < _STOPS_WITHIN_S, 'stopping took too long'


def message(sender: int, type_id: int, payload: bytes, time_us: int = 0) -> bytes:
    """Make one message by hand."""
    size = 24 + len(payload)
    return struct.pack(
        '>IIIiiI', size, time_us // 10**6, time_us % 10**6, sender, type_id, 0,
    ) + payload + bytes(-size % 8)


def name(number: int, text: str | bytes, kind: int = -1) -> bytes:
    """Describe a sender, or a type with kind -2."""
    raw = (text.encode() if isinstance(text, str) else text) + b'\0'
    return message(number, kind, len(raw).to_bytes(4, 'big') + raw)


def pose(sender: int = 1, time_us: int = 1_000_000, x: float = 1.0) -> bytes:
    """Make a pose message of 88 bytes."""
    return message(sender, POSE_TYPE_ID, struct.pack(
        '>i4x7d', 0, x, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0), time_us)


#: What a server says before its first pose.
PREAMBLE = (name(0, 'VRPN Control') + name(1, 'body')
            + name(POSE_TYPE_ID, 'vrpn_Tracker Pos_Quat', -2))


def say_hello(sock: socket.socket) -> bytearray:
    """
    Shake hands as a server that describes one body.

    :returns: what the client said, down to the last of its types.
    """
    sock.sendall(COOKIE)
    heard = bytearray()
    while b'VRPN_Connection_Dropped_Last_Connection' not in heard:
        data = sock.recv(65536)
        if not data:
            raise ConnectionResetError
        heard += data
    assert heard[:24] == COOKIE
    sock.sendall(PREAMBLE)
    return heard


def udp_port(heard: bytes) -> int:
    """Read the UDP port that a client describes first."""
    return int.from_bytes(heard[36:40], 'big')


@contextlib.contextmanager
def greeted(sock: socket.socket, way: str):
    """Shake hands; gives the function that sends data to the client by UDP or TCP."""
    target = ('127.0.0.1', udp_port(say_hello(sock)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        yield sock.sendall if way == 'tcp' else lambda data: udp.sendto(data, target)


@contextlib.contextmanager
def black_hole(host: str = '127.0.0.1', port: int = 0):
    """
    Occupy a port that drops connection requests silently; gives its number.

    Its accept queue is full: Linux drops every further request, as a firewall does.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(16):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            assert sock.connect_ex(listener.getsockname()) == errno.EINPROGRESS
            if not select.select([], [sock], [], 0.1)[1]:
                break
        else:
            raise SkipTest('this system answers for a full accept queue')
        yield listener.getsockname()[1]


def stream(
    server: FakeServer, sock: socket.socket, period_s: float = 0.01,
    seconds: Optional[float] = None,
) -> None:
    """Shake hands, then stream poses by TCP until the client goes or time is up; one at least."""
    say_hello(sock)
    stream_on(server, sock, period_s, seconds)


def stream_on(
    server: FakeServer, sock: socket.socket, period_s: float = 0.01,
    seconds: Optional[float] = None,
) -> None:
    """Stream poses as ``stream`` does, to a client that has shaken hands."""
    began = time.monotonic()
    frame = 0
    while not server.stopping.is_set():
        frame += 1
        sock.sendall(pose(time_us=1_000_000 + frame * round(period_s * 1e6), x=frame))
        if select.select([sock], [], [], period_s)[0] and not sock.recv(65536):
            return
        if seconds is not None and time.monotonic() - began > seconds:
            return


def hold(server, sock):
    """Shake hands, and never send a pose."""
    say_hello(sock)
    server.hold(sock)


def mute(server, sock):
    """Say nothing at all."""
    server.hold(sock)
