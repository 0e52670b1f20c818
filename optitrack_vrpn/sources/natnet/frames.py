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
    Analog, BODY, Body, BODY_HEAD, BODY_TAIL, CERTAIN, Frame, LABELLED_MARKER, LABELLED_MARKER_2,
    Marker, MessageId, Skeleton, SUFFIX_2, SUFFIX_3, SUFFIX_4_1, Version)
from optitrack_vrpn.sources.natnet.models import Vector

_make_body = Body._make
_make_marker = Marker._make
_NAN = math.nan
#: Number of entries and size (bytes) of a section.
_SECTION = struct.Struct('<ii')
_I32 = struct.Struct('<i')
_VECTOR = struct.Struct('<3f')
_ZERO = _I32.pack(0)
NOTHING: frozenset[str] = frozenset()


def decode_frame(payload: Buffer, version: Version, wanted: frozenset[str] = NOTHING) -> Frame:
    """
    Decode one frame.

    :param payload: payload of the message FRAMEOFDATA.
    :param version: version of the bitstream.
    :param wanted: what is decoded beside rigid bodies: 'markers', 'skeletons' (and trained marker
        sets), 'plates', 'devices'; the rest is skipped.
    :raises RemoteProtocolError: if the bytes contradict that version.
    """
    reader = Reader(payload)
    suffix = _suffix(reader, version)
    number = reader.i32()
    others: tuple[Vector, ...] = ()
    skeletons: tuple[Skeleton, ...] = ()
    assets: tuple[Skeleton, ...] = ()
    plates: tuple[Analog, ...] = ()
    devices: tuple[Analog, ...] = ()
    markers: list[Marker] = []
    if version >= (4, 1):
        _skip_sized(reader)    # marker sets
        if 'markers' in wanted:
            others = tuple(_entries(reader, version, _VECTOR, tuple))
        else:
            _skip_sized(reader)
        bodies = _entries(reader, version, BODY, _make_body)
        if 'skeletons' in wanted:
            skeletons = _sized(reader, version, _read_skeleton)
            assets = _sized(reader, version, _read_asset)
        else:
            _skip_sized(reader)
            _skip_sized(reader)
        if 'markers' in wanted:
            markers = _entries(reader, version, LABELLED_MARKER, _make_marker)
        else:
            _skip_sized(reader)
        if 'plates' in wanted and reader.left:
            plates = _sized(reader, version, _read_analog)
        elif reader.left:
            _skip_sized(reader)
        if 'devices' in wanted and reader.left:
            devices = _sized(reader, version, _read_analog)
        while reader.left:    # devices, sections of later versions
            _skip_sized(reader)
    else:
        others = _read_sets(reader)
        bodies = _bodies(reader, version)
        skeletons = tuple(
            _read_skeleton(reader, version) for _ in range(reader.count(8)))
        markers = _labelled(reader, version, 'markers' in wanted)
        if version >= (2, 9):
            plates = tuple(_read_analog(reader, version) for _ in range(reader.count(8)))
        if version >= (2, 11):
            devices = tuple(_read_analog(reader, version) for _ in range(reader.count(8)))
        if reader.left:
            raise RemoteProtocolError(
                f'{reader.left} bytes of the frame belong to no section of this version')
        others = others if 'markers' in wanted else ()
        skeletons = skeletons if 'skeletons' in wanted else ()
        plates = plates if 'plates' in wanted else ()
        devices = devices if 'devices' in wanted else ()
    frame = Frame(number, bodies, markers, *suffix)
    return frame if not wanted else frame._replace(
        others=others, skeletons=skeletons, assets=assets, plates=plates, devices=devices)


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
    if version <= CERTAIN or not count or block.left < count * size or block.left % count:
        raise RemoteProtocolError(
            f'{count} entries of {size} bytes are announced with {block.left} bytes')
    stride = block.left // count
    return [make(layout.unpack_from(block.data, at))
            for at in range(block.position, block.end, stride)]


def _sized(
    reader: Reader, version: Version, read: Callable[[Reader, Version], Any],
) -> tuple[Any, ...]:
    """Decode entries of different sizes."""
    count = reader.count(8)
    block = reader.block()
    if count * 8 > block.left:
        raise RemoteProtocolError(f'{count} entries are announced in {block.left} bytes')
    found = tuple(read(block, version) for _ in range(count))
    if block.left:
        raise RemoteProtocolError(f'{block.left} bytes of a section belong to no entry')
    return found


# -- single entries -------------------------------------------------------------------------------

def _read_sets(reader: Reader) -> tuple[Vector, ...]:
    """Skip marker sets; return the other markers."""
    for _ in range(reader.count(5)):
        reader.skip_text()
        reader.skip(12 * reader.count(12))
    count = reader.count(12)
    start = reader.position
    reader.skip(12 * count)
    return tuple(_VECTOR.iter_unpack(reader.data[start:reader.position]))


