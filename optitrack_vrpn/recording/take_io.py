# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read a take: a bag of this package or of ``ros2 bag``, a raw recording, Motive's CSV export."""

from __future__ import annotations

from functools import partial
from pathlib import Path
import sys
from typing import Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.pipeline import Pipeline
from optitrack_vrpn.recording import mcap_format as mcap
from optitrack_vrpn.recording.bag_io import find_file, read_records, RECORDER
from optitrack_vrpn.recording.capture_io import load_sessions
from optitrack_vrpn.recording.cdr_reader import (
    read_diagnostics, read_pose, read_status, Stamped, Status)
from optitrack_vrpn.recording.motive_csv import is_motive_csv, parse_motive_csv
from optitrack_vrpn.recording.raw_events import stamped
from optitrack_vrpn.recording.rows_io import Scratch, Stored, StoredRows
from optitrack_vrpn.recording.take import Body, ClockRow, rising, StateRow, Take
from optitrack_vrpn.recording.topics import body_of
from optitrack_vrpn.recording.trajectory import Trajectory
from optitrack_vrpn.recording.tum import parse_tum
from optitrack_vrpn.units import NS_PER_S

_POSES = ('geometry_msgs/msg/PoseStamped', 'geometry_msgs/msg/PoseWithCovarianceStamped',
          'nav_msgs/msg/Odometry')
_STATUS = 'diagnostic_msgs/msg/DiagnosticStatus'
_ARRAY = 'diagnostic_msgs/msg/DiagnosticArray'


def load_take(path: Path, estimate: Optional[str] = None) -> Take:
    """
    Read a take.

    :param path: a bag's folder or .mcap, a .pcap, or a .csv of Motive.
    :param estimate: a topic whose poses are kept even if they are those of a body in NED.
    :raises ConfigurationError: if it cannot be read.
    """
    path = find_file(path, '.mcap', '.pcap')
    try:
        if path.suffix == '.pcap':
            return _load_raw(path)
        if path.suffix.lower() == '.csv':
            return _load_csv(path)
        return _load_bag(path, estimate)
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None


