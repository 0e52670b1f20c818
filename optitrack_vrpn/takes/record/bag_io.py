# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write bags of which a killed recorder loses less than a second; repair bags.

A bag is a folder NAME with NAME.mcap and metadata.yaml, in the layout of ``ros2 bag``. Its chunks
are written by the ``mcap`` package. Names and types of the topics are in the chunk of the first
message, in copies outside of chunks, and in the index at the end, so that no single damaged place
takes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import contextlib
import errno
import fcntl
import os
from pathlib import Path
import tempfile
from typing import Any, IO, NamedTuple, Optional, Union

from optitrack_vrpn import __version__
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.takes import mcap_format as mcap
from optitrack_vrpn.takes.bag_read_io import (
    find_file, is_split, read_batches, read_records, stated_messages)
from optitrack_vrpn.takes.columns import DATA_AT
from optitrack_vrpn.takes.mcap_read_io import Damage, LIBRARY
from optitrack_vrpn.takes.record.bag_metadata import (
    bag_metadata, channel_metadata, dump, topic_of_channel, TopicMetadata)

try:
    from mcap.data_stream import RecordBuilder
    from mcap.records import Channel, Schema
    from mcap.writer import CompressionType, Writer
except ImportError:    # reading works without it
    Writer = None  # type: ignore[assignment, misc]

#: A chunk ends at this size (bytes) or at this age (ns). Chosen: a killed recorder loses this
#: time; the index in memory has 80 bytes for each chunk and topic, 100 MB an hour of 200 topics.
_CHUNK_SIZE = 1 << 21
_CHUNK_NS = 600_000_000
#: Chosen: chunks behind which the description of a new topic is repeated.
_REPEATED = 2
#: A size (bytes) that no chunk reaches: this module ends the chunks.
_ANY_SIZE = 1 << 62


class NewTopic(NamedTuple):
    """
    A topic of a bag, written before its messages.

    :ivar channel_id: its channel, not yet used.
    :ivar definition: of its type, see ``definitions``.
    :ivar encoding: of the definition, 'ros2msg' or 'ros2idl'.
    :ivar message_encoding: of its messages.
    """

    channel_id: int
    metadata: TopicMetadata
    definition: str
    encoding: str = 'ros2msg'
    message_encoding: str = 'cdr'


#: What is written.
Item = Union[mcap.Message, NewTopic]


