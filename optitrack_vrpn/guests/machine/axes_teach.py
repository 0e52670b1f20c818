# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Determine from a movement which quantity of which body corresponds to an axis.

The user leaves the machine at rest, then moves only one axis. If the body rotated, the axis is a
rotation, even if the body was translated too (a marker away from the axis of rotation moves along
an arc); otherwise it is a translation. A wrong axis or sign is hard to find in a closed loop; this
measurement shows it directly.
"""

from dataclasses import dataclass, field
import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.core.axes import Pose
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.axes_settings import (
    ANGLE_UNITS, AxisRow, LENGTH_UNITS, LENGTHS, QUANTITIES, quantities_of, Unwrapper)

#: Minimum number of poses in each phase. Chosen: a tenth of a second at 120 Hz.
_FEWEST = 12
#: Smallest motions (m, rad). Chosen: below them direction and scale are too uncertain.
_LEAST = (0.005, math.radians(1.0))


@dataclass
class Recording:
    """The poses (ENU) of one body at rest, and during the movement to its end."""

    still: list[Pose] = field(default_factory=list)
    moved: list[Pose] = field(default_factory=list)


class TeachResult(NamedTuple):
    """
    Result of a movement.

    :ivar row: the row for the table.
    :ivar change: change of the quantity (m or rad).
    :ivar noise: standard deviation of the quantity at rest, in m or rad.
    :ivar residual: part of the movement outside the quantity (m or rad).
    :ivar misalignment: angle between movement and axis of the frame (rad).
    :ivar also_moved: other bodies that moved in the same way, at least half as much.
    """

    row: AxisRow
    change: float
    noise: float
    residual: float
    misalignment: float
    also_moved: tuple[str, ...]


class _Change(NamedTuple):
    """
    Translation or rotation of one body.

    :ivar changes: of three quantities (m or rad).
    :ivar noise: their standard deviations at rest.
    :ivar start: their means at rest.
    """

    body: str
    changes: tuple[float, ...]
    noise: tuple[float, ...]
    start: tuple[float, ...]

    @property
    def size(self) -> float:
        return math.hypot(*self.changes)


def identify_axis(
    name: str, recordings: 'dict[str, Recording]', *, distance: Optional[float] = None,
    unit: str = '', frame: str = 'motive', motive_x: str = 'north',
) -> TeachResult:
    """
    Determine the row of an axis.

    :param name: name of the axis.
    :param recordings: recordings by the name of the body.
    :param distance: distance that the machine moved by its own measurement, signed, in ``unit``;
        it gives the scale. Without it the movement counts as positive and the scale is 1.
    :param unit: unit of the axis; empty: m or deg.
    :param frame: frame of the quantity.
    :raises ConfigurationError: if nothing moved, or the movement is not along one axis of the
        frame; contains the remedy.
    """
    if distance is not None and (not math.isfinite(distance) or distance == 0.0):
        raise ConfigurationError('the distance moved must be a number other than 0')
    moves = [_changes(body, recording, frame, motive_x)
             for body, recording in recordings.items()
             if len(recording.still) >= _FEWEST and len(recording.moved) >= _FEWEST]
    if not moves:
        raise ConfigurationError(
            'no body was seen long enough, both at rest and moving: check that the main node is '
            'active and that the cameras see the bodies')
    for kind in (1, 0):     # a rotation counts before a translation
        clear = [each[kind] for each in moves if each[kind].size > max(
            _LEAST[kind], 6.0 * math.hypot(*each[kind].noise))]
        if clear:
            break
    else:
        raise ConfigurationError(
            f'no body moved by more than its noise and {_LEAST[0] * 1e3:g} mm or '
            f'{math.degrees(_LEAST[1]):g} degree: move the axis further')
    best = max(clear, key=lambda each: each.size)
    names = QUANTITIES[3 * kind:3 * kind + 3]
    index = max(range(3), key=lambda i: abs(best.changes[i]))
    change = best.changes[index]
    residual = math.sqrt(max(0.0, best.size ** 2 - change * change))
    misalignment = math.atan2(residual, abs(change))
    if misalignment > math.radians(10.0):       # within it the quantity is 98.5 % of the motion
        shares = ', '.join(f'{name} {each:+.4f}' for name, each in zip(names, best.changes))
        raise ConfigurationError(
            f'body {best.body!r} moved {math.degrees(misalignment):.0f} degrees off the nearest '
            f'axis of frame {frame} ({shares}, in m or rad): move only one axis, align '
            "Motive's ground plane with the machine, or use another frame")
    quantity = names[index]
    units = LENGTH_UNITS if quantity in LENGTHS else ANGLE_UNITS
    unit = unit or next(iter(units))
    if unit not in units:
        raise ConfigurationError(
            f'body {best.body!r} moved in {quantity}, which has no unit {unit}: allowed: '
            f'{", ".join(units)}')
    measured = change / units[unit]
    wanted = abs(measured) if distance is None else distance
    row = AxisRow(
        name=name, body=best.body, quantity=quantity, frame=frame,
        sign=1 if measured * wanted > 0.0 else -1, scale=round(abs(wanted / measured), 6),
        unit=unit, zero=round(best.start[index] / units[unit], 6),
        unwrap=quantity == 'yaw')
    also = tuple(each[kind].body for each in moves if each[kind].body != best.body
                 and each[kind].size > 0.5 * best.size)
    return TeachResult(row, change, best.noise[index], residual, misalignment, also)


def _changes(
    body: str, recording: Recording, frame: str, motive_x: str,
) -> tuple[_Change, _Change]:
    """Compute translation and rotation of a body from rest to the end of the movement."""
    unwrappers = [Unwrapper() for _ in range(3)]

    def numbers(pose: Pose) -> tuple[float, ...]:
        values = quantities_of(pose, frame, motive_x).values
        return (*values[:3], *(u.update(v) for u, v in zip(unwrappers, values[3:])))

    still = list(zip(*map(numbers, recording.still)))
    moved = list(zip(*map(numbers, recording.moved)))
    start = tuple(map(statistics.fmean, still))
    noise = tuple(map(statistics.pstdev, still))
    # Average the end of the movement over half of the minimum number of poses.
    change = tuple(statistics.fmean(column[-_FEWEST // 2:]) - before
                   for column, before in zip(moved, start))
    return (_Change(body, change[:3], noise[:3], start[:3]),
            _Change(body, change[3:], noise[3:], start[3:]))


def report(result: TeachResult) -> str:
    """Return the result as text."""
    row = result.row
    unit = row.si_per_unit
    lines = [
        f'axis {row.name}: {row.quantity} of body {row.body!r} in frame {row.frame}',
        f'  changed by {result.change / unit:+.4f} {row.unit_name}; sign {row.sign:+d}, '
        f'scale {row.scale:g}',
        f'  residual {result.residual / unit:.4f} {row.unit_name} '
        f'({math.degrees(result.misalignment):.1f} degrees off the axis), noise at rest '
        f'{result.noise / unit:.5f} {row.unit_name}']
    if result.also_moved:
        lines.append('  also moved: ' + ', '.join(map(repr, result.also_moved)) +
                     ': check that the axis is assigned to the right body')
    return '\n'.join(lines)
