# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's table: what a subscriber sees, as lines of text."""

import math
from typing import Mapping, NamedTuple, Optional, Sequence


class BodyRow(NamedTuple):
    """
    One body as a subscriber sees it.

    :ivar name: its ROS name.
    :ivar poses: poses received.
    :ivar rate_hz: by their stamps.
    :ivar position: the latest, ENU (m).
    :ivar heading_deg: where its nose points: 0 is north, 90 is east.
    :ivar latency_s: median of (arrival here - stamp).
    :ivar stamp_jitter_s: standard deviation of the intervals between stamps.
    :ivar arrival_jitter_s: the same between arrivals here.
    :ivar transforms: transforms of its frame on /tf.
    """

    name: str
    poses: int
    rate_hz: float
    position: Optional[tuple[float, float, float]]
    heading_deg: float
    latency_s: float
    stamp_jitter_s: float
    arrival_jitter_s: float
    transforms: int


_HEAD = ('body', 'poses', 'Hz', 'east', 'north', 'up m', 'heading', 'latency',
         'stamp jitter', 'arrival jitter', 'TF')


def table(rows: Sequence[BodyRow], clock: Mapping[str, str]) -> list[str]:
    """
    Write the table.

    :param clock: the values of the clock's diagnostic; empty before the first.
    :returns: lines without colours.
    """
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    lines = [
        '  '.join(cell.ljust(width) if i == 0 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(line, widths)))
        for line in cells]
    lines.insert(1, '  '.join('-' * width for width in widths))
    if clock:
        lines.append('')
        lines.append(
            f'clock: {clock.get("mode")}, epoch {clock.get("epoch")}, '
            f'skew {clock.get("skew_ppm")} ppm, uncertainty {clock.get("uncertainty_us")} us, '
            f'offset {clock.get("offset_s")} s, sender counts from '
            f'{str(clock.get("sender_base")).replace("_", " ")}')
        restarts = sum(
            int(value) for key, value in clock.items() if key.startswith('epochs_ended_'))
        lines.append(
            f'       {restarts} restarts, arrivals {clock.get("arrival_jitter_std_us")} us (std), '
            f'{clock.get("arrival_jitter_p99_us")} us (99 %) around their stamps')
    return lines


def _cells(row: BodyRow) -> tuple[str, ...]:
    if row.position is None:
        return (row.name, '0', *['-'] * (len(_HEAD) - 2))
    return (
        row.name, str(row.poses), f'{row.rate_hz:.1f}', *(f'{c:+.3f}' for c in row.position),
        f'{row.heading_deg:.0f} deg', _micro(row.latency_s), _micro(row.stamp_jitter_s),
        _micro(row.arrival_jitter_s), 'yes' if row.transforms else 'no')


def _micro(seconds: float) -> str:
    return f'{seconds * 1e6:.0f} us' if math.isfinite(seconds) else '-'


def missing(rows: Sequence[BodyRow], expected: int, transforms: bool = True) -> list[str]:
    """
    Tell what did not stream.

    :param expected: so many bodies must be there.
    :param transforms: whether each must have a transform.
    :returns: one line for each thing that is missing; none if all is well.
    """
    lines = [f'{row.name} did not stream' for row in rows if row.poses < 3]
    lines += [f'{row.name} has no transform on /tf'
              for row in rows if transforms and row.poses >= 3 and not row.transforms]
    if len(rows) < expected:
        lines.append(f'{len(rows)} of {expected} bodies appeared')
    return lines
