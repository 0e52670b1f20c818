# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read bags in one pass: MCAP files and rosbag2's sqlite3, whole, split, compressed or damaged.

Messages of all of them are given as batches of MCAP records; see ``mcap_read_io``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import contextlib
import itertools
from pathlib import Path
import sqlite3
import struct
import tempfile
from typing import Any

import numpy as np
from optitrack_vrpn.cli.yaml_text import DuplicateKeyError, parse_yaml
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes import mcap_format as mcap
from optitrack_vrpn.takes.cdr import parse_definition, Types
from optitrack_vrpn.takes.columns import ColumnBatch, DATA_AT, TopicBatch
from optitrack_vrpn.takes.mcap_read_io import Damage, PACKAGES, Read, read_mcap, zstandard
import yaml

_BUFFER = 1 << 20
#: That of libyaml is ten times as fast.
_Loader: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
_ROWS = 20_000
#: Messages of a batch that are looked at for compression one by one.
_SAMPLED = 8
ZSTD_MAGIC = b'\x28\xb5\x2f\xfd'
#: First bytes, in lower case, of files that are often given instead of a recording; what to do.
_INSTEAD = (
    # A checkout without Git LFS contains it instead of a large file.
    (b'version https://git-lfs.github.com/spec/',
     'a pointer of Git LFS, not the file itself: run git lfs pull'),
    *((begin, 'a page of the web, not the file itself: download the raw file')
      for begin in (b'<!doctype html', b'<html')),
    (b'pk\3\4', 'a ZIP archive or a workbook (.xlsx): unpack it, or give the file as it was '
     'written'),
    (b'\x1f\x8b', 'compressed with gzip: unpack it with gunzip'),
    (b'\xff\xfe', 'a text in UTF-16: give the file as it was written, in UTF-8'))
#: Endings of the files of a bag, the best first.
BAGS = ('.mcap', '.mcap.zstd', '.mcap.zst', '.db3', '.db3.zstd')
#: What to do with files of other formats than those that are needed.
_OTHERS = {'.db3': 'is a bag in sqlite3; convert it to mcap with ros2 bag convert'}


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
        check_content(path)
        return path
    found = find_files(path, *endings)
    if len(found) > 1:
        raise ConfigurationError(
            f'{path}: contains {len(found)} {found[0].suffix} files; give the path of one')
    return found[0]


def find_files(path: Path, *endings: str) -> list[Path]:
    """
    Find the files of a recording, those of a split bag in their order.

    :raises ConfigurationError: if there are none, or one is not the recording itself.
    """
    if path.is_file():
        check_content(path)
        if not path.stat().st_size:
            raise ConfigurationError(f'{path}: is empty')
        return [path]
    if not path.is_dir():
        raise ConfigurationError(f'{path}: no such file or folder')
    # metadata.yaml can be older than the files, or lack the last of them
    listed = list(_described(path)[0])
    if listed and all(file.is_file() and file.name.endswith(endings) for file in listed):
        found = [listed]
    else:
        found = [files for ending in endings for files in [sorted(
            path.glob(f'*{ending}'), key=lambda file: (len(file.name), file.name))] if files]
    if found:
        for file in found[0]:
            check_content(file)
        return found[0]
    for ending, remedy in _OTHERS.items():
        if any(path.glob(f'*{ending}')):
            raise ConfigurationError(f'{path}: {remedy}')
    raise ConfigurationError(f'{path}: contains no {" or ".join(endings)} file')


def check_content(path: Path) -> None:
    """
    Check by the name and the first bytes that a file is not something else than a recording.

    :raises ConfigurationError: if it is.
    """
    if path.suffix in ('.pcap', '.pcapng'):
        raise ConfigurationError(
            f'{path}: is a capture of the network; tools/raw_from_pcap.py of the sources converts '
            'it to a raw recording')
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        begin = file.read(64).lstrip().lower()
        for other, remedy in _INSTEAD:
            if begin.startswith(other):
                raise ConfigurationError(f'{path}: is {remedy}')


def _described(folder: Path) -> tuple[dict[Path, int], int]:
    """
    Read metadata.yaml.

    :returns: the files with their numbers of messages (-1 where it is not stated), and the number
        of messages of all; nothing without a valid metadata.yaml.
    :raises ConfigurationError: if it has a key twice: which one holds is not known.
    """
    path = folder / 'metadata.yaml'
    try:
        content = parse_yaml(path.read_text(encoding='utf-8'), str(path), _Loader)
    except DuplicateKeyError as error:
        raise ConfigurationError(
            f'{error}; without the file the bag is read all the same') from None
    except (OSError, ValueError):
        return {}, 0
    with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
        row = content['rosbag2_bagfile_information']
        files = {folder / str(name): -1 for name in row['relative_file_paths']}
        total = int(row['message_count'])
        with contextlib.suppress(KeyError, TypeError, ValueError):
            files.update({folder / str(one['path']): int(one['message_count'])
                          for one in row['files']})
        return files, total
    return {}, 0


