# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read tf2_msgs/TFMessage from its bytes (CDR), which costs a twentieth of a message object.

Successive messages of a publisher differ in stamps and numbers only: the layout of one message is
found once, and ``struct`` then reads a message of the same length in one call.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: Encapsulation header of little-endian CDR, and the number of transforms.
_HEAD = struct.Struct('<4sI')
_LITTLE_ENDIAN = b'\0\1'
_COUNT = struct.Struct('<I')
#: Stamp (8 bytes) and seven doubles.
_NUMBERS = 56
#: Chosen: known layouts; bodies that come and go make new ones.
_MOST_LAYOUTS = 64


class Transform(NamedTuple):
    """
    One transform.

    :ivar stamp_ns: its stamp (ns).
    :ivar pose: x, y, z (m), and the quaternion x, y, z, w.
    """

    parent: str
    child: str
    stamp_ns: int
    pose: tuple[float, ...]


class _Layout(NamedTuple):
    unpack: struct.Struct
    names: tuple[bytes, ...]
    frames: list[tuple[str, str]]


_layouts: dict[int, _Layout] = {}


def _layout(data: bytes) -> _Layout:
    """
    Find the layout of a message.

    :raises ValueError: if it is not a TFMessage in little-endian CDR.
    """
    if data[:2] != _LITTLE_ENDIAN:
        raise ValueError('not in little-endian CDR')
    place, pieces, names, frames = _HEAD.size, ['<8s'], [], []
    for _ in range(_HEAD.unpack_from(data)[1]):
        begin = place = place + 8    # after the stamp
        texts = []
        for _ in range(2):
            place += -place % 4
            length, = _COUNT.unpack_from(data, place)
            if not 0 < length <= len(data) - place - 4:
                raise ValueError('a name exceeds the message')
            texts.append(data[place + 4:place + 3 + length].decode('utf-8', 'replace'))
            place += 4 + length
        place += (4 - place) % 8     # doubles are aligned to the end of the encapsulation
        pieces.append(f'iI{place - begin}s7d')
        names.append(data[begin:place])
        frames.append((texts[0].lstrip('/'), texts[1].lstrip('/')))
        place += _NUMBERS
    if place != len(data):
        raise ValueError(f'{len(data)} bytes where {place} are expected')
    return _Layout(struct.Struct(''.join(pieces)), tuple(names), frames)


def kind_of(data: bytes) -> tuple[int, bytes]:
    """
    Return what messages with the same transforms have in common: length, and the first names.

    :raises ValueError: if it is too short.
    """
    try:
        place = 20 + _COUNT.unpack_from(data, 16)[0]
        place += -place % 4
        return len(data), data[16:place + 4 + _COUNT.unpack_from(data, place)[0]]
    except struct.error as error:
        raise ValueError(str(error)) from None


def read_transforms(data: bytes) -> list[Transform]:
    """
    Read the transforms of a serialised message.

    :raises ValueError: if it is not a TFMessage in little-endian CDR.
    """
    try:
        layout = _layouts.get(len(data))
        values = layout.unpack.unpack(data) if layout is not None else ()
        if layout is None or values[3::10] != layout.names:
            if len(_layouts) >= _MOST_LAYOUTS:
                _layouts.clear()
            layout = _layouts[len(data)] = _layout(data)
            values = layout.unpack.unpack(data)
    except struct.error as error:
        raise ValueError(str(error)) from None
    return [Transform(parent, child, values[at] * 1_000_000_000 + values[at + 1],
                      values[at + 3:at + 10])
            for at, (parent, child) in zip(range(1, len(values), 10), layout.frames)]
