# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write bags of which a killed recorder loses less than a second; repair bags.

A bag is a folder NAME with NAME.mcap and metadata.yaml, in the layout of ``ros2 bag``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import contextlib
import fcntl
import itertools
import os
from pathlib import Path
import tempfile
from typing import IO, NamedTuple, Optional
import zlib

from optitrack_vrpn import __version__
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.bag_read_io import compressor, find_file, read_records
from optitrack_vrpn.takes.mcap_read_io import Damage
from optitrack_vrpn.takes.record import mcap_format as mcap
from optitrack_vrpn.takes.record.bag_metadata import (
    bag_metadata, channel_metadata, dump, topic_of_channel, TopicMetadata)
from optitrack_vrpn.takes.record.spool_io import check_exists

LIBRARY = f'optitrack_vrpn {__version__}'
#: Name of the metadata record with the events of the recording.
RECORDER = 'optitrack_vrpn'
#: A chunk ends at this size or at this age (ns). Chosen: the size compresses well, and a killed
#: recorder loses this time.
_CHUNK_SIZE = 1 << 20
_CHUNK_NS = 400_000_000
_COPY = 1 << 20


class NewTopic(NamedTuple):
    """
    A topic of a bag, written before its messages.

    :ivar channel_id: its channel, not yet used.
    :ivar definition: of its type, see ``definitions``.
    :ivar encoding: of the definition, 'ros2msg' or 'ros2idl'.
    """

    channel_id: int
    metadata: TopicMetadata
    definition: str
    encoding: str = 'ros2msg'


