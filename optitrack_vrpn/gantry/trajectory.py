# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Trajectories, from the semicolon files of the thesis or from trajectory_msgs/JointTrajectory."""

from bisect import bisect_right
import math
from typing import NamedTuple, Optional, Sequence

import numpy as np
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.cubic import between
from optitrack_vrpn.gantry.setpoints import State

#: Greatest deviation of the time between two rows of a file from ``ROW_S`` (s). Chosen: half of
#: the last digit.
_TOLERANCE_S = 0.0005
#: Time per row (s), as in the thesis's files.
ROW_S = 0.01
#: Chosen: limit of rows, 17 minutes. The node reads 100 000 rows of 6 axes in about 2 s (measured
#: on a busy computer), in which it executes no other command, not even an emergency stop. Halved
#: or doubled, so are that time and the longest trajectory.
MAX_ROWS = 100_000


class Trajectory(NamedTuple):
    """
    The path of one axis.

    :ivar times: times of the points, rising from 0 (s).
    :ivar positions: positions relative to the first point.
    :ivar velocities: velocities at these times; None: linear interpolation of positions.
    :ivar loop: repeat the path without end.
    """

    times: tuple[float, ...]
    positions: tuple[float, ...]
    velocities: Optional[tuple[float, ...]] = None
    loop: bool = False

    @property
    def duration(self) -> float:
        """Return the time of the last point (s)."""
        return self.times[-1]

    def at(self, t: float) -> State:
        """
        Evaluate the path, relative to its start.

        :param t: time since the start (s); after the end, the result is the last point at rest.
        """
        if self.loop and self.duration > 0.0:
            # each round begins at the end position of the round before
            rounds, t = divmod(t, self.duration)
            base = rounds * (self.positions[-1] - self.positions[0])
        else:
            base = 0.0
        if t >= self.duration:
            return State(self.positions[-1])
        i = max(0, bisect_right(self.times, t) - 1)
        dt, u = self.times[i + 1] - self.times[i], t - self.times[i]
        p0, p1 = self.positions[i], self.positions[i + 1]
        slope = (p1 - p0) / dt
        v0, v1 = (slope, slope) if self.velocities is None else self.velocities[i:i + 2]
        path = between(base + p0, v0, base + p1, v1, dt)
        return State(path.at(u), v0 + u * (2.0 * path.b + 3.0 * u * path.c),
                     2.0 * path.b + 6.0 * path.c * u)

    def greatest_velocity(self) -> float:
        """Return the greatest speed, at the points and between them."""
        dt = np.diff(self.times)
        mean = np.diff(self.positions) / dt
        if self.velocities is None:
            return float(np.abs(mean).max())
        v0, v1 = np.array(self.velocities[:-1]), np.array(self.velocities[1:])
        # velocity v0 + 2 b u + 3 c u^2 (u in units of dt) has its extremum at u = -b / 3 c
        b, c = 3.0 * mean - 2.0 * v0 - v1, v0 + v1 - 2.0 * mean
        with np.errstate(divide='ignore', invalid='ignore'):
            u = -b / (3.0 * c)
        inside = (u > 0.0) & (u < 1.0)
        between = v0[inside] + b[inside] * u[inside]
        return float(np.abs(np.concatenate((mean, v0, v1, between))).max())


def make(
    times: Sequence[float], positions: Sequence[float],
    velocities: Optional[Sequence[float]] = None, loop: bool = False,
) -> Trajectory:
    """
    Make a trajectory with times and positions relative to the first point.

    :raises ConfigurationError: for too few points, values that are not finite, or times that do
        not rise.
    """
    if len(times) < 2 or len(times) != len(positions) or (
            velocities is not None and len(velocities) != len(times)):
        raise ConfigurationError('a trajectory needs two points or more, each with a position')
    if not all(map(math.isfinite, (*times, *positions, *(velocities or ())))):
        raise ConfigurationError('a trajectory contains a value that is not a finite number')
    if any(b <= a for a, b in zip(times, times[1:])):
        raise ConfigurationError('the times of a trajectory must rise')
    return Trajectory(
        tuple(t - times[0] for t in times), tuple(p - positions[0] for p in positions),
        None if velocities is None else tuple(velocities), loop)


def parse(text: str, axes: Sequence[str], where: str = 'trajectory',
          loop: bool = False) -> dict[str, Trajectory]:
    """
    Parse a file of the thesis: semicolons, time in s, one column per axis, a row every 0.01 s.

    A first line of text contains the names of the columns; without it they are all axes in order.

    :param axes: names of the machine's axes.
    :param where: name of the file in error messages.
    :returns: one trajectory for each column, by axis.
    :raises ConfigurationError: with the number of the line.
    """
    lines = [(n, line.strip().rstrip(';')) for n, line in enumerate(text.splitlines(), 1)
             if line.strip() and not line.lstrip().startswith('#')]
    if len(lines) > MAX_ROWS:
        raise ConfigurationError(f'{where}: {len(lines)} rows are too many; at most {MAX_ROWS}')
    names = list(axes)
    if lines and not _numbers(lines[0][1]):
        names = [cell.strip() for cell in lines[0][1].split(';')[1:]]
        unknown = [name for name in names if name not in axes]
        if unknown or len(set(names)) < len(names):
            raise ConfigurationError(
                f'{where}: line {lines[0][0]}: columns {", ".join(map(repr, unknown or names))} '
                f'are not axes, or one is repeated; allowed: {", ".join(axes)}')
        lines = lines[1:]
    rows: list[list[float]] = []
    for number, line in lines:
        cells = _numbers(line)
        if cells is None or len(cells) != len(names) + 1:
            raise ConfigurationError(
                f'{where}: line {number}: expected {len(names) + 1} numbers separated by '
                f'semicolons (time, {", ".join(names)}), got {line[:60]!r}')
        if rows and abs(cells[0] - rows[-1][0] - ROW_S) > _TOLERANCE_S:
            raise ConfigurationError(
                f'{where}: line {number}: time {cells[0]:g} s does not follow {rows[-1][0]:g} s '
                f'by {ROW_S:g} s')
        rows.append(cells)
    if len(rows) < 2:
        raise ConfigurationError(f'{where}: needs two rows or more')
    columns = list(zip(*rows))
    times = [k * ROW_S for k in range(len(rows))]
    return {name: make(times, column, loop=loop) for name, column in zip(names, columns[1:])}


def _numbers(line: str) -> 'list[float] | None':
    try:
        # a decimal comma is accepted too: German spreadsheets write it
        cells = [float(cell.replace(',', '.')) for cell in line.split(';')]
    except ValueError:
        return None
    return cells if all(map(math.isfinite, cells)) else None
