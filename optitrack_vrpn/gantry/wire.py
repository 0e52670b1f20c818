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
from typing import Any, NamedTuple, Sequence

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.gantry.setpoints import Cubic, Switches

#: Buffer for a datagram (bytes), above the 1048 of a machine with 32 axes.
MOST_BYTES = 2048


class _Layout(NamedTuple):
    """Magic bytes; format of the head, with the number of axes last; format of each axis."""

    magic: bytes
    head: struct.Struct
    axis: struct.Struct

    def encode(self, fields: Sequence[Any], axes: Sequence[Sequence[Any]]) -> bytes:
        return self.head.pack(self.magic, *fields, len(axes)) + b''.join(
            self.axis.pack(*each) for each in axes)

    def decode(self, data: bytes) -> tuple[Sequence[Any], list[Any]]:
        """Return the fields between magic bytes and number of axes, and those of each axis."""
        size = self.head.size
        if len(data) < size or data[:4] != self.magic:
            raise RemoteProtocolError(
                f'{len(data)} bytes are not a {self.magic.decode()} datagram')
        _, *fields, count = self.head.unpack_from(data)
        if count > 32 or len(data) != size + self.axis.size * count:
            raise RemoteProtocolError(
                f'a {self.magic.decode()} datagram of {len(data)} bytes announces {count} axes')
        return fields, list(self.axis.iter_unpack(data[size:]))


_SET_POINTS = _Layout(b'OVGC', struct.Struct('<4sIdII'), struct.Struct('<4d'))
_ANSWER = _Layout(b'OVGM', struct.Struct('<4sIII'), struct.Struct('<I'))


class SetPoints(NamedTuple):
    """Set points of a cycle of ``dt`` seconds: a cubic per axis, in steps."""

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
    return _SET_POINTS.encode(
        (points.sequence & 0xffffffff, points.dt, points.power), points.cubics)


def decode_set_points(data: bytes) -> SetPoints:
    """Decode a datagram of set points; RemoteProtocolError if it is not possible."""
    (sequence, dt, power), axes = _SET_POINTS.decode(data)
    # 1e15 steps are 200 years at 170 kHz; the limit also rejects NaN and infinite sums.
    if not 0.0 < dt < 1.0 or not all(abs(each) <= 1e15 for cubic in axes for each in cubic):
        raise RemoteProtocolError(
            'the cycle time of set points is not between 0 and 1 s, or a value is not a possible '
            'number of steps')
    return SetPoints(sequence, dt, bool(power), tuple(Cubic(*each) for each in axes))


def encode_answer(answer: Answer) -> bytes:
    """Encode the machine's answer."""
    return _ANSWER.encode((answer.sequence & 0xffffffff, answer.power), [
        (each.low | each.high << 1 | each.reference << 2,) for each in answer.switches])


def decode_answer(data: bytes) -> Answer:
    """Decode the machine's answer; RemoteProtocolError if it is damaged."""
    (sequence, power), axes = _ANSWER.decode(data)
    return Answer(sequence, bool(power), tuple(
        Switches(bool(bits & 1), bool(bits & 2), bool(bits & 4)) for bits, in axes))