class BagWriter:
    """
    Write one bag; not thread-safe.

    :param folder: the folder to create; must not exist.
    :param compression: see ``compressor``.
    :ivar remedy: for a file that could not be closed.
    :ivar messages: number of messages, including the open chunk.
    :ivar size: size of the file (bytes).
    :raises ConfigurationError: if the folder exists or cannot be created.
    """

    remedy = 'remove the cause, then repair it with record --recover'

    def __init__(self, folder: Path, compression: str = 'auto') -> None:
        self._compression, self._compress = compressor(compression)
        self.folder = folder
        self.path = folder / f'{folder.name}.mcap'
        try:
            folder.mkdir(parents=True)
            # Unbuffered: written data survive the end of this process.
            self._file: IO[bytes] = open(self.path, 'xb', buffering=0)
            self._index: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)
            with contextlib.suppress(OSError):    # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)    # see ``recover``
        except FileExistsError:
            raise ConfigurationError(
                f'{folder} exists already: choose another name, or remove it') from None
        except OSError as error:
            raise ConfigurationError(f'cannot create {folder}: {error.strerror}') from None
        self.size = self._index_size = 0
        self.messages = 0
        self._chunk = mcap.ChunkBuilder()
        self._chunk_began_ns = 0
        self._chunks = 0
        self._schemas: dict[str, mcap.Schema] = {}
        self._channels: list[mcap.Channel] = []
        self._topics: list[TopicMetadata] = []
        self._counts: dict[int, int] = {}
        self._start_ns, self._end_ns = 0, 0
        self._write(mcap.header(LIBRARY))

    def _add(self, new: NewTopic) -> None:
        topic = new.metadata
        schema = self._schemas.get(topic.type_name)
        if schema is None:
            schema = mcap.Schema(len(self._schemas) + 1, topic.type_name, new.encoding,
                                 new.definition.encode())
            self._schemas[topic.type_name] = schema
            self._chunk.add_record(mcap.schema(schema))
        channel = mcap.Channel(
            new.channel_id, schema.id, topic.name, 'cdr', channel_metadata(topic))
        self._channels.append(channel)
        self._topics.append(topic)
        self._counts[channel.id] = 0
        self._chunk.add_record(mcap.channel(channel))

    def write(self, item: mcap.Message | NewTopic, now_ns: int) -> None:
        """
        Write a message or add a topic; ``tick`` ends chunks by their age.

        :param now_ns: on a monotonic clock, greater than 0.
        :raises OSError: if the disk is full or fails; ``close`` can still be called.
        """
        if item.__class__ is NewTopic:
            self._add(item)
            return
        if not self._chunk_began_ns:
            self._chunk_began_ns = now_ns
        chunk = self._chunk
        chunk.add(item)  # type: ignore[arg-type]
        self.messages += 1
        if chunk.size >= _CHUNK_SIZE:
            self.flush()

    def tick(self, now_ns: int) -> None:
        """
        Write the open chunk if it is old enough; call it several times per second.

        :param now_ns: present time (ns) on a monotonic clock.
        :raises OSError: if the disk is full or fails.
        """
        if self._chunk_began_ns and now_ns - self._chunk_began_ns >= _CHUNK_NS:
            self.flush()

    def flush(self) -> None:
        """
        Write the open chunk.

        :raises OSError: if the disk is full or fails; then the chunk is lost.
        """
        chunk, self._chunk = self._chunk, mcap.ChunkBuilder()
        self._chunk_began_ns = 0
        if not chunk.size:
            return
        counts = chunk.counts
        content = chunk.content()
        data, index = chunk.records(
            content, self._compress(content), self._compression, self.size)
        try:
            _append(self._index, index, self._index_size)
            self._write(data)
        except OSError:
            self.messages -= sum(counts.values())
            _truncate(self._index, self._index_size)
            raise
        self._index_size += len(index)
        if not counts:
            return
        start_ns, end_ns = chunk.span_ns
        self._start_ns = min(self._start_ns, start_ns) if self._end_ns else start_ns
        self._end_ns = max(self._end_ns, end_ns)
        self._chunks += 1
        for channel_id, count in counts.items():
            self._counts[channel_id] += count

    def sync(self) -> None:
        """
        Flush the written data to the disk, against power failures; may take long.

        :raises OSError: if the disk fails or the file was removed or renamed.
        """
        check_exists(self._file, self.path)
        os.fdatasync(self._file.fileno())

    def close(self, notes: Optional[Mapping[str, str]] = None) -> None:
        """
        Write the index and metadata.yaml.

        :param notes: events of the recording, stored in the file.
        :raises OSError: if the disk has no space for the index; ``recover`` can create it later.
        """
        problem: Optional[OSError] = None
        try:
            self.flush()
        except OSError as error:
            problem = error
        try:
            self._finish(notes or {})
        finally:
            self._file.close()
            self._index.close()
        if problem is not None:
            raise problem

    def _finish(self, notes: Mapping[str, str]) -> None:
        described = bag_metadata(
            self.path.name, [(topic, self._counts[channel.id])
                             for topic, channel in zip(self._topics, self._channels)],
            self._start_ns, self._end_ns, os.environ.get('ROS_DISTRO', 'unknown'), notes)
        rows = [mcap.Metadata(RECORDER, notes)] if notes else []
        rows.append(mcap.Metadata('rosbag2', {
            'serialized_metadata': dump(described['rosbag2_bagfile_information'])}))
        places = []
        for row in rows:
            data = mcap.metadata(row)
            places.append((row, self.size, len(data)))
            self._write(data)
        self._write(mcap.data_end())
        self._write_summary(places)
        with contextlib.suppress(OSError):
            os.fsync(self._file.fileno())
        temporary = self.folder / '.metadata.yaml'
        temporary.write_text(dump(described), encoding='utf-8')
        temporary.replace(self.folder / 'metadata.yaml')

    def _write_summary(self, places: list[tuple[mcap.Metadata, int, int]]) -> None:
        begin, crc = self.size, 0
        self._index.seek(0)
        for piece in itertools.chain(
                map(mcap.schema, self._schemas.values()), map(mcap.channel, self._channels),
                [mcap.statistics(len(self._schemas), self._counts, len(places), self._chunks,
                                 self._start_ns, self._end_ns)],
                iter(lambda: self._index.read(_COPY), b''),
                itertools.starmap(mcap.metadata_index, places)):
            crc = zlib.crc32(piece, crc)
            self._write(piece)
        self._write(mcap.footer(begin, crc))

    def _write(self, data: bytes) -> None:
        """Write all data or none."""
        _append(self._file, data, self.size)
        self.size += len(data)


