# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The two ways to connect to a VRPN server: a UDP request to connect back, or a TCP connection.

Both return a connected TCP socket, or raise ``TransportError`` with what to check.
"""

import errno
import math
import os
import select
import socket
from typing import Callable, Optional

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import Waiting
from optitrack_vrpn.drivers.config import LinkConfig
from optitrack_vrpn.drivers.sockets_io import prepare_stream
from optitrack_vrpn.drivers.vrpn.codec import encode_request


class ServerAbsentError(TransportError):
    """The server's host answered that no program listens on the port."""


class UnreachableError(TransportError):
    """No computer has the server's address, or no route leads to it."""


class NoAnswerError(TransportError):
    """Neither a connection nor a refusal arrived within the timeout."""


#: No file descriptor or memory for another socket: the connection would stay in the accept queue
#: and wake the thread continuously.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)
#: Time to the one repetition of a request (s): a datagram can be lost, and TCP retransmits after
#: 1 s. A server that the first request blocks discards it with all that waits at its UDP port.
_REPEAT_S = 0.5


def connect_back(
    waiting: Waiting, server: tuple[str, int], local: str, config: LinkConfig, until_s: float,
    late: Callable[[str], None], listener: socket.socket, answered: bool,
) -> socket.socket:
    """
    Send a UDP request to connect back by TCP, and wait for the connection.

    A server whose connect() to this host gets no answer is blocked for all its clients: see
    ``drivers.vrpn.transport`` for the conditions under which a request may be sent.

    :param server: its IPv4 address and port.
    :param local: the only local address to listen on.
    :param config: a missing connection is reported after ``attempt_s``, with ``blocked_s`` as the
        time to the next request.
    :param until_s: timeout (s).
    :param late: called with the text of that report.
    :param listener: the listening socket.
    :param answered: whether the server has answered this client before. No firewall drops its
        connection then, and the request was lost by an interruption of the network: it is
        repeated, each time after twice the time from the first.
    :raises ServerAbsentError: if no program listens on the server's UDP port.
    :raises UnreachableError: if the request did not reach a computer.
    :raises NoAnswerError: if the server did not connect back.
    :raises TransportError: if the request could not be sent.
    """
    refusal = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as requester:
        port = listener.getsockname()[1]
        began = now = waiting.now_ns()
        deadline = began + int(until_s * NS_PER_S)
        repeat_at: float = began + _REPEAT_S * NS_PER_S
        report_at: float = math.inf if config.attempt_s >= until_s else (
            began + config.attempt_s * NS_PER_S)
        request = encode_request(local, port)
        _send_request(requester, local, server, request)
        while now < deadline and not refusal:
            ready = waiting.wait(
                int(min(deadline, repeat_at, report_at)), (listener, select.POLLIN),
                (requester, 0))
            if requester.fileno() in ready:
                refusal = requester.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if listener.fileno() in ready:
                sock = accept_server(listener, server[0], waiting)
                if sock is not None:
                    return sock
            now = waiting.now_ns()
            if now >= repeat_at:
                repeat_at = 2 * now - began if answered else math.inf
                try:
                    requester.send(request)
                except OSError as error:
                    refusal = error.errno or errno.EIO
            if now >= report_at:
                report_at = math.inf
                late(unanswered_request(
                    server[0], local, port, config.attempt_s,
                    0.0 if answered else config.blocked_s))
    if refusal == errno.ECONNREFUSED:
        raise ServerAbsentError(
            f'nothing listens on UDP port {server[1]} of {server[0]}: start Motive, enable VRPN '
            'in its streaming settings, with this port and with the Local Interface of this '
            'network, or set protocol: natnet')
    if refusal:
        raise UnreachableError(
            f'{server[0]} cannot be reached ({os.strerror(refusal)}): check the address, the '
            'cable and the power of the Motive PC')
    raise NoAnswerError(unanswered_request(server[0], local, port, until_s, config.blocked_s))


def _send_request(
    requester: socket.socket, local: str, server: tuple[str, int], request: bytes,
) -> None:
    """
    Send a request, and connect the socket to the server so that it receives refusals.

    :raises TransportError: if the request cannot be sent.
    """
    try:
        requester.setblocking(False)
        requester.bind((local, 0))
        requester.connect(server)
        requester.send(request)
    except OSError as error:
        raise TransportError(
            f'the request could not be sent ({error.strerror}): check that the network '
            "interface is up and in the server's network") from error


