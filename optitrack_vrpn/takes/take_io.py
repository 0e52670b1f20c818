# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read a take: a bag of this package or of ``ros2 bag``, a raw recording, Motive's CSV export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
import re
import sys
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.takes import mcap_format as mcap
from optitrack_vrpn.takes.bag_read_io import (
    BAGS, check_content, find_files, inflated, read_batches, stated_messages)
from optitrack_vrpn.takes.cdr import decode, parse_definition, Types
from optitrack_vrpn.takes.columns import (
    ColumnBatch, Frame, gather, PoseColumns, POSES, Poses, ROW, Rows, take_rows, TF)
from optitrack_vrpn.takes.mcap_read_io import Damage, LIBRARY
from optitrack_vrpn.takes.motive_csv import is_motive_csv, parse_motive_csv
from optitrack_vrpn.takes.record.raw_events import of_one_protocol, stamped
from optitrack_vrpn.takes.record.raw_read_io import is_raw, load_raw
from optitrack_vrpn.takes.rows_io import Scratch, Stored, StoredRows
from optitrack_vrpn.takes.take import ClockRow, LeftOut, StateRow, Take, TakeBody
from optitrack_vrpn.takes.topics import body_of
from optitrack_vrpn.takes.trajectory import Trajectory
from optitrack_vrpn.takes.trajectory_text import parse_trajectory

_STATUS = 'diagnostic_msgs/msg/DiagnosticStatus'
_ARRAY = 'diagnostic_msgs/msg/DiagnosticArray'
#: Instead of the name of a topic that a file does not describe.
_UNKNOWN = 'topics without a description'
#: Poses in memory before they are stored.
_HELD = 65536
#: Frames of TF of which the parents are noted, and messages of a batch that are sampled for them.
_MOST_FRAMES, _SAMPLED = 1000, 8
#: Poses of a raw recording or a CSV that are stored at once.
_BLOCK = 1000


def load_take(
    path: Path, estimate: str = '', progress: Callable[[float], None] = lambda share: None,
) -> Take:
    """
    Read a take.

    :param path: a bag's folder or file, a raw recording, or a .csv of Motive.
    :param estimate: a topic whose poses are kept whatever they are; for a transform TOPIC:CHILD.
    :param progress: called with the fraction of a bag that was read, 0 to 1.
    :raises ConfigurationError: if it cannot be read.
    """
    paths = find_files(path, *BAGS)
    given, name, path = path, (path if len(paths) > 1 else paths[0]).stem, paths[0]
    try:
        if is_raw(path):
            return _load_raw(path, progress)
        if path.suffix.lower() == '.csv':
            return _load_csv(path)
        return _load_bag(given, paths, name, estimate, progress)
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None


