# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read what a calibration needs: poses of a body, samples of an IMU, values in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
import hashlib
from pathlib import Path
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.cli.files_io import read_parameter_file
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.bag_read_io import read_topics
from optitrack_vrpn.takes.calibrate.data import ImuData
from optitrack_vrpn.takes.cdr import leaves
from optitrack_vrpn.takes.columns import DATA_AT, TopicBatch
from optitrack_vrpn.takes.take import Take
from optitrack_vrpn.takes.take_io import load_take
from optitrack_vrpn.takes.trajectory import Trajectory

IMU_TYPE = 'sensor_msgs/msg/Imu'
_STAMP = (('header', 'stamp', 'sec'), ('header', 'stamp', 'nanosec'))
_FIELDS = [(group, axis) for group in ('angular_velocity', 'linear_acceleration')
           for axis in 'xyz']
#: Poses after a change of the body's state are left out for this time (ns).
_UNSURE_NS = 100_000_000
#: Larger than any room with cameras (m).
_LARGEST_M = 200.0


def read_imu(path: Path, topic: str) -> tuple[str, ImuData, int]:
    """
    Read the samples of an IMU.

    :param topic: its topic, or '' for the only one.
    :returns: the topic, the samples, and the number of messages that cannot be decoded.
    :raises ConfigurationError: if there is none, or more than one and no topic is given.
    """
    parts: dict[str, list[ImuData]] = {}
    unread: Counter[str] = Counter()
    try:
        for item in read_topics(path, lambda _, kind: kind == IMU_TYPE):
            if isinstance(item, TopicBatch):
                samples, count = _samples(item)
                parts.setdefault(item.topic, []).extend(samples)
                unread[item.topic] += count
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None
    found = {name: of_topic for name, of_topic in parts.items() if of_topic}
    if unread and not found and not topic:
        name = unread.most_common(1)[0][0]
    else:
        name = _choose(parts if topic else found, topic, 'topic of sensor_msgs/Imu', '--imu')
    if name not in found:
        raise ConfigurationError(
            f'{path}: {counted(unread[name], "message")} on {name}, and none can be decoded: they '
            'are damaged, or their type has another serialisation or definition than ROS 2 writes')
    stamps, gyro, accelerometer = (np.concatenate(column) for column in zip(*(
        (part.stamps_ns, part.gyro, part.accelerometer) for part in found[name])))
    order = np.argsort(stamps, kind='stable')
    return name, ImuData(
        stamps[order], gyro[order], accelerometer[order], found[name][-1].frame_id), unread[name]


def _samples(messages: TopicBatch) -> tuple[list[ImuData], int]:
    """
    Read the samples of messages of each length, which have the same layout.

    :returns: the samples, and the number of messages that cannot be decoded.
    """
    batch = messages.batch
    sizes = batch.field(1, '<u8')
    samples, unread = [], 0
    for size in np.unique(sizes):
        chosen = batch._replace(offsets=batch.offsets[sizes == size])
        first = next(chosen.contents())
        try:
            found = {leaf.path: leaf for leaf in leaves(
                first, messages.types, messages.type_name)}
            places = [found[path] for path in (*_STAMP, *_FIELDS)]
        except (ValueError, KeyError):
            unread += len(chosen.offsets)
            continue
        seconds, nanoseconds, *values = (
            chosen.field(DATA_AT + leaf.at, leaf.code) for leaf in places)
        rows = np.stack(values, axis=1).astype(float)
        text = found[('header', 'frame_id')]
        samples.append(ImuData(
            seconds.astype(np.int64) * NS_PER_S + nanoseconds.astype(np.int64), rows[:, :3],
            rows[:, 3:], first[text.at + 4:text.at + text.size].rstrip(b'\0').decode(
                errors='replace')))
    return samples, unread


