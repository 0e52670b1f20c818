# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The layouts of FRAMEOFDATA: consecutive sections, then a suffix.

The suffix is decoded from the end, so that unknown sections cannot shift it. From NatNet 4.1 on
every section states its size, by which sections of later versions are skipped.
"""

from collections.abc import Sequence
from functools import lru_cache
import math
import struct
from typing import Final, NamedTuple, Optional

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.natnet.codec import encode_message
from optitrack_vrpn.drivers.natnet.layouts import (
    Ignored, Layout, Many, Number, Packed, Reader, Record, Rows, Since, Text, Value)
from optitrack_vrpn.drivers.natnet.messages import (
    Analog, BODY, BodyRow, Buffer, LABELLED_MARKER, LABELLED_MARKER_2, MessageId, NatNetFrame,
    NatNetMarker, NatNetSkeleton, SUFFIX_2, SUFFIX_3, SUFFIX_4_1, Version)

_NAN: Final = math.nan
_new: Final = tuple.__new__
# Final names are read without a look-up in the compiled module.
_NAT_NET_FRAME: Final = NatNetFrame
_UNPACK_I32: Final = struct.Struct('<i').unpack_from
_UNPACK_SECTION: Final = struct.Struct('<ii').unpack_from
_UNPACK_BODIES: Final = BODY.iter_unpack
_UNPACK_SUFFIX: Final = SUFFIX_4_1.unpack_from
_BODY_SIZE: Final[int] = BODY.size
_SUFFIX_SIZE: Final[int] = SUFFIX_4_1.size
#: From 4.1 on: the number of the rigid bodies among the sections, and of the sections that no
#: sender leaves out.
_BODY_SECTION: Final = 2
_LEAST_SECTIONS: Final = 6
#: No markers, for all frames without.
_NONE: Final[list[NatNetMarker]] = []
_HEAD = struct.Struct('<i3f4f')
_TAIL = struct.Struct('<fh')
_I32 = Number('i')
_VECTORS = Rows(struct.Struct('<3f'))
NOTHING: frozenset[str] = frozenset()


class _OldBody(Layout):
    """A body before 3.0: within it, position, id and size of each of its markers."""

    def __init__(self) -> None:
        super().__init__(least=BODY.size + 4)

    def read(self, reader: Reader, version: Version) -> Value:
        head = _HEAD.unpack_from(reader.data, reader.skip(_HEAD.size))
        reader.skip(20 * reader.count(20))
        return *head, *_TAIL.unpack_from(reader.data, reader.skip(_TAIL.size))

    def write(self, value: Value, version: Version) -> bytes:
        return _HEAD.pack(*value[:8]) + bytes(4) + _TAIL.pack(*value[8:])


class _OldBones(Layout):
    """Bones before 3.0; they are kept as those of later versions."""

    def read(self, reader: Reader, version: Version) -> Value:
        return b''.join([BODY.pack(*one) for one in _OLD_BODIES.read(reader, version)])

    def write(self, value: Value, version: Version) -> bytes:
        return _OLD_BODIES.write(list(BODY.iter_unpack(value)), version)


def _marker_2(fields: Value) -> NatNetMarker:
    return NatNetMarker._make((*fields, _NAN))


_OLD_BODIES = Many(_OldBody(), list)
_BONES = Packed(BODY)
_MARKERS = Rows(LABELLED_MARKER, NatNetMarker._make, list)
_ANALOG = Many(Record(Analog._make, _I32, Many(Rows(struct.Struct('<f'), lambda found: found[0]))))


class _Section(NamedTuple):
    """A section: field of ``NatNetFrame``, first version, layouts, what it is part of."""

    field: str
    since: Version
    new: Many
    old: Many
    part: str


def _section(
    field: str, since: Version, new: Many, part: str, old: 'Many | None' = None,
) -> _Section:
    return _Section(field, since, new, old or new, part)


#: All sections in their order; ``old`` is the layout before 3.0. Only rigid bodies are always
#: decoded.
_SECTIONS = (
    _section('sets', (0, 0), Many(Record(tuple, Text(1 << 16), _VECTORS)), 'sets'),
    _section('others', (0, 0), _VECTORS, 'markers'),
    _section('bodies', (0, 0), Rows(BODY, None, list), '', _OLD_BODIES),
    _section('skeletons', (0, 0), Many(Record(
        NatNetSkeleton._make, _I32, Since((3, 0), _BONES, _OldBones(least=4)))), 'skeletons'),
    _section('assets', (4, 1), Many(Record(
        NatNetSkeleton._make, _I32, _BONES, Ignored(_MARKERS))), 'skeletons'),
    _section('markers', (0, 0), _MARKERS, 'markers',
             Rows(LABELLED_MARKER_2, _marker_2, list)),
    _section('plates', (2, 9), _ANALOG, 'plates'),
    _section('devices', (2, 11), _ANALOG, 'devices'))
#: Parts that a sender of 4.1 and later may leave out at the end.
_OPTIONAL = frozenset({'plates', 'devices'})


@lru_cache(maxsize=32)
def _plan(version: Version, wanted: frozenset[str]) -> tuple[tuple[str, Many, str, bool], ...]:
    """Return field, layout and part of each section of a version, and whether it is decoded."""
    return tuple(
        (field, new if version >= (3, 0) else old, part, not part or part in wanted)
        for field, since, new, old, part in _SECTIONS if version >= since)


def decode_frame(
    payload: Buffer, version: Version, wanted: frozenset[str] = NOTHING,
) -> NatNetFrame:
    """
    Decode one frame.

    :param payload: payload of the message FRAMEOFDATA.
    :param version: version of the bitstream.
    :param wanted: what is decoded beside rigid bodies: 'markers', 'skeletons' (and trained marker
        sets), 'plates', 'devices'; the rest is skipped.
    :returns: the frame; its bodies are plain tuples with the fields of ``NatNetBody``.
    :raises RemoteProtocolError: if the bytes contradict that version.
    """
    data = payload if type(payload) is bytes else bytes(payload)
    sized = version >= (4, 1)
    bodies: Optional[list[BodyRow]] = None
    if sized and not wanted:
        bodies = _regular_bodies(data)
        if bodies is not None:
            suffix: tuple[Value, ...] = _UNPACK_SUFFIX(data, len(data) - _SUFFIX_SIZE)
            if not suffix[9]:
                (timecode, subframe, timestamp, exposure, received, transmit, ptp_seconds,
                 ptp_fraction, params, _) = suffix
                return _new(_NAT_NET_FRAME, (
                    _UNPACK_I32(data)[0], bodies, _NONE, _NAN, timecode, subframe, timestamp,
                    exposure, received, transmit, ptp_seconds, ptp_fraction, params, (), (), (),
                    (), ()))
    return decode_sections(data, version, wanted)


def _regular_bodies(data: bytes) -> Optional[list[BodyRow]]:
    """
    Return the bodies of a frame from 4.1 on, whose other sections are not wanted.

    One pass over the sections, without an object for each: this is the path of most frames.

    :returns: None if a section is not as expected; then the other way finds out why.
    """
    bodies: Optional[list[BodyRow]] = None
    end = len(data) - _SUFFIX_SIZE
    position, section = 4, 0
    # Declared for mypyc, which then unpacks without an iterator.
    head: tuple[Value, ...]
    count: int
    size: int
    while position + 8 <= end:
        head = _UNPACK_SECTION(data, position)
        count, size = head
        position += 8
        if count < 0 or not 0 <= size <= end - position:
            return None
        if section == _BODY_SECTION:
            if count * _BODY_SIZE != size:
                return None
            bodies = list(_UNPACK_BODIES(data[position:position + size]))
        position += size
        section += 1
    return bodies if position == end and section >= _LEAST_SECTIONS else None


def decode_sections(data: bytes, version: Version, wanted: frozenset[str]) -> NatNetFrame:
    """Decode one frame by the layouts of its sections; see ``decode_frame``."""
    reader = Reader(data)
    suffix = _suffix(reader, version)
    number = reader.i32()
    bodies: Sequence[BodyRow] = []
    found: dict[str, Value] = {}
    sized = version >= (4, 1)
    for field, layout, part, asked in _plan(version, wanted):
        if sized:
            if not reader.left and part in _OPTIONAL:
                break
            if asked:
                value = layout.sized(reader, version)
            else:
                reader.skip_section()
        elif asked:
            value = layout.read(reader, version)
        else:
            layout.skip(reader, version)
        if not part:
            bodies = value
        elif asked:
            found[field] = value
    while sized and reader.left:    # sections of later versions
        reader.skip_section()
    if reader.left:
        raise RemoteProtocolError(
            f'{reader.left} bytes of the frame belong to no section of this version')
    frame = NatNetFrame(number, bodies, found.pop('markers', []), *suffix)
    return frame._replace(**found) if found else frame


def _suffix(reader: Reader, version: Version) -> tuple[Value, ...]:
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


def encode_frame(frame: NatNetFrame, version: Version) -> bytes:
    """
    Encode FRAMEOFDATA, without marker sets; what a version lacks is left out.

    :param version: version of the bitstream.
    :raises LocalProtocolError: if the frame does not fit into one datagram.
    """
    parts = [_I32.write(frame.number, version)]
    for field, since, new, old, _ in _SECTIONS:
        if version >= since:
            entries = getattr(frame, field, ())
            data = (new if version >= (3, 0) else old).packed(entries, version)
            parts.append(_I32.write(len(entries), version) + (
                _I32.write(len(data), version) if version >= (4, 1) else b'') + data)
    latency, *rest = frame[3:13]
    if version >= (4, 1):
        parts.append(SUFFIX_4_1.pack(*rest, 0))
    elif version >= (3, 0):
        parts.append(SUFFIX_3.pack(*rest[:6], frame.params, 0))
    else:
        parts.append(SUFFIX_2.pack(latency, *rest[:3], frame.params, 0))
    return encode_message(MessageId.FRAME, b''.join(parts))
