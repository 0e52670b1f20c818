# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read axis tables from YAML files, and write single rows."""

from pathlib import Path
from typing import Any, Union

from optitrack_vrpn.axes.table import AxisRow, AxisTable
from optitrack_vrpn.cli.config_files_io import find_config, read_yaml
from optitrack_vrpn.cli.whole_file_io import whole_file
from optitrack_vrpn.settings import build
import yaml


def load_table(path: Union[str, Path]) -> AxisTable:
    """
    Read an axis table.

    :param path: a file, or the name of a table of the package.
    :raises ConfigurationError: if a value is not allowed; names file, row and key.
    """
    found = find_config(str(path), 'axes_*.yaml')
    return build(AxisTable, read_yaml(found), f'{found}: ')


def row_mapping(row: AxisRow) -> dict[str, Any]:
    """Return a row as plain data, without optional keys that have their defaults."""
    found: dict[str, Any] = {
        'name': row.name, 'body': row.body, 'quantity': row.quantity, 'frame': row.frame,
        'sign': row.sign, 'scale': row.scale, 'unit': row.unit_name, 'zero': row.zero}
    if row.unwrap:
        found['unwrap'] = True
    if row.range is not None:
        found['range'] = list(row.range)
    return found


def write_row(path: Union[str, Path], row: AxisRow) -> None:
    """
    Write a row into a table's file: replace the row of the same name, or append it.

    A missing file is created. The file is replaced in one step, so that a crash leaves the old
    file complete. Comments in it are lost.

    :raises ConfigurationError: if the file cannot be read or is not a table.
    :raises TransportError: if it cannot be written.
    """
    path = Path(path)
    rows: list[Any] = []
    if path.exists():
        rows = [row_mapping(each) for each in
                build(AxisTable, read_yaml(path), f'{path}: ').axes]
    names = [each['name'] for each in rows]
    if row.name in names:
        rows[names.index(row.name)] = row_mapping(row)
    else:
        rows.append(row_mapping(row))
    build(AxisTable, {'axes': rows}, f'{path}: ')
    text = yaml.safe_dump({'axes': rows}, sort_keys=False, allow_unicode=True)
    with whole_file(path) as part:
        part.write_text(text, encoding='utf-8')