class BagWriter:
    """
    Write one bag; not thread-safe.

    :param folder: the folder to create; a name that ends with .mcap gives this file alone, without
        metadata.yaml. Must not exist.
    :param compression: 'zstd', 'lz4' or 'none'.
    :ivar remedy: for a file that could not be closed.
    :ivar messages: number of messages, including the open chunk.
    :ivar size: size of the file (bytes).
    :raises ConfigurationError: if the folder exists or cannot be created.
    :raises BackendUnavailableError: without the ``mcap`` package.
    """

    remedy = 'remove the cause, then repair it with record --recover'

    def __init__(self, folder: Path, compression: str = 'zstd') -> None:
        if Writer is None or not hasattr(Writer, 'flush'):
            raise BackendUnavailableError(
                'recording needs the Python package mcap, 1.6 or later: pip install "mcap>=1.6"')
        self._bare = folder.suffix == '.mcap'
        self.folder = folder.parent if self._bare else folder
        self.path = folder if self._bare else folder / f'{folder.name}.mcap'
        try:
            self.folder.mkdir(parents=True, exist_ok=self._bare)
            # Unbuffered: written data survive the end of this process.
            self._file = _WholeWrites(open(self.path, 'xb', buffering=0))
        except FileExistsError:
            raise ConfigurationError(
                f'{folder} exists already: choose another name, or remove it') from None
        except OSError as error:
            raise ConfigurationError(f'cannot create {folder}: {error.strerror}') from None
        with contextlib.suppress(OSError):    # a file system without locks
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)    # see ``recover``
        self.messages = 0
        file: Any = self._file
        self._writer: Any = Writer(
            file, _ANY_SIZE, CompressionType[compression.upper()], use_summary_offsets=False)
        #: Ids of schemas by type, and of channels by the ids of the caller.
        self._schemas: dict[str, int] = {}
        self._ids: dict[int, int] = {}
        self._topics: list[TopicMetadata] = []
        self._counts: list[int] = [0]
        #: Schemas and channels as records, with the chunk before which they are new.
        self._described: list[tuple[int, bytes]] = []
        self._chunks = 0
        #: Size (bytes), messages and begin (ns) of the open chunk.
        self._chunk_size = self._chunk_messages = self._chunk_began_ns = 0
        self._start_ns = self._end_ns = 0
        self._failed = False
        self._writer.start('ros2', f'{LIBRARY} {__version__}')

    @property
    def size(self) -> int:
        """Return the size of the file (bytes)."""
        return self._file.tell()

    def _add(self, new: NewTopic) -> None:
        topic, writer = new.metadata, self._writer
        builder: Any = RecordBuilder()
        schema = self._schemas.get(topic.type_name, 0)
        if topic.type_name and not schema:
            text = new.definition.encode()
            schema = writer.register_schema(topic.type_name, new.encoding, text)
            self._schemas[topic.type_name] = schema
            Schema(schema, text, new.encoding, topic.type_name).write(builder)
        metadata = channel_metadata(topic) if topic.type_name else {}
        channel = writer.register_channel(topic.name, new.message_encoding, schema, metadata)
        Channel(channel, topic.name, new.message_encoding, metadata, schema).write(builder)
        self._ids[new.channel_id] = channel
        self._topics.append(topic)
        self._counts.append(0)
        self._described.append((self._chunks, builder.end()))

    def write(self, item: Item, now_ns: int) -> None:
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
        message: mcap.Message = item  # type: ignore[assignment]
        number, sequence, log_ns, publish_ns, data = message
        channel = self._ids[number]
        self._writer.add_message(channel, log_ns, data, publish_ns, sequence & 0xFFFFFFFF)
        self._counts[channel] += 1
        self.messages += 1
        self._chunk_messages += 1
        self._chunk_size += DATA_AT + len(data)
        if not self._start_ns or log_ns < self._start_ns:
            self._start_ns = log_ns
        if log_ns > self._end_ns:
            self._end_ns = log_ns
        if self._chunk_size >= _CHUNK_SIZE:
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
        Write the open chunk, and behind it the descriptions of topics.

        Those of new topics are repeated, and those of all behind the first, second, fourth, eighth
        ... chunk.

        :raises OSError: if the disk is full or fails; then the chunk is lost, and the file can be
            repaired but not closed.
        """
        messages, self._chunk_messages = self._chunk_messages, 0
        self._chunk_size = self._chunk_began_ns = 0
        if not messages:
            return
        try:
            self._writer.flush()
        except OSError:
            self._failed = True
            self.messages -= messages
            raise
        self._chunks += 1
        everything = not self._chunks & (self._chunks - 1)
        self._put(b''.join(record for before, record in self._described
                           if everything or self._chunks <= before + _REPEATED))

    def _put(self, records: bytes) -> None:
        try:
            self._file.write(records)
        except OSError:
            self._failed = True
            raise

    def sync(self) -> None:
        """
        Flush the written data to the disk, against power failures; may take long.

        :raises OSError: if the disk fails or the file was removed or renamed.
        """
        _check_exists(self._file.fileno(), self.path)
        os.fdatasync(self._file.fileno())

    def close(self, notes: Optional[Mapping[str, str]] = None) -> None:
        """
        Write the index and metadata.yaml.

        :param notes: events of the recording, stored in the file.
        :raises OSError: if the disk has no space for it; ``recover`` can create it later.
        """
        try:
            self.flush()
            if self._failed:
                raise OSError(0, 'a chunk could not be written')
            self._finish(notes or {})
        finally:
            self._file.close()

    def _finish(self, notes: Mapping[str, str]) -> None:
        described = bag_metadata(
            self.path.name, list(zip(self._topics, self._counts[1:])), self._start_ns,
            self._end_ns, os.environ.get('ROS_DISTRO', 'unknown'), notes)
        if notes:
            self._writer.add_metadata(LIBRARY, dict(notes))
        if not self._bare:
            self._writer.add_metadata('rosbag2', {'serialized_metadata': dump(
                described['rosbag2_bagfile_information'])})
        self._writer.finish()
        with contextlib.suppress(OSError):
            os.fsync(self._file.fileno())
        if not self._bare:
            temporary = self.folder / '.metadata.yaml'
            temporary.write_text(dump(described), encoding='utf-8')
            temporary.replace(self.folder / 'metadata.yaml')


def _check_exists(fileno: int, path: Path) -> None:
    """
    Check that an open file is still where it was created.

    :raises OSError: if it was removed or renamed; what is written to it is lost, or not found.
    """
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(fileno), os.stat(path)):
            return
    raise OSError(errno.ENOENT, f'{path} was removed, renamed or moved')


class _WholeWrites:
    """A file of which each write is complete or leaves nothing."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._size = file, 0
        self.fileno = file.fileno
        self.close = file.close

    def tell(self) -> int:
        """Return the size."""
        return self._size

    def flush(self) -> None:
        """Do nothing: the file is not buffered."""

    def write(self, data: bytes) -> int:
        """
        Write all data.

        :raises OSError: if the disk has no space for it; then none was written.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest):]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise
        self._size += len(data)
        return len(data)


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
    stated, _ = stated_messages(source, [source])
    _, absent = stated_messages(path, [source])
    gone = f'{", ".join(absent)}, which metadata.yaml lists, is not there' if absent else ''
    described = (source.parent / 'metadata.yaml').is_file()
    is_bag = described or path.is_dir() or source.parent.name == source.stem
    try:
        with open(source, 'rb') as file:
            _check_not_recorded(file, source)
            if (described or not is_bag) and _is_complete(file, source):
                return source, Repair(0, '', gone)
            with tempfile.TemporaryDirectory(
                    prefix='.recover-', dir=source.parent, ignore_cleanup_errors=True) as scratch:
                writer = BagWriter(Path(scratch) / (source.stem if is_bag else source.name))
                reason, lost = _copy(source, writer, progress)
                reason = reason or 'its index or metadata.yaml is missing'
                counted = (f'{stated - writer.messages} of the {stated} messages that its '
                           'metadata.yaml counted are missing'
                           if stated > writer.messages else '')
                writer.close({'recovered': '; '.join(filter(None, (reason, counted)))})
                source.rename(source.with_suffix('.mcap.broken'))
                writer.path.rename(source)
                if is_bag and not is_split(source.parent):
                    (writer.folder / 'metadata.yaml').replace(source.parent / 'metadata.yaml')
    except OSError as error:
        raise ConfigurationError(f'cannot repair {source}: {error.strerror or error}') from None
    return source, Repair(
        writer.messages, reason, '; '.join(filter(None, (lost, counted, gone))))


def _is_complete(file: IO[bytes], source: Path) -> bool:
    file.seek(-min(len(mcap.MAGIC), os.fstat(file.fileno()).st_size), os.SEEK_END)
    return file.read() == mcap.MAGIC and not any(
        isinstance(row, (mcap.Cut, Damage)) or (isinstance(row, mcap.End) and bool(row.missing))
        for row in read_batches(source))


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
    schemas: dict[int, mcap.Schema] = {0: mcap.Schema(0, '', '', b'')}
    channels: dict[int, int] = {}
    now_ns = 0
    for row in read_records(source, progress):
        if isinstance(row, mcap.Message) and row.channel_id not in channels:
            unknown += 1
        elif isinstance(row, mcap.Message):
            # Use the message time as the present, so that chunks are cut as in a live recording.
            now_ns = max(now_ns, row.log_time_ns, 1)
            writer.write(row._replace(channel_id=channels[row.channel_id]), now_ns)
            writer.tick(now_ns)
        elif isinstance(row, mcap.Schema):
            schemas[row.id] = row
        elif isinstance(row, mcap.Channel) and row.id not in channels and row.schema_id in schemas:
            schema = schemas[row.schema_id]
            channels[row.id] = len(channels) + 1
            writer.write(NewTopic(
                channels[row.id], topic_of_channel(row.topic, schema.name, row.metadata),
                schema.definition.decode(errors='replace'), schema.encoding, row.encoding), 1)
        elif isinstance(row, (mcap.Cut, Damage)):
            problems[row.reason] = problems.get(row.reason, 0) + 1
            torn = torn or isinstance(row, Damage) or row.offset < source.stat().st_size
            missing += row.messages if isinstance(row, Damage) else 0
        elif isinstance(row, mcap.End):
            missing = max(missing, row.missing)
    lost = '; '.join(filter(None, (
        f'{missing} messages' if missing else 'those of damaged places' if torn else '',
        f'{unknown} of topics without a description' if unknown else '')))
    return '; '.join(text if count == 1 else f'{count} times: {text}'
                     for text, count in problems.items()), lost
