# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets with the options of a VRPN client, and a waker for a thread that waits on them."""

import errno
import fcntl
import select
import socket
import struct
import sys
import termios
from typing import Final, Optional

from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.units import NS_PER_S

#: Linux: nanosecond receive time stamps of datagrams and streams. Number of the option and of its
#: control message (asm-generic/socket.h), for Python versions whose socket module lacks it.
SO_TIMESTAMPNS: Final[int] = getattr(socket, 'SO_TIMESTAMPNS', 35)
_SOL_SOCKET: Final[int] = socket.SOL_SOCKET
_TIMESPEC = struct.Struct('@qq')
_UNPACK_TIMESPEC: Final = _TIMESPEC.unpack_from
#: Linux: memory use of a socket's queues (asm-generic/socket.h, linux/sock_diag.h).
_SO_MEMINFO = 55
_MEMINFO = struct.Struct('@9I')
_INT = struct.Struct('@i')
#: Chosen: receive buffer (bytes), which the kernel limits to net.core.rmem_max.
RECEIVE_BUFFER = 4 << 20
#: Chosen: detects a server that disappeared without closing the connection after 10 + 4 * 3 s. The
#: watchdog usually reacts earlier but can be disabled.
_KEEPALIVE = {'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 3, 'TCP_KEEPCNT': 4}
#: Chosen: a kernel stamp older than this belongs to a clock that stepped (ns).
_LONGEST_QUEUE_NS: Final = 60 * NS_PER_S
#: Size of the ancillary data of a read: one time stamp.
ANCILLARY_SIZE: Final = socket.CMSG_SPACE(_TIMESPEC.size)


def ask_for_stamps(sock: socket.socket) -> bool:
    """Enable receive time stamps of the kernel; return False where unsupported."""
    if not sys.platform.startswith('linux'):
        return False  # the option's number has another meaning on other systems
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def datagram_socket(local: str, port: int = 0) -> socket.socket:
    """
    Open a UDP socket on one local address.

    :param port: 0 for a port that the system chooses.
    :raises TransportError: if the address or port is not available.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        sock.bind((local, port))
    except OSError as error:
        sock.close()
        raise cannot_listen('UDP', local, port, error) from error
    return sock


def unread_stream_bytes(sock: socket.socket) -> Optional[int]:
    """Return the number of unread bytes in a TCP socket; None if the system does not report it."""
    try:
        answer = fcntl.ioctl(sock, termios.FIONREAD, bytes(_INT.size))
    except (OSError, ValueError):    # ValueError: the socket was closed
        return None
    return int(_INT.unpack(answer)[0])


def unread_datagrams(sock: socket.socket) -> Optional[tuple[int, int]]:
    """
    Read the queue of a UDP socket; FIONREAD would report the next datagram only.

    :returns: kernel memory used by unread datagrams (bytes; several times their payload), and the
        number of datagrams dropped because the buffer was full. None if the system does not
        report them.
    """
    if not sys.platform.startswith('linux'):
        return None  # the option's number has another meaning on other systems
    try:
        answer = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
    except OSError:
        return None
    if len(answer) < _MEMINFO.size:
        return None
    figures = _MEMINFO.unpack(answer)
    return figures[0], figures[8]


def kernel_time_ns(ancillary: list[tuple[int, int, bytes]]) -> Optional[int]:
    """
    Find the kernel's receive time in a datagram's ancillary data.

    :param ancillary: ancillary data of ``recvmsg``.
    :returns: system time (ns), or None without a time stamp.
    """
    seconds: int    # declared for mypyc, like the next one
    nanoseconds: int
    for level, kind, data in ancillary:
        if level == _SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = _UNPACK_TIMESPEC(data)
            return seconds * NS_PER_S + nanoseconds
    return None


def arrival_time_ns(
    kernel_ns: Optional[int], host_minus_arrival_ns: int, now_ns: int,
) -> int:
    """
    Convert the kernel's receive time to the arrival clock.

    :param kernel_ns: result of ``kernel_time_ns``.
    :param host_minus_arrival_ns: system time minus arrival clock (ns).
    :returns: arrival time (ns); the present time if the kernel's is absent or implausible.
    """
    if kernel_ns is None:
        return now_ns
    arrival_ns = kernel_ns - host_minus_arrival_ns
    return arrival_ns if 0 <= now_ns - arrival_ns < _LONGEST_QUEUE_NS else now_ns


def listening_socket(local: str, port: int) -> socket.socket:
    """
    Open a TCP socket that listens for the connect-back of one server.

    :param port: 0 for a port that the system chooses.
    :raises TransportError: if the address or port is not available.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((local, port))
        sock.listen(4)
    except OSError as error:
        sock.close()
        raise cannot_listen('TCP', local, port, error) from error
    return sock


def cannot_listen(kind: str, local: str, port: int, error: OSError) -> TransportError:
    """Describe an address that could not be bound, with the reason."""
    where = f'{local} port {port}' if port else local
    hint = ('another program or node uses the port; give each node a different port in advertise'
            if error.errno == errno.EADDRINUSE else
            'check whether the address of the network interface has changed'
            if error.errno == errno.EADDRNOTAVAIL else 'the operating system refuses')
    return TransportError(f'cannot listen by {kind} on {where} ({error.strerror}): {hint}')


def prepare_stream(sock: socket.socket) -> None:
    """Set the options of a connected TCP socket: no Nagle delay, keepalive probes."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reset_on_close(sock: socket.socket) -> None:
    """
    Close a connection that the server has ended by a reset.

    Otherwise the server's side stays in TIME_WAIT for a minute, in which a VRPN server on Linux
    that is started again cannot bind its port, because the library does not set SO_REUSEADDR.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


class Waker:
    """Wake a thread that waits in ``poll``, from any other thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the current or the next wait immediately."""
        try:
            self._writer.send(b'\0')
        except OSError:
            pass  # full: a wake is pending; closed: no thread waits

    def wait(self, timeout_s: float, *others: tuple[socket.socket, int]) -> dict[int, int]:
        """
        Wait until a socket is ready, ``wake`` is called or the timeout has passed.

        :param others: sockets with the poll events to wait for.
        :returns: poll events of the ready sockets, by file descriptor.
        """
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        for sock, events in others:
            poll.register(sock, events)
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000.0))
        if ready.pop(self._reader.fileno(), 0):
            self.drain()
        return ready

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable on a wake."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Discard pending wakes."""
        try:
            while self._reader.recv(64):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()
