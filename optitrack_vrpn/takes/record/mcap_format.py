# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The MCAP container: encode and decode records.

https://mcap.dev/spec. A recorder needs two properties that the ``mcap`` package does not have:
chunks that end after a time as well as a size, and memory that does not grow with the recording.
This module also reads a file without its end, which remains from a killed recorder.
"""

from __future__ import annotations

from collections.abc import Mapping
import struct
from typing import NamedTuple, Union
import zlib

MAGIC = b'\x89MCAP0\r\n'
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = range(1, 9)
ATTACHMENT, STATISTICS, METADATA, METADATA_INDEX, DATA_END = 0x09, 0x0B, 0x0C, 0x0D, 0x0F

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


# -- writing --------------------------------------------------------------------------------------

def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack('<I', len(data)) + data


def _map(values: Mapping[str, str]) -> bytes:
    data = b''.join(_text(key) + _text(value) for key, value in values.items())
    return struct.pack('<I', len(data)) + data


def record(opcode: int, content: bytes) -> bytes:
    """Encode any record."""
    return _RECORD.pack(opcode, len(content)) + content


def header(library: str) -> bytes:
    """Encode the header of a file of ROS 2 messages."""
    return MAGIC + record(HEADER, _text('ros2') + _text(library))


def schema(row: Schema) -> bytes:
    """Encode a message type."""
    return record(SCHEMA, struct.pack('<H', row.id) + _text(row.name) + _text(row.encoding)
                  + struct.pack('<I', len(row.definition)) + row.definition)


def channel(row: Channel) -> bytes:
    """Encode a topic."""
    return record(CHANNEL, struct.pack('<HH', row.id, row.schema_id) + _text(row.topic)
                  + _text(row.encoding) + _map(row.metadata))


def message_head(channel_id: int, sequence: int, log_ns: int, publish_ns: int, size: int) -> bytes:
    """Encode a message record without its data, which has this size."""
    return _MESSAGE.pack(
        MESSAGE, 22 + size, channel_id, sequence & 0xFFFFFFFF, log_ns, publish_ns)


def metadata(row: Metadata) -> bytes:
    """Encode named text values."""
    return record(METADATA, _text(row.name) + _map(row.values))


class ChunkBuilder:
    """
    Collect the messages of one chunk.

    :ivar size: bytes so far, uncompressed.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        #: By channel: time and place of each message, alternating.
        self._index: dict[int, list[int]] = {}
        self.size = 0

    @property
    def counts(self) -> dict[int, int]:
        """Return the number of messages by channel."""
        return {channel_id: len(index) // 2 for channel_id, index in self._index.items()}

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return the earliest and the latest log time, 0 without messages."""
        times = [index[::2] for index in self._index.values()]
        return (min(map(min, times)), max(map(max, times))) if times else (0, 0)

    def add_record(self, data: bytes) -> None:
        """Add a schema or a channel."""
        self._parts.append(data)
        self.size += len(data)

    def add(self, message: Message) -> None:
        """Add a message."""
        channel_id, sequence, log_ns, publish_ns, data = message
        place = (log_ns, self.size)
        try:
            self._index[channel_id] += place
        except KeyError:
            self._index[channel_id] = [*place]
        length = len(data)
        self._parts += (message_head(channel_id, sequence, log_ns, publish_ns, length), data)
        self.size += _MESSAGE.size + length

    def content(self) -> bytes:
        """Return the records for the compression."""
        return b''.join(self._parts)

    def records(
        self, content: bytes, compressed: bytes, compression: str, offset: int,
    ) -> tuple[bytes, bytes]:
        """
        Encode the chunk with its message indexes.

        :param content: content of this chunk.
        :param compressed: the same, compressed.
        :param compression: 'zstd', 'lz4' or ''.
        :param offset: offset of the chunk in the file.
        :returns: the bytes to be written, and the chunk index for the summary.
        """
        start_ns, end_ns = self.span_ns
        chunk = record(CHUNK, _CHUNK.pack(
            start_ns, end_ns, len(content), zlib.crc32(content))
            + _text(compression) + struct.pack('<Q', len(compressed)) + compressed)
        pieces, offsets, place = [chunk], bytearray(), offset + len(chunk)
        for channel_id, index in self._index.items():
            entries = struct.pack(f'<{len(index)}Q', *index)
            piece = record(MESSAGE_INDEX, struct.pack(
                '<HI', channel_id, len(entries)) + entries)
            offsets += struct.pack('<HQ', channel_id, place)
            place += len(piece)
            pieces.append(piece)
        summary = record(CHUNK_INDEX, struct.pack(
            '<QQQQI', start_ns, end_ns, offset, len(chunk), len(offsets))
            + bytes(offsets) + struct.pack('<Q', place - offset - len(chunk))
            + _text(compression) + struct.pack('<QQ', len(compressed), len(content)))
        return b''.join(pieces), summary


def statistics(
    schemas: int, counts: Mapping[int, int], metadata_count: int, chunks: int, start_ns: int,
    end_ns: int,
) -> bytes:
    """
    Encode the totals of a file.

    :param counts: number of messages by channel.
    """
    pairs = b''.join(struct.pack('<HQ', *pair) for pair in counts.items())
    return record(STATISTICS, struct.pack(
        '<QHIIIIQQI', sum(counts.values()), schemas, len(counts), 0, metadata_count, chunks,
        start_ns, end_ns, len(pairs)) + pairs)


def metadata_index(row: Metadata, offset: int, length: int) -> bytes:
    """Encode the index of a metadata record."""
    return record(METADATA_INDEX, struct.pack('<QQ', offset, length) + _text(row.name))


def data_end() -> bytes:
    """Encode the end of the data section; 0 stands for a checksum that was not computed."""
    return record(DATA_END, struct.pack('<I', 0))


def footer(summary_start: int, crc: int) -> bytes:
    """
    Encode the footer of a file without a summary offset section, which is optional.

    :param crc: checksum of the summary section; this function continues it over the footer.
    """
    begin = _RECORD.pack(FOOTER, _FOOTER.size) + struct.pack(
        '<QQ', summary_start, 0)
    return begin + struct.pack('<I', zlib.crc32(begin, crc)) + MAGIC


# -- reading --------------------------------------------------------------------------------------

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
