# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One client of the simulated Motive: its sockets, its queue and its timeouts."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import functools
import socket
from typing import Optional

from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.sim.impairments import Link
from optitrack_vrpn.sim.scenario_io import Server
from optitrack_vrpn.sim.world import Report
from optitrack_vrpn.units import NS_PER_S
from optitrack_vrpn.vrpn.codec import encode_motion, encode_pose
from optitrack_vrpn.vrpn.connection import Connection
from optitrack_vrpn.vrpn.constants import (
    ACCELERATION_TYPE, MAX_DATAGRAM_SIZE, POSE_TYPE, VELOCITY_TYPE)
from optitrack_vrpn.vrpn.messages import Event, PoseReport, VelocityReport

#: Chosen: largest number of bytes per read, so that other clients are served. Doubled, a flood
#: delays them twice as long.
_READ_SIZE = 16384
#: Chosen: bytes per second after which a client is dropped; VRPN clients send a few kB in all, so
#: that half or double has no effect on them.
_FLOOD_BYTES = 1_000_000
#: Chosen: kernel memory (bytes) for a client that stops reading. Halved or doubled, it is detected
#: earlier or later.
_SEND_BUFFER = 262_144


class PeerGone(TransportError):
    """The conversation has ended; the message is the reason."""


def encode_report(report: Report) -> tuple[str, bytes]:
    """Encode the message type and the payload of a report."""
    if isinstance(report, PoseReport):
        return POSE_TYPE, encode_pose(report.sensor, report.position, report.quat_xyzw)
    if isinstance(report, VelocityReport):
        return VELOCITY_TYPE, encode_motion(
            report.sensor, report.velocity, report.quat_xyzw, report.dt)
    return ACCELERATION_TYPE, encode_motion(
        report.sensor, report.acceleration, report.quat_xyzw, report.dt)


