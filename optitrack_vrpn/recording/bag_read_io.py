# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read bags in one pass: MCAP files and rosbag2's sqlite3, whole, split, compressed or damaged.

Messages are given as batches of MCAP message records in one array, so that numpy can read
thousands at once. The index behind a chunk is a hint that is checked: what it does not cover is
searched record by record, so that files without an index, with a wrong one, or without chunks take
the same way. A damaged chunk is reported with its time span, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import os
from pathlib import Path
import sqlite3
import struct
import tempfile
from typing import Any, IO, NamedTuple, Union
import zlib

import numpy as np
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording import mcap_format as mcap
from optitrack_vrpn.recording.columns import Batch, DATA_AT, gather, Offsets
import yaml

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]
try:
    import lz4.frame as lz4_frame
except ImportError:
    lz4_frame = None

#: Packages to install for each compression: the Debian name, which rosdep also uses, and PyPI's.
PACKAGES = {'zstd': 'python3-zstandard (pip: zstandard)', 'lz4': 'python3-lz4 (pip: lz4)'}
_BUFFER = 1 << 20
#: That of libyaml is ten times as fast.
_Loader: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
#: Bytes of a batch: with less the calls of numpy cost more, with more memory.
_BATCH = 8 << 20
_ROWS = 20_000
_ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
_NOT_CLOSED = 'it was not closed: up to a second at its end is missing'
#: Endings of the files of a bag, the best first.
BAGS = ('.mcap', '.mcap.zstd', '.mcap.zst', '.db3', '.db3.zstd')
#: What to do with files of other formats than those that are needed.
_OTHERS = {
    '.db3': 'is a bag in sqlite3; convert it to mcap with ros2 bag convert',
    '.mcap': 'is a recording of topics; play it with ros2 bag play. replay serves raw recordings '
             '(record --raw)'}


class Damage(NamedTuple):
    """
    A part of a file that cannot be read.

    :ivar span_ns: log times of its first and last message; zeros if unknown.
    """

    reason: str
    span_ns: tuple[int, int]


Read = Union[Batch, Damage, mcap.End, mcap.Cut]


def compressor(name: str) -> tuple[str, Callable[[bytes], bytes]]:
    """
    Return the compression to use.

    :param name: 'zstd', 'lz4', 'none', or 'auto' for the first that is installed.
    :raises ConfigurationError: if it is not installed.
    """
    if name in ('zstd', 'auto') and zstandard is not None:
        return 'zstd', zstandard.ZstdCompressor(level=1).compress
    if name in ('lz4', 'auto') and lz4_frame is not None:
        return 'lz4', lz4_frame.compress
    if name in ('none', 'auto'):
        return '', bytes
    raise ConfigurationError(
        f'compression {name} is not installed: install {PACKAGES[name]}, or record with '
        '--compression none')


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


def find_file(path: Path, *endings: str) -> Path:
    """
    Find the one file of a recording.

    :param path: its folder, or the file itself.
    :param endings: names that the file can end with, such as '.mcap', the best first.
    :raises ConfigurationError: if there is none, or more than one.
    """
    if path.is_file():
        remedy = '' if path.suffix in endings else _OTHERS.get(path.suffix, '')
        if remedy:
            raise ConfigurationError(f'{path}: {remedy}')
        return path
    found = find_files(path, *endings)
    if len(found) > 1:
        raise ConfigurationError(
            f'{path}: contains {len(found)} {found[0].suffix} files; give the path of one')
    return found[0]


