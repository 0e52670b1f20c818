# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of an export: poses as measured, or resampled without bridging gaps or resets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.figures import body_breaks
from optitrack_vrpn.recording.take import Body, Take, to_ned, trajectory_of
from optitrack_vrpn.recording.trajectory import (
    interpolate, Mask, Stamps, Trajectory)
from optitrack_vrpn.units import format_seconds, NS_PER_S

COLUMNS = ('stamp', 'body', 'x', 'y', 'z', 'qx', 'qy', 'qz', 'qw', 'arrival', 'segment',
           'resampled')
#: Chosen: maximum number of rows per body, which limits the memory to some GB.
_MOST_ROWS = 100_000_000


class Table(NamedTuple):
    """
    Poses of one body, or some of them.

    :ivar arrivals_ns: arrivals (ns); -1 for resampled rows.
    :ivar segments: number of the segment without gap or reset that contains the row, from 0.
    :ivar resampled: whether the row was interpolated.
    """

    body: str
    trajectory: Trajectory
    arrivals_ns: Stamps
    segments: Stamps
    resampled: Mask


def choose_bodies(take: Take, names: tuple[str, ...]) -> list[str]:
    """
    Check the names of bodies.

    :param names: empty for all.
    :returns: the chosen names.
    :raises ConfigurationError: if there is no such body, or none at all.
    """
    if not take.bodies:
        missing = f' of {", ".join(take.unseen)}' if take.unseen else ''
        left_out = sum(take.left_out.values())
        raise ConfigurationError(
            f'{take.name}: contains no pose{missing}'
            + (f'; {left_out} are not finite' if left_out else ''))
    for name in names:
        if name not in take.bodies:
            raise ConfigurationError(
                f'{take.name}: has no body {name!r}, only {", ".join(take.bodies)}')
    return list(names or take.bodies)


def tables(
    take: Take, body: Body, *, frame: str = 'enu', start_s: Optional[float] = None,
    end_s: Optional[float] = None, resample_hz: Optional[float] = None,
) -> Iterator[Table]:
    """
    Create the rows of one body, some thousands at a time; resampled ones all at once.

    :param frame: 'enu' or 'ned'.
    :param start_s: seconds after the take's first stamp.
    :param end_s: seconds after the take's first stamp.
    :param resample_hz: rate of the rows (Hz); None for the poses as measured.
    :raises ConfigurationError: if the rate is not allowed.
    """
    gaps, breaks = body_breaks(body)
    edges = np.union1d(gaps, breaks)
    begin_ns, end_ns = _span(take, start_s, end_s)

    def made(trajectory: Trajectory, arrivals: Stamps, resampled: Mask) -> Table:
        return Table(body.name, to_ned(trajectory) if frame == 'ned' else trajectory, arrivals,
                     np.searchsorted(edges, trajectory.stamps_ns, 'right'), resampled)

    if resample_hz is None:
        for rows in body.rows.blocks():
            rows = rows[(rows['stamp'] >= begin_ns) & (rows['stamp'] <= end_ns)]
            if len(rows):
                yield made(trajectory_of(rows), rows['arrival'], np.zeros(len(rows), bool))
        return
    whole = body.table()
    times = _grid(begin_ns, end_ns, resample_hz)
    positions, quats, valid = interpolate(trajectory_of(whole), times, None, breaks)
    stamps = times[valid]
    index = np.searchsorted(whole['stamp'], stamps, 'right') - 1
    measured = whole['stamp'][index] == stamps
    yield made(Trajectory(stamps, positions[valid], quats[valid]),
               np.where(measured, whole['arrival'][index], -1), ~measured)


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
        _steps(*_span(take, start_s, end_s), resample_hz)


def _steps(begin_ns: int, end_ns: int, rate_hz: float) -> tuple[float, float]:
    """Give the first and last multiple of the period, from the second of the begin."""
    if not 0.001 <= rate_hz <= 1e6:
        raise ConfigurationError(f'a rate of {rate_hz:g} Hz is not allowed; allowed: 0.001 to 1e6')
    first, last = (np.ceil(begin_ns % NS_PER_S * rate_hz / NS_PER_S),
                   np.floor((end_ns - begin_ns // NS_PER_S * NS_PER_S) * rate_hz / NS_PER_S))
    if last - first > _MOST_ROWS:
        raise ConfigurationError('that makes more than 100 million rows; choose a lower rate')
    return first, last


def _grid(begin_ns: int, end_ns: int, rate_hz: float) -> Stamps:
    """List times at whole multiples of the period, so that all bodies have the same."""
    first, last = _steps(begin_ns, end_ns, rate_hz)
    steps = np.arange(first, last + 1)
    times: Stamps = (begin_ns // NS_PER_S * NS_PER_S
                     + np.round(steps * (NS_PER_S / rate_hz)).astype(np.int64))
    return times[(times >= begin_ns) & (times <= end_ns)]


def rows(made: Table) -> Iterator[tuple[str, ...]]:
    """Format rows as texts; values keep full precision, times have nine decimals."""
    for (stamp, values), came, segment, resampled in zip(
            made.trajectory.rows(), made.arrivals_ns.tolist(), made.segments.tolist(),
            made.resampled.tolist()):
        yield (format_seconds(stamp), made.body, *map(repr, values),
               '' if came < 0 else format_seconds(came), str(segment), str(int(resampled)))


def columns(made: Table) -> dict[str, npt.NDArray[np.generic]]:
    """Return rows by column, with times as integer nanoseconds."""
    positions, quats = made.trajectory.positions, made.trajectory.quats_xyzw
    return {
        'stamp_ns': made.trajectory.stamps_ns, 'body': np.full(len(positions), made.body),
        **dict(zip('xyz', positions.T)), **dict(zip(('qx', 'qy', 'qz', 'qw'), quats.T)),
        'arrival_ns': made.arrivals_ns, 'segment': made.segments, 'resampled': made.resampled}
