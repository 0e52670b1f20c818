# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The server side of recorded sessions on real sockets, for one client at a time.

No code of the package is in it, so that client and server cannot share a mistake: requests,
cookies and the client's UDP port are read by hand, and what is sent is what the real library sent.

    with ReplayServer(sessions.sessions('udp_lob')) as server:
        ...                      # let a client loose on server.host, server.port
        server.wait(10.0)        # everything was sent and read

Clients may come either way: by the UDP request or by TCP. A client that described no UDP port
gets the recorded datagrams' messages by TCP, as the real library would send them.
"""

from __future__ import annotations

from collections.abc import Sequence
import re
import select
import socket
import threading
import time
from typing import Optional

import sessions

COOKIE = re.compile(rb'vrpn: ver\. \d\d\.\d\d  [0-3]\0{5}')
REQUEST = re.compile(rb'([A-Za-z0-9.]+) (\d+)\0')
_UNREAD_DATAGRAMS = 16


class Closed(Exception):
    """The server is being stopped."""


class HungUp(Exception):
    """The client went in the middle of a session."""


class ReplayServer:
    """
    Play recorded sessions, one after the other, each to the next client that comes.

    :param played: the sessions.
    :param real_time: play at the recorded times; else as fast as the client reads.
    :param gate: every session waits for this event before its action number ``hold_before``;
        open where not given. ``held`` is set while a session waits.
    :param hold_before: 1 is after the cookie, 2 after the descriptions in these captures.
    :param connect_back: heed requests by UDP.
    :param accept: take connections by TCP.
    :param keep_open: leave the last connection open after its last action, until ``stop``.
    :param host: the local address.
    :ivar port: the port, UDP and TCP.
    :ivar finished: set when the last session's last action was sent and read.
    :ivar client_streams: what the client of each session said by TCP.
    :ivar ways: 'udp' or 'tcp' for each session, by which the client came.
    :ivar requests: requests heard.
    :ivar late_ns: how long after its recorded time each action was over, in a busy machine.
    :ivar interrupted: sessions, counted from 0, that the client left before their end. A
        client that leaves before its cookie, as one that got a better offer does, costs none.
    """

    def __init__(
        self, played: Sequence[sessions.Session], *, real_time: bool = False,
        gate: Optional[threading.Event] = None, hold_before: int = 1,
        connect_back: bool = True, accept: bool = True, keep_open: bool = True,
        host: str = '127.0.0.1', port: int = 0,
    ) -> None:
        self.host = host
        self.finished = threading.Event()
        self.held = threading.Event()
        self.client_streams: list[bytearray] = []
        self.ways: list[str] = []
        self.requests = 0
        self.late_ns: list[int] = []
        self.interrupted: list[int] = []
        self._played = list(played)
        self._real_time = real_time
        self._gate = gate
        self._hold_before = hold_before
        self._connect_back = connect_back
        self._accept = accept
        self._keep_open = keep_open
        self._listener, self._udp = pair_of_sockets(host, port, listening=accept)
        self.port = self._udp.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._stopping = False
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name='replay server', daemon=True)

    # -- from the test's thread ----------------------------------------------------------------

    def start(self) -> ReplayServer:
        """Begin to serve."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End and close everything; raises what went wrong in the server's thread."""
        self._stopping = True
        try:
            self._waker.send(b'\0')
        except OSError:
            pass
        if self._thread.ident is not None:
            self._thread.join(10.0)
        for sock in (self._listener, self._udp, self._wake, self._waker):
            sock.close()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self, timeout_s: float) -> None:
        """Wait until everything was sent and read; an assertion fails if that takes longer."""
        assert self.finished.wait(timeout_s), (
            f'session {len(self.ways)} of {len(self._played)} after {timeout_s} s, interrupted '
            f'{self.interrupted}; {self.requests} requests; {self._error!r}')

    def __enter__(self) -> ReplayServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- the server's thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            index = 0
            while index < len(self._played):
                index += self._serve(index)
        except Closed:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._listener.close()
            self._udp.close()

    def _serve(self, index: int) -> bool:
        """Play one session; False if it is still to be played."""
        with self._next_client() as tcp:
            heard = bytearray()
            self.client_streams.append(heard)
            try:
                self._play(self._played[index], tcp, heard, index == len(self._played) - 1)
            except (HungUp, ConnectionError):
                if len(heard) < 24:
                    del self.client_streams[-1], self.ways[-1]
                    return False
                self.interrupted.append(index)
        return True

    def _next_client(self) -> socket.socket:
        readers = ([self._listener] if self._accept else []) + [self._udp]
        while True:
            ready = self._select(readers, None)
            if self._accept and self._listener in ready:
                sock, _ = self._listener.accept()
                self.ways.append('tcp')
                return prepared(sock)
            if self._udp in ready:
                request, _ = self._udp.recvfrom(2048)
                match = REQUEST.fullmatch(request)
                if match is None:
                    raise AssertionError(f'not a request: {request!r}')
                self.requests += 1
                if self._connect_back:
                    try:
                        sock = socket.create_connection(
                            (match[1].decode(), int(match[2])), 2.0, (self.host, 0))
                    except OSError:
                        continue  # a request that nobody waits for any more
                    drain(self._udp)
                    self.ways.append('udp')
                    return prepared(sock)

    def _play(
        self, session: sessions.Session, tcp: socket.socket, heard: bytearray, last: bool,
    ) -> None:
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
                udp_port = self._described_port(session, tcp, heard)
            kind = action.kind if udp_port else 'tcp'
            if not self._real_time:
                self._listen(tcp, heard, lambda kind=kind, port=udp_port: flow.ready(kind, port))
            if kind == 'udp':
                self._udp.sendto(action.data, (tcp.getpeername()[0], udp_port))
            else:
                self._send(tcp, heard, action.data)
            flow.sent(kind)
            if self._real_time:
                self.late_ns.append(time.monotonic_ns() - due_ns)
        self._listen(tcp, heard, lambda: flow.all_read(udp_port))
        if last:
            self.finished.set()
            if self._keep_open:
                self._listen(tcp, heard, lambda: False)

    def _described_port(
        self, session: sessions.Session, tcp: socket.socket, heard: bytearray,
    ) -> int:
        """Wait until the client has described its names, and tell its UDP port or 0."""
        def described() -> bool:
            return sessions.described_udp_port(heard) is not None or type_described(heard)
        self._listen(tcp, heard, described)
        return sessions.described_udp_port(heard) or 0

    def _send(self, tcp: socket.socket, heard: bytearray, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[tcp.send(rest):]
            except BlockingIOError:
                self._select([], 0.001)
                self._listen(tcp, heard, lambda: not select.select([tcp], [], [], 0)[0])

    def _listen(self, tcp: socket.socket, heard: bytearray, done, due_ns: int = 0) -> None:
        """Read the client, as a server must never stop to, until something is so."""
        while not done():
            left = (due_ns - time.monotonic_ns()) / 1e9 if due_ns else 0.0005
            if self._select([tcp], max(0.0, left)):
                data = tcp.recv(65536)
                if not data:
                    if done() or self.finished.is_set():
                        return
                    raise HungUp
                heard += data

    def _select(
        self, readers: list[socket.socket], timeout_s: Optional[float],
    ) -> list[socket.socket]:
        ready, _, _ = select.select([*readers, self._wake], [], [], timeout_s)
        if self._stopping:
            raise Closed
        return ready


class Flow:
    """
    How much of what was sent the client has not read yet, as Linux tells in /proc/net.

    Datagrams that nobody reads are lost once the buffer is full, and what goes by TCP and what
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
        """Tell whether the next thing may be sent."""
        if not self._last:
            return True
        if kind == self._last and (kind == 'tcp' or self._count < _UNREAD_DATAGRAMS):
            return True
        if self.all_read(udp_port):
            self._count = 0
            return True
        return False

    def all_read(self, udp_port: Optional[int]) -> bool:
        """Tell whether the client has read all that was sent last."""
        if self._last == 'udp':
            return not unread('udp', udp_port or 0)
        return not unread('tcp', *self._ports)


def unread(kind: str, port: int, peer: int = 0) -> int:
    """Look up the bytes that wait to be read, on the receiver's side; 0 for no such socket."""
    if kind == 'tcp':
        # What is still on its way counts too: the sender's side of the same connection. It comes
        # first, since what arrives between the two looks must be seen by one of them.
        with open('/proc/net/tcp') as table:
            next(table)
            for line in table:
                fields = line.split()
                if int(fields[1][-4:], 16) == peer and int(fields[2][-4:], 16) == port:
                    if int(fields[4][:8], 16):
                        return int(fields[4][:8], 16)
    with open(f'/proc/net/{kind}') as table:
        next(table)
        for line in table:
            fields = line.split()
            if int(fields[1][-4:], 16) == port and (not peer or int(fields[2][-4:], 16) == peer):
                if int(fields[4][-8:], 16):
                    return int(fields[4][-8:], 16)
    return 0


def type_described(stream: bytes | bytearray) -> bool:
    """Tell whether a client has begun to describe its types, the last thing it describes."""
    position = 24
    while len(stream) - position >= 24:
        if stream[position + 16:position + 20] == b'\xff\xff\xff\xfe':
            return True
        position += (int.from_bytes(stream[position:position + 4], 'big') + 7) // 8 * 8
    return False


def prepared(sock: socket.socket) -> socket.socket:
    """Set a stream up as the tests want it."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def drain(sock: socket.socket) -> None:
    """Throw away what waits, as the real server does with requests after each one."""
    try:
        while True:
            sock.recv(2048)
    except BlockingIOError:
        pass


def pair_of_sockets(
    host: str = '127.0.0.1', port: int = 0, listening: bool = True,
) -> tuple[socket.socket, socket.socket]:
    """Open a TCP and a UDP socket on the same port, which the system picks."""
    for _ in range(50):
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((host, port))
            udp.bind((host, tcp.getsockname()[1]))
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
