# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The calibrations made from a take, for its report: ``calibration*.json`` in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
from typing import Any, Final

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.findings import Case, find, Rule
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.takes.assess.report_page_io import items, Section

_PATTERN = 'calibration*.json'
_HEAD = ('calibration', 'quantity', 'value', 'standard deviation')
#: A record has some 10 kB.
_LARGEST = 1_000_000
#: Chosen: length of a text in the table.
_LONGEST = 300

_NO_CALIBRATION: Final[Rule[list[str]]] = Rule(
    'no calibration', WARN, lambda faults: [Case((), {'detail': text}) for text in faults],
    '{detail}', 'write it again with calibrate, or move it to another folder')


def calibrations(recording: Path) -> list[Section]:
    """
    Read the records in the folder of a take.

    :param recording: the take; only a folder has records.
    :returns: a section, the latest calibration first; nothing without records.
    """
    if not recording.is_dir():
        return []
    made: list[tuple[str, str, list[tuple[str, ...]]]] = []
    faults: list[str] = []
    for path in sorted(recording.glob(_PATTERN)):
        try:
            date, rows = _record(path)
            made.append((date, path.name, rows))
        except ConfigurationError as error:
            faults.append(str(error))
    made.sort(reverse=True)
    if not made and not faults:
        return []
    return [Section('Calibrations', found=items(find((_NO_CALIBRATION,), faults)), head=_HEAD,
                    rows=[row for _, _, rows in made for row in rows])]


def _record(path: Path) -> tuple[str, list[tuple[str, ...]]]:
    """Return date and rows of a record; ConfigurationError if it is none."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise ValueError('not a file of at most 1 MB')
        content = json.loads(path.read_text(encoding='utf-8'))
        record = content['record']
        made = str(record.get('made', ''))
        title = ' '.join(str(record[key]) for key in ('kind', 'body') if key in record)
        rows = list(_rows(content, record))
    except (OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:
        raise ConfigurationError(printable(
            f'{path.name} is not a record of calibrate ({type(error).__name__}: {error})',
            _LONGEST)) from None
    title = printable(f'{made or path.stem} {title}'.strip(), _LONGEST)
    return made, [(title if number == 0 else '', *(printable(text, _LONGEST) for text in row))
                  for number, row in enumerate(rows or [('nothing', '', '')])]


def _rows(content: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and deviation: quantities, refusals, new parameters, those in force."""
    for name, found in content.items():
        if isinstance(found, dict) and {'value', 'sd'} <= set(found):
            unit = str(found.get('unit', ''))
            yield (name, f'{_text(found["value"])} {unit}'.strip(),
                   f'{_text(found["sd"], 2)} {found.get("sd_unit", unit)}'.strip())
    for name in content['refused']:
        yield str(name), f'refused: {content["reasons"][name]}', ''
    for name, value in content['parameters'].items():
        yield f'parameter {name}', _text(value, 9), ''
    before = {name: value for name, value in record.get('in_force', {}).items()
              if name.endswith('.offset') or name.startswith('world_offset.')}
    if 'latency_in_force_ms' in record:
        before['stamps.latency_ms'] = record['latency_in_force_ms']
    for name, value in before.items():
        yield f'{name} in force in the take', _text(value, 9), ''


def _text(value: Any, digits: int = 5) -> str:
    """Format a number, None, or lists of them."""
    if isinstance(value, list):
        return '[' + ', '.join(_text(part, digits) for part in value) + ']'
    return '–' if value is None else f'{float(value):.{digits}g}'
