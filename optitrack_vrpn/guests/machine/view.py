# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The one view of axes: for ~/axes, /diagnostics, the log and ``gantry view``."""

import math
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.cli.terminal_io import format_table
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.guests.machine.axes_mapper import AxesSample
from optitrack_vrpn.guests.machine.axes_settings import AxisTable
from optitrack_vrpn.guests.machine.axis import Axis
from optitrack_vrpn.guests.machine.states import Mode


class AxisView(NamedTuple):
    """
    One axis as it is shown.

    :ivar state: its mode, or whether its value is valid.
    :ivar faults: names of what is wrong.
    :ivar warnings: the same for the user, '' if nothing is.
    :ivar cells: displayed values by name.
    """

    name: str
    severity: Severity
    state: str
    faults: frozenset[str]
    warnings: str
    cells: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return state and warnings in one line."""
        return f'{self.state}: {self.warnings}' if self.warnings else self.state


def view_of(axis: Axis) -> AxisView:
    """Show a controlled axis."""
    digits = 4 if axis.settings.unit == 'm' else 2

    def number(value: Optional[float]) -> str:
        return '' if value is None else f'{value:.{digits}f}'

    limits, remembered = axis.limits, axis.remembered
    severity = ERROR if axis.mode is Mode.EMERGENCY else WARN if axis.warnings else INFO
    return AxisView(
        axis.settings.name, severity, axis.mode.value, frozenset(axis.warnings),
        ', '.join(sorted(axis.warnings)), {
            'unit': axis.settings.unit, 'position': number(axis.state.position),
            'target': f'{number(axis.target_velocity)}/s' if axis.mode is Mode.VELOCITY else
            number(axis.target),
            'velocity': number(axis.state.velocity), 'motor': number(axis.position),
            'measured': number(axis.measured),
            'error': number(axis.correction.error if axis.tracking else None),
            'correction': number(axis.correction.offset),
            'limits': '..'.join('' if math.isinf(each) else f'{each:g}' for each in limits[3:]),
            'fastest': f'{limits.velocity:g}/s, {limits.acceleration:g}/s^2',
            'switches': ''.join(letter for letter, on in zip('LHR', axis.switches) if on),
            'tracking': 'closed' if axis.tracking else 'open',
            'referenced': 'yes' if axis.referenced else 'no',
            'lock': '' if axis.mode is not Mode.LOCK else 'locked' if remembered is None else (
                f'locked ({remembered.value})')})


def views_of(table: AxisTable, sample: AxesSample) -> list[AxisView]:
    """Show measured axes."""
    return [AxisView(
        row.name, INFO if axis.valid else WARN, 'valid' if axis.valid else 'not valid',
        frozenset((axis.fault,) if axis.fault else ()), axis.reason,
        {'value': f'{axis.value:.6g}', 'unit': row.unit_name, 'body': row.body,
         'quantity': f'{row.quantity} ({row.frame})'})
        for row, axis in zip(table.axes, sample.axes)]


class AxisChange(NamedTuple):
    """Axes that changed to one state; ``worse``: with a fault that they did not have before."""

    names: list[str]
    state: str
    faults: frozenset[str]
    text: str
    worse: bool


def changes(before: Iterable[AxisView], now: Iterable[AxisView]) -> list[AxisChange]:
    """Return what is to be logged: axes with another state, or other faults, than before."""
    known = {each.name: each for each in before}
    found: dict[tuple[str, frozenset[str], bool], AxisChange] = {}
    for each in now:
        last = known.get(each.name)
        if last is None or (last.state, last.faults) != (each.state, each.faults):
            worse = last is not None and bool(each.faults - last.faults)
            found.setdefault((each.state, each.faults, worse), AxisChange(
                [], each.state, each.faults, each.text, worse)).names.append(each.name)
    return list(found.values())


#: Columns of the table beside name and mode: keys of the cells, and the warnings. Then those that
#: are left out on a narrow terminal, in this order; warnings never are.
_COLUMNS = ('position', 'value', 'unit', 'velocity', 'target', 'error', 'correction', 'limits',
            'fastest', 'switches', 'tracking', 'lock', 'body', 'quantity', 'warnings')
_DISPENSABLE = ('fastest', 'velocity', 'limits', 'correction', 'switches', 'target', 'tracking',
                'lock', 'quantity', 'body', 'error', 'unit')
#: Columns of text; the others are numbers.
_TEXTS = ('axis', 'mode', 'unit', 'limits', 'fastest', 'switches', 'tracking', 'lock', 'body',
          'quantity', 'warnings')


def table(
    axes: Sequence[tuple[str, str, Mapping[str, str]]], width: int = 0,
) -> list[str]:
    """Format name, mode and cells of each axis; ``width`` 0 is no limit."""
    keys = [key for key in _COLUMNS if any(key in cells for _, _, cells in axes)]
    rows = [(name, mode, *(cells.get(key, '') for key in keys)) for name, mode, cells in axes]
    return format_table(('axis', 'mode', *keys), rows, _TEXTS, width,
                        [key for key in _DISPENSABLE if key in keys])