def is_split(folder: Path) -> bool:
    """Return whether metadata.yaml lists several files."""
    return len(_described(folder)[0]) > 1


def stated_messages(path: Path, files: Sequence[Path]) -> tuple[int, list[str]]:
    """
    Return what metadata.yaml tells about a recording.

    :param path: the recording as it was named: a folder, or one of its files.
    :param files: its files that were found.
    :returns: number of its messages, 0 if unknown; names of its files that are not there.
    """
    listed, total = _described(path if path.is_dir() else path.parent)
    if path.is_dir():
        return total, [file.name for file in listed if file not in files and not file.exists()]
    count = listed.get(path, 0)
    return max(count, 0) or (total if [*listed] == [path] else 0), []


def read_batches(path: Path, progress: Callable[[float], None] = lambda share: None) -> Iterator[
        Read]:
    """
    Read a file of a bag; the last item is ``End`` for a file that was closed, else ``Cut``.

    :param path: .mcap or .db3, also with .zstd behind it.
    :param progress: called with the fraction that was read, 0 to 1.
    :raises ConfigurationError: if it is no bag, or its compression is not installed.
    """
    with contextlib.ExitStack() as stack:
        name, problem = path, ''
        if path.suffix in ('.zstd', '.zst'):
            path, problem = _decompressed(path, stack)
        items: Iterator[Read]
        if path.suffix == '.db3':
            items = _read_sqlite(path, name, progress)
        else:
            file = stack.enter_context(open(path, 'rb'))
            magic = file.read(len(mcap.MAGIC))
            if magic == b'#ROSBAG ':
                raise ConfigurationError(
                    f'{name}: a bag of ROS 1; convert it (pip install rosbags): rosbags-convert '
                    f'--src {name} --dst FOLDER')
            if magic != mcap.MAGIC:
                raise ConfigurationError(
                    f'{name}: not an MCAP file{problem and ": " + problem}; give a bag (.mcap, '
                    '.db3 or their folder), a raw recording, or a CSV export of Motive')
            items = read_mcap(file, progress)
        for item in items:
            yield mcap.Cut(0, problem) if problem and isinstance(
                item, (mcap.End, mcap.Cut)) else item


def read_records(
    path: Path, progress: Callable[[float], None] = lambda share: None,
) -> Iterator[mcap.Record | Damage | mcap.End | mcap.Cut]:
    """
    Read the records of a bag one by one.

    :param progress: as for ``read_batches``.
    :raises ConfigurationError: as ``read_batches``.
    """
    for item in read_batches(path, progress):
        if not isinstance(item, ColumnBatch):
            yield item
            continue
        yield from item.others
        data = item.data.tobytes()
        for at in item.offsets.tolist():
            size = int.from_bytes(data[at + 1:at + 9], 'little')
            found = mcap.parse_record(mcap.MESSAGE, data[at + 9:at + 9 + size])
            assert found is not None
            yield found


def _decompressed(path: Path, stack: contextlib.ExitStack) -> tuple[Path, str]:
    """Decompress a file as far as possible; return the new file, and what is missing or ''."""
    if zstandard is None:
        raise ConfigurationError(f'{path}: is compressed; install {PACKAGES["zstd"]}')
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='optitrack_vrpn_')))
    frame, problem = zstandard.ZstdDecompressor().decompressobj(), ''
    with open(path, 'rb') as packed, open(folder / path.stem, 'wb') as unpacked:
        try:
            while data := packed.read(_BUFFER):
                while data:
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
                    unpacked.write(frame.decompress(data))
                    data = frame.unused_data
            if not frame.eof:
                problem = 'its compressed data are truncated: what follows is missing'
        except zstandard.ZstdError as error:
            problem = f'its compressed data are damaged ({error}): what follows is missing'
    return folder / path.stem, problem