def load_estimate(path: Path) -> Trajectory:
    """
    Read a trajectory in the TUM format.

    :raises ConfigurationError: if it cannot be read.
    """
    try:
        with open(path, encoding='utf-8') as file:
            return parse_tum(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: {error}') from None


def _load_csv(path: Path) -> Take:
    with open(path, newline='', encoding='utf-8-sig', errors='replace') as file:
        first = file.readline()
        if not is_motive_csv(first):
            raise ConfigurationError(
                f'{path}: is not a CSV export of Motive as Motive writes it, in UTF-8, separated '
                'by commas, with "Format Version" at its begin; spreadsheets can change all of '
                'this when they save it')
        file.seek(0)
        export = parse_motive_csv(file, str(path))
        take, scratch = Take(export.take or str(path), 'motive csv'), Scratch()
        poses = {name: StoredRows(scratch) for name in export.bodies}
        for name, stamp_ns, pose in export.poses:
            poses[name].add(stamp_ns, stamp_ns, pose)
    _keep_bodies(take, poses)
    return take


class _Topic:
    """
    Poses of one topic of a bag.

    :ivar ned: whether they are in NED; the bodies of a node are in ENU as well.
    """

    def __init__(self, type_name: str, scratch: Scratch, wanted: bool) -> None:
        self.type_name = type_name
        self.rows = StoredRows(scratch)
        self.ned = False
        self._wanted = wanted

    def add(self, row: Stamped, arrival_ns: int) -> None:
        """Append a pose that was read."""
        self.ned = self.ned or row.frame.endswith('_ned')
        if self._wanted or not self.ned or self.type_name != _POSES[0]:
            self.rows.add(row.stamp_ns, arrival_ns, row.pose)


def _load_bag(path: Path, estimate: Optional[str]) -> Take:
    take = Take(path.stem, 'bag')
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    scratch = Scratch()
    poses: dict[str, _Topic] = {}
    states: dict[str, list[StateRow]] = {}
    first_ns, last_ns = sys.maxsize, 0
    for row in read_records(path):
        if isinstance(row, mcap.Message):
            topic, type_name = channels.get(row.channel_id, ('', ''))
            take.topics[topic] = take.topics.get(topic, 0) + 1
            if type_name == _ARRAY:    # once a second, and never latched
                first_ns, last_ns = min(first_ns, row.log_time_ns), max(last_ns, row.log_time_ns)
            try:
                if type_name in _POSES:
                    if topic not in poses:
                        poses[topic] = _Topic(type_name, scratch, topic == estimate)
                    poses[topic].add(read_pose(type_name, row.data), row.log_time_ns)
                elif type_name == _STATUS:
                    status = read_status(row.data)
                    if status.name.partition(': ')[2].startswith('body '):
                        _add_state(states.setdefault(body_of(topic), []),
                                   _state(status, row.log_time_ns))
                elif type_name == _ARRAY:
                    _take_diagnostics(take, row)
            except ValueError:    # damaged, compressed one by one, or another layout
                take.unread[topic] = take.unread.get(topic, 0) + 1
        elif isinstance(row, mcap.Schema):
            schemas[row.id] = row.name
        elif isinstance(row, mcap.Channel):
            channels[row.id] = (row.topic, schemas.get(row.schema_id, ''))
            take.topics.setdefault(row.topic, 0)
        elif isinstance(row, mcap.Metadata) and row.name == RECORDER:
            take.notes.update(row.values)
        elif isinstance(row, mcap.Cut):
            take.cut = row.reason
    take.topics.pop('', None)
    _keep(take, {topic: found.rows for topic, found in poses.items()},
          _body_topics(poses, states), states)
    take.unseen = [name for name in states if name not in take.bodies]
    if take.arrivals_ns is not None and last_ns:
        begin_ns, end_ns = take.arrivals_ns
        take.silent_s = ((begin_ns - first_ns) / NS_PER_S, (last_ns - end_ns) / NS_PER_S)
    return take


def _body_topics(
    poses: dict[str, _Topic], states: dict[str, list[StateRow]],
) -> dict[str, str]:
    """
    Choose the topic of each body; other poses in its namespace can be targets or estimates.

    Bodies are those whose state the node publishes; without any state, all with a PoseStamped.

    :returns: names of the bodies, by topic.
    """
    chosen: dict[str, tuple[tuple[bool, bool, int], str]] = {}
    for topic, found in poses.items():
        name, stamped = body_of(topic), found.type_name == _POSES[0]
        rank = (stamped, topic.endswith('/pose'), found.rows.count), topic
        if not found.ned and (name in states if states else stamped):
            chosen[name] = max(rank, chosen.get(name, rank))
    return {topic: name for name, (_, topic) in chosen.items()}


def _add_state(rows: list[StateRow], row: StateRow) -> None:
    """Append a state that differs from the last one; most states of an hour do not."""
    if not rows or rows[-1][1:] != row[1:]:
        rows.append(row)


def _keep(
    take: Take, poses: dict[str, StoredRows], bodies: dict[str, str],
    states: dict[str, list[StateRow]],
) -> None:
    """
    Add bodies and estimates to a take; they are read from disk when they are used.

    :param poses: by topic.
    :param bodies: names of the bodies, by topic.
    """
    makers, trajectories, spans = {}, {}, []
    for topic, rows in poses.items():
        trajectory, arrivals, left_out = rising(rows.columns())
        if left_out:
            take.left_out[topic] = left_out
        if not len(trajectory):
            continue
        trajectories[topic] = partial(_trajectory, rows)
        if topic in bodies:
            makers[bodies[topic]] = partial(_body, bodies[topic], rows, states)
            spans.append((trajectory.stamps_ns[[0, -1]], arrivals[[0, -1]]))
    take.bodies, take.estimates = Stored(makers), Stored(trajectories)
    if spans:
        (take.begin_ns, take.end_ns), take.arrivals_ns = (
            (int(min(begin for begin, _ in found)), int(max(end for _, end in found)))
            for found in zip(*spans))


def _keep_bodies(take: Take, poses: dict[str, StoredRows]) -> None:
    """Add bodies to a take that is not a bag: each has the topic that the node would publish."""
    _keep(take, {f'/{name}/pose': rows for name, rows in poses.items()},
          {f'/{name}/pose': name for name in poses}, {})
    take.unseen = [name for name in poses if name not in take.bodies]
    take.topics.update({f'/{name}/pose': rows.count for name, rows in poses.items()})


def _trajectory(rows: StoredRows) -> Trajectory:
    return rising(rows.columns())[0]


def _body(name: str, rows: StoredRows, states: dict[str, list[StateRow]]) -> Body:
    trajectory, arrivals, _ = rising(rows.columns())
    return Body(name, trajectory, arrivals, states.get(name, []))


def _state(status: Status, time_ns: int) -> StateRow:
    resets = status.values.get('resets', '0')
    state = status.values.get('state', status.message.partition(':')[0])
    return StateRow(time_ns, sys.intern(state), sys.intern(status.message),
                    int(resets) if resets.isdecimal() else 0)


def _number(text: Optional[str]) -> float:
    try:
        return float(text or 'nan')
    except ValueError:
        return float('nan')


def _take_diagnostics(take: Take, row: mcap.Message) -> None:
    for entry in read_diagnostics(row.data):
        what = entry.name.partition(': ')[2]
        if what == 'clock' and 'offset_s' in entry.values:
            values = entry.values
            take.clock.append(ClockRow(
                row.log_time_ns, int(_number(values.get('epoch', '0'))),
                _number(values['offset_s']), _number(values.get('skew_ppm')),
                _number(values.get('uncertainty_us'))))
        elif what == 'connection' and 'sessions' in entry.values:
            take.connection = entry.values


def _load_raw(path: Path) -> Take:
    """Run a raw recording through the node's pipeline with its default settings."""
    sessions = load_sessions(path)
    take = Take(path.stem, 'raw', cut=next((s.cut for s in sessions if s.cut), ''))
    pipeline = Pipeline(PipelineConfig())
    scratch = Scratch()
    poses: dict[str, StoredRows] = {}
    arrival_ns = 0
    for sample, arrival_ns in stamped(sessions, pipeline):
        name = sample.channel.names.ros
        if name not in poses:
            poses[name] = StoredRows(scratch)
        poses[name].add(
            sample.stamp_ns, arrival_ns, (*sample.position, *sample.quat_xyzw))
    status = pipeline.stamps.status()
    take.clock.append(ClockRow(
        arrival_ns, status.epoch, status.offset_ns / 1e9, status.skew_ppm,
        status.uncertainty_s * 1e6))
    _keep_bodies(take, poses)
    return take