def _bodies(reader: Reader, version: Version) -> list[Body]:
    if version >= (3, 0):
        return list(map(_make_body, BODY.iter_unpack(_rows(reader))))
    bodies = []
    for _ in range(reader.count(BODY_HEAD.size)):
        head = reader.unpack(BODY_HEAD)
        # For each marker its position (12 bytes), id (4) and size (4).
        reader.skip(20 * reader.count(20))
        bodies.append(Body(*head, *reader.unpack(BODY_TAIL)))
    return bodies


def _rows(reader: Reader) -> bytes:
    count = reader.count(BODY.size)
    start = reader.position
    reader.skip(count * BODY.size)
    return reader.data[start:reader.position]


def _read_skeleton(reader: Reader, version: Version) -> Skeleton:
    skeleton_id = reader.i32()
    if version >= (3, 0):
        return Skeleton(skeleton_id, _rows(reader))
    return Skeleton(skeleton_id, b''.join(BODY.pack(*one) for one in _bodies(reader, version)))


def _read_asset(reader: Reader, version: Version) -> Skeleton:
    asset = Skeleton(reader.i32(), _rows(reader))
    reader.skip(LABELLED_MARKER.size * reader.count(LABELLED_MARKER.size))
    return asset


def _labelled(reader: Reader, version: Version, wanted: bool) -> list[Marker]:
    layout = LABELLED_MARKER if version >= (3, 0) else LABELLED_MARKER_2
    count = reader.count(layout.size)
    start = reader.position
    reader.skip(count * layout.size)
    if not wanted:
        return []
    tail = () if version >= (3, 0) else (_NAN,)
    return [Marker(*fields, *tail) for fields in layout.iter_unpack(
        reader.data[start:reader.position])]


def _read_analog(reader: Reader, version: Version) -> Analog:
    """Decode a force plate or device: an id, and channels of samples."""
    device_id = reader.i32()
    channels = []
    for _ in range(reader.count(4)):
        size = 4 * reader.count(4)
        start = reader.position
        reader.skip(size)
        channels.append(struct.unpack_from(f'<{size // 4}f', reader.data, start))
    return Analog(device_id, tuple(channels))


# -- encode ---------------------------------------------------------------------------------------

def encode_frame(frame: Frame, version: Version) -> bytes:
    """
    Encode FRAMEOFDATA, without marker sets; what a version lacks is left out.

    :param version: version of the bitstream.
    :raises LocalProtocolError: if the frame does not fit into one datagram.
    """
    sized = version >= (4, 1)
    markers = b''.join(
        LABELLED_MARKER.pack(*marker) if version >= (3, 0) else
        LABELLED_MARKER_2.pack(*marker[:6]) for marker in frame.markers)
    parts = [
        _I32.pack(frame.number), _ZERO + _ZERO if sized else _ZERO,
        _section(frame.others, b''.join(_VECTOR.pack(*place) for place in frame.others), sized),
        _section(frame.bodies, _encode_bodies(frame.bodies, version), sized),
        _section(frame.skeletons, b''.join(
            _encode_skeleton(one, version) for one in frame.skeletons), sized)]
    if sized:
        parts.append(_section(frame.assets, b''.join(
            _encode_skeleton(one, version) + _ZERO for one in frame.assets), sized))
    parts.append(_section(frame.markers, markers, sized))
    for since, found in (((2, 9), frame.plates), ((2, 11), frame.devices)):
        if version >= since:
            parts.append(_section(found, b''.join(map(_encode_analog, found)), sized))
    parts.append(_encode_suffix(frame, version))
    return encode_message(MessageId.FRAME, b''.join(parts))


def _section(entries: Any, data: bytes, sized: bool) -> bytes:
    return _I32.pack(len(entries)) + (_I32.pack(len(data)) if sized else b'') + data


def _encode_bodies(bodies: list[Body], version: Version) -> bytes:
    return b''.join(
        BODY.pack(*body) if version >= (3, 0) else
        BODY_HEAD.pack(*body[:8]) + _ZERO + BODY_TAIL.pack(*body[8:]) for body in bodies)


def _encode_skeleton(one: Skeleton, version: Version) -> bytes:
    rows = one.rows if version >= (3, 0) else _encode_bodies(one.bones(), version)
    return _SECTION.pack(one.skeleton_id, len(one.rows) // BODY.size) + rows


def _encode_analog(one: Analog) -> bytes:
    return _SECTION.pack(one.device_id, len(one.channels)) + b''.join(
        _I32.pack(len(samples)) + struct.pack(f'<{len(samples)}f', *samples)
        for samples in one.channels)


def _encode_suffix(frame: Frame, version: Version) -> bytes:
    head = frame.timecode, frame.subframe, frame.timestamp
    ticks = frame.exposure, frame.received, frame.transmit
    if version >= (4, 1):
        return SUFFIX_4_1.pack(
            *head, *ticks, frame.ptp_seconds, frame.ptp_fraction, frame.params, 0)
    if version >= (3, 0):
        return SUFFIX_3.pack(*head, *ticks, frame.params, 0)
    return SUFFIX_2.pack(frame.latency, *head, frame.params, 0)
