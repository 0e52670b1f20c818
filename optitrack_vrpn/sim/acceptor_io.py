# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""VRPN clients: accept them by TCP, or connect back after a UDP request; send to one of them."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import functools
import ipaddress
import logging
import selectors
import socket
import time
from typing import Optional

from optitrack_vrpn.core.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import Body
from optitrack_vrpn.drivers.vrpn.codec import (
    ACCELERATION_TYPE, decode_request, encode_motion, encode_pose, Event, MAX_DATAGRAM_SIZE,
    POSE_TYPE, VELOCITY_TYPE)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.world import Report, SimCounters

_LOG = logging.getLogger(__name__)

Address = tuple[str, int]

#: Chosen: kernel buffer of a client on TCP (bytes); while it is full, the client misses frames.
_SEND_BUFFER = 65_536


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

    :param host: local address.
    :param port: TCP and UDP port; 0 for any free one.
    :param selector: registers every socket, with a callable of the event mask as its data.
    :param counters: updated by the acceptor.
    :param add_client: called with each new connection and whether it was connected back.
    :param is_connected: returns whether a client has this address already.
    :param connect_s: timeout of a connect-back (s).
    :param firewall: whether no connect-back gets an answer.
    :param connecting: called with whether a connect-back is under way, when that changes: the
        VRPN library waits for it and serves nobody.
    """

    def __init__(
        self, host: str, port: int, selector: selectors.BaseSelector, counters: SimCounters,
        add_client: Callable[[socket.socket, bool], None],
        is_connected: Callable[[Address], bool], connect_s: float, firewall: bool = False,
        connecting: Callable[[bool], None] = lambda waits: None,
    ) -> None:
        self._host = host
        self._selector = selector
        self._counters = counters
        self._add_client = add_client
        self._is_connected = is_connected
        self._connect_ns = round(connect_s * NS_PER_S)
        self._firewall = firewall
        self._note_connecting = connecting
        self.sockets: list[socket.socket] = []
        self._connecting: dict[socket.socket, tuple[Address, int]] = {}
        self.port = port
        #: Port to which clients may send datagrams; all are ignored.
        self.udp_port = 0

    @property
    def is_open(self) -> bool:
        """Return whether clients can connect."""
        return bool(self.sockets)

    def open(self) -> None:
        """
        Listen by TCP and UDP on one port number, and on the same number when opened again.

        :raises TransportError: if the address or port is not available.
        """
        # Chosen: attempts to find a port that is free for TCP and UDP; one nearly always suffices.
        attempts = 1 if self.port else 20
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
                    raise cannot_listen(self._host, self.port, error) from None
            else:
                break
        self.sockets = opened
        self.port, self.udp_port = port, opened[2].getsockname()[1]
        self.resume()

    def resume(self) -> None:
        """Serve the sockets again after ``pause``."""
        for sock, handler in zip(
                self.sockets, (self._accept, self._read_request, self._ignore_datagram)):
            if sock not in self._selector.get_map():
                self._selector.register(sock, selectors.EVENT_READ, handler)

    def pause(self) -> None:
        """Accept nobody, while the kernel queues what arrives."""
        for sock in self.sockets:
            if sock in self._selector.get_map():
                self._selector.unregister(sock)

    def _bind(self, opened: list[socket.socket], kind: int, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        opened.append(sock)
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            # Permits a port with closed connections in TIME_WAIT, but not two servers on one port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._host, port))
        return sock

    def close(self) -> None:
        """Close every socket, including connections in progress."""
        for sock in (*self.sockets, *self._connecting):
            forget(self._selector, sock)
        self.sockets = []
        self._connecting.clear()

    def check(self, now_ns: int) -> None:
        """Abandon connect-backs that take too long."""
        for sock, (address, since_ns) in list(self._connecting.items()):
            if now_ns - since_ns > self._connect_ns:
                self._failed(sock, address, 'no answer')

    def _accept(self, mask: int) -> None:
        try:
            sock, _ = self.sockets[0].accept()
        except (BlockingIOError, ConnectionError):
            return
        self._add_client(sock, False)

    def _read_request(self, mask: int) -> None:
        try:
            data, source = self.sockets[1].recvfrom(2048)
        except OSError:
            return
        try:
            host, port = decode_request(data)
            ipaddress.IPv4Address(host)
        except (RemoteProtocolError, ValueError) as error:
            self._counters.malformed_requests += 1
            _LOG.warning('%s from %s', error, source[0])
            return
        address = host, port
        if self._is_connected(address) or any(
                address == other for other, _ in self._connecting.values()):
            return    # a repeated request, already answered
        self._counters.requests += 1
        self._connect_back(address)

    def _connect_back(self, address: Address) -> None:
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            _LOG.warning('cannot connect back to %s:%d: %s', *address, error.strerror)
            return
        self._connecting[sock] = address, raw_clock_ns()
        if self._firewall:
            self._note_connecting(True)
            return
        try:
            sock.setblocking(False)
            if self._host not in ('', '0.0.0.0'):
                sock.bind((self._host, 0))
            sock.connect(address)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._failed(sock, address, error.strerror)
            return
        self._selector.register(
            sock, selectors.EVENT_WRITE, lambda mask: self._connected(sock, address))
        self._note_connecting(True)

    def _connected(self, sock: socket.socket, address: Address) -> None:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(sock, address, f'error {code}')
            return
        del self._connecting[sock]
        self._selector.unregister(sock)
        self._note_connecting(False)
        self._add_client(sock, True)

    def _failed(self, sock: socket.socket, address: Address, reason: object) -> None:
        _LOG.warning('cannot connect back to %s:%d: %s', *address, reason)
        del self._connecting[sock]
        forget(self._selector, sock)
        self._note_connecting(False)

    def _ignore_datagram(self, mask: int) -> None:
        """Read and ignore a datagram of a client, as Motive does."""
        try:
            self.sockets[2].recv(2048)
        except OSError:
            pass


class ClientGone(TransportError):
    """A client's connection has ended; the message is the reason."""


