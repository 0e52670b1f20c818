# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Serve recorded conversations as a VRPN server on real sockets.

Every client has its own playback, from the beginning; when it connects again, it gets the next
recorded conversation. Clients connect by TCP or with a UDP request; a client that described no UDP
port gets the recorded datagrams by TCP, as from the VRPN library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import logging
import select
import selectors
import socket
import threading
import time
from typing import Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.sim.acceptor_io import Acceptor, Address, raw_clock_ns
from optitrack_vrpn.sim.world import SimCounters
from optitrack_vrpn.takes.record.raw_session import (
    Action, clip, described_all, described_udp_port, first_sender_time_ns, RawSession, scale_times)

_LOG = logging.getLogger(__name__)
#: Chosen: maximum number of clients, and timeout (s) for a handshake. They limit the resources of
#: idle or hostile peers; half rejects slower clients.
_MOST_CLIENTS = 8
_HANDSHAKE_S = 10.0
#: Chosen: maximum stored bytes of a client's stream, in which its UDP port is found.
_MOST_HEARD = 1 << 20


@dataclass(frozen=True)
class ReplayConfig:
    """
    Settings of the playback.

    :ivar rate: 2 plays twice as fast and scales the sender's times.
    :ivar start_s: begin of the playback in each conversation (s).
    :ivar end_s: its end (s); None for no limit.
    :ivar loop: whether to start again with the first conversation after the last.
    :ivar host: local address.
    :ivar port: port for TCP and UDP; 0 lets the system choose.
    """

    rate: float = 1.0
    start_s: float = 0.0
    end_s: Optional[float] = None
    loop: bool = False
    host: str = '127.0.0.1'
    port: int = 0

    def __post_init__(self) -> None:
        """
        Check every field.

        :raises ConfigurationError: if one is wrong.
        """
        if not 0.01 <= self.rate <= 100:
            raise ConfigurationError(f'rate is {self.rate:g}; allowed: 0.01 to 100')
        if not self.start_s >= 0 or (self.end_s is not None and self.end_s <= self.start_s):
            raise ConfigurationError('the end must be after the start, and both not negative')


class _Gone(Exception):
    """The client has disconnected, or the server stops."""


