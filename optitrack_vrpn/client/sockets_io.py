# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets set up as a VRPN client needs them, and a way to wake a thread that waits on them."""

import errno
import fcntl
import select
import socket
import struct
import sys
import termios
from typing import Optional

from optitrack_vrpn.errors import TransportError

#: Linux: nanosecond receive time stamps of datagrams and streams; the number of the option and
#: of its control message (asm-generic/socket.h), which Python's socket module does not name.
SO_TIMESTAMPNS = getattr(socket, 'SO_TIMESTAMPNS', 35)
_TIMESPEC = struct.Struct('@qq')
#: Linux: what a socket's queues hold (asm-generic/socket.h, linux/sock_diag.h).
_SO_MEMINFO = 55
_MEMINFO = struct.Struct('@9I')
_INT = struct.Struct('@i')
_RECEIVE_BUFFER = 4 << 20
#: A server that is gone without a word is noticed after some 20 s, in seconds and probes; the
#: watchdog is mostly quicker, but may be switched off.
_KEEPALIVE = {'TCP_KEEPIDLE': 10, 'TCP_KEEPINTVL': 3, 'TCP_KEEPCNT': 4}
#: Room for one time stamp among the ancillary data of a read.
ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)


def ask_for_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what arrives; False where it does not know how."""
    if not sys.platform.startswith('linux'):
        return False  # the number means something else there
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def datagram_socket(local: str, port: int = 0) -> socket.socket:
    """
    Open a socket for datagrams on one local address.

    :param port: 0 for one that the system picks.
    :raises TransportError: if the address or port cannot be had.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.bind((local, port))
    except OSError as error:
        sock.close()
        raise cannot_listen('UDP', local, port, error) from error
    return sock


def unread_stream_bytes(sock: socket.socket) -> Optional[int]:
    """Count the bytes that wait unread in a TCP socket; None where the system does not tell."""
    try:
        answer = fcntl.ioctl(sock, termios.FIONREAD, bytes(_INT.size))
    except (OSError, ValueError):    # ValueError: it has just been closed
        return None
    return int(_INT.unpack(answer)[0])


def unread_datagrams(sock: socket.socket) -> Optional[tuple[int, int]]:
    """
    Look at the queue of a UDP socket; FIONREAD would tell of the next datagram alone.

    :returns: the memory (bytes) that the kernel keeps datagrams in which wait unread, several
        times what is in them; and how many it has dropped for want of room. None where the
        system does not tell.
    """
    if not sys.platform.startswith('linux'):
        return None  # the number means something else there
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
    Find the kernel's receive time among a datagram's ancillary data.

    :param ancillary: as ``recvmsg`` gives it.
    :returns: system time in nanoseconds, or None if there is none.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


def listening_socket(local: str, port: int) -> socket.socket:
    """
    Open a TCP socket that waits for one server to connect back.

    :param port: 0 for one that the system picks.
    :raises TransportError: if the address or port cannot be had.
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
    """Say what could not be bound, and why."""
    where = f'{local} port {port}' if port else local
    hint = ('another program, or another node, has that port; give each its own in advertise'
            if error.errno == errno.EADDRINUSE else
            'has the network card changed its address or gone?'
            if error.errno == errno.EADDRNOTAVAIL else 'the operating system refuses')
    return TransportError(f'cannot listen by {kind} on {where} ({error.strerror}): {hint}')


def prepare_stream(sock: socket.socket) -> None:
    """Set a connected TCP socket up for small messages at once and for noticing a dead peer."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Waker:
    """Wakes a thread that waits in ``poll``, from any other thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """Let the present or next wait return at once."""
        try:
            self._writer.send(b'\0')
        except OSError:
            pass  # full: it is awake already; closed: nobody waits any more

    def wait(self, timeout_s: float, *others: tuple[socket.socket, int]) -> dict[int, int]:
        """
        Wait until one of some sockets is ready, somebody wakes, or time is up.

        :param others: sockets with the poll events to wait for.
        :returns: poll events by file number of those sockets that are ready.
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
        """Give the file number that becomes readable on a wake."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Forget the wakes so far."""
        try:
            while self._reader.recv(64):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()