def _choose(found: Mapping[str, Any], wanted: str, what: str, option: str) -> str:
    names = ', '.join(sorted(found))
    if not found:
        raise ConfigurationError(f'the take has no {what}' + (
            f'; {wanted} is not there, or has another type' if wanted else '')
            + ': record it, too')
    if wanted:
        for name in (wanted, f'/{wanted}'):
            if name in found:
                return name
        ends = [name for name in found if name.strip('/').endswith('/' + wanted.strip('/'))]
        if len(ends) == 1:
            return ends[0]
        raise ConfigurationError(f'the take has no {what} {wanted!r}; it has: {names}')
    if len(found) != 1:
        raise ConfigurationError(f'give {option}: the take has {len(found)} of {what}: {names}')
    return next(iter(found))


def open_take(path: Path, topic: str = '') -> Take:
    """Read a take; poses of this topic are kept too."""
    return load_take(path, topic if topic.startswith('/') or not topic else f'/{topic}')


def body_poses(take: Take, body: str) -> tuple[str, Trajectory]:
    """
    Return the poses of a body while it was tracked.

    :param body: its name, the last part of it, or its topic; '' for the only one.
    :raises ConfigurationError: if it is not in the take.
    """
    for name in (body, f'/{body}'):
        if name and name in take.estimates and name not in take.bodies:
            return name, take.estimates[name]
    if body.strip('/').rpartition('/')[0] in take.bodies:    # a topic, as drone/pose
        body = body.strip('/').rpartition('/')[0]
    if not take.bodies:
        raise ConfigurationError(_why_no_body(take))
    name = _choose(take.bodies, body, 'body', '--body')
    chosen = take.bodies[name]
    trajectory = chosen.trajectory
    far = float(np.abs(trajectory.positions).max(initial=0.0))
    if far > _LARGEST_M:
        raise ConfigurationError(
            f'{name} is up to {far:.0f} m from the origin: if its positions are in millimetres, '
            'divide them by 1000 (REP 103)')
    changes = np.array([row.time_ns for before, row in zip(chosen.states, chosen.states[1:])
                        if row.state != before.state], dtype=np.int64)
    if len(changes):
        changes = np.sort(changes)
        after = np.clip(np.searchsorted(changes, trajectory.stamps_ns), 1, len(changes))
        nearest = np.stack([changes[after - 1], changes[np.minimum(after, len(changes) - 1)]])
        trajectory = trajectory.at(
            np.abs(nearest - trajectory.stamps_ns).min(axis=0) > _UNSURE_NS)
    return name, trajectory


def _why_no_body(take: Take) -> str:
    ned = [topic for topic, count in take.topics.items() if count and topic.endswith('_ned')]
    if ned:
        return (f'the take has poses in NED only ({", ".join(sorted(ned)[:3])}): add pose to the '
                'outputs of the node, and record again')
    return 'the take has no poses of a body' + (
        f', only the states of {", ".join(take.unseen[:3])}' if take.unseen else '') + (
        f'; {take.losses()}' if take.losses() else '')


def latency_in_force(take: Take) -> Optional[float]:
    """Return ``stamps.latency_ms`` that the node used, from its diagnostics; None if unknown."""
    text = take.stamping.get('latency_ms', '')
    try:
        return float(text)
    except ValueError:
        return None


def digest(path: Path) -> str:
    """Return the SHA-256 of the files of a take, in the order of their names."""
    total = hashlib.sha256()
    files = sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix in ('.mcap', '.db3', '.zstd', '.zst', '.csv'):
            with open(file, 'rb') as opened:
                while block := opened.read(1 << 20):
                    total.update(block)
    return total.hexdigest()


def read_parameters(path: Path, node: str) -> dict[str, Any]:
    """
    Read the parameters of a node from a parameter file, with dots between the parts of names.

    :raises ConfigurationError: if it cannot be read.
    """
    content = read_parameter_file(path) or {}
    found: dict[str, Any] = {}
    for key in ('/**', node, f'/{node}'):
        section = content.get(key) if isinstance(content, dict) else None
        if isinstance(section, dict) and isinstance(section.get('ros__parameters'), dict):
            _flatten(section['ros__parameters'], '', found)
    return found


def _flatten(values: Mapping[str, Any], before: str, found: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            _flatten(value, f'{before}{key}.', found)
        else:
            found[f'{before}{key}'] = value
