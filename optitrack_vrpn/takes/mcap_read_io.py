# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read MCAP files in one pass, closed or not, with or without chunks and index, damaged or not.

Messages are given as batches of records in one array, so that numpy can read thousands at once.
The index behind a chunk is a hint that is checked: what it does not cover is searched record by
record. Behind a record that contradicts itself, reading continues at the next plausible one; the
totals at the end of the file tell how many messages are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import importlib
import os
import struct
from typing import Any, IO, NamedTuple, Union
import zlib

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.columns import Batch, DATA_AT, gather, Offsets
from optitrack_vrpn.takes.record import mcap_format as mcap


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


zstandard, lz4_frame = _installed('zstandard'), _installed('lz4.frame')

#: Packages to install for each compression: the Debian name, which rosdep also uses, and PyPI's.
PACKAGES = {'zstd': 'python3-zstandard (pip: zstandard)', 'lz4': 'python3-lz4 (pip: lz4)'}
#: Bytes of a batch: with less the calls of numpy cost more, with more the processor's cache is
#: too small. Most chunks have this size, and are not copied to be joined.
_BATCH = 500_000
#: Bytes that are searched at once: for the next record behind damage, for the end of the file.
_WINDOW = 1 << 20
_NOT_CLOSED = 'it was not closed: up to a second at its end is missing'


class Damage(NamedTuple):
    """
    A part of a file that cannot be read.

    :ivar span_ns: log times of its first and last message, or of its neighbours; zeros if unknown.
    """

    reason: str
    span_ns: tuple[int, int]


Read = Union[Batch, Damage, mcap.End, mcap.Cut]


class _Part(NamedTuple):
    """Records that belong together: of a chunk with the offsets of its index, or between them."""

    data: bytes
    hints: Offsets
    span_ns: tuple[int, int]


class _Summary(NamedTuple):
    """
    What the end of a closed file tells about the rest.

    :ivar begin: offset of its first record; the size of the file without a summary.
    :ivar closed: whether there is one.
    :ivar records: its schemas and channels.
    :ivar messages: number of messages in the file.
    :ivar chunks: first and last log time of each chunk, by offset.
    """

    begin: int
    closed: bool = False
    records: bytes = b''
    messages: int = 0
    chunks: dict[int, tuple[int, int]] = {}


def read_mcap(file: IO[bytes], progress: Callable[[float], None]) -> Iterator[Read]:
    """
    Read a file that begins with MCAP's magic; the last item is ``End`` or ``Cut``.

    :param progress: called with the fraction that was read, 0 to 1.
    :raises ConfigurationError: if its compression is not installed.
    """
    data = _Bytes(file)
    summary = _read_summary(data)
    given = 0
    for item in _batches(_read_parts(data, summary, progress)):
        if isinstance(item, Batch):
            given += len(item.offsets)
        elif isinstance(item, mcap.End):
            item = mcap.End(max(summary.messages - given, 0))
        yield item


def _read_summary(file: _Bytes) -> _Summary:
    """Read the summary; an empty one of a file that was not closed or whose end is damaged."""
    end = file.size
    tail = file.read(max(end - _WINDOW, 0), _WINDOW)
    place = tail.rfind(mcap.MAGIC) - mcap.FOOTER_SIZE
    begin, crc = mcap.parse_footer(tail[max(place, 0):])
    place += end - len(tail)    # of the footer
    if not len(mcap.MAGIC) <= begin < place:
        return _Summary(end)
    data = file.read(begin, place + mcap.FOOTER_SIZE - 4 - begin)
    if crc and zlib.crc32(data) != crc:
        return _Summary(end)
    records, messages, chunks = bytearray(), 0, {}
    for _, _, opcode, content in file.records(begin, place, True):
        if opcode in (mcap.SCHEMA, mcap.CHANNEL):
            records += mcap.record(opcode, content)
        elif opcode == mcap.STATISTICS and len(content) >= 8:
            messages = int.from_bytes(content[:8], 'little')
        elif opcode == mcap.CHUNK_INDEX and len(content) >= 24:
            first_ns, last_ns, offset = struct.unpack_from('<QQQ', content)
            chunks[offset] = first_ns, last_ns
    return _Summary(begin, True, bytes(records), messages, chunks)


