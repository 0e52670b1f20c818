# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Motive's CSV export (format versions 1.2 and 1.20 to 1.25) as trajectories of rigid bodies.

Columns are found by the labels above the row ``Frame,Time (Seconds)`` (``Frame,Time`` in Motive
1.x), never by number: Type, Name, and Rotation or Position; between them are ID and, from 1.24 on,
Parent. Occluded cells are blank. The layout follows public parsers of these versions; it has not
been compared with a file from Motive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import csv
from typing import NamedTuple

from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import parse_seconds

_METRES = {'meters': 1.0, 'centimeters': 0.01, 'millimeters': 0.001}
_AXES = {'Rotation': ('X', 'Y', 'Z', 'W'), 'Position': ('X', 'Y', 'Z')}


class MotiveExport(NamedTuple):
    """
    An export.

    :ivar take: name of the take; '' if the file does not name it.
    :ivar bodies: names of the rigid bodies.
    :ivar poses: name of a body, stamp (ns) and pose in ENU (x y z, x y z w) of each row, read
        from the lines one by one; raises ConfigurationError for a value that is no number.
    """

    take: str
    bodies: list[str]
    poses: Iterator[tuple[str, int, tuple[float, ...]]]


def is_motive_csv(first_line: str) -> bool:
    """Return whether a file begins like Motive's export."""
    return first_line.lstrip('\ufeff').replace('"', '').startswith('Format Version,')


def parse_motive_csv(lines: Iterable[str], source: str) -> MotiveExport:
    """
    Read an export; times count from the start of the take, and Motive's x is to the north.

    :param source: name of the file, for error messages.
    :raises ConfigurationError: if labels are missing, rotations are not quaternions, or the file
        contains no rigid body.
    """
    rows = _rows(lines, source)
    head = next(rows, [])
    rotation = _fact(head, 'Rotation Type') or 'Quaternion'
    if rotation != 'Quaternion':
        raise ConfigurationError(
            f'{source}: rotations are {rotation}; export it with rotation type Quaternion')
    if (_fact(head, 'Coordinate Space') or 'Global') != 'Global':
        raise ConfigurationError(f'{source}: export it with coordinate space Global')
    units = _fact(head, 'Length Units')
    scale = _METRES.get(units.lower())
    if scale is None:
        # If metres were read as millimetres, poses would be wrong by a factor of a thousand.
        raise ConfigurationError(
            f'{source}: unknown length units {units!r}; export it in meters, centimeters or '
            'millimeters' if units else
            f'{source}: its first line does not name the Length Units; export it with its header')
    labels: list[list[str]] = []
    for row in rows:
        if row and row[0] == 'Frame':
            break
        labels.append(row)
    else:
        raise ConfigurationError(f'{source}: no row begins with Frame; was it exported with its '
                                 'header?')
    columns = _columns(labels, row, source)
    return MotiveExport(
        _fact(head, 'Take Name'), list(columns), _poses(rows, columns, scale, source))


def _poses(
    rows: Iterable[list[str]], columns: dict[str, list[int]], scale: float, source: str,
) -> Iterator[tuple[str, int, tuple[float, ...]]]:
    maps = frame_maps(AxesConfig())
    for cells in rows:
        if len(cells) < 2 or not cells[0]:
            continue
        try:
            stamp_ns = parse_seconds(cells[1])
            for name, places in columns.items():
                texts = [cells[place] if place < len(cells) else '' for place in places]
                if all(texts):
                    x, y, z, w, *position = map(float, texts)
                    p = maps.position_to_enu((
                        scale * position[0], scale * position[1], scale * position[2]))
                    yield name, stamp_ns, (*p, *maps.quat_to_enu((x, y, z, w)))
        except ValueError as error:
            raise ConfigurationError(f'{source}, frame {cells[0]}: {error}') from None


def _rows(lines: Iterable[str], source: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines)
    except csv.Error as error:    # such as a quotation mark in a note, which is not closed
        raise ConfigurationError(f'{source}: is not valid CSV: {error}') from None


def _fact(head: list[str], key: str) -> str:
    """Return a value of the first line, or ''; a note that contains a comma shifts the pairs."""
    cells = [cell.strip() for cell in head]
    return cells[cells.index(key) + 1] if key in cells[:-1] else ''


def _columns(labels: list[list[str]], axis: list[str], source: str) -> dict[str, list[int]]:
    """Return the columns of each rigid body: rotation x y z w, position x y z."""
    def at(row: list[str], place: int) -> str:
        return row[place].strip() if place < len(row) else ''

    named = next((row for row in labels if 'Name' in row[:2]), None)
    what = next((row for row in labels if 'Rotation' in row and 'Position' in row), None)
    types = next((row for row in labels if 'Rigid Body' in row), None)
    if named is None or what is None:
        # Older versions lack the labels of rows: the name is two rows above the kind.
        if what is not None and labels.index(what) >= 2:
            named = labels[labels.index(what) - 2]
        else:
            raise ConfigurationError(f'{source}: contains no rigid body')
    found: dict[str, dict[tuple[str, str], int]] = {}
    for place in range(2, len(axis)):
        if types is not None and at(types, place) != 'Rigid Body':
            continue
        kind, name = at(what, place), at(named, place)
        if name and kind in _AXES and at(axis, place) in _AXES[kind]:
            found.setdefault(name, {}).setdefault((kind, at(axis, place)), place)
    wanted = [(kind, letter) for kind, letters in _AXES.items() for letter in letters]
    columns = {name: [places[key] for key in wanted] for name, places in found.items()
               if all(key in places for key in wanted)}
    if not columns:
        raise ConfigurationError(f'{source}: contains no rigid body')
    return columns
