# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Addresses of an autopilot, in the syntax of pymavlink.

``udpout:HOST:PORT`` sends to an address, ``udpin:HOST:PORT`` listens on one, ``tcp:HOST:PORT``
connects to one, ``serial:DEVICE:BAUD`` opens a serial port.
"""

from __future__ import annotations

from typing import NamedTuple

from optitrack_vrpn.autopilot.line import BITS_PER_BYTE
from optitrack_vrpn.errors import ConfigurationError

KINDS = ('udpout', 'udpin', 'tcp', 'serial')
_FORMS = 'udpout:HOST:PORT, udpin:HOST:PORT, tcp:HOST:PORT or serial:DEVICE:BAUD'
#: Chosen: rates (baud) from those of radio modems to the fastest of USB adapters (FTDI's FT232H).
#: Halved or doubled, only typing errors of that size pass or are refused.
_LOWEST_BAUD = 1200
_HIGHEST_BAUD = 12_000_000
#: Usable fraction of the capacity of a serial line. Chosen: telemetry uses the other direction,
#: but heartbeats, TIMESYNC and parameters share this one. Halved, faster rates are rejected; at 1,
#: messages queue.
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