def _is_whole(opcode: int, content: bytes) -> bool:
    """Return whether the lengths inside a record fit its own."""
    try:
        if opcode == mcap.CHUNK:
            mcap.parse_chunk(content)
        elif opcode == mcap.MESSAGE_INDEX:
            return len(content) >= 6 and 6 + int.from_bytes(content[2:6], 'little') == len(content)
        elif opcode == mcap.MESSAGE:
            return len(content) >= DATA_AT - mcap.HEAD_SIZE
        elif opcode in (mcap.SCHEMA, mcap.CHANNEL, mcap.METADATA):
            mcap.parse_record(opcode, content)
        elif opcode in (mcap.DATA_END, mcap.FOOTER):
            return len(content) == (4 if opcode == mcap.DATA_END else 20)
        elif mcap.HEADER <= opcode <= mcap.DATA_END or opcode >= 0x80:
            return not _is_whole(mcap.CHUNK, content)    # else a chunk with a damaged kind
        else:
            return False
    except ValueError:
        return False
    return True


class _Bytes:
    """
    Bytes of a file by their offset; a window of them is in memory.

    :ivar size: size of the file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._window, self._begin = b'', 0
        self.size = os.fstat(file.fileno()).st_size

    def read(self, at: int, size: int) -> bytes:
        """Read bytes; less at the end of the file."""
        place = at - self._begin
        if place < 0 or place + size > len(self._window):
            self._file.seek(at)
            self._window, self._begin, place = self._file.read(max(size, _WINDOW)), at, 0
        return self._window[place:place + size]

    def record(self, at: int, end: int) -> tuple[int, bytes]:
        """Read the record at an offset; kind 0 if there is none."""
        head = self.read(at, mcap.HEAD_SIZE)
        if len(head) == mcap.HEAD_SIZE:
            opcode, size = mcap.unpack_head(head)
            if size <= min(mcap.MAX_RECORD, end - at - mcap.HEAD_SIZE):
                content = self.read(at + mcap.HEAD_SIZE, size)
                if _is_whole(opcode, content):
                    return opcode, content
        return 0, b''

    def records(self, at: int, end: int, loose: bool) -> Iterator[tuple[int, int, int, bytes]]:
        """
        Read the top level of a part of the file.

        :param loose: whether the file is known to have messages outside of chunks. Else reading
            continues at a chunk after damage: messages inside a damaged one have no valid
            checksum.
        :returns: begin and end of each record, its kind and content; kind 0 for bytes without one.
        """
        while at < end:
            opcode, content = self.record(at, end)
            after = at + mcap.HEAD_SIZE + len(content)
            loose = loose or opcode == mcap.MESSAGE
            if not opcode:
                after = self._next_record(at + 1, end, loose)
            yield at, after, opcode, content
            at = after

    def _next_record(self, at: int, end: int, loose: bool) -> int:
        """Return the offset of a plausible record that another one follows; else the end."""
        wanted = tuple(range(1, mcap.DATA_END + 1)) if loose else (mcap.CHUNK, mcap.DATA_END)
        while at < end:
            window = np.frombuffer(
                self.read(at, min(_WINDOW, end - at) + mcap.HEAD_SIZE - 1), np.uint8)
            kinds = window[:max(len(window) - mcap.HEAD_SIZE + 1, 0)]
            near = np.isin(kinds, wanted)
            for place in (6, 7, 8):    # real records have less than 2**40 bytes
                near &= window[place:place + len(kinds)] == 0
            for begin in (np.flatnonzero(near) + at).tolist():
                opcode, content = self.record(begin, end)
                after = begin + mcap.HEAD_SIZE + len(content)
                if opcode == mcap.CHUNK or (opcode and (
                        after == end or self.record(after, end)[0])):
                    return int(begin)
            at += _WINDOW
        return end


def _read_parts(
    file: _Bytes, summary: _Summary, progress: Callable[[float], None],
) -> Iterator[_Part | Damage | mcap.End | mcap.Cut]:
    """Read the data section: chunks with their indexes, and what lies between them."""
    loose, packed, hints = bytearray(summary.records), b'', list[bytes]()
    end, last_ns, crc, closed = summary.begin, 0, zlib.crc32(mcap.MAGIC), summary.closed
    seen, holes = set[int](), list[tuple[int, int]]()
    opcode, content = 0, b''
    hole = 0    # begin of damage whose time is not known yet

    def finished() -> Iterator[_Part | Damage]:
        nonlocal loose, packed, hints
        if loose:
            yield _Part(bytes(loose), np.zeros(0, np.int64), (0, 0))
        if packed:
            yield _chunk(packed, hints)
        loose, packed, hints = bytearray(), b'', []

    def damage(next_ns: int) -> Damage:
        return Damage(f'bytes {hole} to {holes[-1][1]} are no valid records',
                      (last_ns or next_ns, next_ns or last_ns))

    for at, after, opcode, content in file.records(
            len(mcap.MAGIC), end, summary.closed and not summary.chunks):
        if opcode in (mcap.DATA_END, mcap.FOOTER):
            closed = True
            break
        if not opcode:
            yield from finished()
            hole = hole or at
            holes.append((at, after))
            continue
        if opcode in (mcap.CHUNK, mcap.MESSAGE):
            (time_ns,) = struct.unpack_from('<Q', content, 0 if opcode == mcap.CHUNK else 6)
            if hole:
                yield damage(time_ns)
                hole = 0
            last_ns = time_ns
        if opcode == mcap.MESSAGE_INDEX:
            hints.append(content[6:])
            if not packed:    # what was before it is a damaged chunk
                hole = hole or at
                holes.append((at, after))
            continue
        if packed or opcode == mcap.CHUNK:
            yield from finished()
        if opcode == mcap.CHUNK:
            packed = content
            (last_ns,) = struct.unpack_from('<Q', content, 8)
            seen.add(at)
            progress(at / end)
            continue
        record = mcap.record(opcode, content)
        if not seen:
            crc = zlib.crc32(record, crc)
        if opcode in (mcap.SCHEMA, mcap.CHANNEL, mcap.METADATA, mcap.MESSAGE):
            loose += record
            if len(loose) >= _BATCH:
                yield from finished()
                progress(at / end)
    yield from finished()
    torn = bool(hole) and not closed and holes[-1][1] == end
    if hole and not torn:
        yield damage(0)
    if not closed:
        yield mcap.Cut(hole if torn else end, _NOT_CLOSED + (
            f', and the last {end - hole} bytes are no whole record' if torn else ''))
        return
    for offset, span_ns in summary.chunks.items():
        if offset not in seen and not any(first <= offset < stop for first, stop in holes):
            yield Damage(f'there is no chunk at byte {offset}, where the index has one', span_ns)
    stated = int.from_bytes(content[:4], 'little') if opcode == mcap.DATA_END else 0
    if stated and not seen and not holes and stated != crc:
        yield Damage('the data have a wrong checksum: some values are wrong', (0, 0))
    yield mcap.End()


def _chunk(content: bytes, hints: list[bytes]) -> _Part | Damage:
    span_ns = struct.unpack_from('<QQ', content)
    try:
        chunk = mcap.parse_chunk(content)
        records = decompress(chunk.compression, chunk.records, chunk.size)
        if len(records) != chunk.size:
            raise ValueError('a chunk has a wrong length')
        if chunk.crc and zlib.crc32(records) != chunk.crc:
            raise ValueError('a chunk has a wrong checksum')
    except ValueError as error:
        return Damage(str(error), span_ns)
    index = b''.join(hints)
    return _Part(records, np.frombuffer(index, '<i8', len(index) // 16 * 2)[1::2], span_ns)


def _batches(parts: Iterator[_Part | Damage | mcap.End | mcap.Cut]) -> Iterator[Read]:
    """Find the messages in each part, and join parts to batches."""
    waiting: list[bytes] = []
    offsets: list[Offsets] = []
    others: list[mcap.Record] = []
    size = 0
    for part in parts:
        problem: Read | None = None if isinstance(part, _Part) else part
        if isinstance(part, _Part):
            try:
                try:
                    found, rest = _find_messages(part.data, part.hints)
                except ValueError:    # the index is wrong, or the records are
                    found, rest = _find_messages(part.data, part.hints[:0])
                records = [record for opcode, content in rest
                           for record in [mcap.parse_record(opcode, content)] if record]
                offsets.append(found + size)
                waiting.append(part.data)
                others += records
                size += len(part.data)
            except ValueError as error:
                problem = Damage(str(error), part.span_ns)
        if waiting and (problem is not None or size >= _BATCH):
            yield Batch(np.frombuffer(b''.join(waiting), np.uint8), np.concatenate(offsets),
                        others)
            waiting, offsets, others, size = [], [], [], 0
        if problem is not None:
            yield problem


def _find_messages(
    data: bytes, hints: Offsets,
) -> tuple[Offsets, list[tuple[int, bytes]]]:
    """
    Find the message records in uncompressed data.

    :param hints: offsets of an index; may be wrong or incomplete.
    :returns: offsets of the messages, and opcode and content of the other records.
    :raises ValueError: if the records do not fill the data.
    """
    view = np.frombuffer(data, np.uint8)
    hints = np.sort(hints[(hints >= 0) & (hints <= len(data) - DATA_AT)])
    sizes = gather(view, hints + 1, '<u8').astype(np.int64)
    hints = hints[(view[hints] == mcap.MESSAGE) & (sizes >= 22)
                  & (sizes <= len(data) - hints - 9)] if len(hints) else hints
    ends = hints + 9 + gather(view, hints + 1, '<u8').astype(np.int64)
    before = np.concatenate(([0], ends))
    begins = np.concatenate((hints, [len(data)]))
    if (before > begins).any():    # an index with overlapping messages
        return _find_messages(data, np.zeros(0, np.int64))
    more, others = [], []
    for gap in np.flatnonzero(before < begins).tolist():
        at, stop = int(before[gap]), int(begins[gap])
        while at < stop:
            if at + mcap.HEAD_SIZE > stop:
                raise ValueError('a record is truncated')
            opcode, size = mcap.unpack_head(data[at:at + mcap.HEAD_SIZE])
            if size > stop - at - mcap.HEAD_SIZE or (opcode == mcap.MESSAGE and size < 22):
                raise ValueError('a record is truncated')
            if opcode == mcap.MESSAGE:
                more.append(at)
            else:
                others.append((opcode, data[at + mcap.HEAD_SIZE:at + mcap.HEAD_SIZE + size]))
            at += mcap.HEAD_SIZE + size
    if more:
        hints = np.sort(np.concatenate((hints, np.array(more, np.int64))))
    return hints, others


def decompress(compression: str, data: bytes, size: int) -> bytes:
    """
    Decompress a chunk.

    :param size: size of the result (bytes).
    :raises ConfigurationError: if the package is not installed.
    :raises ValueError: if the data are damaged or the compression is unknown.
    """
    if not compression:
        return data
    if compression not in PACKAGES:
        raise ValueError(f'compression {compression!r} is not supported')
    try:
        if compression == 'zstd' and zstandard is not None:
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=size))
        if compression == 'lz4' and lz4_frame is not None:
            return bytes(lz4_frame.decompress(data))
    except Exception as error:    # each package has its own errors
        raise ValueError(f'a chunk cannot be decompressed: {error}') from None
    raise ConfigurationError(
        f'this recording is compressed with {compression}, whose Python package is not '
        f'installed: install {PACKAGES[compression]}')