def find_files(path: Path, *endings: str) -> list[Path]:
    """
    Find the files of a recording, those of a split bag in their order.

    :raises ConfigurationError: if there are none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ConfigurationError(f'{path}: no such file or folder')
    with contextlib.suppress(OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        described = yaml.load((path / 'metadata.yaml').read_text(encoding='utf-8'), _Loader)
        listed = [path / name for name in described[
            'rosbag2_bagfile_information']['relative_file_paths']]
        # metadata.yaml can be older than the files, or lack the last of them
        if listed and all(file.is_file() and file.name.endswith(endings) for file in listed):
            return listed
    for ending in endings:
        found = sorted(path.glob(f'*{ending}'), key=lambda file: (len(file.name), file.name))
        if found:
            return found
    for ending, remedy in _OTHERS.items():
        if any(path.glob(f'*{ending}')):
            raise ConfigurationError(f'{path}: {remedy}')
    raise ConfigurationError(f'{path}: contains no {" or ".join(endings)} file')


def read_batches(path: Path, progress: Callable[[float], None] = lambda share: None) -> Iterator[
        Read]:
    """
    Read a file of a bag; the last item is ``End`` for a file that was closed, else ``Cut``.

    :param path: .mcap or .db3, also with .zstd behind it.
    :param progress: called with the fraction that was read, 0 to 1.
    :raises ConfigurationError: if it is no bag, or its compression is not installed.
    """
    with contextlib.ExitStack() as stack:
        if path.suffix in ('.zstd', '.zst'):
            path = _decompressed(path, stack)
        if path.suffix == '.db3':
            yield from _read_sqlite(path, progress)
            return
        file = stack.enter_context(open(path, 'rb', buffering=_BUFFER))
        if file.read(len(mcap.MAGIC)) != mcap.MAGIC:
            raise ConfigurationError(f'{path}: not an MCAP file')
        yield from _batches(_read_mcap(file, os.fstat(file.fileno()).st_size, progress))


def read_records(
    path: Path, progress: Callable[[float], None] = lambda share: None,
) -> Iterator[mcap.Record | Damage | mcap.End | mcap.Cut]:
    """
    Read the records of a bag one by one.

    :param progress: as for ``read_batches``.
    :raises ConfigurationError: as ``read_batches``.
    """
    for item in read_batches(path, progress):
        if not isinstance(item, Batch):
            yield item
            continue
        yield from item.others
        data = item.data.tobytes()
        for at in item.offsets.tolist():
            size = int.from_bytes(data[at + 1:at + 9], 'little')
            found = mcap.parse_record(mcap.MESSAGE, data[at + 9:at + 9 + size])
            assert found is not None
            yield found


def _decompressed(path: Path, stack: contextlib.ExitStack) -> Path:
    if zstandard is None:
        raise ConfigurationError(f'{path}: is compressed; install {PACKAGES["zstd"]}')
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='optitrack_vrpn_')))
    plain = folder / path.stem
    try:
        with open(path, 'rb') as packed, open(plain, 'wb') as unpacked:
            zstandard.ZstdDecompressor().copy_stream(packed, unpacked)
    except zstandard.ZstdError as error:
        raise ConfigurationError(f'{path}: cannot be decompressed: {error}') from None
    return plain


class _Part(NamedTuple):
    """Records that belong together: of a chunk with the offsets of its index, or between them."""

    data: bytes
    hints: Offsets
    span_ns: tuple[int, int]


def _read_mcap(
    file: IO[bytes], end: int, progress: Callable[[float], None],
) -> Iterator[_Part | Damage | mcap.End | mcap.Cut]:
    """Read the top level of a file: chunks with their indexes, and what lies between them."""
    loose, packed, hints = bytearray(), b'', list[Offsets]()

    def finished() -> Iterator[_Part | Damage]:
        nonlocal loose, packed, hints
        if loose:
            yield _Part(bytes(loose), np.zeros(0, np.int64), (0, 0))
        if packed:
            yield _chunk(packed, hints)
        loose, packed, hints = bytearray(), b'', []

    while True:
        at = file.tell()
        head = file.read(mcap.HEAD_SIZE)
        opcode, size = mcap.unpack_head(head) if len(head) == mcap.HEAD_SIZE else (0, end)
        if size > min(mcap.MAX_RECORD, end - at - mcap.HEAD_SIZE):
            yield from finished()
            yield mcap.Cut(at, _NOT_CLOSED)
            return
        if opcode in (mcap.DATA_END, mcap.FOOTER):
            yield from finished()
            yield mcap.End()
            return
        content = file.read(size)
        if opcode == mcap.MESSAGE_INDEX and packed:
            hints.append(np.frombuffer(content, '<u8', max(size - 6, 0) // 16 * 2, min(
                size, 6))[1::2].astype(np.int64))
        elif opcode == mcap.CHUNK:
            yield from finished()
            packed = content
            progress(at / end)
        elif opcode in (mcap.SCHEMA, mcap.CHANNEL, mcap.METADATA, mcap.MESSAGE):
            if packed:
                yield from finished()
            loose += head + content
            if len(loose) >= _BATCH:
                yield from finished()
                progress(at / end)
        elif not (mcap.HEADER <= opcode <= mcap.DATA_END or opcode >= 0x80):
            yield from finished()
            yield Damage(f'a record of no known kind at byte {at} of {end}', (0, 0))


def _chunk(content: bytes, hints: list[Offsets]) -> _Part | Damage:
    span_ns = (0, 0)
    try:
        span_ns = struct.unpack_from('<QQ', content)
        chunk = mcap.parse_chunk(content)
        records = decompress(chunk.compression, chunk.records, chunk.size)
        if chunk.crc and zlib.crc32(records) != chunk.crc:
            raise ValueError('a chunk has a wrong checksum')
    except (ValueError, struct.error) as error:
        return Damage(str(error), span_ns)
    return _Part(records, np.concatenate([np.zeros(0, np.int64), *hints]), span_ns)


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
                found, rest = _find_messages(part.data, part.hints)
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


def _read_sqlite(path: Path, progress: Callable[[float], None]) -> Iterator[Read]:
    """Read rosbag2's sqlite3 as records of MCAP, in the order in which they were recorded."""
    try:
        uri = f'{path.resolve().as_uri()}?mode=ro'
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as base:
            base.text_factory = lambda data: data.decode(errors='replace')
            texts: dict[str, tuple[str, str]] = {}
            with contextlib.suppress(sqlite3.OperationalError):    # from Iron on
                texts = {name: (encoding, text) for name, encoding, text in base.execute(
                    'SELECT topic_type, encoding, encoded_message_definition '
                    'FROM message_definitions')}
            others: list[mcap.Record] = []
            for number, name, kind in base.execute('SELECT id, name, type FROM topics'):
                encoding, text = texts.get(kind, ('ros2msg', ''))
                others += [mcap.Schema(number, kind, encoding, text.encode()),
                           mcap.Channel(number, number, name, 'cdr', {})]
            (last,) = base.execute('SELECT max(id) FROM messages').fetchone()
            rows = base.execute('SELECT topic_id, timestamp, data, id FROM messages ORDER BY id')
            while found := rows.fetchmany(_ROWS):
                data = b''.join(
                    mcap.message_head(topic, 0, time_ns, time_ns, len(content)) + bytes(content)
                    for topic, time_ns, content, _ in found)
                sizes = np.array([DATA_AT + len(row[2]) for row in found], np.int64)
                yield Batch(np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes, others)
                others = []
                progress(found[-1][3] / last)
            if others:
                yield Batch(np.zeros(0, np.uint8), np.zeros(0, np.int64), others)
            yield mcap.End()
    except (sqlite3.Error, struct.error, TypeError) as error:
        if isinstance(error, sqlite3.DatabaseError) and 'not a database' in str(error):
            raise ConfigurationError(f'{path}: not a bag in sqlite3: {error}') from None
        yield mcap.Cut(0, f'it is damaged ({error}): what follows is missing')


def inflate(batch: Batch, chosen: Offsets) -> Batch:
    """
    Return messages that rosbag2 compressed one by one, decompressed.

    :param chosen: their offsets in the batch; those that are not compressed stay as they are.
    """
    pieces, sizes = [], []
    data = batch.data.tobytes()
    for at in chosen.tolist():
        end = at + 9 + int.from_bytes(data[at + 1:at + 9], 'little')
        content = data[at + DATA_AT:end]
        if content.startswith(_ZSTD_MAGIC) and zstandard is not None:
            with contextlib.suppress(zstandard.ZstdError):
                content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        pieces.append(data[at:at + 1] + struct.pack('<Q', 22 + len(content))
                      + data[at + 9:at + DATA_AT] + content)
        sizes.append(len(pieces[-1]))
    lengths = np.array(sizes, np.int64)
    return Batch(np.frombuffer(b''.join(pieces), np.uint8), np.cumsum(lengths) - lengths, [])
