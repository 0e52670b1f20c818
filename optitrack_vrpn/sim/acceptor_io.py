# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How clients come in: by TCP, or by a UDP request upon which the server connects back.

Anybody can send a request, and its source can be forged. So a request makes the server connect
to the address that it came from and no other, to few at once, and to each only once.
"""

from collections.abc import Callable
import ipaddress
import logging
import select
import selectors
import socket
import time

from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.sim.counters_io import Counters, Throttle
from optitrack_vrpn.sim.scenario_io import Server
from optitrack_vrpn.vrpn.codec import decode_request

_LOG = logging.getLogger(__name__)

_SECOND = 1_000_000_000
_MAX_CONNECTING = 8
_DATAGRAMS_AT_ONCE = 32
_PORT_ATTEMPTS = 20
#: How soon a blocked server notices that it is to stop.
_BLOCK_STEP_MS = 50

Address = tuple[str, int]


def raw_clock_ns() -> int:
    """Read the clock that nothing steps or slews."""
    return time.clock_gettime_ns(getattr(time, 'CLOCK_MONOTONIC_RAW', time.CLOCK_MONOTONIC))


def forget(selector: selectors.BaseSelector, sock: socket.socket) -> None:
    """Close a socket that a selector may know."""
    try:
        selector.unregister(sock)
    except (KeyError, ValueError):
        pass
    sock.close()


class Door:
    """
    The server's listening sockets.

    :param limits: address and limits.
    :param selector: told of every socket, with a callable of the event mask as its data.
    :param counters: kept up to date.
    :param welcome: called with each new connection and whether it was connected back.
    :param clients: says how many clients there are.
    :param known: says whether a client that was connected back to just now has this address.
    :param stopping: says whether a connect-back that blocks is to end.
    """

    def __init__(
        self, limits: Server, selector: selectors.BaseSelector, counters: Counters,
        welcome: Callable[[socket.socket, bool], None], clients: Callable[[], int],
        known: Callable[[Address, int], bool], stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = limits
        self._selector = selector
        self._counters = counters
        self._welcome = welcome
        self._clients = clients
        self._known = known
        self._stopping = stopping
        self._sockets: list[socket.socket] = []
        self._connecting: dict[socket.socket, tuple[Address, int]] = {}
        self._refusals = Throttle(_LOG)
        self.port = limits.port
        #: Where clients may send datagrams; all are ignored.
        self.udp_port = 0

    @property
    def is_open(self) -> bool:
        """Tell whether clients can come in."""
        return bool(self._sockets)

    def open(self) -> None:
        """
        Listen, by TCP and UDP on one number; on the same one when opened again.

        :raises TransportError: if the address or port cannot be had.
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
                # The free TCP port that the system chose may be taken for UDP.
                if attempt + 1 == attempts:
                    raise TransportError(
                        f'cannot listen on {self._limits.host}:{self.port}: '
                        f'{error.strerror or error}; choose a port that no other server has, '
                        'and an address of this machine') from None
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
            # For a port on which closed connections linger; two servers it does not allow.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._limits.host, port))
        return sock

    def close(self) -> None:
        """Close every socket, half-made connections included."""
        for sock in (*self._sockets, *self._connecting):
            forget(self._selector, sock)
        self._sockets = []
        self._connecting.clear()

    def check(self, now_ns: int) -> None:
        """Give up connections that take too long, and listen again after a shortage."""
        for sock, (_, since_ns) in list(self._connecting.items()):
            if now_ns - since_ns > self._limits.client_timeout * _SECOND:
                self._give_up(sock)
        if self._sockets and self._sockets[0] not in self._selector.get_map():
            self._selector.register(self._sockets[0], selectors.EVENT_READ, self._accept)

    def _accept(self, mask: int) -> None:
        listener = self._sockets[0]
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            # Out of descriptors: look again later instead of spinning.
            self._refusals.log(raw_clock_ns(), logging.WARNING,
                               'cannot accept a client: %s', error.strerror)
            self._selector.unregister(listener)
            return
        self._welcome(sock, False)

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
        if self._known(address, now_ns) or any(
                address == other for other, _ in self._connecting.values()):
            return  # a repeated request, already answered
        reason = ''
        if not _is_address(host):
            reason = 'names are not looked up'
        elif host != source and not limits.connect_back_anywhere:
            reason = 'that is not where it came from (--connect-back-anywhere allows it)'
        elif len(self._connecting) >= _MAX_CONNECTING:
            reason = 'too many at once'
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
            self._complain(address, error.strerror, now_ns)
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
            self._complain(address, error.strerror, now_ns)
            return
        if self._limits.connect_block:
            self._block(sock, address)
            return
        self._connecting[sock] = address, now_ns
        self._selector.register(
            sock, selectors.EVENT_WRITE, lambda mask: self._connected(sock))

    def _block(self, sock: socket.socket, address: Address) -> None:
        """
        Wait for a connect-back as the VRPN library does: in the thread that serves all clients.

        Like the library's, this server then discards the requests that have arrived meanwhile.
        """
        began_ns = raw_clock_ns()
        deadline_ns = began_ns + round(self._limits.connect_block * _SECOND)
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        answered = False
        while not answered and not self._stopping() and raw_clock_ns() < deadline_ns:
            answered = bool(poll.poll(_BLOCK_STEP_MS))
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if answered and not code:
            self._welcome(sock, True)
        else:
            sock.close()
            self._counters.blocked_connects += not answered
            self._complain(
                address, f'error {code}' if answered else 'no answer', raw_clock_ns())
        self._drain_requests()

    def _drain_requests(self) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                self._sockets[1].recv(2048)
            except OSError:
                return

    def _connected(self, sock: socket.socket) -> None:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            address, _ = self._connecting[sock]
            self._complain(address, f'error {code}', raw_clock_ns())
            self._give_up(sock)
            return
        del self._connecting[sock]
        self._selector.unregister(sock)
        self._welcome(sock, True)

    def _give_up(self, sock: socket.socket) -> None:
        del self._connecting[sock]
        forget(self._selector, sock)

    def _complain(self, address: Address, reason: object, now_ns: int) -> None:
        self._refusals.log(
            now_ns, logging.WARNING, 'cannot connect back to %s:%d: %s', *address, reason)

    def _ignore_datagrams(self, mask: int) -> None:
        """Clients may send reports by UDP, but a Motive has no use for any."""
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                self._sockets[2].recv(2048)
            except OSError:
                return
            self._counters.ignored_datagrams += 1


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
