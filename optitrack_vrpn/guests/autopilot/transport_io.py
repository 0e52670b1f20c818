# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Transports of a link: UDP in both directions and serial ports, reopened after a failure.

A transport never blocks for longer than ``WRITE_S``; opening does not wait, except for name
resolution. Failures raise TransportError with the reason; the caller closes the transport and
tries again. Descriptors are polled, since select() fails for numbers above 1023.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
import errno
import math
import os
import select
import socket
import termios
import time
from typing import Any, Callable, Optional

from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.core.errors import BackendUnavailableError, TransportError
from optitrack_vrpn.guests.autopilot.settings import BITS_PER_BYTE, LinkAddress

#: Timeout of one write (s), after which the line counts as blocked. Chosen: at most a tenth of a
#: second of poses is lost.
WRITE_S = 0.1
_READ = 65536
#: ICMP error (no listener yet) or network card down: the next datagram may pass.
_PASSING = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN,
            errno.ENOBUFS, errno.EAGAIN)


Clock = Callable[[], float]


class Transport(ABC):
    """
    An open link.

    :ivar peer: destination, for the user; '' while unknown.
    :ivar datagrams: whether each read returns complete messages.
    :ivar interruptions: number of times that accepted messages were discarded before they were
        sent, or the destination changed.
    """

    peer = ''
    interruptions = 0
    datagrams = False

    @abstractmethod
    def fileno(self) -> int:
        """Return the descriptor to wait on."""

    @abstractmethod
    def read(self) -> bytes:
        """Read the available bytes; b'' if there are none. TransportError on failure."""

    @abstractmethod
    def write(self, data: bytes, until_s: float = math.inf) -> bool:
        """
        Write one message; return False if it could not be sent now.

        :param until_s: time on the monotonic clock (s) after which it must not leave.
        :raises TransportError: if the link has failed.
        """

    def next_limit_s(self) -> float:
        """Return the time for the next call of ``expire``, on the monotonic clock (s)."""
        return math.inf

    def expire(self) -> None:  # noqa: B027
        """Discard written messages that still wait in the system and are too old."""

    def foreign(self) -> str:
        """Return the origin of the bytes read last if it is not the autopilot's, else ''."""
        return ''

    def confirm(self) -> None:  # noqa: B027
        """Confirm that the bytes read last came from the autopilot."""

    @abstractmethod
    def close(self) -> None:
        """Release the descriptor."""


class Udp(Transport):
    """
    A UDP socket that sends to a fixed address, or to the origin of the autopilot's datagrams.

    :param remote: destination, or None to learn it.
    :param local: local address, or None for a port chosen by the system.
    :param clock: reads a monotonic clock (s).
    """

    datagrams = True

    def __init__(
        self, remote: Optional[tuple[str, int]], local: Optional[tuple[str, int]], clock: Clock,
    ) -> None:
        self._clock = clock
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._remote = remote
        self._source: Optional[tuple[str, int]] = None
        self._learn = remote is None
        self._confirmed_s = -math.inf
        self._suspect: Optional[tuple[str, int]] = None
        #: Origins that sent while the peer did: other vehicles, which never become the peer.
        self._others: deque[Optional[tuple[str, int]]] = deque(maxlen=16)
        try:
            self._sock.setblocking(False)
            if local is not None:
                self._sock.bind(local)
            if remote is not None:
                self._remote = (socket.gethostbyname(remote[0]), remote[1])
                # A connected socket does not receive datagrams from others.
                self._sock.connect(self._remote)
                self.peer = _place(self._remote)
        except (OSError, UnicodeError) as error:    # UnicodeError: not a host name
            self._sock.close()
            taken = getattr(error, 'errno', 0) == errno.EADDRINUSE
            raise TransportError(f'{_place(remote or local)}: {error}' + (
                ': another program, such as a second bridge or MAVSDK, receives on this port; use '
                'another MAVLink instance of the autopilot for it, or a router' if taken else '')
            ) from None

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._sock.fileno()

    def read(self) -> bytes:
        """Read one datagram; see ``Transport``."""
        try:
            data, self._source = self._sock.recvfrom(_READ)
        except OSError as error:
            if error.errno in _PASSING:
                return b''
            raise TransportError(f'reading failed: {error}') from None
        return data

    def foreign(self) -> str:
        """Return the origin of the last datagram if it is not the autopilot's, else ''."""
        # Chosen: another origin may become the peer after 3 s without a heartbeat at 1 Hz.
        if not self._learn or self._source == self._remote or (
                self._source not in self._others and self._clock() - self._confirmed_s >= 3.0):
            return ''
        self._suspect = self._source
        return _place(self._source)

    def confirm(self) -> None:
        """Send to the origin of the last datagram from now on."""
        self._confirmed_s = self._clock()
        if self._learn and self._source != self._remote:
            self.interruptions += 1
            self._remote = self._source
            self.peer = _place(self._source)
        elif self._suspect is not None and self._suspect not in self._others:
            self._others.append(self._suspect)
        self._suspect = None

    def write(self, data: bytes, until_s: float = math.inf) -> bool:
        """Send one datagram; see ``Transport``."""
        if self._remote is None:
            return False
        try:
            if self._learn:
                self._sock.sendto(data, self._remote)
            else:
                self._sock.send(data)
        except OSError as error:
            if error.errno in _PASSING:
                return False
            raise TransportError(f'sending to {self.peer} failed: {error}') from None
        return True

    def close(self) -> None:
        """Release the socket."""
        self._sock.close()


