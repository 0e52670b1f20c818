# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Results of a calibration: quantities with deviations, refusals with reasons, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
import math
import re
from typing import Any, NamedTuple

import numpy as np


class Quantity(NamedTuple):
    """
    A value with its deviation.

    :ivar value: a number, or nested lists of numbers.
    :ivar sd: standard deviation of each component; of a quaternion about the three axes.
    :ivar sd_unit: unit of ``sd`` where it differs.
    """

    value: Any
    sd: Any
    unit: str
    sd_unit: str = ''

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        made = {'value': rounded(self.value), 'sd': rounded(self.sd), 'unit': self.unit}
        return {**made, 'sd_unit': self.sd_unit} if self.sd_unit else made


@dataclass
class CalibrationResult:
    """
    What a calibration found.

    :ivar kind: 'imu', 'base' or 'world'.
    :ivar quantities: what passed, by name.
    :ivar refused: why the others did not, by name.
    :ivar notes: what the user should know, one line each.
    :ivar rows: parameters of the node, by name.
    :ivar comments: lines for the YAML file.
    :ivar record: how the result was made.
    """

    kind: str
    quantities: dict[str, Quantity] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Refuse quantities; the first reason of each counts."""
        for name in names:
            self.refused.setdefault(name, reason)
            self.quantities.pop(name, None)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            **{name: quantity.plain() for name, quantity in self.quantities.items()},
            'refused': list(self.refused), 'reasons': self.refused, 'notes': self.notes,
            'parameters': self.rows, 'record': self.record}


def rounded(value: Any) -> Any:
    """Return numbers with ten digits (None for others than finite ones), and arrays as lists."""
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    if isinstance(value, (int, str, bool)) or value is None:
        return value
    number = float(f'{float(value):.10g}')
    return number if math.isfinite(number) else None


def text_of(value: Any, digits: int) -> str:
    """Format a number or a list of them."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return '[' + ', '.join(text_of(part, digits) for part in value) + ']'
    return f'{float(value):.{digits}f}'


def lines(result: CalibrationResult) -> list[str]:
    """Describe a result, one line for each quantity, refusal and note."""
    made = []
    for name, quantity in result.quantities.items():
        largest = float(np.max(np.abs(quantity.sd))) if np.size(quantity.sd) else 0.0
        digits = int(np.clip(1 - np.floor(np.log10(max(largest, 1e-9))), 0, 6))
        sd = np.asarray(quantity.sd, dtype=float)
        shown = text_of(quantity.value, digits) + f' +- {float(sd.max()):.2g}'
        made.append(f'{name}: {shown} {quantity.sd_unit or quantity.unit}'.rstrip())
    for reason in dict.fromkeys(result.refused.values()):
        names = ', '.join(name for name in result.refused if result.refused[name] == reason)
        made.append(f'refused: {names}: {reason}')
    return made + [f'note: {note}' for note in result.notes]


def yaml_text(result: CalibrationResult, node: str) -> str:
    """
    Write the parameters that passed as a parameter file of the node.

    :param node: name of the node.
    """
    made = [f'# {line}' for line in ('made by optitrack_vrpn calibrate', *result.comments)]
    if not result.rows:
        return '\n'.join([*made, '# no parameter passed', ''])
    made += [f'{node}:', '  ros__parameters:']
    made += [f'    {format_name(name)}: {format_value(value)}'
             for name, value in result.rows.items()]
    return '\n'.join([*made, ''])


def format_name(name: str) -> str:
    """Quote a parameter's name for YAML if it needs that: Motive's names have any characters."""
    return name if re.fullmatch(r'[\w. -]+', name) else "'" + name.replace("'", "''") + "'"


def format_value(value: Any) -> str:
    """Format a number or a list as YAML."""
    if isinstance(value, (list, tuple)):
        return '[' + ', '.join(format_value(part) for part in value) + ']'
    text = f'{float(value):.9g}'
    return text if any(mark in text for mark in '.en') else text + '.0'