def accept_server(
    listener: socket.socket, server: str, waiting: Waiting,
) -> Optional[socket.socket]:
    """Accept a waiting connection of the server; None if there is none."""
    try:
        sock, address = listener.accept()
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise TransportError(f'cannot accept the connection: {error.strerror}') from error
        return None  # the peer closed the connection before accept()
    if address[0] != server:
        sock.close()
        waiting.unexpected_peer(address[0], 'a TCP connection')
        return None
    try:
        prepare_stream(sock)
    except OSError:
        sock.close()  # the peer has reset the connection
        return None
    return sock


def connect_out(
    waiting: Waiting, server: tuple[str, int], local: str, attempt_s: float,
) -> socket.socket:
    """
    Connect to a server by TCP, as ``tcp://`` does.

    :param server: its IPv4 address and port.
    :param local: the local address of the connection.
    :param attempt_s: timeout (s).
    :raises ServerAbsentError: if no program listens on the server's TCP port.
    :raises UnreachableError: if no computer has the address.
    :raises TransportError: if the connection cannot be established.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind((local, 0))
        error = sock.connect_ex(server)
        if error == errno.EINPROGRESS:
            deadline = waiting.now_ns() + int(attempt_s * NS_PER_S)
            error = errno.ETIMEDOUT
            while waiting.now_ns() < deadline:
                if waiting.wait(deadline, (sock, select.POLLOUT)):
                    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    break
        gone = not error and _is_gone(sock)
        # A socket can connect to itself on an ephemeral port; then no server listens there.
        if error == errno.ECONNREFUSED or (
                not error and not gone and sock.getsockname() == server):
            raise ServerAbsentError(
                f'nothing listens on TCP port {server[1]} of {server[0]}: start Motive, enable '
                'VRPN in its streaming settings, with this port and with the Local Interface of '
                'this network, or set protocol: natnet')
        if error == errno.ECONNRESET or gone:
            raise TransportError(
                f'{server[0]} closed the connection to its TCP port {server[1]} immediately: '
                'check whether another program uses that port')
        if error:
            late = error == errno.ETIMEDOUT
            kind = (NoAnswerError if late else UnreachableError if error in _UNREACHABLE else
                    TransportError)
            when = f'within {attempt_s:.3g} s' if late else os.strerror(error)
            raise kind(
                f'no TCP connection to {server[0]} port {server[1]} ({when}): check the '
                "address, the cable and the Motive PC's firewall (inbound TCP). If the firewall "
                'admits UDP only, set connection: udp')
        prepare_stream(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _is_gone(sock: socket.socket) -> bool:
    """Return whether a connected socket has lost its peer."""
    try:
        sock.getpeername()
    except OSError:
        return True
    return False


def unanswered_request(
    server: str, host: str, port: int, waited_s: float, blocked_s: float,
) -> str:
    """
    Describe a UDP request after which the server did not connect back.

    :param server: its address.
    :param host: host in the request.
    :param port: TCP port in the request.
    :param waited_s: time without a connection so far (s).
    :param blocked_s: time from the request to the next one (s); 0 if it is repeated.
    """
    what = f'{server} did not connect back to {host} port {port} within {waited_s:g} s: '
    if not blocked_s:
        return (f'{what}it did before, so that the network seems to be interrupted. The request '
                'is repeated: check the cables, and whether the firewall here was changed')
    return (f'{what}admit inbound TCP here and UDP there, or set connection: tcp. A dropped '
            f'connection blocks the server for all clients: next request after {blocked_s:g} s')


def waiting_for_earlier_request(server: str, left_s: float) -> str:
    """
    Describe a server that an earlier, unanswered UDP request may still block.

    :param server: its address.
    :param left_s: time until the next request (s).
    """
    return (
        f'{server} has not answered the UDP request of an earlier configuration and may be '
        f'blocked by it: next request in {left_s:.0f} s. Check the firewall here for inbound '
        'TCP, or set connection: tcp')
