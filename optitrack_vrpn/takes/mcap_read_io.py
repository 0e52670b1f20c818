# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read MCAP files in one pass, closed or not, with or without chunks and index, damaged or not.

Messages are given as batches of records in one array, so that numpy can read thousands at once.
The index behind a chunk is a hint that is checked: what it does not cover is searched record by
record. Behind damage, reading continues at the next chunk; of a file without chunks, what is
before the damage is used. The totals at the end of the file, or the index behind a damaged chunk,
tell how many messages are missing.
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
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes import mcap_format as mcap
from optitrack_vrpn.takes.columns import ColumnBatch, DATA_AT, gather, Offsets


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


zstandard, lz4_frame = _installed('zstandard'), _installed('lz4.frame')

#: Packages to install for each compression: the Debian name, which rosdep also uses, and PyPI's.
PACKAGES = {'zstd': 'python3-zstandard (pip: zstandard)', 'lz4': 'python3-lz4 (pip: lz4)'}
#: First word of the name that this package writes into the header of a file.
LIBRARY = 'optitrack_vrpn'
#: Bytes of a batch: with less the calls of numpy cost more, with more the processor's cache is
#: too small. Most chunks have this size, and are not copied to be joined.
_BATCH = 500_000
#: Bytes that are searched at once: for the next chunk behind damage, for the end of the file.
_WINDOW = 1 << 20
#: Chosen: a damaged chunk whose times are further from its neighbours (ns) has wrong times.
_NEAR_NS = 3600 * NS_PER_S


class Damage(NamedTuple):
    """
    A part of a file that cannot be read.

    :ivar span_ns: log times of its first and last message, or of its neighbours; zeros if unknown.
    :ivar messages: how many messages it had, 0 if unknown.
    """

    reason: str
    span_ns: tuple[int, int]
    messages: int = 0


Read = Union[ColumnBatch, Damage, mcap.End, mcap.Cut]


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
    for item in _batches(_Parts(data, summary).read(progress)):
        if isinstance(item, ColumnBatch):
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
    for _, _, opcode, content in file.records(begin, place):
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

    def records(self, at: int, end: int) -> Iterator[tuple[int, int, int, bytes]]:
        """
        Read the top level of a part of the file.

        :returns: begin and end of each record, its kind and content; kind 0 for bytes without one.
        """
        while at < end:
            opcode, content = self.record(at, end)
            after = (at + mcap.HEAD_SIZE + len(content)) if opcode else self._next_chunk(
                at + 1, end)
            yield at, after, opcode, content
            at = after

    def _next_chunk(self, at: int, end: int) -> int:
        """
        Return the offset of the next plausible chunk, or of the end.

        Messages outside of chunks have no checksum that tells them from other bytes.
        """
        while at < end:
            window = np.frombuffer(
                self.read(at, min(_WINDOW, end - at) + mcap.HEAD_SIZE - 1), np.uint8)
            kinds = window[:max(len(window) - mcap.HEAD_SIZE + 1, 0)]
            near = kinds == mcap.CHUNK
            for place in (6, 7, 8):    # real records have less than 2**40 bytes
                near &= window[place:place + len(kinds)] == 0
            for begin in (np.flatnonzero(near) + at).tolist():
                if self.record(begin, end)[0]:
                    return int(begin)
            at += _WINDOW
        return end


