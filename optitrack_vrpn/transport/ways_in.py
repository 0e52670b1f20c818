# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The two ways to a VRPN server: ask it to connect back, or connect out to it.

Both give a connected TCP socket, or raise ``TransportError`` with what to look at.
"""

import errno
import select
import socket
from typing import Callable

from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.transport.sockets import listening_socket, prepare_stream, Waker
from optitrack_vrpn.vrpn.codec import encode_request

_NS = 1_000_000_000


class Stopped(Exception):
    """The client is being stopped; what waits ends at once."""


class ServerAbsentError(TransportError):
    """The server's machine answered that nothing listens on its port."""


class Waiting:
    """
    What an attempt needs to wait with: a clock, a waker, and who is let in.

    :param now_ns: reads the arrival clock.
    :param stopping: tells whether the client is being stopped.
    :param waker: wakes the wait when that changes.
    :param stranger: called with the address and kind of whoever else knocks.
    """

    def __init__(
        self, now_ns: Callable[[], int], stopping: Callable[[], bool], waker: Waker,
        stranger: Callable[[str, str], None],
    ) -> None:
        self.now_ns = now_ns
        self.stopping = stopping
        self.waker = waker
        self.stranger = stranger

    def wait(
        self, deadline_ns: int, *sockets: tuple[socket.socket, int],
    ) -> dict[int, int]:
        """
        Wait for sockets until a deadline.

        :raises Stopped: if the client is being stopped.
        """
        ready = self.waker.wait((deadline_ns - self.now_ns()) / _NS, *sockets)
        if self.stopping():
            raise Stopped
        return ready


def connect_back(
    waiting: Waiting, server: tuple[str, int], local: str, advertise: str,
    interval_s: float, attempt_s: float,
) -> socket.socket:
    """
    Ask a server by UDP to connect back by TCP, and wait for it.

    :param server: its IPv4 address and port.
    :param local: the local address to listen on; no wider.
    :param advertise: HOST or HOST:PORT to be told to the server instead, or ''.
    :param interval_s: between requests.
    :param attempt_s: how long to wait in all.
    :raises ServerAbsentError: if nothing listens on the server's UDP port.
    :raises TransportError: if nobody connected back.
    """
    host, _, port_text = (advertise or local).partition(':')
    listener = listening_socket(local, int(port_text or 0))
    requester = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    refused = False
    with listener, requester:
        requester.setblocking(False)
        requester.bind((local, 0))
        requester.connect(server)
        port = listener.getsockname()[1]
        request = encode_request(host or local, port)
        now = waiting.now_ns()
        deadline = now + int(attempt_s * _NS)
        next_request = now
        while now < deadline:
            if now >= next_request:
                refused |= _send_request(requester, request)
                next_request = now + int(interval_s * _NS)
            ready = waiting.wait(
                min(deadline, next_request), (listener, select.POLLIN), (requester, 0))
            if requester.fileno() in ready:
                refused |= _was_refused(requester)
            if listener.fileno() in ready:
                sock = _accept(listener, server[0], waiting)
                if sock is not None:
                    return sock
            now = waiting.now_ns()
    if refused:
        raise ServerAbsentError(
            f'nothing listens on UDP port {server[1]} of {server[0]}: is Motive running, and is '
            "VRPN switched on in its streaming settings, with this network's Local Interface?")
    raise TransportError(
        f'{server[0]} did not connect back to {host or local} port {port} within {attempt_s:g} '
        's: look at the firewalls here (TCP in) and there (UDP in), and at the Local Interface '
        "in Motive's streaming settings; behind NAT or in a container set connection: tcp")


def _send_request(requester: socket.socket, request: bytes) -> bool:
    """Send a request; True if the server's machine refused an earlier one."""
    try:
        requester.send(request)
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            return True
        raise TransportError(f'the request could not be sent: {error.strerror}') from error
    return False


def _was_refused(requester: socket.socket) -> bool:
    return requester.getsockopt(
        socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def _accept(
    listener: socket.socket, server: str, waiting: Waiting,
) -> 'socket.socket | None':
    try:
        sock, address = listener.accept()
    except OSError:
        return None
    if address[0] != server:
        sock.close()
        waiting.stranger(address[0], 'a TCP connection')
        return None
    prepare_stream(sock)
    return sock


def connect_out(
    waiting: Waiting, server: tuple[str, int], local: str, attempt_s: float,
) -> socket.socket:
    """
    Connect to a server by TCP, as ``tcp://`` does.

    :param server: its IPv4 address and port.
    :param local: the local address to come from.
    :param attempt_s: how long to wait.
    :raises ServerAbsentError: if nothing listens on the server's TCP port.
    :raises TransportError: if the connection cannot be made.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind((local, 0))
        error = sock.connect_ex(server)
        if error == errno.EINPROGRESS:
            deadline = waiting.now_ns() + int(attempt_s * _NS)
            error = errno.ETIMEDOUT
            while waiting.now_ns() < deadline:
                if waiting.wait(deadline, (sock, select.POLLOUT)):
                    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    break
        if error == errno.ECONNREFUSED:
            raise ServerAbsentError(
                f'nothing listens on TCP port {server[1]} of {server[0]}: is Motive running, '
                'and is VRPN switched on in its streaming settings?')
        if error:
            raise TransportError(
                f'no TCP connection to {server[0]} port {server[1]} within {attempt_s:g} s '
                f'({errno.errorcode.get(error, error)}): look at the address, the cable and '
                "the Motive PC's firewall (TCP in)")
        if sock.getsockname() == sock.getpeername():
            # A port in the ephemeral range, connected to itself: nobody listens there.
            raise ServerAbsentError(f'nothing listens on TCP port {server[1]} of {server[0]}')
        prepare_stream(sock)
    except BaseException:
        sock.close()
        raise
    return sock
