# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets set up as a VRPN client needs them, and a way to wake a thread that waits on them."""

import select
import socket
import struct
from typing import Optional

#: Linux: nanosecond receive time stamps of datagrams; the number of the option and of its
#: control message (asm-generic/socket.h), which Python's socket module does not name.
SO_TIMESTAMPNS = getattr(socket, 'SO_TIMESTAMPNS', 35)
_TIMESPEC = struct.Struct('@qq')
_RECEIVE_BUFFER = 4 << 20
#: Room for one time stamp among the ancillary data of a datagram.
ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)


def datagram_socket(local: str) -> tuple[socket.socket, bool]:
    """
    Open a socket for datagrams on one local address, on a port that the system picks.

    :returns: the socket, and whether the kernel stamps what arrives.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        stamped = True
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            stamped = False
        sock.bind((local, 0))
    except OSError:
        sock.close()
        raise
    return sock, stamped


def kernel_time_ns(ancillary: list[tuple[int, int, bytes]]) -> Optional[int]:
    """
    Find the kernel's receive time among a datagram's ancillary data.

    :returns: system time in nanoseconds, or None if there is none.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


def listening_socket(local: str, port: int) -> socket.socket:
    """Open a TCP socket that waits for one server to connect back; port 0 for any."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((local, port))
        sock.listen(4)
    except OSError:
        sock.close()
        raise
    return sock


def prepare_stream(sock: socket.socket) -> None:
    """Set a connected TCP socket up for small messages at once and for noticing a dead peer."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


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