class ReplayServer:
    """
    Play recorded conversations; a context manager.

    :param sessions: the conversations, see ``raw_read_io``; read again for each client.
    :param config: the settings.
    :ivar port: port for TCP and UDP.
    :ivar finished: set when a client has received the last conversation completely.
    :ivar late_ns: delay of the latest action (ns).
    :ivar clients: number of clients so far, every connection counted.
    :raises TransportError: if the port is not available.
    """

    def __init__(self, sessions: Sequence[RawSession], config: ReplayConfig) -> None:
        self._config = config
        self._sessions = list(sessions)
        #: Sender times that are not scaled, by session; used for rates other than 1.
        self._origins = [0 if config.rate == 1.0 else first_sender_time_ns(clip(s, *self._span))
                         for s in self._sessions]
        self._selector = selectors.DefaultSelector()
        self._players: dict[Address, threading.Thread] = {}
        self._acceptor = Acceptor(
            config.host, config.port, self._selector, SimCounters(), self._begin,
            self._is_connected, _HANDSHAKE_S)
        self._acceptor.open()
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((config.host, 0))
        self.port = self._acceptor.port
        self.finished = threading.Event()
        self.late_ns = 0
        self.clients = 0
        self._stopping = False
        self._lock = threading.Lock()
        self._next: dict[str, int] = {}
        self._thread = threading.Thread(target=self._accept, name='replay', daemon=True)

    def start(self) -> ReplayServer:
        """Start to serve clients."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close every connection and socket and stop the threads."""
        self._stopping = True
        for thread in (self._thread, *self._players.values()):
            if thread.ident is not None:
                thread.join(5.0)
        self._acceptor.close()
        self._selector.close()
        self._udp.close()

    def __enter__(self) -> ReplayServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _span(self) -> tuple[int, Optional[int]]:
        config = self._config
        return (round(config.start_s * NS_PER_S),
                None if config.end_s is None else round(config.end_s * NS_PER_S))

    def _actions(self, number: int) -> Iterator[Action]:
        """Return the actions of one conversation as they are played."""
        rate, origin_ns = self._config.rate, self._origins[number]
        for count, action in enumerate(clip(self._sessions[number], *self._span)):
            if rate != 1.0 and count:
                action = action._replace(data=scale_times(action.data, origin_ns, rate))
            yield action

    # -- accepting -----------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._stopping:
            for key, mask in self._selector.select(0.1):
                key.data(mask)
            self._acceptor.check(raw_clock_ns())

    def _clients(self) -> int:
        self._players = {peer: thread for peer, thread in self._players.items()
                         if thread.is_alive()}
        return len(self._players)

    def _is_connected(self, address: Address) -> bool:
        return self._clients() > 0 and address in self._players

    def _begin(self, sock: socket.socket, connected_back: bool) -> None:
        if self._clients() >= _MOST_CLIENTS:
            sock.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.clients += 1
        thread = threading.Thread(target=self._serve, args=(sock,), name='replay client',
                                  daemon=True)
        self._players[sock.getpeername()] = thread
        thread.start()

    # -- playing -------------------------------------------------------------------------------

    def _serve(self, sock: socket.socket) -> None:
        peer = sock.getpeername()[0]
        with sock:
            with self._lock:
                number = self._next.get(peer, 0)
            if number >= len(self._sessions):
                if not self._config.loop:
                    return
                number = 0
            try:
                played = self._play(sock, self._actions(number))
            except (_Gone, OSError) as error:
                if not self._stopping:
                    _LOG.info('a client left: %s', error)
                return
            if not played:
                return
            with self._lock:
                self._next[peer] = number + 1
            if number + 1 == len(self._sessions) and not self._config.loop:
                self.finished.set()
                self._idle(sock)

    def _play(self, sock: socket.socket, actions: Iterator[Action]) -> bool:
        """
        Play one conversation.

        :returns: False if the client never sent a VRPN cookie.
        """
        heard = bytearray()
        first = next(actions, None)
        if first is None:
            return True
        self._send(sock, heard, first.data)
        deadline = time.monotonic() + _HANDSHAKE_S
        # A client may wait for the cookie, and describes its UDP port last.
        while not (described_udp_port(bytes(heard)) or described_all(bytes(heard))):
            if time.monotonic() > deadline:
                return False
            self._listen(sock, heard, 0.05)
        port = described_udp_port(bytes(heard))
        peer = sock.getpeername()[0]
        begin_ns = time.monotonic_ns()
        for action in actions:
            due_ns = begin_ns + round((action.arrival_ns - first.arrival_ns) / self._config.rate)
            while True:
                left_s = (due_ns - time.monotonic_ns()) / NS_PER_S
                if left_s <= 0:
                    break
                self._listen(sock, heard, min(left_s, 0.1))
            if action.kind == 'udp' and port is not None:
                self._udp.sendto(action.data, (peer, port))
            else:
                self._send(sock, heard, action.data)
            self.late_ns = max(self.late_ns, time.monotonic_ns() - due_ns)
        return True

    def _send(self, sock: socket.socket, heard: bytearray, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest):]
            except BlockingIOError:
                self._listen(sock, heard, 0.001)

    def _listen(self, sock: socket.socket, heard: bytearray, timeout_s: float) -> None:
        """Read the client's data, as a server always must."""
        ready, _, _ = select.select([sock], [], [], timeout_s)
        if self._stopping:
            raise _Gone('the server stops')
        if ready:
            data = sock.recv(65536)
            if not data:
                raise _Gone('it closed the connection')
            if len(heard) < _MOST_HEARD:
                heard += data

    def _idle(self, sock: socket.socket) -> None:
        """Stay connected without sending, like a server whose cameras are stopped."""
        try:
            while True:
                self._listen(sock, bytearray(_MOST_HEARD), 0.1)
        except (_Gone, OSError):
            pass
