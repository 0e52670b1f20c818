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

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.cdr import decode
from optitrack_vrpn.takes.columns import TopicBatch

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
    points: list[dict[str, Any]]


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


def wants(topic: str, type_name: str) -> bool:
    """Return whether a topic is read."""
    return (topic.rpartition('/')[2], type_name) in (('state', STATE), ('axes', AXES))


def read_run(parts: Iterable[Any]) -> GantryRun:
    """
    Read the run of the only controller in a recording.

    :param parts: messages of ``wants``, and what cannot be read, as from ``read_topics``.
    :raises ConfigurationError: if there is no run, or there are several.
    """
    states: dict[str, list[GantryCycle]] = {}
    units: dict[str, dict[str, str]] = {}
    damaged = 0
    for part in parts:
        if not isinstance(part, TopicBatch):
            damaged += 1
            continue
        node = part.topic.rpartition('/')[0]
        for data in part.batch.contents():
            try:
                made = decode(data, part.types, part.type_name)
                if part.type_name == STATE:
                    states.setdefault(node, []).append(_cycle(made))
                else:
                    units.setdefault(node, {}).update({
                        status['name']: values['unit'] for status in made['status'].values()
                        if 'unit' in (values := StatusReport.decoded(status).values)})
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


def _cycle(made: dict[str, Any]) -> GantryCycle:
    """Return the cycle of a decoded message; ValueError if it is none."""
    names, points = tuple(made['joint_names'].values()), list(made['points'].values())
    if [[len(point[key]) for key in ('positions', 'velocities', 'accelerations')]
            for point in points] != [[len(names) * used for used in row] for row in _SHAPE]:
        raise ValueError('not the state of a gantry')
    stamp = made['header']['stamp']
    return GantryCycle(stamp['sec'] * NS_PER_S + stamp['nanosec'], names, points)


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
    seconds, nanoseconds = end['time_from_start'].values()
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