def _read_sqlite(
    path: Path, name: Path, progress: Callable[[float], None],
) -> Iterator[Read]:
    """
    Read rosbag2's sqlite3 as records of MCAP, in the order in which they were recorded.

    The messages are read until the first error; metadata.yaml tells how many follow it.

    :param name: of the file in error messages.
    """
    try:
        uri = f'{path.resolve().as_uri()}?mode=ro'
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as base:
            base.text_factory = lambda data: data.decode(errors='replace')
            texts: dict[str, tuple[str, str]] = {}
            with contextlib.suppress(sqlite3.Error):    # from Iron on; or they are damaged
                texts = {name: (encoding, text) for name, encoding, text in base.execute(
                    'SELECT topic_type, encoding, encoded_message_definition '
                    'FROM message_definitions')}
            others: list[mcap.Record] = []
            try:
                for number, topic, kind in base.execute('SELECT id, name, type FROM topics'):
                    encoding, text = texts.get(kind, ('ros2msg', ''))
                    others += [mcap.Schema(number, kind, encoding, text.encode()),
                               mcap.Channel(number, number, topic, 'cdr', {})]
            except sqlite3.Error as error:
                if 'not a database' in str(error):
                    raise
                yield Damage(f'its list of topics is damaged ({error})', (0, 0))
            yield ColumnBatch(np.zeros(0, np.uint8), np.zeros(0, np.int64), others)
            yield from _read_rows(base, path.stat().st_size, progress)
            (result,) = base.execute('PRAGMA quick_check(1)').fetchone()
            if result != 'ok':    # a page that is empty instead of full
                yield Damage(result.replace('\n', ' '), (0, 0))
            yield mcap.End()
    except (sqlite3.Error, struct.error, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, sqlite3.DatabaseError) and 'not a database' in str(error):
            raise ConfigurationError(f'{name}: not a bag in sqlite3: {error}') from None
        yield mcap.Cut(0, f'it is damaged ({error}): what follows is missing')


def _read_rows(
    base: sqlite3.Connection, size: int, progress: Callable[[float], None],
) -> Iterator[ColumnBatch]:
    """
    Read the messages of a bag in sqlite3.

    :param size: of the file (bytes).
    :raises sqlite3.Error: at the first row that cannot be read, after those before it.
    """
    rows, done = base.execute('SELECT topic_id, timestamp, data FROM messages'), 0
    failure: Exception | None = None
    while failure is None:
        found: list[Any] = []
        try:
            found.extend(itertools.islice(rows, _ROWS))
        except sqlite3.Error as error:
            failure = error
        if not found:
            break
        wrong = next((place for place, (topic, time_ns, content) in enumerate(found)
                      if content.__class__ is not bytes or not 0 <= topic <= 0xffff
                      or time_ns < 0), None)
        if wrong is not None:
            del found[wrong:]
            failure = sqlite3.DatabaseError('a row is no message')
        sizes = np.array([DATA_AT + len(row[2]) for row in found], np.int64)
        data = b''.join(
            mcap.message_head(topic, 0, time_ns, time_ns, len(content)) + content
            for topic, time_ns, content in found)
        yield ColumnBatch(np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes, [])
        done += len(data)
        progress(min(done / size, 1.0))
    if failure is not None:
        raise failure


def read_topics(
    path: Path, wanted: Callable[[str, str], bool],
) -> Iterator[TopicBatch | Damage | mcap.Cut]:
    """
    Read the messages of some topics of a bag; those of one topic are in their order.

    :param path: a bag's folder or file.
    :param wanted: returns whether a topic is read, by its name and type.
    :raises ConfigurationError: if it cannot be read.
    """
    for file in find_files(path, *BAGS):
        schemas: dict[int, mcap.Schema] = {}
        topics: dict[int, tuple[str, str, Types]] = {}
        for item in read_batches(file):
            if not isinstance(item, ColumnBatch):
                if not isinstance(item, mcap.End):
                    yield item
                continue
            for record in item.others:
                if isinstance(record, mcap.Schema):
                    schemas[record.id] = record
                elif isinstance(record, mcap.Channel) and record.schema_id in schemas and wanted(
                        record.topic, schemas[record.schema_id].name):
                    schema = schemas[record.schema_id]
                    topics[record.id] = record.topic, schema.name, parse_definition(
                        schema.name, schema.definition.decode(errors='replace'), schema.encoding)
            numbers = item.field(9, '<u2')
            for number, topic in topics.items():
                chosen = item.offsets[numbers == number]
                if len(chosen):
                    yield TopicBatch(*topic, inflated(item._replace(offsets=chosen)))


def inflated(batch: ColumnBatch) -> ColumnBatch:
    """Decompress messages that rosbag2 compressed one by one; the first ones show whether."""
    if not any(batch.data[at + DATA_AT:at + DATA_AT + 4].tobytes() == ZSTD_MAGIC
               for at in batch.offsets[:_SAMPLED].tolist()):
        return batch
    pieces, sizes = [], []
    data = batch.data.tobytes()
    for at in batch.offsets.tolist():
        end = at + 9 + int.from_bytes(data[at + 1:at + 9], 'little')
        content = data[at + DATA_AT:end]
        if content.startswith(ZSTD_MAGIC) and zstandard is not None:
            with contextlib.suppress(zstandard.ZstdError):
                content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        pieces.append(data[at:at + 1] + struct.pack('<Q', 22 + len(content))
                      + data[at + 9:at + DATA_AT] + content)
        sizes.append(len(pieces[-1]))
    lengths = np.array(sizes, np.int64)
    return ColumnBatch(np.frombuffer(b''.join(pieces), np.uint8), np.cumsum(lengths) - lengths, [])