def tune(sock: socket.socket) -> None:
    """Set the options of a TCP socket: no Nagle delay, bounded buffer, keepalive."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (('TCP_KEEPIDLE', 10), ('TCP_KEEPINTVL', 5), ('TCP_KEEPCNT', 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Peer:
    """
    One client.

    :param sock: its TCP connection, connected.
    :param connection: its conversation.
    :param link: its simulated network.
    :param limits: its limits.
    :param now_ns: the server's clock.
    :param later: calls an action at a time of that clock, and ends the client if it raises
        PeerGone.
    """

    def __init__(
        self, sock: socket.socket, connection: Connection, link: Link, limits: Server,
        now_ns: int, later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self.sock = sock
        self.connection = connection
        self.address: tuple[str, int] = sock.getpeername()[:2]
        self.since_ns = now_ns
        self.link = link
        self._limits = limits
        self._timeout_ns = round(limits.client_timeout * NS_PER_S)
        self._udp: Optional[socket.socket] = None
        self._out = bytearray()
        self._blocked_since_ns: Optional[int] = None
        self._window_ns = now_ns
        self._window_bytes = 0
        self._later = later

    def __str__(self) -> str:
        return f'{self.address[0]}:{self.address[1]}'

    @property
    def wants_write(self) -> bool:
        """Return whether unsent bytes are queued."""
        return bool(self._out)

    def receive(self, now_ns: int) -> list[Event]:
        """
        Read received data.

        :raises PeerGone: if the client closed, violated the protocol or sends too much.
        """
        try:
            data = self.sock.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise PeerGone(f'lost: {error.strerror}') from None
        if not data:
            raise PeerGone('closed by the client')
        if now_ns - self._window_ns > NS_PER_S:
            self._window_ns, self._window_bytes = now_ns, 0
        self._window_bytes += len(data)
        if self._window_bytes > _FLOOD_BYTES:
            raise PeerGone(f'flood: more than {_FLOOD_BYTES} bytes in a second')
        try:
            return self.connection.receive_stream(data)
        except RemoteProtocolError as error:
            raise PeerGone(f'protocol: {error}') from None

    def use_udp(self, port: int) -> None:
        """
        Send poses by UDP from now on.

        They go to the address of the TCP connection, independent of the host that the client
        names, so that a client cannot direct them to a third host.

        :raises PeerGone: if no socket can be opened.
        """
        try:
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        except OSError as error:
            raise PeerGone(f'no socket: {error.strerror}') from None
        try:
            udp.setblocking(False)
            udp.bind((self.sock.getsockname()[0], 0))
            udp.connect((self.address[0], port))
        except OSError as error:
            udp.close()
            raise PeerGone(f'its UDP port is unreachable: {error.strerror}') from None
        if self._udp is not None:
            self._udp.close()
        self._udp = udp

    def deliver(self, reports: list[Report], now_ns: int, time_ns: int) -> int:
        """
        Send the reports of a frame, by UDP if the client receives it, else by TCP.

        :param now_ns: the server's clock.
        :param time_ns: stamp of the descriptions of new names.
        :returns: number of datagrams; 0 by TCP.
        :raises PeerGone: if too much waits for the client already.
        """
        if not reports or not self.connection.established:
            return 0
        if self._udp is None:
            if self.link.ideal:
                self._send_stream(reports, now_ns)
            else:
                due_ns = self.link.stream(now_ns)
                self._later(due_ns, lambda: self._send_stream(reports, due_ns))
            return 0
        self.connection.describe(time_ns)
        self.flush(now_ns)
        datagrams = 0
        for datagram in self._datagrams(reports):
            datagrams += 1
            if self.link.ideal:
                self._send_datagram(datagram)
            else:
                for due_ns in self.link.datagram(now_ns):
                    self._later(due_ns, functools.partial(self._send_datagram, datagram))
        return datagrams

    def flush(self, now_ns: int) -> None:
        """
        Pass queued bytes to the kernel as far as it accepts them.

        :raises PeerGone: if the connection is lost or too much waits.
        """
        self._out += self.connection.data_to_send()
        while self._out:
            try:
                sent = self.sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise PeerGone(f'lost: {error.strerror}') from None
            del self._out[:sent]
            self._blocked_since_ns = None
        if not self._out:
            self._blocked_since_ns = None
        elif self._blocked_since_ns is None:
            self._blocked_since_ns = now_ns
        if len(self._out) > self._limits.client_buffer:
            raise PeerGone(f'stalled: {len(self._out)} bytes wait for it to read')

    def check(self, now_ns: int) -> None:
        """
        Drop a client that exceeds a timeout.

        :raises PeerGone: if its handshake or its reading takes too long.
        """
        if not self.connection.established:
            if now_ns - self.since_ns > self._timeout_ns:
                raise PeerGone('handshake: no cookie in time')
        elif (self._blocked_since_ns is not None
                and now_ns - self._blocked_since_ns > self._timeout_ns):
            raise PeerGone('stalled: it stopped reading')

    def close(self) -> None:
        """Close its sockets."""
        self.sock.close()
        if self._udp is not None:
            self._udp.close()
            self._udp = None

    def _send_stream(self, reports: Iterable[Report], now_ns: int) -> None:
        for report in reports:
            type_name, payload = encode_report(report)
            self.connection.send(report.sender, type_name, payload, report.sender_time_ns)
        self.flush(now_ns)

    def _datagrams(self, reports: Iterable[Report]) -> Iterator[bytes]:
        """Pack messages into datagrams as the library does."""
        packed = bytearray()
        for report in reports:
            type_name, payload = encode_report(report)
            message = self.connection.datagram_message(
                report.sender, type_name, payload, report.sender_time_ns)
            if len(packed) + len(message) > MAX_DATAGRAM_SIZE:
                yield bytes(packed)
                packed.clear()
            packed += message
        if packed:
            yield bytes(packed)

    def _send_datagram(self, datagram: bytes) -> None:
        if self._udp is None:
            return
        # A full buffer or a closed port: UDP loses what it cannot deliver.
        with contextlib.suppress(OSError):
            self._udp.send(datagram)
