# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Addresses of an autopilot, in the syntax of pymavlink.

``udpout:HOST:PORT`` sends to an address, ``udpin:HOST:PORT`` listens on one, ``tcp:HOST:PORT``
connects to one, ``serial:DEVICE:BAUD`` opens a serial port. ``LineQueue`` predicts when bytes
leave a serial port: the system reports the number of unsent bytes (TIOCOUTQ), which are the last
ones written.
"""

from __future__ import annotations

from collections import deque
import math
from typing import NamedTuple

from optitrack_vrpn.errors import ConfigurationError

#: Bits on the line for each byte: start, 8 data bits, stop.
BITS_PER_BYTE = 10
KINDS = ('udpout', 'udpin', 'tcp', 'serial')
_FORMS = 'udpout:HOST:PORT, udpin:HOST:PORT, tcp:HOST:PORT or serial:DEVICE:BAUD'
#: Chosen: rates (baud) from those of radio modems to the fastest of USB adapters (FTDI's FT232H).
_LOWEST_BAUD = 1200
_HIGHEST_BAUD = 12_000_000
#: Usable fraction of the capacity of a serial line. Chosen: telemetry uses the other direction,
#: but heartbeats, TIMESYNC and parameters share this one.
_USABLE = 0.8


class Connection(NamedTuple):
    """
    A parsed address.

    :ivar kind: one of ``KINDS``.
    :ivar place: host name, IPv4 address or serial device.
    :ivar number: port or baud rate.
    """

    kind: str
    place: str
    number: int

    def __str__(self) -> str:
        return f'{self.kind}:{self.place}:{self.number}'


def parse(text: str) -> Connection:
    """
    Parse an address.

    :raises ConfigurationError: if it has none of the four forms.
    """
    kind, _, rest = text.strip().partition(':')
    place, _, number = rest.rpartition(':')
    if kind not in KINDS or not place or not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f'connection: {text!r} is not valid; write {_FORMS}')
    value = int(number)
    if kind == 'serial':
        if not _LOWEST_BAUD <= value <= _HIGHEST_BAUD:
            raise ConfigurationError(
                f'connection: {text!r}: a baud rate is {_LOWEST_BAUD} to {_HIGHEST_BAUD}')
    else:
        if ':' in place or any(c.isspace() for c in place):
            raise ConfigurationError(
                f'connection: {text!r}: {place!r} is not a host name or IPv4 address; write '
                f'{_FORMS}')
        if not 1 <= value <= 65535:
            raise ConfigurationError(f'connection: {text!r}: a port is 1 to 65535')
    return Connection(kind, place, value)


def too_slow(connection: Connection, bytes_per_s: float) -> str:
    """
    Return the reason why a serial line cannot carry a stream; '' if it can.

    :param bytes_per_s: load of the stream (B/s).
    """
    if connection.kind != 'serial':
        return ''
    capacity = connection.number / BITS_PER_BYTE * _USABLE
    if bytes_per_s <= capacity:
        return ''
    return (f'{connection.number} baud carry {capacity:.0f} B/s, but {bytes_per_s:.0f} B/s are '
            'to be sent: raise the baud rate here and in the autopilot, or lower rate_hz')


class LineQueue:
    """
    Track the messages in the output queue of a port.

    :param baud: rate of the line (bit/s).
    """

    def __init__(self, baud: int) -> None:
        self._bytes_per_s = baud / BITS_PER_BYTE
        self._written = 0
        #: For each message with a limit: count of bytes up to its end, and the limit (s).
        self._limits: deque[tuple[int, float]] = deque()

    def leaves_s(self, size: int, unsent: int, now_s: float) -> float:
        """
        Return the time at which the last byte of a message leaves if it is written now (s).

        :param size: size of the message (bytes).
        :param unsent: number of bytes that wait before it.
        """
        return now_s + (unsent + size) / self._bytes_per_s

    def written(self, size: int, until_s: float) -> None:
        """
        Add a message.

        :param until_s: time from which it is too old; infinite if it does not age.
        """
        self._written += size
        if math.isfinite(until_s):
            self._limits.append((self._written, until_s))

    def next_limit_s(self) -> float:
        """Return the earliest time at which a message is too old; infinite if none waits."""
        return self._limits[0][1] if self._limits else math.inf

    def stale(self, unsent: int, now_s: float) -> bool:
        """
        Return whether a waiting message is too old.

        :param unsent: number of bytes that wait.
        """
        sent = self._written - unsent
        while self._limits and self._limits[0][0] <= sent:
            self._limits.popleft()
        return bool(self._limits) and self._limits[0][1] <= now_s

    def flushed(self, unsent: int) -> None:
        """
        Remove the waiting bytes, which were discarded.

        :param unsent: number of these bytes.
        """
        self._written -= unsent
        self._limits.clear()
