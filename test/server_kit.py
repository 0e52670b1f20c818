# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
VRPN servers on plain sockets: one scripted by a test, one that plays recorded sessions.

No code of the package is in them, so that client and server cannot share a mistake: requests,
cookies and the client's UDP port are read by hand, and a replay sends what the real library sent.
"""

from __future__ import annotations

from collections.abc import Sequence
import random
import re
import select
import socket
import threading
import time
from typing import Callable, Optional

import rawvrpn
import sessions

COOKIE = re.compile(rb'vrpn: ver\. \d\d\.\d\d  [0-3]\0{5}')
REQUEST = re.compile(rb'([A-Za-z0-9.]+) (\d+)\0')
#: How long what must happen is waited for; a busy machine may take its time.
TIMEOUT_S = 30.0
_UNREAD_DATAGRAMS = 16


class FakeServer:
    """
    A server that does with each connection what a test says.

    :param serve: called in its own thread with this server and each connected socket, which
        is closed when it returns.
    :param connect_back: heed requests.
    :param accept: take TCP connections.
    :param udp: have a UDP socket at all; without one the system refuses requests.
    :param back_from: the address that connect-backs come from.
    :param host: the address to listen on.
    :ivar connections: (monotonic time, way, peer address) of each connection.
    :ivar requests: requests as they came.
    """

    def __init__(
        self, serve: Callable[[FakeServer, socket.socket], None], *,
        connect_back: bool = True, accept: bool = True, udp: bool = True,
        back_from: str = '127.0.0.1', port: int = 0, host: str = '127.0.0.1',
    ) -> None:
        self.connections: list[tuple[float, str, tuple[str, int]]] = []
        self.requests: list[bytes] = []
        self.stopping = threading.Event()
        self.errors: list[BaseException] = []
        self._serve = serve
        self.connect_back = connect_back
        self._back_from = back_from
        self._listener, self.udp = pair_of_sockets(port, accept, host)
        self.port = self.udp.getsockname()[1]
        self._readers = ([self._listener] if accept else []) + ([self.udp] if udp else [])
        if not udp:
            self.udp.close()
        if not accept:
            self._listener.close()
        self._threads = [threading.Thread(target=self._run, daemon=True)]

    def __enter__(self) -> FakeServer:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        self._listener.close()
        self.udp.close()
        if self.errors:
            raise self.errors[0]

    def _run(self) -> None:
        while not self.stopping.is_set():
            ready, _, _ = select.select(self._readers, [], [], 0.02)
            for reader in ready:
                if reader is self._listener:
                    sock, address = self._listener.accept()
                    self._begin(sock, 'tcp', address)
                    continue
                request, _ = self.udp.recvfrom(65536)
                self.requests.append(request)
                match = REQUEST.fullmatch(request)
                if match and self.connect_back:
                    try:
                        address = (match[1].decode(), int(match[2]))
                        sock = socket.create_connection(address, 1.0, (self._back_from, 0))
                    except OSError:
                        continue
                    finally:
                        drain(self.udp)    # as the library does after each request
                    self._begin(sock, 'udp', address)

    def _begin(self, sock: socket.socket, way: str, address: tuple[str, int]) -> None:
        self.connections.append((time.monotonic(), way, address))
        sock.settimeout(TIMEOUT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=self._converse, args=(sock,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _converse(self, sock: socket.socket) -> None:
        with sock:
            try:
                self._serve(self, sock)
            except OSError:
                pass  # the client went
            except BaseException as error:
                self.errors.append(error)

    def hold(self, sock: socket.socket) -> None:
        """Read until the client goes or the server is stopped."""
        while not self.stopping.is_set():
            if select.select([sock], [], [], 0.02)[0] and not sock.recv(65536):
                return


class Closed(Exception):
    """The server is being stopped."""


class HungUp(Exception):
    """The client left in the middle of a session."""


class ReplayServer(FakeServer):
    """
    Play recorded sessions, one after the other, each to the next client that connects.

        with ReplayServer(sessions.sessions('udp_lob')) as server:
            ...                      # run a client against server.port
            server.wait(10.0)        # everything was sent and read

    A client that described no UDP port gets the recorded datagrams' messages by TCP, as the real
    library would send them. The connection of the last session stays open until the end.

    :param played: the sessions.
    :param real_time: play at the recorded times; else as fast as the client reads.
    :param gate: every session waits for this event before its action number ``hold_before``;
        open where not given. ``held`` is set while a session waits.
    :param hold_before: 1 is after the cookie, 2 after the descriptions in these captures.
    :ivar finished: set when the last session's last action was sent and read.
    :ivar client_streams: what the client of each session sent by TCP.
    :ivar ways: 'udp' or 'tcp' for each session, the way of its client.
    :ivar late_ns: how long after its recorded time each action was over, on a busy machine.
    :ivar interrupted: sessions, counted from 0, that the client left before their end. A
        client that leaves before its cookie costs none.
    """

    def __init__(
        self, played: Sequence[sessions.Session], *, real_time: bool = False,
        gate: Optional[threading.Event] = None, hold_before: int = 1, port: int = 0,
    ) -> None:
        super().__init__(type(self).play_next, port=port)
        self.finished = threading.Event()
        self.held = threading.Event()
        self.client_streams: list[bytearray] = []
        self.ways: list[str] = []
        self.late_ns: list[int] = []
        self.interrupted: list[int] = []
        self._played = list(played)
        self._real_time = real_time
        self._gate = gate
        self._hold_before = hold_before
        self._index = 0
        self._turn = threading.Lock()

    def wait(self, timeout_s: float) -> None:
        """Wait until everything was sent and read; an assertion fails if that takes longer."""
        assert self.finished.wait(timeout_s), (
            f'session {len(self.ways)} of {len(self._played)} after {timeout_s} s, interrupted '
            f'{self.interrupted}; {len(self.requests)} requests; {self.errors}')

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        assert all(REQUEST.fullmatch(request) for request in self.requests), self.requests

    def play_next(self, sock: socket.socket) -> None:
        """Play the next session, if there is one left."""
        with self._turn:
            if self._index == len(self._played):
                return
            heard = bytearray()
            self.client_streams.append(heard)
            self.ways.append('tcp' if sock.getsockname()[1] == self.port else 'udp')
            sock.setblocking(False)
            try:
                self._play(self._played[self._index], sock, heard)
            except Closed:
                return
            except (HungUp, ConnectionError):
                if len(heard) < 24:
                    del self.client_streams[-1], self.ways[-1]
                    return
                self.interrupted.append(self._index)
            self._index += 1

    def _play(self, session: sessions.Session, tcp: socket.socket, heard: bytearray) -> None:
        actions = session.server_actions
        udp_port: Optional[int] = None
        flow = Flow(tcp)
        begin_ns = time.monotonic_ns()
        for index, action in enumerate(actions):
            if index == 1:
                self._listen(tcp, heard, lambda: len(heard) >= 24)
                if COOKIE.match(heard) is None:
                    raise AssertionError(f'not a cookie: {bytes(heard[:24])!r}')
            if index == self._hold_before and self._gate is not None:
                before = time.monotonic_ns()
                self.held.set()
                self._listen(tcp, heard, self._gate.is_set)
                self.held.clear()
                begin_ns += time.monotonic_ns() - before
            if self._real_time:
                due_ns = begin_ns + action.time_ns - actions[0].time_ns
                self._listen(tcp, heard, lambda due=due_ns: time.monotonic_ns() >= due, due_ns)
            if action.kind == 'udp' and udp_port is None:
                # The client describes its UDP port, if it has one, and then its types.
                self._listen(tcp, heard, lambda: any(
                    message.type_id in (-3, -2) for message in rawvrpn.parse(heard[24:])))
                udp_port = sessions.described_udp_port(heard) or 0
            kind = action.kind if udp_port else 'tcp'
            if not self._real_time:
                self._listen(tcp, heard, lambda kind=kind, port=udp_port: flow.ready(kind, port))
            if kind == 'udp':
                self.udp.sendto(action.data, (tcp.getpeername()[0], udp_port))
            else:
                self._send(tcp, heard, action.data)
            flow.sent(kind)
            if self._real_time:
                self.late_ns.append(time.monotonic_ns() - due_ns)
        self._listen(tcp, heard, lambda: flow.all_read(udp_port))
        if self._index == len(self._played) - 1:
            self.finished.set()
            self._listen(tcp, heard, lambda: False)

    def _send(self, tcp: socket.socket, heard: bytearray, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[tcp.send(rest):]
            except BlockingIOError:
                self._listen(tcp, heard, lambda: select.select([], [tcp], [], 0)[1])

    def _listen(self, tcp: socket.socket, heard: bytearray, done, due_ns: int = 0) -> None:
        """Read the client, which a server must never stop doing, until a condition holds."""
        while not done():
            left_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9) if due_ns else 0.0005
            if select.select([tcp], [], [], min(left_s, 0.02))[0]:
                data = tcp.recv(65536)
                if not data:
                    if done() or self.finished.is_set():
                        return
                    raise HungUp
                heard += data
            if self.stopping.is_set():
                raise Closed


class Flow:
    """
    How much of what was sent the client has not read yet, as Linux tells in /proc/net.

    Datagrams that are not read are lost once the buffer is full, and what goes by TCP and what
    goes by UDP can overtake each other; so that a fast replay does neither, it waits for the
    client before it changes from one to the other and after every few datagrams.
    """

    def __init__(self, tcp: socket.socket) -> None:
        self._ports = (tcp.getpeername()[1], tcp.getsockname()[1])
        self._last = ''
        self._count = 0

    def sent(self, kind: str) -> None:
        """Note that something was sent."""
        self._count = self._count + 1 if kind == self._last else 1
        self._last = kind

    def ready(self, kind: str, udp_port: Optional[int]) -> bool:
        """Return whether the next thing may be sent."""
        if not self._last:
            return True
        if kind == self._last and (kind == 'tcp' or self._count < _UNREAD_DATAGRAMS):
            return True
        if self.all_read(udp_port):
            self._count = 0
            return True
        return False

    def all_read(self, udp_port: Optional[int]) -> bool:
        """Return whether the client has read all that was sent last."""
        if self._last == 'udp':
            return not unread('udp', udp_port or 0)
        return not unread('tcp', *self._ports)


def unread(kind: str, port: int, peer: int = 0) -> int:
    """Look up the bytes that wait to be read, on the receiver's side; 0 for no such socket."""
    def waiting(local: int, remote: int, queue: slice) -> int:
        with open(f'/proc/net/{kind}') as table:
            rows = [line.split() for line in table][1:]
        return sum(int(row[4][queue], 16) for row in rows if int(row[1][-4:], 16) == local
                   and (not remote or int(row[2][-4:], 16) == remote))

    # What is still on its way counts too: the sender's side of the same connection. It comes
    # first, since what arrives between the two looks must be seen by one of them.
    on_its_way = waiting(peer, port, slice(0, 8)) if kind == 'tcp' else 0
    return on_its_way or waiting(port, peer, slice(9, 17))


def drain(sock: socket.socket) -> None:
    """Throw away what waits, as the real server does with requests after each one."""
    try:
        while True:
            sock.recv(2048)
    except BlockingIOError:
        pass


def free_port() -> int:
    """
    Find a port that no program listens on, by TCP or UDP.

    Below the range from which the system gives ports away, so that it is still free later.
    """
    dice = random.SystemRandom()
    while True:
        try:
            listener, udp = pair_of_sockets(port=dice.randrange(15_000, 32_000))
        except OSError:
            continue
        with listener, udp:
            return udp.getsockname()[1]


def pair_of_sockets(
    port: int = 0, listening: bool = True, host: str = '127.0.0.1',
) -> tuple[socket.socket, socket.socket]:
    """Open a TCP and a UDP socket on the same port, which the system picks if it is 0."""
    for _ in range(50):
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((host, port))
            udp.bind(tcp.getsockname())
        except OSError:
            tcp.close()
            udp.close()
            if port:
                raise
            continue
        if listening:
            tcp.listen(8)
        tcp.setblocking(False)
        udp.setblocking(False)
        return tcp, udp
    raise OSError('no port is free for both TCP and UDP')
