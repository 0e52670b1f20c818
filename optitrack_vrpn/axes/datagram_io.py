# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode and send the datagrams to the controller: binary, CSV or JSON, with or without header.

Binary, without header: one float32 or float64 per axis. The optional header is 24 bytes in the
byte order of the values, aligned as a C struct aligns it:

| offset | type | what |
|---|---|---|
| 0 | uint32 | sequence, from 0, wraps |
| 4 | int32 | status: 0 not connected yet, 1 receiving, 2 unable to connect, -1 ended |
| 8 | float64 | time of the measurement (s since 1970) |
| 16 | uint32 | validity: bit i is set where axis i is valid |
| 20 | uint32 | number of axes |
| 24 | float32 or float64 | the values |

Text: ``csv`` is one line with the same fields in the same order, with the header first if it is
enabled; ``json`` is an object that always contains all fields, with null for a value that is not a
number.
"""

import json
import math
import socket
import struct
from typing import Sequence

from optitrack_vrpn.axes.mapper import Sample
from optitrack_vrpn.axes.settings import DatagramSettings
from optitrack_vrpn.errors import TransportError

_ORDER = {'little': '<', 'big': '>'}
_CODE = {'float32': 'f', 'float64': 'd'}
_HEADER = 'IidII'
#: Largest finite float32 (IEEE 754); struct raises for larger values.
_FLOAT32_MAX = 3.4028234663852886e38


def encode(
    sample: Sample, sequence: int, names: Sequence[str], settings: DatagramSettings,
) -> bytes:
    """
    Encode a datagram.

    :param sequence: number of the datagram; its last 32 bits are sent.
    :param names: names of the axes, for json.
    """
    sequence &= 0xffffffff
    status, time_s = int(sample.status), sample.stamp_ns * 1e-9
    values = tuple(axis.value for axis in sample.axes)
    if settings.format == 'json':
        return json.dumps({
            'sequence': sequence, 'status': status, 'time': time_s,
            'axes': {name: {'value': axis.value if math.isfinite(axis.value) else None,
                            'valid': axis.valid} for name, axis in zip(names, sample.axes)},
        }, allow_nan=False).encode()
    bits = sum(axis.valid << i for i, axis in enumerate(sample.axes))
    head = (sequence, status, time_s, bits, len(values)) if settings.header else ()
    if settings.format == 'csv':
        return (','.join(f'{each:.6f}' if i == 2 else str(each) for i, each in enumerate(head))
                + ',' * bool(head) + ','.join(map(repr, values)) + '\n').encode()
    if settings.format == 'float32':
        values = tuple(math.nan if abs(value) > _FLOAT32_MAX else value for value in values)
    return struct.pack(
        f'{_ORDER[settings.byte_order]}{_HEADER if head else ""}{len(values)}'
        f'{_CODE[settings.format]}', *head, *values)


class UdpSender:
    """
    Send datagrams to one address without blocking.

    :param host: IPv4 address or name of the controller.
    :param port: its UDP port.
    :raises TransportError: if the name does not resolve.
    :ivar sent: number of datagrams that the kernel accepted.
    :ivar failed: number of datagrams that it rejected (no route, no listener, buffer full).
    """

    def __init__(self, host: str, port: int) -> None:
        try:
            found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:    # UnicodeError: not a name, as 10.0.0..5
            raise TransportError(
                f'udp_host {host!r} cannot be resolved '
                f'({getattr(error, "strerror", error)}): give an IPv4 address or a name that '
                'this machine knows') from None
        self._address = found[0][4]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.sent = 0
        self.failed = 0

    def send(self, data: bytes) -> bool:
        """
        Send one datagram.

        :returns: False if the kernel rejected it.
        """
        try:
            self._socket.sendto(data, self._address)
        except OSError:
            self.failed += 1
            return False
        self.sent += 1
        return True

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._socket.close()
