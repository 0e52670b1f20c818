# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decode FRAMEOFDATA: consecutive sections, then a suffix; encode it as a server does.

The suffix is decoded from the end, so that unknown sections cannot shift it. From NatNet 4.1 on
every section states its size, by which sections of later versions are skipped.
"""

from collections.abc import Callable
import math
import struct
from typing import Any

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.sources.natnet.codec import Buffer, encode_message, Reader
from optitrack_vrpn.sources.natnet.messages import (
    BODY, Body, BODY_HEAD, BODY_TAIL, Frame, LABELLED_MARKER, LABELLED_MARKER_2, Marker, MessageId,
    NEWEST, SUFFIX_2, SUFFIX_3, SUFFIX_4_1, Version)

_make_body = Body._make
_make_marker = Marker._make
_NAN = math.nan
#: Number of entries and size (bytes) of a section.
_SECTION = struct.Struct('<ii')
_I32 = struct.Struct('<i')
_ZERO = _I32.pack(0)


def decode_frame(payload: Buffer, version: Version, markers: bool = False) -> Frame:
    """
    Decode one frame.

    :param payload: payload of the message FRAMEOFDATA.
    :param version: version of the bitstream.
    :param markers: whether labelled markers are decoded.
    :raises RemoteProtocolError: if the bytes contradict that version.
    """
    reader = Reader(payload)
    suffix = _suffix(reader, version)
    number = reader.i32()
    if version >= (4, 1):
        bodies, found = _read_sized(reader, version, markers)
    else:
        bodies, found = _read_unsized(reader, version, markers)
    return Frame(number, bodies, found, *suffix)


def _suffix(reader: Reader, version: Version) -> tuple[Any, ...]:
    """Decode the suffix from the end, and remove it from the reader."""
    layout = SUFFIX_4_1 if version >= (4, 1) else SUFFIX_3 if version >= (3, 0) else SUFFIX_2
    start = reader.end - layout.size
    if start < 4:
        raise RemoteProtocolError(f'a frame of {reader.end} bytes is too short')
    fields = layout.unpack_from(reader.data, start)
    if fields[-1]:
        raise RemoteProtocolError('the frame does not end with its end mark')
    reader.end = start
    if version >= (4, 1):
        return (_NAN, *fields[:-1])
    if version >= (3, 0):
        return (_NAN, *fields[:6], 0, 0, fields[6])
    latency, timecode, subframe, timestamp, params, _ = fields
    return latency, timecode, subframe, timestamp, 0, 0, 0, 0, 0, params


# -- from 4.1 on: every section states its size -------------------------------------------------

def _read_sized(
    reader: Reader, version: Version, markers: bool,
) -> tuple[list[Body], list[Marker]]:
    _skip_sized(reader)    # marker sets
    _skip_sized(reader)    # other markers
    bodies = _entries(reader, version, BODY, _make_body)
    _skip_sized(reader)    # skeletons
    _skip_sized(reader)    # trained marker sets
    found: list[Marker] = []
    if markers:
        found = _entries(reader, version, LABELLED_MARKER, _make_marker)
    else:
        _skip_sized(reader)
    while reader.left:    # force plates, devices, sections of later versions
        _skip_sized(reader)
    return bodies, found


def _skip_sized(reader: Reader) -> None:
    count, size = reader.unpack(_SECTION)
    if count < 0:
        raise RemoteProtocolError(f'a negative count at byte {reader.position - _SECTION.size}')
    reader.skip(size)


def _entries(
    reader: Reader, version: Version, layout: Any, make: Callable[[Any], Any],
) -> list[Any]:
    """Decode entries of equal size; later versions may append fields to each."""
    count = reader.count(layout.size)
    block = reader.block()
    size = layout.size
    if count * size == block.left:
        return list(map(make, layout.iter_unpack(block.data[block.position:block.end])))
    if version <= NEWEST or not count or block.left < count * size or block.left % count:
        raise RemoteProtocolError(
            f'{count} entries of {size} bytes are announced with {block.left} bytes')
    stride = block.left // count
    return [make(layout.unpack_from(block.data, at))
            for at in range(block.position, block.end, stride)]


# -- before 4.1: sections without sizes ---------------------------------------------------------

def _read_unsized(
    reader: Reader, version: Version, markers: bool,
) -> tuple[list[Body], list[Marker]]:
    for _ in range(reader.count(5)):
        reader.skip_text()
        reader.skip(12 * reader.count(12))
    reader.skip(12 * reader.count(12))
    bodies = _bodies(reader, version)
    for _ in range(reader.count(8)):
        reader.skip(4)
        _skip_bodies(reader, version)
    found: list[Marker] = []
    layout = LABELLED_MARKER if version >= (3, 0) else LABELLED_MARKER_2
    count = reader.count(layout.size)
    start = reader.position
    reader.skip(count * layout.size)
    if markers:
        tail = () if version >= (3, 0) else (_NAN,)
        found = [Marker(*fields, *tail) for fields in layout.iter_unpack(
            reader.data[start:reader.position])]
    if version >= (2, 9):
        _skip_analog(reader)    # force plates
    if version >= (2, 11):
        _skip_analog(reader)    # devices
    _check_end(reader)
    return bodies, found


def _bodies(reader: Reader, version: Version) -> list[Body]:
    if version >= (3, 0):
        count = reader.count(BODY.size)
        start = reader.position
        reader.skip(count * BODY.size)
        return list(map(_make_body, BODY.iter_unpack(reader.data[start:reader.position])))
    bodies = []
    for _ in range(reader.count(BODY_HEAD.size)):
        head = reader.unpack(BODY_HEAD)
        # For each marker its position (12 bytes), id (4) and size (4).
        reader.skip(20 * reader.count(20))
        bodies.append(Body(*head, *reader.unpack(BODY_TAIL)))
    return bodies


def _skip_bodies(reader: Reader, version: Version) -> None:
    if version >= (3, 0):
        reader.skip(BODY.size * reader.count(BODY.size))
    else:
        _bodies(reader, version)


def _skip_analog(reader: Reader) -> None:
    """Skip force plates or devices: each has an id, and channels of samples."""
    for _ in range(reader.count(8)):
        reader.skip(4)
        for _ in range(reader.count(4)):
            reader.skip(4 * reader.count(4))


def _check_end(reader: Reader) -> None:
    if reader.left:
        raise RemoteProtocolError(
            f'{reader.left} bytes of the frame belong to no section of this version')


def encode_frame(frame: Frame, version: Version) -> bytes:
    """
    Encode FRAMEOFDATA with rigid bodies and labelled markers; all other sections are empty.

    :param version: version of the bitstream.
    :raises LocalProtocolError: if the frame does not fit into one datagram.
    """
    sized = version >= (4, 1)
    empty = _ZERO + _ZERO if sized else _ZERO
    bodies = b''.join(
        BODY.pack(*body) if version >= (3, 0) else
        BODY_HEAD.pack(*body[:8]) + _ZERO + BODY_TAIL.pack(*body[8:]) for body in frame.bodies)
    markers = b''.join(
        LABELLED_MARKER.pack(*marker) if version >= (3, 0) else
        LABELLED_MARKER_2.pack(*marker[:6]) for marker in frame.markers)
    parts = [_I32.pack(frame.number), empty, empty,
             _section(len(frame.bodies), bodies, sized), empty]
    if sized:
        parts.append(empty)    # trained marker sets
    parts.append(_section(len(frame.markers), markers, sized))
    if version >= (2, 9):
        parts.append(empty)    # force plates
    if version >= (2, 11):
        parts.append(empty)    # devices
    parts.append(_encode_suffix(frame, version))
    return encode_message(MessageId.FRAME, b''.join(parts))


def _section(count: int, data: bytes, sized: bool) -> bytes:
    return _I32.pack(count) + (_I32.pack(len(data)) if sized else b'') + data


def _encode_suffix(frame: Frame, version: Version) -> bytes:
    head = frame.timecode, frame.subframe, frame.timestamp
    ticks = frame.exposure, frame.received, frame.transmit
    if version >= (4, 1):
        return SUFFIX_4_1.pack(
            *head, *ticks, frame.ptp_seconds, frame.ptp_fraction, frame.params, 0)
    if version >= (3, 0):
        return SUFFIX_3.pack(*head, *ticks, frame.params, 0)
    return SUFFIX_2.pack(frame.latency, *head, frame.params, 0)