def load_estimate(path: Path) -> Trajectory:
    """
    Read a trajectory in the format of TUM, EuRoC or TUM-VI.

    :raises ConfigurationError: if it cannot be read.
    """
    check_content(path)
    try:
        with open(path, encoding='utf-8-sig') as file:
            return parse_trajectory(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: {error}') from None


def _load_csv(path: Path) -> Take:
    with open(path, newline='', encoding='utf-8-sig', errors='replace') as file:
        first = file.readline()
        if not is_motive_csv(first):
            raise ConfigurationError(
                f'{path}: is not a CSV export as Motive writes it, in UTF-8, separated '
                'by commas, with "Format Version" at its begin; spreadsheets can change all of '
                'this when they save it')
        file.seek(0)
        export = parse_motive_csv(file, str(path))
        take, scratch = Take(export.take or str(path), 'motive csv'), Scratch()
        poses = {name: StoredRows(scratch) for name in export.bodies}
        for name, rows in _in_blocks((name, (stamp_ns, stamp_ns, pose))
                                     for name, stamp_ns, pose in export.poses):
            poses[name].add(rows)
    take.cut, take.shared_names = export.cut, export.shared
    _keep_bodies(take, poses)
    return take


class _Topics:
    """
    Poses and states of a bag, topic by topic, while it is read.

    :param estimate: a topic, or a topic of transforms, a colon and a child frame, whose poses are
        kept in any case.
    """

    def __init__(self, take: Take, estimate: str) -> None:
        self._take, self._estimate = take, estimate
        self._scratch = Scratch()
        self._schemas: dict[int, mcap.Schema] = {}
        #: One for all topics of a definition; None for statuses.
        self._readers: dict[mcap.Schema, Optional[PoseColumns]] = {}
        self._numbers: dict[int, int] = {}
        self._types: dict[int, Types] = {}
        #: By channel, the number of its reader if it is wanted, else -1; None if to be decided.
        self._reader_of: Optional[npt.NDArray[np.int64]] = None
        self._random = np.random.default_rng(1)
        self._waiting: dict[tuple[str, Frame], list[Poses]] = {}
        self._held = 0
        self._last: dict[int, bytes] = {}
        #: Topic and type.
        self.channels: dict[int, tuple[str, str]] = {}
        self.poses: dict[str, tuple[str, StoredRows]] = {}
        self.states: dict[str, list[StateRow]] = {}
        #: First and last arrival of diagnostics, which come once a second and are never latched.
        self.alive_ns = (sys.maxsize, 0)

    def add(self, record: mcap.Record) -> None:
        """Take a schema, a channel or metadata."""
        take = self._take
        if isinstance(record, mcap.Schema):
            self._schemas[record.id] = record
        elif isinstance(record, mcap.Channel):
            schema = self._schemas.get(record.schema_id)
            name = schema.name if schema else ''
            if self.channels.get(record.id) == (record.topic, name):
                return
            self.flush()    # another file can give the number to another topic
            self.channels[record.id] = record.topic, name
            take.topics.setdefault(record.topic, 0)
            self._types.pop(record.id, None)
            self._reader_of = None
            if schema and name in (*POSES, _STATUS, _ARRAY):
                self._types[record.id] = types = parse_definition(
                    name, schema.definition.decode(errors='replace'), schema.encoding)
                schema = schema._replace(id=0)
                self._readers.setdefault(schema, PoseColumns(name, types) if name in POSES
                                         else None)
                self._numbers[record.id] = list(self._readers).index(schema)
        elif isinstance(record, mcap.Metadata) and record.name == LIBRARY:
            take.notes.update(record.values)

    def _is_wanted(self, topic: str, type_name: str) -> bool:
        """Return whether the messages of a topic are states, poses of bodies, or asked for."""
        if topic in (self._estimate, self._estimate.partition(':')[0]) or type_name not in POSES:
            return True
        kinds = list(POSES)
        better = kinds[:kinds.index(type_name)]
        if type_name == TF:    # of all bodies at once
            return topic != '/tf_static' and not any(
                kind in better[:2] for _, kind in self.channels.values())
        return not any(kind in better and body_of(name) == body_of(topic)
                       for name, kind in self.channels.values())

    def read(self, batch: ColumnBatch) -> None:
        """Take the messages of a batch."""
        topics = self._take.topics
        if self._reader_of is None:
            self._reader_of = np.full(1 << 16, -1)
            for number, (topic, kind) in self.channels.items():
                if number in self._types and self._is_wanted(topic, kind):
                    self._reader_of[number] = self._numbers[number]
        numbers = batch.field(9, '<u2')
        for number, count in enumerate(np.bincount(numbers.astype(np.int64)).tolist()):
            if count:
                topic, _ = self.channels.get(number, (_UNKNOWN, ''))
                topics[topic] = topics.get(topic, 0) + count
                self._unread(topic, count * (topic == _UNKNOWN))
        self._sample_frames(batch, numbers.astype(np.int64))
        readers = self._reader_of[numbers]
        for index, reader in enumerate(self._readers.values()):
            chosen = batch.offsets[readers == index]
            if not len(chosen):
                continue
            of_reader = inflated(batch._replace(offsets=chosen))
            if reader is None:
                self._read_statuses(of_reader)
                continue
            found, unread = reader.read(of_reader, of_reader.offsets)
            for at in unread:
                number = int.from_bytes(of_reader.data[at + 9:at + 11].tobytes(), 'little')
                self._unread(self.channels[number][0], 1)
            for frame, poses in found.items():
                self._waiting.setdefault((reader.type_name, frame), []).append(poses)
                self._held += len(poses[1])
        if self._held >= _HELD:
            self.flush()

    def _sample_frames(self, batch: ColumnBatch, numbers: npt.NDArray[np.int64]) -> None:
        """Note the parents of frames, from some messages of TF of each length."""
        for number, (_, kind) in self.channels.items():
            if kind != TF or number not in self._types:
                continue
            of_tf = batch.offsets[numbers == number]
            reader = [*self._readers.values()][self._numbers[number]]
            if reader is None or not len(of_tf):
                continue
            sizes = gather(batch.data, of_tf + 1, '<u8').astype(np.int64) - 22
            _, firsts = np.unique(sizes, return_index=True)
            # Messages of two publishers can have one length: random ones find both.
            chosen = np.concatenate((firsts[:_SAMPLED], self._random.integers(
                len(sizes), size=_SAMPLED)))
            for child, parent in reader.frames(batch, of_tf[np.unique(chosen)]):
                if len(self._take.parents) < _MOST_FRAMES:
                    self._take.parents.setdefault(child.lstrip('/'), set()).add(
                        parent.lstrip('/'))

    def flush(self) -> None:
        """Store the poses that wait, by topic and in the order of the file."""
        for (kind, (child, ned)), parts in self._waiting.items():
            channels, rows = map(np.concatenate, zip(*parts))
            names, places = np.unique([self.channels[number][0] for number in np.unique(
                channels).tolist()], return_inverse=True)
            # several channels can have one topic
            topics = places[np.searchsorted(np.unique(channels), channels)]
            order = np.argsort(topics, kind='stable')
            begins = np.searchsorted(topics[order], np.arange(1, len(names)))
            for topic, of_topic in zip(names.tolist(), np.split(
                    take_rows(rows, order), begins)):
                name = f'{topic}:{child}' if child else topic
                # the bodies of a node are in ENU as well
                if not ned or name == self._estimate:
                    if name not in self.poses:
                        self.poses[name] = kind, StoredRows(self._scratch)
                    self.poses[name][1].add(of_topic)
        self._waiting, self._held = {}, 0

    def _read_statuses(self, batch: ColumnBatch) -> None:
        numbers, times = batch.field(9, '<u2').tolist(), batch.field(15, '<u8').tolist()
        for number, time_ns, content in zip(numbers, times, batch.contents()):
            topic, kind = self.channels[number]
            if kind == _STATUS and self._last.get(number) == content:
                continue    # most states do not change
            self._last[number] = content
            try:
                made = decode(content, self._types[number], kind)
                if kind == _ARRAY:
                    self.alive_ns = min(self.alive_ns[0], time_ns), max(self.alive_ns[1], time_ns)
                    for status in made['status'].values():
                        _take_diagnostics(self._take, StatusReport.decoded(status), time_ns)
                    continue
                status, body = StatusReport.decoded(made), body_of(topic)
                if status.body:
                    _add_state(self.states.setdefault(body, []), _state(status, time_ns))
                    if 'motive_name' in status.values:
                        self._take.motive_names[body] = status.values['motive_name']
            except (ValueError, KeyError):
                self._unread(topic, 1)

    def _unread(self, topic: str, count: int) -> None:
        if count:
            self._take.unread[topic] = self._take.unread.get(topic, 0) + count


def _load_bag(
    given: Path, paths: Sequence[Path], name: str, estimate: str,
    progress: Callable[[float], None],
) -> Take:
    take = Take(name, 'bag')
    topics = _Topics(take, estimate)
    missing = lost = 0
    for number, path in enumerate(paths):
        def of_all(share: float, number: int = number) -> None:
            progress((number + share) / len(paths))

        for item in read_batches(path, of_all):
            if isinstance(item, ColumnBatch):
                for record in item.others:
                    topics.add(record)
                topics.read(item)
            elif isinstance(item, Damage):
                take.damaged.append((item.reason, item.span_ns))
                lost += item.messages
            elif isinstance(item, mcap.Cut):
                take.cut = take.cut or item.reason
            else:
                missing += item.missing
    topics.flush()
    progress(1.0)
    stated, absent = stated_messages(given, paths)
    take.missing = max(missing, lost, stated - sum(take.topics.values()))
    if take.missing:
        take.damaged += [(f'{file}, which metadata.yaml lists, is not there', (0, 0))
                         for file in absent]
    poses, states = topics.poses, topics.states
    _keep(take, {topic: rows for topic, (_, rows) in poses.items()},
          _body_topics(poses, states), states)
    take.unseen = [name for name in states if name not in take.bodies]
    first_ns, last_ns = topics.alive_ns
    if take.arrivals_ns is not None and last_ns:
        begin_ns, end_ns = take.arrivals_ns
        take.silent_s = ((begin_ns - first_ns) / NS_PER_S, (last_ns - end_ns) / NS_PER_S)
    take.put_on_stamps()
    return take


def _body_topics(
    poses: Mapping[str, tuple[str, StoredRows]], states: Mapping[str, list[StateRow]],
) -> dict[str, str]:
    """
    Choose the topic of each body; other poses in its namespace can be targets or estimates.

    Bodies are those whose state the node publishes; without any state, all that have a pose of
    the most specific type in the bag.

    :returns: names of the bodies, by topic.
    """
    kinds = list(POSES)
    best = min((kinds.index(kind) for kind, rows in poses.values() if len(rows)), default=0)
    chosen: dict[str, tuple[tuple[int, bool, int], str]] = {}
    for topic, (kind, rows) in poses.items():
        name = topic.partition(':')[2] if kind == TF else body_of(topic)
        rank = (-kinds.index(kind), topic.endswith('/pose'), rows.count), topic
        if name in states if states else kinds.index(kind) == best:
            chosen[name] = max(rank, chosen.get(name, rank))
    return {topic: name for name, (_, topic) in chosen.items()}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts body_2 before body_10."""
    return [(int(part), '') if part.isdecimal() else (-1, part)
            for part in re.split(r'(\d+)', name)]


def _add_state(rows: list[StateRow], row: StateRow) -> None:
    """Append a state that differs from the last one; most states of an hour do not."""
    if not rows or rows[-1][1:] != row[1:]:
        rows.append(row)


def _keep(
    take: Take, poses: Mapping[str, StoredRows], bodies: Mapping[str, str],
    states: Mapping[str, list[StateRow]],
) -> None:
    """
    Add bodies and estimates to a take; they are read from disk when they are used.

    :param poses: by topic.
    :param bodies: names of the bodies, by topic.
    """
    makers, trajectories, spans = {}, {}, []
    for topic, rows in sorted(poses.items(), key=lambda item: _natural(item[0])):
        if rows.left_out:
            take.left_out[topic] = LeftOut(rows.left_out, rows.count, rows.reason)
        if not len(rows):
            continue
        trajectories[topic] = partial(_trajectory, rows)
        if topic in bodies:
            name = bodies[topic]
            makers[name] = partial(TakeBody, name, rows, states.get(name, []))
            spans.append(rows.span())
    take.bodies, take.estimates = Stored(makers), Stored(trajectories)
    if spans:
        firsts, lasts = zip(*spans)
        (take.begin_ns, begin_ns), (take.end_ns, end_ns) = map(min, zip(*firsts)), map(
            max, zip(*lasts))
        take.arrivals_ns = begin_ns, end_ns


def _keep_bodies(take: Take, poses: Mapping[str, StoredRows]) -> None:
    """Add bodies to a take that is not a bag: each has the topic that the node would publish."""
    _keep(take, {f'/{name}/pose': rows for name, rows in poses.items()},
          {f'/{name}/pose': name for name in poses}, {})
    take.unseen = [name for name in poses if name not in take.bodies]
    take.topics.update({f'/{name}/pose': rows.count for name, rows in poses.items()})


def _trajectory(rows: StoredRows) -> Trajectory:
    return TakeBody('', rows).trajectory


def _state(status: StatusReport, time_ns: int) -> StateRow:
    return StateRow(time_ns, sys.intern(status.state), sys.intern(status.message),
                    status.count('resets') or 0)


def _number(text: Optional[str]) -> float:
    try:
        return float(text or 'nan')
    except ValueError:
        return float('nan')


def _take_diagnostics(take: Take, entry: StatusReport, time_ns: int) -> None:
    values = entry.values
    if entry.subject == 'clock' and 'offset_s' in values:
        take.stamping = values
        take.clock.append(ClockRow(
            time_ns, int(_number(values.get('epoch', '0'))), _number(values['offset_s']),
            _number(values.get('skew_ppm')), _number(values.get('uncertainty_us')),
            _number(values.get('longer_delays_us')),
            _number(values.get('longer_delays_since_s', '0'))))
    elif entry.subject == 'connection' and 'sessions' in values:
        take.connection = values
        state = entry.message.partition(':')[0].partition(' ')[0]
        if not take.links or take.links[-1][1].partition(' ')[0] != state:
            take.links.append((time_ns, state))


def _load_raw(path: Path, progress: Callable[[float], None]) -> Take:
    """Run a raw recording through the node's pipeline with its default settings."""
    recording = load_raw(path, progress)
    sessions = of_one_protocol(recording.sessions)
    take = Take(path.stem, 'raw', cut=recording.cut, damaged=recording.damaged,
                missing=recording.missing)
    pipeline = Pipeline(PipelineConfig())
    scratch = Scratch()
    poses: dict[str, StoredRows] = {}
    for name, rows in _in_blocks(
            (sample.channel.names.ros,
             (sample.stamp_ns, arrival_ns, (*sample.position, *sample.quat_xyzw)))
            for sample, arrival_ns in stamped(sessions, pipeline)):
        poses.setdefault(name, StoredRows(scratch)).add(rows)
    status = pipeline.stamps.status()
    _keep_bodies(take, poses)
    take.clock.append(ClockRow(
        take.arrivals_ns[1] if take.arrivals_ns else 0, status.epoch, status.offset_ns / 1e9,
        status.skew_ppm,
        status.uncertainty_s * 1e6))
    return take


def _in_blocks(poses: Iterable[tuple[str, tuple[Any, ...]]]) -> Iterator[tuple[str, Rows]]:
    """Collect the poses of each body to arrays."""
    waiting: dict[str, list[tuple[Any, ...]]] = {}
    for name, row in poses:
        rows = waiting.setdefault(name, [])
        rows.append(row)
        if len(rows) >= _BLOCK:
            yield name, np.array(rows, ROW)
            rows.clear()
    for name, rows in waiting.items():
        yield name, np.array(rows, ROW)
