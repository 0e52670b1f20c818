# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Accept clients: by TCP, or by a UDP request after which the server connects back.

Any host can send a request, and its source address can be forged. The server therefore connects
only to the address that a request came from, to few addresses at a time, and once to each.
"""

from collections.abc import Callable
import ipaddress
import logging
import selectors
import socket
import time

from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.sim.counters_io import Counters, Throttle
from optitrack_vrpn.sim.scenario_io import Server
from optitrack_vrpn.units import NS_PER_S
from optitrack_vrpn.vrpn.codec import decode_request

_LOG = logging.getLogger(__name__)

#: Chosen: connect-backs in progress; more requests are refused, which bounds a flood. Halved,
#: clients that start together are refused; doubled, a flood takes twice the sockets.
_MAX_CONNECTING = 8
#: Chosen: datagrams read in one turn; doubled, a flood delays frames twice as long.
_DATAGRAMS_AT_ONCE = 32
#: Chosen: attempts to find a port that is free for TCP and UDP; one nearly always suffices.
#: Halved, the start fails earlier where few ports are free; doubled, later.
_PORT_ATTEMPTS = 20

Address = tuple[str, int]


def raw_clock_ns() -> int:
    """Read the raw monotonic clock, which is neither stepped nor slewed."""
    return time.clock_gettime_ns(getattr(time, 'CLOCK_MONOTONIC_RAW', time.CLOCK_MONOTONIC))


def cannot_listen(host: str, port: int, error: OSError) -> TransportError:
    """Describe why a server cannot open its port."""
    return TransportError(
        f'cannot listen on {host}:{port}: {error.strerror or error}; choose a port that no other '
        'server uses, and an address of this computer')


def forget(selector: selectors.BaseSelector, sock: socket.socket) -> None:
    """Unregister a socket from a selector and close it."""
    try:
        selector.unregister(sock)
    except (KeyError, ValueError):
        pass
    sock.close()


class Acceptor:
    """
    The server's listening sockets.

    :param limits: address and limits.
    :param selector: registers every socket, with a callable of the event mask as its data.
    :param counters: updated by the acceptor.
    :param add_client: called with each new connection and whether it was connected back.
    :param clients: returns the number of clients.
    :param connected: returns whether a client with this address was connected back to recently.
    """

    def __init__(
        self, limits: Server, selector: selectors.BaseSelector, counters: Counters,
        add_client: Callable[[socket.socket, bool], None], clients: Callable[[], int],
        connected: Callable[[Address, int], bool],
    ) -> None:
        self._limits = limits
        self._selector = selector
        self._counters = counters
        self._add_client = add_client
        self._clients = clients
        self._is_connected = connected
        self._sockets: list[socket.socket] = []
        self._connecting: dict[socket.socket, tuple[Address, int]] = {}
        self._refusals = Throttle(_LOG)
        self.port = limits.port
        #: Port to which clients may send datagrams; all are ignored.
        self.udp_port = 0

    @property
    def is_open(self) -> bool:
        """Return whether clients can connect."""
        return bool(self._sockets)

    def open(self) -> None:
        """
        Listen by TCP and UDP on one port number, and on the same number when opened again.

        :raises TransportError: if the address or port is not available.
        """
        attempts = 1 if self.port else _PORT_ATTEMPTS
        for attempt in range(attempts):
            opened: list[socket.socket] = []
            try:
                listener = self._bind(opened, socket.SOCK_STREAM, self.port)
                listener.listen(16)
                port = listener.getsockname()[1]
                self._bind(opened, socket.SOCK_DGRAM, port)
                self._bind(opened, socket.SOCK_DGRAM, 0)
            except OSError as error:
                for sock in opened:
                    sock.close()
                # The free TCP port that the system chose may be in use for UDP.
                if attempt + 1 == attempts:
                    raise cannot_listen(self._limits.host, self.port, error) from None
            else:
                break
        self._sockets = opened
        self.port, self.udp_port = port, opened[2].getsockname()[1]
        for sock, handler in zip(
                opened, (self._accept, self._read_requests, self._ignore_datagrams)):
            self._selector.register(sock, selectors.EVENT_READ, handler)

    def _bind(self, opened: list[socket.socket], kind: int, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        opened.append(sock)
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            # Permits a port with closed connections in TIME_WAIT, but not two servers on one port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._limits.host, port))
        return sock

    def close(self) -> None:
        """Close every socket, including connections in progress."""
        for sock in (*self._sockets, *self._connecting):
            forget(self._selector, sock)
        self._sockets = []
        self._connecting.clear()

    def check(self, now_ns: int) -> None:
        """Abandon connections that take too long, and listen again after a resource shortage."""
        for sock, (_, since_ns) in list(self._connecting.items()):
            if now_ns - since_ns > self._limits.client_timeout * NS_PER_S:
                self._abandon(sock)
        if self._sockets and self._sockets[0] not in self._selector.get_map():
            self._selector.register(self._sockets[0], selectors.EVENT_READ, self._accept)

    def _accept(self, mask: int) -> None:
        listener = self._sockets[0]
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            # No file descriptor is free: try again later instead of polling continuously.
            self._refusals.log(raw_clock_ns(), logging.WARNING,
                               'cannot accept a client: %s', error.strerror)
            self._selector.unregister(listener)
            return
        self._add_client(sock, False)

    def _read_requests(self, mask: int) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                data, source = self._sockets[1].recvfrom(2048)
            except OSError:
                return
            now_ns = raw_clock_ns()
            try:
                host, port = decode_request(data)
            except RemoteProtocolError as error:
                self._counters.malformed_requests += 1
                self._refusals.log(now_ns, logging.WARNING, '%s from %s', error, source[0])
                continue
            self._answer((host, port), source[0], now_ns)

    def _answer(self, address: Address, source: str, now_ns: int) -> None:
        host, port = address
        limits = self._limits
        if self._is_connected(address, now_ns) or any(
                address == other for other, _ in self._connecting.values()):
            return  # a repeated request, already answered
        reason = ''
        if not _is_address(host):
            reason = 'names are not resolved'
        elif host != source and not limits.connect_back_anywhere:
            reason = 'the request came from another address (--connect-back-anywhere allows it)'
        elif len(self._connecting) >= _MAX_CONNECTING:
            reason = 'too many requests at a time'
        elif self._clients() + len(self._connecting) >= limits.max_clients:
            reason = f'there are {limits.max_clients} clients already'
        if reason:
            self._counters.refused_requests += 1
            self._refusals.log(
                now_ns, logging.WARNING, 'refused to connect back to %s:%d as %s asks: %s',
                host, port, source, reason)
            return
        self._counters.requests += 1
        self._connect_back(address, now_ns)

    def _connect_back(self, address: Address, now_ns: int) -> None:
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            self._log_failure(address, error.strerror, now_ns)
            return
        try:
            sock.setblocking(False)
            if self._limits.host not in ('', '0.0.0.0'):
                sock.bind((self._limits.host, 0))
            sock.connect(address)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            sock.close()
            self._log_failure(address, error.strerror, now_ns)
            return
        self._connecting[sock] = address, now_ns
        self._selector.register(
            sock, selectors.EVENT_WRITE, lambda mask: self._connected(sock))

    def _connected(self, sock: socket.socket) -> None:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            address, _ = self._connecting[sock]
            self._log_failure(address, f'error {code}', raw_clock_ns())
            self._abandon(sock)
            return
        del self._connecting[sock]
        self._selector.unregister(sock)
        self._add_client(sock, True)

    def _abandon(self, sock: socket.socket) -> None:
        del self._connecting[sock]
        forget(self._selector, sock)

    def _log_failure(self, address: Address, reason: object, now_ns: int) -> None:
        self._refusals.log(
            now_ns, logging.WARNING, 'cannot connect back to %s:%d: %s', *address, reason)

    def _ignore_datagrams(self, mask: int) -> None:
        """Read and ignore datagrams of clients, as Motive does."""
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                self._sockets[2].recv(2048)
            except OSError:
                return


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
