# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Make the table of a gantry's run from the topics ``state`` and ``axes`` of gantry_controller.

A row of the table (table 4-3 of the thesis, docs/gantry.md) is a cycle: time in ms; position,
velocity and acceleration of each axis; the coefficients of t, t^2 and t^3 of the motor's motion of
each axis; the mocap value of each axis, empty without a valid one. Lengths are in m, angles in
degrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import math
from typing import Any, NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.cdr import leaves, parse_definition, Types
from optitrack_vrpn.takes.mcap_format import Channel, Message, Schema

STATE, AXES = 'trajectory_msgs/msg/JointTrajectory', 'diagnostic_msgs/msg/DiagnosticArray'
#: Positions, velocities and accelerations of the points of a state, where it has them: begin and
#: end of the motor's motion, the set point, the measurement.
_SHAPE = ((1, 1, 1), (1, 0, 0), (1, 1, 1), (1, 0, 0))


class GantryCycle(NamedTuple):
    """
    One message of the topic ``state``, in m and rad.

    :ivar stamp_ns: its stamp.
    :ivar names: the axes.
    :ivar points: begin and end of the motor's motion, the set point, the measurement, by the
        names of their fields.
    """

    stamp_ns: int
    names: tuple[str, ...]
    points: list[dict[str, list[float]]]


class GantryRun(NamedTuple):
    """
    The cycles of one controller.

    :ivar cycles: in the order of the recording.
    :ivar units: unit of each axis: m or deg.
    :ivar damaged: number of messages that could not be read.
    """

    cycles: list[GantryCycle]
    units: dict[str, str]
    damaged: int


def read_run(records: Iterable[Any]) -> GantryRun:
    """
    Read the run of the only controller in a recording.

    :param records: as from ``read_records``.
    :raises ConfigurationError: if there is no run, or there are several.
    """
    schemas: dict[int, Schema] = {}
    topics: dict[int, tuple[Channel, str, Types]] = {}
    states: dict[str, list[GantryCycle]] = {}
    units: dict[str, dict[str, str]] = {}
    damaged = 0
    for record in records:
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, Channel):
            kind = schemas.get(record.schema_id)
            wanted = {STATE: '/state', AXES: '/axes'}.get(kind.name if kind else '', '')
            if kind is not None and wanted and record.topic.endswith(wanted):
                topics[record.id] = record, kind.name, parse_definition(
                    kind.name, kind.definition.decode(errors='replace'), kind.encoding)
        elif isinstance(record, Message) and record.channel_id in topics:
            channel, name, types = topics[record.channel_id]
            node = channel.topic.rpartition('/')[0]
            try:
                if name == STATE:
                    states.setdefault(node, []).append(_cycle(record.data, types))
                else:
                    units.setdefault(node, {}).update(_units(record.data, types))
            except (KeyError, ValueError):      # KeyError: no readable definition
                damaged += 1
    if not states:
        raise ConfigurationError(
            'the recording has no cycle of a gantry_controller (topics ~/state, ~/axes): record '
            'them with --topic "*gantry_controller/*"')
    if len(states) != 1:
        raise ConfigurationError(
            f'the recording has the runs of {len(states)} controllers; record one, with '
            '--topic "*gantry_controller/*"')
    (node, cycles), = states.items()
    if len({cycle.names for cycle in cycles}) > 1:
        raise ConfigurationError('the axes of the controller change within the recording')
    missing = sorted({name for cycle in cycles for name in cycle.names} - set(units.get(node, ())))
    if missing:
        raise ConfigurationError(
            f'the recording has no unit of {", ".join(missing)}: record {node}/axes too')
    return GantryRun(cycles, units[node], damaged)


def _cycle(data: bytes, types: Types) -> GantryCycle:
    names: list[str] = []
    points: list[dict[str, list[float]]] = []
    stamp_ns = 0
    for path, code, at, size in leaves(data, types, _root(STATE)):
        if path[0] == 'points' and len(path) > 1 and code != 'count':
            number, field = path[1], path[2]
            while len(points) <= int(number):
                points.append({})
            points[int(number)].setdefault(str(field), []).extend(
                np.frombuffer(data, code, size // int(code[2:]), at).tolist())
        elif path[0] == 'joint_names' and code == 'text':
            names.append(_text(data, at, size))
        elif path[:2] == ('header', 'stamp'):
            stamp_ns += int(np.frombuffer(data, code, 1, at)[0]) * (
                NS_PER_S if path[2] == 'sec' else 1)
    if [[len(point.get(key, ())) for key in ('positions', 'velocities', 'accelerations')]
            for point in points] != [[len(names) * used for used in row] for row in _SHAPE]:
        raise ValueError('not the state of a gantry')
    return GantryCycle(stamp_ns, tuple(names), points)


def _units(data: bytes, types: Types) -> dict[str, str]:
    found, name, key = {}, '', ''
    for path, code, at, size in leaves(data, types, _root(AXES)):
        if path[0] != 'status' or code != 'text':
            continue
        text = _text(data, at, size)
        if path[-1] == 'name':
            name = text
        elif path[-1] == 'key':
            key = text
        elif path[-1] == 'value' and key == 'unit':
            found[name] = text
    return found


def _root(kind: str) -> str:
    return kind.replace('/msg/', '/')


def _text(data: bytes, at: int, size: int) -> str:
    return data[at + 4:at + size].rstrip(b'\0').decode(errors='replace')


def lines(run: GantryRun, start_s: Optional[float], end_s: Optional[float]) -> Iterator[str]:
    """
    Yield the lines of the table, the names of the columns first.

    :param start_s: first time (s from the first cycle).
    :param end_s: last time.
    """
    names = run.cycles[0].names
    yield ';'.join([
        'time_ms', *(f'{name}_{part}' for part in ('position', 'velocity', 'acceleration')
                     for name in names),
        *(f'{name}_{part}' for name in names for part in 'abc'),
        *(f'{name}_mocap' for name in names)]) + '\n'
    per_si = [1.0 if run.units[name] == 'm' else math.degrees(1.0) for name in names]
    first_ns = run.cycles[0].stamp_ns
    for cycle in run.cycles:
        time_s = (cycle.stamp_ns - first_ns) / NS_PER_S
        if (start_s or 0.0) <= time_s <= (math.inf if end_s is None else end_s):
            yield _line(time_s, cycle, per_si)


def _line(time_s: float, cycle: GantryCycle, per_si: list[float]) -> str:
    begin, end, wanted, measured = cycle.points
    seconds, nanoseconds = end['time_from_start']
    dt = seconds + nanoseconds / NS_PER_S
    numbers = [value * scale for key in ('positions', 'velocities', 'accelerations')
               for value, scale in zip(wanted[key], per_si)]
    for x, a, twice_b, x_end, scale in zip(
            begin['positions'], begin['velocities'], begin['accelerations'], end['positions'],
            per_si):
        b = 0.5 * twice_b
        numbers += [a * scale, b * scale, (x_end - x - dt * (a + dt * b)) / dt ** 3 * scale]
    mocap = ['' if math.isnan(value) else f'{value * scale:.9g}'
             for value, scale in zip(measured['positions'], per_si)]
    return ';'.join([f'{time_s * 1e3:.1f}', *(f'{each:.9g}' for each in numbers), *mocap]) + '\n'
