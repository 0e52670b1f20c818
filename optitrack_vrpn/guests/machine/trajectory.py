# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Paths that an axis follows exactly: sines, and trajectories of points.

Trajectories come from the semicolon files of the thesis or from trajectory_msgs/JointTrajectory.
"""

from bisect import bisect_right
from dataclasses import dataclass
import math
from typing import Any, ClassVar, Collection, NamedTuple, Optional, Sequence, Union

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.setpoints import AxisMotion, between, Limits

#: Time per row (s), as in the thesis's files.
ROW_S = 0.01
#: Largest number of a command or trajectory (SI): above any machine, far from an overflow.
LARGEST = 1e9


class Bounds(NamedTuple):
    """Greatest speed and acceleration of a path, and its lowest and highest position."""

    velocity: float
    acceleration: float
    low: float
    high: float


@dataclass(frozen=True)
class Sine:
    """
    A sin(2 pi f t) without end, after one period in which the amplitude rises linearly from 0.

    With the rising amplitude the path begins at rest, and stays within the bounds of the sine.

    :ivar amplitude: A (unit).
    :ivar frequency: f (Hz).
    """

    amplitude: float
    frequency: float
    duration: ClassVar[float] = math.inf
    end: ClassVar[float] = 0.0

    def at(self, t: float) -> AxisMotion:
        """Return the state at a time since the start (s)."""
        rate = 2.0 * math.pi * self.frequency
        slope = 0.0 if t * self.frequency >= 1.0 else self.amplitude * self.frequency
        size = slope * t if slope else self.amplitude
        sine, cosine = math.sin(rate * t), math.cos(rate * t)
        return AxisMotion(size * sine, slope * sine + size * rate * cosine,
                          2.0 * slope * rate * cosine - size * rate * rate * sine)

    @property
    def bounds(self) -> Bounds:
        """Return its bounds."""
        rate, size = 2.0 * math.pi * self.frequency, abs(self.amplitude)
        return Bounds(rate * size, rate * rate * size, -size, size)


class AxisTrajectory(NamedTuple):
    """
    The path of one axis through points: cubic Hermite polynomials.

    :ivar times: times of the points, rising from 0 (s).
    :ivar positions: positions relative to the first point.
    :ivar velocities: velocities at these times, 0 at both ends.
    :ivar bounds: its bounds, at the points and between them.
    :ivar loop: repeat the path without end.
    """

    times: tuple[float, ...]
    positions: tuple[float, ...]
    velocities: tuple[float, ...]
    bounds: Bounds
    loop: bool = False

    @property
    def duration(self) -> float:
        """Return the time of its end (s), infinite if it has none."""
        return math.inf if self.loop else self.times[-1]

    @property
    def end(self) -> float:
        """Return the position at its end."""
        return self.positions[-1]

    def at(self, t: float) -> AxisMotion:
        """
        Return the state at a time since the start (s).

        After the end it is the last point at rest; each round of a loop begins there.
        """
        base = 0.0
        if self.loop:
            rounds, t = divmod(t, self.times[-1])
            base = rounds * self.positions[-1]
        if t >= self.times[-1]:
            return AxisMotion(self.positions[-1])
        i = max(0, bisect_right(self.times, t) - 1)
        dt, u = self.times[i + 1] - self.times[i], t - self.times[i]
        path = between(base + self.positions[i], self.velocities[i],
                       base + self.positions[i + 1], self.velocities[i + 1], dt)
        return AxisMotion(path.at(u), path.a + u * (2.0 * path.b + 3.0 * u * path.c),
                          2.0 * path.b + 6.0 * path.c * u)


#: A path relative to the position of the axis at its start, at rest.
Path = Union[Sine, AxisTrajectory]


def refusal(path: Path, limits: Limits, origin: float, dt: float, unit: str) -> str:
    """
    Return why an axis at ``origin`` cannot follow a path, and what it can follow; '' if it can.

    :param dt: duration of a cycle (s); a period of a sine needs ten cycles.
    """
    found, low, high = path.bounds, limits.low - origin, limits.high - origin
    inside = _within(found.high, high) and _within(-found.low, -low)
    fastest = 0.1 / dt
    frequency = path.frequency if isinstance(path, Sine) else 0.0
    slower = max(found.velocity / limits.velocity,
                 math.sqrt(found.acceleration / limits.acceleration))
    if inside and frequency <= fastest and _within(found.velocity, limits.velocity) and _within(
            found.acceleration, limits.acceleration):
        return ''
    reason = (
        f'the path reaches {found.velocity:.4g} {unit}/s, {found.acceleration:.4g} {unit}/s^2 and '
        f'{origin + found.low:.4g} to {origin + found.high:.4g} {unit}; the axis allows '
        f'{limits.velocity:.4g} {unit}/s, {limits.acceleration:.4g} {unit}/s^2 and '
        f'{limits.low:.4g} to {limits.high:.4g} {unit}')
    scale = min([1.0, *(most / value for most, value in (
        (limits.velocity, found.velocity), (limits.acceleration, found.acceleration),
        (high, found.high), (low, found.low)) if value)])
    if not isinstance(path, Sine):
        if slower > 1.0:
            reason += f'. Stretch its time by {slower:.4g} or more'
        return f'{reason}. Largest scale of its positions: {_down(scale)}'
    if frequency <= fastest:
        reason += (f'. Largest amplitude at {frequency:.4g} Hz: '
                   f'{_down(scale * abs(path.amplitude))} {unit}')
    if inside and slower:
        reason += (f'. Highest frequency at {abs(path.amplitude):.4g} {unit}: '
                   f'{_down(min(fastest, frequency / slower))} Hz')
    return reason


def _within(value: float, most: float) -> bool:
    return value <= most * (1.0 + 1e-9) + 1e-12


def _down(value: float) -> str:
    """Format a largest value with four digits, rounded down so that it is accepted."""
    if value < 1e-300:    # its digits would be below the least number
        return '0'
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f'{math.floor(value / unit * (1.0 + 1e-12)) * unit:.4g}'


def make_trajectory(
    times: Sequence[float], positions: Sequence[float],
    velocities: Optional[Sequence[float]] = None, loop: bool = False,
) -> AxisTrajectory:
    """
    Make a trajectory with times and positions relative to the first point.

    Without velocities each inner point gets that of the parabola through it and its neighbours,
    which is exact for a constant acceleration; both ends are at rest.

    :raises ConfigurationError: for too few points, values that are not finite, times that do not
        rise, or a beginning or end in motion.
    """
    if len(times) < 2 or len(times) != len(positions) or (
            velocities is not None and len(velocities) != len(times)):
        raise ConfigurationError('a trajectory needs two points or more, each with a position')
    if not all(abs(value) <= LARGEST for value in (*times, *positions, *(velocities or ()))):
        raise ConfigurationError(
            f'a trajectory contains a value that is no number of at most {LARGEST:g}')
    if any(b <= a for a, b in zip(times, times[1:])):
        raise ConfigurationError('the times of a trajectory must rise')
    if velocities is None:
        dt = np.diff(times)
        slope = np.diff(positions) / dt
        inner = (dt[1:] * slope[:-1] + dt[:-1] * slope[1:]) / (dt[1:] + dt[:-1])
        velocities = [0.0, *inner, 0.0]
    elif max(abs(velocities[0]), abs(velocities[-1])) > 1e-4:   # the rounding of a planner
        raise ConfigurationError(
            'the trajectory does not begin and end at rest: its first and last velocity must be 0')
    t, p = np.array(times) - times[0], np.array(positions) - positions[0]
    v = np.array([0.0, *velocities[1:-1], 0.0])
    return AxisTrajectory(tuple(t.tolist()), tuple(p.tolist()), tuple(v.tolist()),
                          _bounds(t, p, v, loop), loop)


def _bounds(t: Any, p: Any, v: Any, loop: bool) -> Bounds:
    """Return the bounds of cubic Hermite polynomials, at the points and between them."""
    dt = np.diff(t)
    # p + a u + b u^2 + c u^3 with u from 0 to dt
    cubic: Any = between(p[:-1], v[:-1], p[1:], v[1:], dt)
    _, a, b, c = cubic
    with np.errstate(divide='ignore', invalid='ignore'):
        # times of the greatest velocity, and of both stops in the stable form
        q = -(b + np.copysign(np.sqrt(b * b - 3.0 * c * a), b))
        turn, *stops = (np.where((u > 0.0) & (u < dt), u, 0.0)
                        for u in (-b / (3.0 * c), q / (3.0 * c), a / q))
    speeds = np.abs(np.concatenate([v, a + turn * (2.0 * b + 3.0 * turn * c)]))
    places = np.concatenate([p, *(cubic.at(u) for u in stops)])
    growth = math.inf * p[-1] if loop and p[-1] else 0.0
    return Bounds(
        float(speeds.max()), float(np.abs(np.concatenate([2 * b, 2 * b + 6 * c * dt])).max()),
        min(float(places.min()), growth), max(float(places.max()), growth))


def check_axes(names: Sequence[str], axes: Collection[str], where: str) -> None:
    """Check the names of the axes that a trajectory moves."""
    unknown = [name for name in names if name not in axes]
    if not names or unknown or len(set(names)) < len(names):
        raise ConfigurationError(
            f'{where} {", ".join(map(repr, unknown or names)) or "(none)"} are not axes, or one '
            f'is repeated; allowed: {", ".join(axes)}')


def parse(text: str, axes: Sequence[str], where: str = 'trajectory',
          loop: bool = False) -> dict[str, AxisTrajectory]:
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
    if len(lines) > 100_000:    # 17 minutes; with 6 axes they are read in 2 s
        raise ConfigurationError(f'{where}: {len(lines)} rows are too many; at most 100000')
    names = list(axes)
    if lines and not _numbers(lines[0][1]):
        number, line = lines.pop(0)
        names = [cell.strip() for cell in line.split(';')[1:]]
        check_axes(names, axes, f'{where}: line {number}: columns')
    rows: list[list[float]] = []
    for number, line in lines:
        cells = _numbers(line)
        if cells is None or len(cells) != len(names) + 1:
            raise ConfigurationError(
                f'{where}: line {number}: expected {len(names) + 1} numbers separated by '
                f'semicolons (time, {", ".join(names)}), got {line[:60]!r}')
        if rows and abs(cells[0] - rows[-1][0] - ROW_S) > 0.0005:   # half of the last digit
            raise ConfigurationError(
                f'{where}: line {number}: time {cells[0]:g} s does not follow {rows[-1][0]:g} s '
                f'by {ROW_S:g} s')
        rows.append(cells)
    if len(rows) < 2:
        raise ConfigurationError(f'{where}: needs two rows or more')
    times = [k * ROW_S for k in range(len(rows))]
    return {name: make_trajectory(times, column, loop=loop)
            for name, column in zip(names, list(zip(*rows))[1:])}


def _numbers(line: str) -> Optional[list[float]]:
    try:
        # a decimal comma is accepted too: German spreadsheets write it
        cells = [float(cell.replace(',', '.')) for cell in line.split(';')]
    except ValueError:
        return None
    return cells if all(map(math.isfinite, cells)) else None