class Serial(Transport):
    """
    A serial port, opened by pyserial.

    A message is written only if its last byte leaves in time at the line's rate. If the line is
    blocked, waiting messages are discarded when they are too old; the autopilot's parser drops a
    truncated message. The system reports the number of unsent bytes (TIOCOUTQ), which are the last
    ones written.

    :param clock: reads a monotonic clock (s).
    """

    def __init__(self, device: str, baud: int, clock: Clock) -> None:
        try:
            import serial
        except ImportError:
            raise BackendUnavailableError(
                'a serial connection needs pyserial, which is not installed: ' + how_to_install(
                    'apt install python3-serial, or pip install pyserial')) from None
        self.peer = device
        self._clock = clock
        self._bytes_per_s = baud / BITS_PER_BYTE
        self._written = 0
        #: For each message that ages: count of bytes up to its end, time when it is too old (s).
        self._limits: deque[tuple[int, float]] = deque()
        self._errors: Any = (
            serial.SerialException, OSError, TypeError, termios.error)
        try:
            # pyserial's reads and writes wait with select(); only its setup of the port is used.
            self._port = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            raise TransportError(f'{device}: {error}') from None

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        number: int = self._port.fileno()
        return number

    def read(self) -> bytes:
        """Read the available bytes; see ``Transport``."""
        try:
            if not _ready(self.fileno(), select.POLLIN, 0.0):
                return b''
            data = os.read(self.fileno(), _READ)
        except BlockingIOError:
            return b''
        except self._errors as error:
            raise TransportError(f'{self.peer}: {error}') from None
        if not data:    # ready for reading, but no data
            raise TransportError(f'{self.peer} was unplugged')
        return data

    def write(self, data: bytes, until_s: float = math.inf) -> bool:
        """Write one message; see ``Transport``."""
        try:
            self.expire()
            now_s = self._clock()
            limit_s = min(until_s, now_s + WRITE_S)
            if now_s + (self._port.out_waiting + len(data)) / self._bytes_per_s > limit_s:
                return False
            if self._write(data, limit_s):
                self._written += len(data)
                if math.isfinite(until_s):
                    self._limits.append((self._written, until_s))
                return True
            # The line is blocked: its waiting messages would be old when it continues.
            self._flush()
        except self._errors as error:
            raise TransportError(f'{self.peer}: {error}') from None
        return False

    def next_limit_s(self) -> float:
        """Return the time for the next call of ``expire``, on the monotonic clock (s)."""
        return self._limits[0][1] if self._limits else math.inf

    def expire(self) -> None:
        """Discard waiting messages that are too old; see ``Transport``."""
        try:
            sent = self._written - self._port.out_waiting
            while self._limits and self._limits[0][0] <= sent:
                self._limits.popleft()
            if self.next_limit_s() <= self._clock():
                self._flush()
        except self._errors as error:
            raise TransportError(f'{self.peer}: {error}') from None

    def close(self) -> None:
        """Release the port."""
        try:
            # Closing waits until all bytes have left, which never happens on a blocked line.
            self._port.reset_output_buffer()
            self._port.close()
        except self._errors:    # unplugged: the descriptor is invalid
            pass

    def _write(self, data: bytes, until_s: float) -> bool:
        """Write the whole message; return False if the port does not accept it in time."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.fileno(), rest):]
            except BlockingIOError:
                left_s = until_s - self._clock()
                if left_s <= 0.0 or not _ready(self.fileno(), select.POLLOUT, left_s):
                    return False
        return True

    def _flush(self) -> None:
        self.interruptions += 1
        self._written -= self._port.out_waiting
        self._limits.clear()
        self._port.reset_output_buffer()


def _ready(descriptor: int, events: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(timeout_s * 1000.0))


def _place(address: Optional[tuple[str, int]]) -> str:
    return '' if address is None else f'{address[0]}:{address[1]}'


def open_transport(connection: LinkAddress, clock: Clock = time.monotonic) -> Transport:
    """Open a link; ``clock`` reads a monotonic clock (s). TransportError if not now."""
    kind, place, number = connection
    if kind == 'serial':
        return Serial(place, number, clock)
    address = (place, number)
    return Udp(address, None, clock) if kind == 'udpout' else Udp(None, address, clock)
