# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Motive's CSV export (format versions 1.2 and 1.20 to 1.25) as trajectories of rigid bodies.

Columns are found by the labels above the row ``Frame,Time (Seconds)`` (``Frame,Time`` in Motive
1.x), never by number: Type, Name, and Rotation or Position; between them are ID and, from 1.24 on,
Parent. Labels are compared without case: real files have ``X,Y,Z,w``. Occluded cells are blank.
The layout follows public parsers of these versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import csv
from dataclasses import dataclass, field

from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import parse_seconds

_METRES = {'meters': 1.0, 'centimeters': 0.01, 'millimeters': 0.001}
#: Columns of a pose: what they hold, and of which axis.
_POSE = (*(('rotation', axis) for axis in 'xyzw'), *(('position', axis) for axis in 'xyz'))
_BODY = 'rigid body'
_REMEDY = 'tick Rigid Bodies in the options of the export'


@dataclass
class MotiveExport:
    """
    An export.

    :ivar take: name of the take; '' if the file does not name it.
    :ivar bodies: names of the rigid bodies, each once.
    :ivar shared: names that several rigid bodies have; the second is NAME_2.
    :ivar stated: frames that the file should have by its first line; 0 if it does not say.
    :ivar frames: frames that were read up to now.
    :ivar poses: name of a body, stamp (ns) and pose in ENU (x y z, x y z w) of each row, read
        from the lines one by one; raises ConfigurationError for a value that is no number.
    """

    take: str
    bodies: list[str]
    shared: list[str]
    stated: int
    frames: int = 0
    poses: Iterator[tuple[str, int, tuple[float, ...]]] = field(default_factory=lambda: iter(()))

    @property
    def cut(self) -> str:
        """Return what is missing, after all poses were read; '' for a complete file."""
        if self.frames >= self.stated:
            return ''
        return f'it has {self.frames} of the {self.stated} frames that its first line states'


def is_motive_csv(first_line: str) -> bool:
    """Return whether a file begins like Motive's export."""
    return first_line.lstrip('\ufeff').replace('"', '').lower().startswith('format version,')


def parse_motive_csv(lines: Iterable[str], source: str) -> MotiveExport:
    """
    Read an export; times count from the start of the take, and Motive's x is to the north.

    :param source: name of the file, for error messages.
    :raises ConfigurationError: if labels are missing, rotations are not quaternions, or the file
        contains no rigid body; the message says what it contains.
    """
    text = _Lines(lines)
    rows = _rows(text, source)
    head = next(rows, [])
    rotation = _fact(head, 'Rotation Type') or 'Quaternion'
    if rotation.lower() != 'quaternion':
        raise ConfigurationError(
            f'{source}: rotations are {rotation}; export it with rotation type Quaternion')
    if (_fact(head, 'Coordinate Space') or 'Global').lower() != 'global':
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
        if row and row[0].strip().lower() == 'frame':
            break
        labels.append(row)
    else:
        raise ConfigurationError(f'{source}: no row begins with Frame; was it exported with its '
                                 'header?')
    columns, shared = _columns(labels, row, source)
    stated = _fact(head, 'Total Exported Frames')
    made = MotiveExport(_fact(head, 'Take Name'), list(columns), shared,
                        int(stated) if stated.isdecimal() else 0)
    made.poses = _poses(made, rows, text, columns, scale, source)
    return made


class _Lines:
    """Lines of a file; ``last`` is the latest one, by which the end of a cut file is known."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self.last = iter(lines), ''

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.last = line
            yield line


def _poses(
    export: MotiveExport, rows: Iterator[list[str]], lines: _Lines,
    columns: dict[str, list[int]], scale: float, source: str,
) -> Iterator[tuple[str, int, tuple[float, ...]]]:
    maps = frame_maps(AxesConfig())
    following = next(rows, None)
    while following is not None:
        cells, following = following, next(rows, None)
        if len(cells) < 2 or not cells[0]:
            continue
        if following is None and export.frames + 1 < export.stated and not lines.last.endswith(
                ('\n', '\r')):
            break    # a file that is cut can end within a number
        export.frames += 1
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
    keys = [cell.lower() for cell in cells[:-1]]
    return cells[keys.index(key.lower()) + 1] if key.lower() in keys else ''


def _columns(
    labels: list[list[str]], axis: list[str], source: str,
) -> tuple[dict[str, list[int]], list[str]]:
    """
    Find the columns of each rigid body.

    :returns: by name, the columns of ``_POSE``; and the names that several bodies have.
    """
    def at(row: list[str] | None, place: int) -> str:
        return row[place].strip() if row is not None and place < len(row) else ''

    def labelled(rows: Iterable[list[str]], *words: str) -> list[str] | None:
        return next((row for row in rows if set(words) & {
            cell.strip().lower() for cell in row}), None)

    # The kinds are just above the axes: a body may have the name "Position".
    kinds = labelled(reversed(labels), 'rotation', 'position')
    types = labelled(labels, _BODY, f'{_BODY} marker', 'marker', 'bone', 'bone marker', 'skeleton')
    named = next((row for row in labels if 'name' in {
        cell.strip().lower() for cell in row[:2]}), None)
    if kinds is None:
        raise ConfigurationError(f'{source}: contains no rigid body: no row of labels says '
                                 f'Rotation and Position; {_REMEDY}')
    if named is None and labels.index(kinds) >= 2:
        # Older versions lack the labels of rows: the name is two rows above the kind.
        named = labels[labels.index(kinds) - 2]
    bodies: list[tuple[str, dict[tuple[str, str], int]]] = []
    latest: dict[str, dict[tuple[str, str], int]] = {}
    for place in range(2, len(axis)):
        name, label = at(named, place), (at(kinds, place).lower(), at(axis, place).lower())
        if not name or label not in _POSE or (
                types is not None and at(types, place).lower() != _BODY):
            continue
        if name not in latest or label in latest[name]:    # another body of this name
            latest[name] = {}
            bodies.append((name, latest[name]))
        latest[name][label] = place
    whole = [(name, places) for name, places in bodies if len(places) == len(_POSE)]
    if not whole:
        raise ConfigurationError(f'{source}: {_why_none(types, bodies)}')
    columns: dict[str, list[int]] = {}
    for name, places in whole:
        unique, number = name, 1
        while unique in columns or (unique != name and unique in latest):
            number += 1
            unique = f'{name}_{number}'
        columns[unique] = [places[label] for label in _POSE]
    names = [name for name, _ in whole]
    return columns, sorted({name for name in names if names.count(name) > 1})


def _why_none(
    types: list[str] | None, bodies: list[tuple[str, dict[tuple[str, str], int]]],
) -> str:
    """Say why no rigid body has all of its columns."""
    if bodies:
        name, places = bodies[0]
        lacks = ', '.join(' '.join(label) for label in _POSE if label not in places)
        return f'rigid body {name!r} lacks the columns {lacks}; export it again with all of them'
    seen = {cell.strip() for cell in types or () if cell.strip()} - {'Type'}
    if _BODY in {cell.lower() for cell in seen}:
        return ('its rigid bodies have neither Rotation and Position with the axes X, Y, Z, W, '
                'nor names; export it again with its header')
    if seen:
        return f'contains no rigid body, only {listed(sorted(seen), 4, 100)}; {_REMEDY}'
    return f'contains no rigid body: no column has a name, a kind and an axis; {_REMEDY}'
