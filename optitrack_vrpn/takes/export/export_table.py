# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of an export: poses as measured, or resampled without bridging gaps or resets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError, DamagedError
from optitrack_vrpn.core.units import format_seconds, NS_PER_S
from optitrack_vrpn.takes.assess.figures import body_breaks, Breaks
from optitrack_vrpn.takes.columns import ROW, Rows
from optitrack_vrpn.takes.take import Take, TakeBody, to_ned, trajectory_of
from optitrack_vrpn.takes.trajectory import interpolate, Mask, Stamps

COLUMNS = ('stamp', 'body', 'x', 'y', 'z', 'qx', 'qy', 'qz', 'qw', 'arrival', 'segment',
           'resampled')
#: Chosen: maximum number of rows per body, which limits the memory to some GB.
_MOST_ROWS = 100_000_000


class Table(NamedTuple):
    """
    Poses of one body, or some of them.

    :ivar rows: the poses; a negative arrival is unknown.
    :ivar segments: number of the segment without gap or reset that contains the row, from 0.
    :ivar resampled: whether each row was interpolated.
    """

    body: str
    rows: Rows
    segments: Stamps
    resampled: Mask


def choose_bodies(take: Take, names: tuple[str, ...]) -> list[str]:
    """
    Check the names of bodies.

    :param names: empty for all.
    :returns: the chosen names.
    :raises ConfigurationError: if there is no such body, or none at all.
    :raises DamagedError: if there is none because the recording is damaged.
    """
    if not take.bodies:
        if losses := take.losses():
            raise DamagedError(f'{take.name}: no pose can be read: {losses}')
        missing = f' of {", ".join(take.unseen)}' if take.unseen else ''
        left_out = sum(each.poses for each in take.left_out.values())
        raise ConfigurationError(
            f'{take.name}: contains no pose{missing}'
            + (f'; {left_out} are left out: {next(iter(take.left_out.values())).reason}'
               if left_out else ''))
    take.check_bodies(*names)
    return list(names or take.bodies)


def tables(
    take: Take, body: TakeBody, most: int, *, frame: str = 'enu', start_s: Optional[float] = None,
    end_s: Optional[float] = None, resample_hz: Optional[float] = None,
) -> Iterator[Table]:
    """
    Create the rows of one body.

    :param most: rows of a table.
    :param frame: 'enu' or 'ned'.
    :param start_s: seconds after the take's first stamp.
    :param end_s: seconds after the take's first stamp.
    :param resample_hz: rate of the rows (Hz); None for the poses as measured.
    :raises ConfigurationError: if the rate is not allowed.
    """
    table = body.table()
    found = body_breaks(body, table)
    edges = np.union1d([after for _, after in found.gaps_ns], found.breaks_ns)
    begin_ns, end_ns = _span(take, start_s, end_s)
    if resample_hz is None:
        first, last = np.searchsorted(table['stamp'], (begin_ns, end_ns + 1)).tolist()
        parts = (table[at:min(at + most, last)] for at in range(first, last, most))
        made: Iterable[tuple[Rows, Mask]] = ((part, np.zeros(len(part), bool)) for part in parts)
    else:
        made = _resampled(table, found, (begin_ns, end_ns), resample_hz, most)
    for rows, resampled in made:
        yield Table(body.name, to_ned(rows) if frame == 'ned' else rows,
                    np.searchsorted(edges, rows['stamp'], 'right'), resampled)


def _resampled(
    table: Rows, breaks: Breaks, span: tuple[int, int], rate_hz: float, most: int,
) -> Iterator[tuple[Rows, Mask]]:
    """Interpolate at whole multiples of the period, so that all bodies have the same times."""
    trajectory, stamps = trajectory_of(table), table['stamp']
    begin_ns, end_ns = max(span[0], int(stamps[0])), min(span[1], int(stamps[-1]))
    first, last = _steps(begin_ns, end_ns, span[0], rate_hz)
    second_ns = span[0] // NS_PER_S * NS_PER_S
    for at in range(int(first) - 1, int(last) + 2, most):    # the stamps of steps are rounded
        steps = np.arange(at, min(at + most, int(last) + 2))
        times = second_ns + np.round(steps * (NS_PER_S / rate_hz)).astype(np.int64)
        times = times[(times >= begin_ns) & (times <= end_ns)]
        positions, quats, valid = interpolate(trajectory, times, breaks.limit_ns, np.array(
            breaks.breaks_ns, np.int64))
        rows = np.empty(np.count_nonzero(valid), ROW)
        rows['stamp'] = times[valid]
        rows['pose'] = np.hstack((positions[valid], quats[valid]))
        index = np.searchsorted(stamps, rows['stamp'], 'right') - 1
        measured = stamps[index] == rows['stamp']
        rows['arrival'] = np.where(measured, table['arrival'][index], -1)
        yield rows, ~measured


def _span(take: Take, start_s: Optional[float], end_s: Optional[float]) -> tuple[int, int]:
    return (take.begin_ns + round((start_s or 0.0) * NS_PER_S),
            take.end_ns if end_s is None else take.begin_ns + round(end_s * NS_PER_S))


def check_span(
    take: Take, start_s: Optional[float], end_s: Optional[float], resample_hz: Optional[float],
) -> None:
    """
    Check what ``table`` will be asked for, before a file is opened.

    :raises ConfigurationError: if the span is empty, the rate is none, or there are too many rows.
    """
    begin_ns, end_ns = _span(take, start_s, end_s)
    if begin_ns > min(end_ns, take.end_ns):
        raise ConfigurationError(
            f'{take.name}: nothing is between --start and --end; the poses are from 0 to '
            f'{(take.end_ns - take.begin_ns) / NS_PER_S:.1f} s')
    if resample_hz is not None:
        _steps(begin_ns, end_ns, begin_ns, resample_hz)


def _steps(begin_ns: int, end_ns: int, origin_ns: int, rate_hz: float) -> tuple[float, float]:
    """Give the first and last multiple of the period, from the second of the origin."""
    if not 0.001 <= rate_hz <= 1e6:
        raise ConfigurationError(f'a rate of {rate_hz:g} Hz is not allowed; allowed: 0.001 to 1e6')
    second_ns = origin_ns // NS_PER_S * NS_PER_S
    first, last = (np.ceil((begin_ns - second_ns) * rate_hz / NS_PER_S),
                   np.floor((end_ns - second_ns) * rate_hz / NS_PER_S))
    if last - first > _MOST_ROWS:
        raise ConfigurationError('that makes more than 100 million rows; choose a lower rate')
    return first, last


def rows(made: Table) -> Iterator[tuple[str, ...]]:
    """Format rows as texts; values keep full precision, times have nine decimals."""
    for (stamp, came, values), segment, resampled in zip(
            made.rows.tolist(), made.segments.tolist(), made.resampled.tolist()):
        yield (format_seconds(stamp), made.body, *map(repr, values.tolist()),
               format_seconds(came) if came >= 0 else '', str(segment), str(int(resampled)))
