# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of an export: poses as measured, or resampled without bridging gaps or resets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.take import Body, Take, to_ned
from optitrack_vrpn.recording.trajectory import (
    interpolate, Mask, Stamps, Trajectory)
from optitrack_vrpn.units import format_seconds, NS_PER_S

COLUMNS = ('stamp', 'body', 'x', 'y', 'z', 'qx', 'qy', 'qz', 'qw', 'arrival', 'segment',
           'resampled')
#: Chosen: maximum number of rows per body, which limits the memory to some GB. Halved or doubled,
#: so is that memory.
_MOST_ROWS = 100_000_000


class Table(NamedTuple):
    """
    Poses of one body.

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


def table(
    take: Take, body: Body, *, frame: str = 'enu', start_s: Optional[float] = None,
    end_s: Optional[float] = None, resample_hz: Optional[float] = None,
) -> Table:
    """
    Create the rows of one body.

    :param frame: 'enu' or 'ned'.
    :param start_s: seconds after the take's first stamp.
    :param end_s: seconds after the take's first stamp.
    :param resample_hz: rate of the rows (Hz); None for the poses as measured.
    :raises ConfigurationError: if the rate is not allowed.
    """
    trajectory, arrivals = body.trajectory, body.arrivals_ns
    breaks = body.breaks_ns
    begin_ns, end_ns = _span(take, start_s, end_s)
    begins = np.isin(trajectory.stamps_ns, [*(after for _, after in body.gaps), *breaks])
    pieces = np.cumsum(begins, dtype=np.int64)
    if resample_hz is None:
        kept = (trajectory.stamps_ns >= begin_ns) & (trajectory.stamps_ns <= end_ns)
        chosen, came, numbers = trajectory.at(kept), arrivals[kept], pieces[kept]
        marks = np.zeros(len(chosen), dtype=bool)
    else:
        times = _grid(begin_ns, end_ns, resample_hz)
        positions, quats, valid = interpolate(trajectory, times, None, breaks)
        chosen = Trajectory(times[valid], positions[valid], quats[valid])
        came = np.full(len(chosen), -1, dtype=np.int64)
        marks = ~np.isin(chosen.stamps_ns, trajectory.stamps_ns)
        index = np.searchsorted(trajectory.stamps_ns, chosen.stamps_ns, 'right') - 1
        numbers = pieces[index]
        came[~marks] = arrivals[index[~marks]]
    return Table(body.name, to_ned(chosen) if frame == 'ned' else chosen, came, numbers, marks)


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
            made.trajectory.rows(), map(int, made.arrivals_ns), made.segments, made.resampled):
        yield (format_seconds(stamp), made.body, *map(repr, values),
               '' if came < 0 else format_seconds(came), str(segment), str(int(resampled)))


def columns(made: Table, part: slice) -> Mapping[str, npt.NDArray[np.generic]]:
    """Return some rows by column, with times as integer nanoseconds."""
    positions, quats = made.trajectory.positions[part], made.trajectory.quats_xyzw[part]
    return {
        'stamp_ns': made.trajectory.stamps_ns[part], 'body': np.full(len(positions), made.body),
        **{name: positions[:, number] for number, name in enumerate(('x', 'y', 'z'))},
        **{name: quats[:, number] for number, name in enumerate(('qx', 'qy', 'qz', 'qw'))},
        'arrival_ns': made.arrivals_ns[part], 'segment': made.segments[part],
        'resampled': made.resampled[part]}