def _append(file: IO[bytes], data: bytes, size: int) -> None:
    """Write all data at the end of a file of this size, or none."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest):]
    except OSError:
        _truncate(file, size)
        raise


def _truncate(file: IO[bytes], size: int) -> None:
    with contextlib.suppress(OSError):
        file.truncate(size)
        file.seek(size)


class Repair(NamedTuple):
    """
    Result of a repair.

    :ivar messages: number of messages that were saved.
    :ivar reason: what was wrong with the file.
    :ivar lost: messages in the file that could not be saved; '' if all were.
    """

    messages: int
    reason: str
    lost: str


def recover(
    path: Path, progress: Callable[[float], None] = lambda share: None,
) -> tuple[Path, Repair]:
    """
    Repair a bag that was not closed: create its index and metadata.yaml.

    The file is copied and replaced; the damaged file is kept beside it as NAME.mcap.broken.

    :param path: the bag's folder or file.
    :param progress: called with the fraction that was copied, 0 to 1.
    :returns: the repaired file and the result; its reason is '' if the bag was complete, which is
        then left unchanged.
    :raises ConfigurationError: if it is not an MCAP file or the copy cannot be created.
    """
    source = find_file(path, '.mcap')
    try:
        with open(source, 'rb') as file:
            _check_not_recorded(file, source)
            file.seek(-min(len(mcap.MAGIC), os.fstat(file.fileno()).st_size), os.SEEK_END)
            complete = file.read() == mcap.MAGIC and not any(
                isinstance(row, (mcap.Cut, Damage)) or (isinstance(row, mcap.End) and row.missing)
                for row in read_records(source))
            if complete and (source.parent / 'metadata.yaml').is_file():
                return source, Repair(0, '', '')
            with tempfile.TemporaryDirectory(
                    prefix='.recover-', dir=source.parent, ignore_cleanup_errors=True) as scratch:
                writer = BagWriter(Path(scratch) / source.stem)
                reason, lost = _copy(source, writer, progress)
                reason = reason or 'its index or metadata.yaml is missing'
                writer.close({'recovered': reason})
                source.rename(source.with_suffix('.mcap.broken'))
                writer.path.rename(source)
                (writer.folder / 'metadata.yaml').replace(source.parent / 'metadata.yaml')
    except OSError as error:
        raise ConfigurationError(f'cannot repair {source}: {error.strerror or error}') from None
    return source, Repair(writer.messages, reason, lost)


def _check_not_recorded(file: IO[bytes], source: Path) -> None:
    """Check that no recorder writes a file, which would go on in the file that is put aside."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(
            f'{source} is being recorded: end its recorder first, which closes it') from None
    except OSError:
        pass    # a file system without locks


def _copy(
    source: Path, writer: BagWriter, progress: Callable[[float], None],
) -> tuple[str, str]:
    """Copy all readable records; return what is wrong, and what of the file was lost, or ''."""
    problems: dict[str, int] = {}
    missing = unknown = 0
    torn = False
    schemas: dict[int, mcap.Schema] = {}
    channels: dict[int, int] = {}
    now_ns = 0
    for row in read_records(source, progress):
        if isinstance(row, mcap.Message) and row.channel_id not in channels:
            unknown += 1
        elif isinstance(row, mcap.Message):
            # Use the message time as the present, so that chunks are cut as in a live recording.
            now_ns = max(now_ns, row.log_time_ns)
            writer.write(row._replace(channel_id=channels[row.channel_id]), now_ns)
            writer.tick(now_ns)
        elif isinstance(row, mcap.Schema):
            schemas[row.id] = row
        elif isinstance(row, mcap.Channel) and row.id not in channels and row.schema_id in schemas:
            schema = schemas[row.schema_id]
            channels[row.id] = len(channels) + 1
            writer.write(NewTopic(
                channels[row.id], topic_of_channel(row.topic, schema.name, row.metadata),
                schema.definition.decode(errors='replace'), schema.encoding), 0)
        elif isinstance(row, (mcap.Cut, Damage)):
            problems[row.reason] = problems.get(row.reason, 0) + 1
            torn = torn or isinstance(row, Damage) or row.offset < source.stat().st_size
        elif isinstance(row, mcap.End):
            missing = row.missing
    lost = '; '.join(filter(None, (
        f'{missing} messages' if missing else 'those of damaged places' if torn else '',
        f'{unknown} of topics without a description' if unknown else '')))
    return '; '.join(text if count == 1 else f'{count} times: {text}'
                     for text, count in problems.items()), lost