class _Parts:
    """
    The data section of a file, part by part.

    :param file: its bytes.
    :param summary: what its end tells.
    """

    def __init__(self, file: _Bytes, summary: _Summary) -> None:
        self._file, self._summary = file, summary
        #: Records between chunks, the open chunk, and the indexes behind it.
        self._loose, self._chunk, self._hints = bytearray(summary.records), b'', list[bytes]()
        self._last_ns = 0
        #: Begin and end of bytes without a record whose time is not known yet.
        self._hole: tuple[int, int] | None = None
        self._holes: list[tuple[int, int]] = []
        self._seen: set[int] = set()
        self._library = ''

    def read(
        self, progress: Callable[[float], None],
    ) -> Iterator[_Part | Damage | mcap.End | mcap.Cut]:
        """Give the parts in order; ``End`` or ``Cut`` is the last."""
        end, closed = self._summary.begin, self._summary.closed
        for at, after, opcode, content in self._file.records(len(mcap.MAGIC), end):
            if opcode in (mcap.DATA_END, mcap.FOOTER):
                closed = True
                break
            if not opcode:
                yield from self._finished()
                self._dig(at, after)
            elif opcode == mcap.MESSAGE_INDEX:
                self._hints.append(content[6:])
                if not self._chunk:    # what was before it is a damaged chunk
                    self._dig(at, after)
            elif opcode == mcap.CHUNK:
                yield from self._finished()
                yield from self._filled(struct.unpack_from('<Q', content)[0])
                self._chunk = content
                self._seen.add(at)
                progress(at / end)
            elif opcode == mcap.HEADER:
                self._library = mcap.parse_library(content)
            elif opcode in (mcap.SCHEMA, mcap.CHANNEL, mcap.METADATA, mcap.MESSAGE):
                if opcode == mcap.MESSAGE:
                    (time_ns,) = struct.unpack_from('<Q', content, 6)
                    yield from self._filled(time_ns)
                    self._last_ns = time_ns
                if self._chunk or len(self._loose) >= _BATCH:
                    yield from self._finished()
                    progress(at / end)
                self._loose += mcap.record(opcode, content)
        yield from self._finished()
        yield from self._end(closed, end)

    def _dig(self, at: int, after: int) -> None:
        self._holes.append((at, after))
        self._hole = (self._hole[0] if self._hole else at), after

    def _filled(self, next_ns: int) -> Iterator[Damage]:
        """Give the bytes without a record before a message of this time (0: before the end)."""
        if self._hole:
            next_ns = self._near(next_ns)
            yield Damage('bytes {} to {} are no valid records'.format(*self._hole), (
                self._last_ns or next_ns, next_ns), sum(map(len, self._hints)) // 16)
            self._hole, self._hints = None, []

    def _near(self, time_ns: int) -> int:
        """Return a time, or the last one that was read if it is far from that."""
        last_ns = self._last_ns
        return time_ns if not last_ns or abs(time_ns - last_ns) < _NEAR_NS else last_ns

    def _finished(self) -> Iterator[_Part | Damage]:
        """Give what is complete."""
        if self._loose:
            yield _Part(bytes(self._loose), np.zeros(0, np.int64), (0, 0))
        if self._chunk:
            yield self._unpacked(self._chunk, b''.join(self._hints))
            self._hints = []
        self._loose, self._chunk = bytearray(), b''

    def _unpacked(self, content: bytes, index: bytes) -> _Part | Damage:
        span_ns = struct.unpack_from('<QQ', content)
        try:
            chunk = mcap.parse_chunk(content)
            records = decompress(chunk.compression, chunk.records, chunk.size)
            if len(records) != chunk.size:
                raise ValueError('a chunk has a wrong length')
            if chunk.crc and zlib.crc32(records) != chunk.crc:
                raise ValueError('a chunk has a wrong checksum')
        except ValueError as error:
            begin_ns, self._last_ns = map(self._near, span_ns)
            return Damage(str(error), (begin_ns, self._last_ns), len(index) // 16)
        self._last_ns = span_ns[1]
        return _Part(records, np.frombuffer(index, '<i8', len(index) // 16 * 2)[1::2], span_ns)

    def _end(self, closed: bool, end: int) -> Iterator[Damage | mcap.End | mcap.Cut]:
        torn = self._hole if self._hole and not closed and self._hole[1] == end else None
        if not torn:
            yield from self._filled(0)
        if not closed:
            missing = (
                'up to a second at its end is missing, more if the file was cut later'
                if self._library.startswith(LIBRARY) else
                'what its recorder had not written yet is missing, with ros2 bag up to minutes')
            yield mcap.Cut(torn[0] if torn else end, f'it was not closed: {missing}' + (
                f', and the last {end - torn[0]} bytes are no whole record' if torn else ''))
            return
        for offset, span_ns in self._summary.chunks.items():
            if offset not in self._seen and not any(
                    first <= offset < stop for first, stop in self._holes):
                yield Damage(
                    f'there is no chunk at byte {offset}, where the index has one', span_ns)
        yield mcap.End()


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
                problem = Damage(str(error), part.span_ns, len(part.hints))
        if waiting and (problem is not None or size >= _BATCH):
            yield ColumnBatch(np.frombuffer(b''.join(waiting), np.uint8), np.concatenate(offsets),
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
