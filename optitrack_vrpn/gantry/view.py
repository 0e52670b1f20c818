# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Format axes for the terminal and for messages: a table, a row per axis, cells as strings."""

from typing import Mapping, Sequence

from optitrack_vrpn.cli import table as cli_table
from optitrack_vrpn.gantry.control import AxisView

_HEAD = ('axis', 'mode', 'position', 'target', 'error', 'correction', 'limits', 'switches',
         'loop', 'lock', 'warnings')
_LEFT = ('axis', 'mode', *_HEAD[6:])
#: Columns in the order in which they are left out on a narrow terminal; warnings never are.
_DISPENSABLE = ('limits', 'correction', 'switches', 'target', 'loop', 'lock', 'error')


def cells(view: AxisView) -> dict[str, str]:
    """Return the displayed values of an axis as strings, for a message."""
    digits = 4 if view.unit == 'm' else 2

    def number(value: 'float | None') -> str:
        return '' if value is None else f'{value:.{digits}f}'

    return {
        'unit': view.unit, 'position': number(view.position), 'target': number(view.target),
        'velocity': number(view.velocity), 'motor': number(view.motor),
        'measured': number(view.measured), 'error': number(view.error),
        'correction': number(view.offset),
        'limits': f'{"" if view.low is None else format(view.low, "g")}..'
                  f'{"" if view.high is None else format(view.high, "g")}',
        'switches': ''.join(letter for letter, on in zip('LHR', view.switches) if on),
        'tracking': 'closed' if view.tracking else 'open',
        'referenced': 'yes' if view.referenced else 'no',
        'remembered': view.remembered, 'warnings': ', '.join(view.warnings)}


def table(
    axes: Sequence[tuple[str, str, Mapping[str, str]]], width: int = 0,
) -> list[str]:
    """
    Format the table.

    :param axes: name, mode and cells of each axis.
    :param width: columns of the terminal; 0 for no limit.
    :returns: lines without colours.
    """
    rows = []
    for name, mode, shown in axes:
        locked = f'locked ({shown["remembered"]})' if shown.get('remembered') else (
            'locked' if mode == 'lock' else '')
        rows.append((
            name, mode, f'{shown.get("position", "")} {shown.get("unit", "")}',
            *(shown.get(key, '') for key in (
                'target', 'error', 'correction', 'limits', 'switches', 'tracking')),
            locked, shown.get('warnings', '')))
    return cli_table.table(_HEAD, rows, _LEFT, width, _DISPENSABLE)
