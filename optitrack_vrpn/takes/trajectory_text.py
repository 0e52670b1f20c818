# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Trajectories as text: the formats of the TUM RGB-D benchmark, of EuRoC and of TUM-VI.

- TUM: ``stamp tx ty tz qx qy qz qw``, stamps in decimal seconds
  (https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats).
- EuRoC (17 columns) and TUM-VI (8): commas, stamps in whole nanoseconds, the quaternion with w
  first, as the header names them: ``#timestamp [ns],p_RS_R_x [m],...,q_RS_w [],q_RS_x [],...``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import math
import re
from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import format_seconds, NS_PER_S, parse_seconds
from optitrack_vrpn.takes.trajectory import Trajectory

_UNITS_NS = {'s': NS_PER_S, 'ms': 1_000_000, 'us': 1000, 'ns': 1}
#: Digits of a Unix time of 2001 to 2286 in whole milliseconds, microseconds, nanoseconds.
_DIGITS = {13: 'ms', 16: 'us', 19: 'ns'}


class _Columns(NamedTuple):
    """Columns of x y z, qx qy qz qw; all columns; the unit of the stamps by the header or ''."""

    places: tuple[int, ...]
    width: int
    unit: str = ''


_TUM = _Columns((1, 2, 3, 4, 5, 6, 7), 8)
_EUROC = _Columns((1, 2, 3, 5, 6, 7, 4), 17)


def parse_trajectory(lines: Iterable[str], source: str) -> Trajectory:
    """
    Read a trajectory.

    Empty lines and lines that begin with # are skipped; a line of names decides the order of the
    columns. Of poses with one stamp the first is used.

    :param source: name of the file, for error messages.
    :raises ConfigurationError: if a line is no pose, or stamps fall; the message names the line.
    """
    columns: Optional[_Columns] = None
    stamps: list[int] = []
    values: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        text = line.lstrip('\ufeff').strip()
        if not text or text.startswith('#') or (not stamps and _is_header(text)):
            columns = columns or _header(text)
            continue
        fields = [field.strip() for field in text.split(',')] if ',' in text else text.split()
        if columns is None:
            columns = _EUROC if len(fields) == _EUROC.width else _TUM
        try:
            stamp, pose = _pose(fields, columns)
        except ValueError as error:
            raise ConfigurationError(
                f'{source}, line {number}: {error}; a line has a stamp and seven numbers: stamp '
                'tx ty tz qx qy qz qw, or in the order of a header') from None
        if stamps and stamp < stamps[-1]:
            raise ConfigurationError(
                f'{source}, line {number}: the stamp is {(stamps[-1] - stamp) / NS_PER_S:.6f} s '
                'before that of the pose before; stamps must rise')
        if not stamps or stamp > stamps[-1]:
            stamps.append(stamp)
            values.append(pose)
    if not stamps:
        raise ConfigurationError(f'{source}: contains no pose')
    table = np.array(values)
    return Trajectory(np.array(stamps, dtype=np.int64), table[:, :3], table[:, 3:])


def _is_header(text: str) -> bool:
    """Return whether a first line holds names in place of numbers."""
    return re.match(r'[a-z_"]*(time|stamp)|t[ ,]', text, re.IGNORECASE) is not None


def _header(text: str) -> Optional[_Columns]:
    """Return the columns that a line of names states; None if it does not name a whole pose."""
    text = text.lstrip('#').strip()
    names = [name.strip().lower() for name in (
        text.split(',') if ',' in text else re.sub(r'\s+\[', '[', text).split())]
    unit = re.search(r'\[(\w+)\]', names[0]) if names else None
    plain = [re.sub(r'\W*\[.*', '', name).strip('" ') for name in names]
    turns = [at for at, name in enumerate(plain) if at and name.startswith('q')]
    places = [at for at, name in enumerate(plain) if at and at not in turns]
    found = [[at for at in group if plain[at].endswith(axis)]
             for group, axes in ((places, 'xyz'), (turns, 'xyzw')) for axis in axes]
    if not all(found):
        return None
    return _Columns(tuple(group[0] for group in found), len(names),
                    unit[1] if unit and unit[1] in _UNITS_NS else '')


def _pose(fields: list[str], columns: _Columns) -> tuple[int, list[float]]:
    """Return stamp (ns), x y z, x y z w; ValueError says what is wrong."""
    if len(fields) != columns.width:
        raise ValueError(f'{len(fields)} values')
    values = [float(fields[at]) for at in columns.places]
    for at, value in zip(columns.places, values):
        if not math.isfinite(value):
            raise ValueError(f'{fields[at]} is no number of a pose')
    if not any(values[3:]):
        raise ValueError('the quaternion is zero')
    return _stamp(fields[0], columns.unit), values


def _stamp(text: str, unit: str) -> int:
    """Return a stamp (ns); without a unit, whole numbers of many digits are no seconds."""
    unit = unit or (_DIGITS.get(len(text), 's') if text.isdecimal() else 's')
    if unit == 's' or not text.isdecimal():
        return parse_seconds(text)
    return int(text) * _UNITS_NS[unit]


def format_tum(trajectory: Trajectory) -> Iterator[str]:
    """Write a trajectory in the format of TUM, with nine decimals and every bit of its values."""
    for stamp, values in trajectory.rows():
        yield f'{format_seconds(stamp)} {" ".join(map(repr, values))}\n'
