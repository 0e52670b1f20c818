# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The records of an MCAP file as this package reads them (https://mcap.dev/spec).

Files are written by the ``mcap`` package. Its readers stop at the first fault, hold a whole index
in memory and make an object of each message; ``mcap_read_io`` reads by chunks, with numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
import struct
from typing import NamedTuple, Union

MAGIC = b'\x89MCAP0\r\n'
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = range(1, 9)
STATISTICS, METADATA, DATA_END = 0x0B, 0x0C, 0x0F

_RECORD = struct.Struct('<BQ')
_MESSAGE = struct.Struct('<BQHIQQ')
_MESSAGE_BODY = struct.Struct('<HIQQ')
_CHUNK = struct.Struct('<QQQI')
_FOOTER = struct.Struct('<QQI')
#: Chosen: a longer record (bytes) is part of a damaged file; real records have less than some MB.
MAX_RECORD = 1 << 30


class Schema(NamedTuple):
    """A message type; ``definition`` is in .msg syntax, followed by the nested types."""

    id: int
    name: str
    encoding: str
    definition: bytes


class Channel(NamedTuple):
    """A topic."""

    id: int
    schema_id: int
    topic: str
    encoding: str
    metadata: Mapping[str, str]


class Message(NamedTuple):
    """One message; times in ns since the Unix epoch."""

    channel_id: int
    sequence: int
    log_time_ns: int
    publish_time_ns: int
    data: bytes


class Metadata(NamedTuple):
    """Named text values."""

    name: str
    values: Mapping[str, str]


class End(NamedTuple):
    """
    The end of the data: the file was closed.

    :ivar missing: messages that the file counts and that were not found.
    """

    missing: int = 0


class Cut(NamedTuple):
    """
    The file ends or is damaged here.

    :ivar offset: offset of the first byte that is not part of a complete record.
    :ivar reason: description of the fault, and of what is missing.
    """

    offset: int
    reason: str


class ChunkFound(NamedTuple):
    """A chunk: size and checksum of its records, their compression, the compressed records."""

    size: int
    crc: int
    compression: str
    records: bytes


Record = Union[Schema, Channel, Message, Metadata]


def record(opcode: int, content: bytes) -> bytes:
    """Encode any record."""
    return _RECORD.pack(opcode, len(content)) + content


def message_head(
    channel_id: int, sequence: int, log_ns: int, publish_ns: int, size: int,
) -> bytes:
    """
    Encode the part of a message record before its data.

    :param size: number of bytes of the data.
    """
    return _MESSAGE.pack(
        MESSAGE, 22 + size, channel_id, sequence & 0xFFFFFFFF, log_ns, publish_ns)


def _take_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from('<I', data, at)
    if at + 4 + size > len(data):
        raise ValueError('a text is longer than its record')
    return data[at + 4:at + 4 + size].decode(errors='replace'), at + 4 + size


def _take_map(data: bytes, at: int) -> dict[str, str]:
    (size,) = struct.unpack_from('<I', data, at)
    at, end, found = at + 4, at + 4 + size, {}
    while at < end:
        key, at = _take_text(data, at)
        found[key], at = _take_text(data, at)
    return found


def parse_chunk(content: bytes) -> ChunkFound:
    """
    Decode the content of a chunk record.

    :raises ValueError: if it is not a chunk.
    """
    try:
        _, _, size, crc = _CHUNK.unpack_from(content)
        compression, at = _take_text(content, _CHUNK.size)
        (packed,) = struct.unpack_from('<Q', content, at)
    except struct.error as error:
        raise ValueError(str(error)) from None
    if at + 8 + packed != len(content) or size > MAX_RECORD:
        raise ValueError('a chunk has a wrong length')
    return ChunkFound(size, crc, compression, content[at + 8:])


def parse_record(opcode: int, content: bytes) -> Record | None:
    """
    Decode a schema, channel, message or metadata; return None for a record of another kind.

    :raises ValueError: if it is damaged.
    """
    try:
        if opcode == MESSAGE:
            channel_id, sequence, log_ns, publish_ns = _MESSAGE_BODY.unpack_from(content)
            return Message(channel_id, sequence, log_ns, publish_ns, content[22:])
        if opcode == SCHEMA:
            name, at = _take_text(content, 2)
            encoding, at = _take_text(content, at)
            (size,) = struct.unpack_from('<I', content, at)
            if at + 4 + size > len(content):
                raise ValueError('a definition is longer than its record')
            return Schema(struct.unpack_from('<H', content)[0], name, encoding,
                          content[at + 4:at + 4 + size])
        if opcode == CHANNEL:
            number, schema_id = struct.unpack_from('<HH', content)
            topic, at = _take_text(content, 4)
            encoding, at = _take_text(content, at)
            return Channel(number, schema_id, topic, encoding, _take_map(content, at))
        if opcode == METADATA:
            name, at = _take_text(content, 0)
            return Metadata(name, _take_map(content, at))
    except struct.error as error:
        raise ValueError(str(error)) from None
    return None


def parse_library(content: bytes) -> str:
    """Return the writer that the header of a file names; '' if it is damaged."""
    try:
        _, at = _take_text(content, 0)
        return _take_text(content, at)[0]
    except (struct.error, ValueError):
        return ''


def unpack_head(data: bytes) -> tuple[int, int]:
    """Decode opcode and length of a record from its first nine bytes."""
    opcode, size = _RECORD.unpack(data)
    return opcode, size


def parse_footer(data: bytes) -> tuple[int, int]:
    """Decode begin and checksum of the summary from a footer record; zeros if it is none."""
    if len(data) < FOOTER_SIZE or unpack_head(data[:HEAD_SIZE]) != (FOOTER, _FOOTER.size):
        return 0, 0
    begin, _, crc = _FOOTER.unpack_from(data, HEAD_SIZE)
    return begin, crc


HEAD_SIZE = _RECORD.size
FOOTER_SIZE = _RECORD.size + _FOOTER.size