def encode_report(report: Report) -> tuple[str, bytes]:
    """Encode the message type and the payload of a report."""
    if isinstance(report, Body):
        return POSE_TYPE, encode_pose(report.sensor, report.position, report.quat_xyzw)
    return VELOCITY_TYPE if report.is_velocity else ACCELERATION_TYPE, encode_motion(
        report.sensor, report.vector, report.quat_xyzw, report.dt)


class SimClient:
    """
    One client.

    :param sock: its TCP connection, connected.
    :param connection: its VRPN connection.
    :param link: its simulated network.
    :param later: calls an action at a time of the server's clock, for this client.
    """

    def __init__(
        self, sock: socket.socket, connection: VrpnConnection, link: ImpairedLink,
        later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.sock = sock
        self.connection = connection
        self.address: Address = sock.getpeername()[:2]
        self.link = link
        self._udp: Optional[socket.socket] = None
        self._out = bytearray()
        self._later = later

    def __str__(self) -> str:
        return f'{self.address[0]}:{self.address[1]}'

    @property
    def is_full(self) -> bool:
        """Return whether the kernel's buffer is full."""
        return bool(self._out)

    def receive(self) -> list[Event]:
        """
        Read received data.

        :raises ClientGone: if the client closed or violated the protocol.
        """
        try:
            # Chosen: largest number of bytes per read, so that other clients are served.
            data = self.sock.recv(16384)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise ClientGone(f'lost: {error.strerror}') from None
        if not data:
            raise ClientGone('closed by the client')
        try:
            return self.connection.receive_stream(data)
        except RemoteProtocolError as error:
            raise ClientGone(f'protocol: {error}') from None

    def use_udp(self, port: int) -> None:
        """
        Send poses by UDP from now on, to the address of the TCP connection.

        :raises ClientGone: if no socket can be opened.
        """
        udp = None
        try:
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.setblocking(False)
            udp.bind((self.sock.getsockname()[0], 0))
            udp.connect((self.address[0], port))
        except OSError as error:
            if udp is not None:
                udp.close()
            raise ClientGone(f'its UDP port is unreachable: {error.strerror}') from None
        if self._udp is not None:
            self._udp.close()
        self._udp = udp

    def deliver(self, reports: list[Report], now_ns: int, time_ns: int) -> int:
        """
        Send the reports of a frame, by UDP if the client receives it, else by TCP.

        :param now_ns: the server's clock.
        :param time_ns: stamp of the descriptions of new names.
        :returns: number of datagrams; 0 by TCP.
        :raises ClientGone: if the connection is lost.
        """
        if not reports or not self.connection.established:
            return 0
        if self._udp is None:
            if self.link.ideal:
                self._send_stream(reports)
            else:
                self._later(self.link.stream(now_ns), lambda: self._send_stream(reports))
            return 0
        self.connection.describe(time_ns)
        self.flush()
        datagrams = 0
        for datagram in self._datagrams(reports):
            datagrams += 1
            if self.link.ideal:
                self._send_datagram(datagram)
            else:
                for due_ns in self.link.datagram(now_ns):
                    self._later(due_ns, functools.partial(self._send_datagram, datagram))
        return datagrams

    def flush(self) -> None:
        """
        Pass queued bytes to the kernel as far as it accepts them.

        :raises ClientGone: if the connection is lost.
        """
        self._out += self.connection.data_to_send()
        while self._out:
            try:
                sent = self.sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise ClientGone(f'lost: {error.strerror}') from None
            del self._out[:sent]

    def close(self) -> None:
        """Close its sockets."""
        self.sock.close()
        if self._udp is not None:
            self._udp.close()
            self._udp = None

    def _send_stream(self, reports: Iterable[Report]) -> None:
        """Send a frame, which is lost while the client does not read."""
        self.flush()
        if self.is_full:
            return
        for report in reports:
            type_name, payload = encode_report(report)
            self.connection.send(report.name, type_name, payload, report.sender_time_ns)
        self.flush()

    def _datagrams(self, reports: Iterable[Report]) -> Iterator[bytes]:
        """Pack messages into datagrams as the library does."""
        packed = bytearray()
        for report in reports:
            type_name, payload = encode_report(report)
            message = self.connection.datagram_message(
                report.name, type_name, payload, report.sender_time_ns)
            if len(packed) + len(message) > MAX_DATAGRAM_SIZE:
                yield bytes(packed)
                packed.clear()
            packed += message
        if packed:
            yield bytes(packed)

    def _send_datagram(self, datagram: bytes) -> None:
        # A full buffer or a closed port: UDP loses what it cannot deliver.
        with contextlib.suppress(OSError):
            if self._udp is not None:
                self._udp.send(datagram)
