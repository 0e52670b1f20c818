# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode the datagrams to the controller: binary, CSV or JSON, with or without header.

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
import struct
from typing import NamedTuple, Sequence

from optitrack_vrpn.axes.settings import DatagramSettings

_ORDER = {'little': '<', 'big': '>'}
_CODE = {'float32': 'f', 'float64': 'd'}
_HEADER = 'IidII'
#: Largest finite float32 (IEEE 754); struct raises for larger values.
_FLOAT32_MAX = 3.4028234663852886e38


class Packet(NamedTuple):
    """
    Content of one datagram.

    :ivar sequence: its number, 32 bits.
    :ivar status: -1, 0, 1 or 2.
    :ivar time: time of the measurement (s since 1970); 0 before the first.
    :ivar values: one value per axis, in the unit of the axis.
    :ivar valid: one flag per axis.
    """

    sequence: int
    status: int
    time: float
    values: tuple[float, ...]
    valid: tuple[bool, ...]


def validity_bits(valid: Sequence[bool]) -> int:
    """Return the validity word: bit i for axis i."""
    return sum(1 << i for i, good in enumerate(valid) if good)


def encode(packet: Packet, names: Sequence[str], settings: DatagramSettings) -> bytes:
    """
    Encode a datagram.

    :param names: names of the axes, for json.
    """
    if settings.format == 'json':
        return json.dumps({
            'sequence': packet.sequence, 'status': packet.status, 'time': packet.time,
            'axes': {name: {'value': value if math.isfinite(value) else None, 'valid': valid}
                     for name, value, valid in zip(names, packet.values, packet.valid)},
        }, allow_nan=False).encode()
    bits = validity_bits(packet.valid)
    if settings.format == 'csv':
        fields = [repr(value) for value in packet.values]
        if settings.header:
            fields = [str(packet.sequence), str(packet.status), f'{packet.time:.6f}', str(bits),
                      str(len(packet.values)), *fields]
        return (','.join(fields) + '\n').encode()
    order = _ORDER[settings.byte_order]
    values = packet.values
    if settings.format == 'float32':
        values = tuple(math.nan if abs(value) > _FLOAT32_MAX else value for value in values)
    data = struct.pack(f'{order}{len(values)}{_CODE[settings.format]}', *values)
    if settings.header:
        data = struct.pack(
            order + _HEADER, packet.sequence & 0xffffffff, packet.status, packet.time, bits,
            len(values)) + data
    return data
