# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Format a recording of a run as in the thesis: a CSV with semicolons, one row per cycle.

Columns: time in ms; position, velocity and acceleration of each axis; the three coefficients of
the cubic of each axis; the mocap value of each axis, empty without a valid value.
"""

from typing import Mapping, Sequence

from optitrack_vrpn.gantry.control import AxisView
from optitrack_vrpn.gantry.cubic import Cubic


def header(names: Sequence[str]) -> str:
    """Return the first line: the names of the columns."""
    cells = ['time_ms']
    for part in ('position', 'velocity', 'acceleration'):
        cells += [f'{name}_{part}' for name in names]
    for name in names:
        cells += [f'{name}_a', f'{name}_b', f'{name}_c']
    return ';'.join([*cells, *(f'{name}_mocap' for name in names)]) + '\n'


def row(time_ms: float, views: Sequence[AxisView], cubics: Mapping[str, Cubic]) -> str:
    """
    Return the line of a cycle.

    :param time_ms: time since the start of the recording (ms).
    :param views: state of each axis.
    :param cubics: cubic of each axis, by name.
    """
    cells = [f'{time_ms:.1f}']
    for part in ('position', 'velocity', 'acceleration'):
        cells += [f'{getattr(view, part):.9g}' for view in views]
    for view in views:
        cubic = cubics[view.name]
        cells += [f'{cubic.a:.9g}', f'{cubic.b:.9g}', f'{cubic.c:.9g}']
    cells += ['' if view.measured is None else f'{view.measured:.9g}' for view in views]
    return ';'.join(cells) + '\n'
