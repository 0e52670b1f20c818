# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode and decode the datagrams between the controller and a machine; little endian.

Set points, one datagram a cycle:

| offset | type | what |
|---|---|---|
| 0 | 4 bytes | ``OVGC`` |
| 4 | uint32 | sequence number, increments by 1 modulo 2^32 |
| 8 | float64 | duration of a cycle (s) |
| 16 | uint32 | 1: power on; 0: switch the power off (emergency stop) |
| 20 | uint32 | number of axes |
| 24 | 4 float64 for each axis | position at the start of the cycle (steps), and the coefficients of t (steps/s), t^2, t^3 |

Answer of the machine to each datagram:

| offset | type | what |
|---|---|---|
| 0 | 4 bytes | ``OVGM`` |
| 4 | uint32 | sequence number of the answered set points |
| 8 | uint32 | 1: power on; 0: power off |
| 12 | uint32 | number of axes |
| 16 | uint32 for each axis | bit 0 lower limit switch, bit 1 upper one, bit 2 reference switch |
"""  # noqa: E501

import struct
from typing import NamedTuple, Sequence

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.gantry.setpoints import Cubic, Switches

COMMAND, ANSWER = b'OVGC', b'OVGM'
_COMMAND, _ANSWER = struct.Struct('<4sIdII'), struct.Struct('<4sIII')
#: Chosen: limit of axes in a datagram; it rejects damaged headers.
_MOST_AXES = 32
#: Chosen: largest coefficient (steps, steps/s^n), 200 years at 170 kHz; it rejects NaN and values
#: whose sum is infinite.
_MOST_STEPS = 1e15


class SetPoints(NamedTuple):
    """
    Set points of one cycle.

    :ivar dt: duration of the cycle (s).
    :ivar cubics: one per axis, in steps.
    """

    sequence: int
    dt: float
    power: bool
    cubics: tuple[Cubic, ...]


class Answer(NamedTuple):
    """Answer of the machine."""

    sequence: int
    power: bool
    switches: tuple[Switches, ...]


def ahead(sequence: int, other: int) -> int:
    """Return by how much a sequence number is after another; negative if it is before it."""
    return (sequence - other + 2**31) % 2**32 - 2**31


def encode_set_points(points: SetPoints) -> bytes:
    """Encode a datagram of set points."""
    return _COMMAND.pack(
        COMMAND, points.sequence & 0xffffffff, points.dt, points.power, len(points.cubics),
    ) + b''.join(struct.pack('<4d', *cubic) for cubic in points.cubics)


def decode_set_points(data: bytes) -> SetPoints:
    """
    Decode a datagram of set points.

    :raises RemoteProtocolError: if it is damaged, or contains a value that is not possible.
    """
    count = _head(data, COMMAND, _COMMAND, 32)
    _, sequence, dt, power, _ = _COMMAND.unpack_from(data)
    cubics = tuple(Cubic(*struct.unpack_from('<4d', data, _COMMAND.size + 32 * i))
                   for i in range(count))
    if not 0.0 < dt < 1.0 or not all(abs(each) <= _MOST_STEPS for c in cubics for each in c):
        raise RemoteProtocolError(
            'the cycle time of set points is not between 0 and 1 s, or a value is not a possible '
            'number of steps')
    return SetPoints(sequence, dt, bool(power), cubics)


def encode_answer(answer: Answer) -> bytes:
    """Encode the machine's answer."""
    return _ANSWER.pack(
        ANSWER, answer.sequence & 0xffffffff, answer.power, len(answer.switches),
    ) + struct.pack(f'<{len(answer.switches)}I', *(
        each.low | each.high << 1 | each.reference << 2 for each in answer.switches))


def decode_answer(data: bytes) -> Answer:
    """
    Decode the machine's answer.

    :raises RemoteProtocolError: if it is damaged.
    """
    count = _head(data, ANSWER, _ANSWER, 4)
    _, sequence, power, _ = _ANSWER.unpack_from(data)
    bits: Sequence[int] = struct.unpack_from(f'<{count}I', data, _ANSWER.size)
    return Answer(sequence, bool(power), tuple(
        Switches(bool(b & 1), bool(b & 2), bool(b & 4)) for b in bits))


def _head(data: bytes, magic: bytes, head: struct.Struct, size: int) -> int:
    """Check length and magic bytes of a datagram; return the number of axes."""
    if len(data) < head.size or data[:4] != magic:
        raise RemoteProtocolError(f'{len(data)} bytes are not a {magic.decode()} datagram')
    count: int = head.unpack_from(data)[-1]
    if count > _MOST_AXES or len(data) != head.size + size * count:
        raise RemoteProtocolError(
            f'a {magic.decode()} datagram of {len(data)} bytes announces {count} axes')
    return count


def in_steps(cubic: Cubic, steps_per_unit: float) -> Cubic:
    """Convert a cubic from units to steps."""
    return Cubic(*(each * steps_per_unit for each in cubic))


def in_units(cubic: Cubic, steps_per_unit: float) -> Cubic:
    """Convert a cubic from steps to units."""
    return Cubic(*(each / steps_per_unit for each in cubic))
