# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write results: a record, and a parameter file of the node, changed with a backup."""

from __future__ import annotations

from collections.abc import Mapping
import os
from pathlib import Path
import re
from typing import Any

from optitrack_vrpn.cli.files_io import ANY, json_text, whole_file
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.calibrate.results import format_name, format_value
from optitrack_vrpn.takes.calibrate.take_io import read_parameters
import yaml

#: The begins of the files of -o.
MADE = 'optitrack_vrpn calibrate'
PARAMETERS = re.compile(f'# made by {MADE}'.encode())
RECORD = re.compile(rf'\{{\s*"made_by": "{MADE}"'.encode())


def write_record(path: Path, content: Mapping[str, Any], force: bool = False) -> None:
    """Write a record as JSON; TransportError if that fails, without a part of it."""
    with whole_file(path, RECORD, force=force) as part:
        part.write_text(json_text({'made_by': MADE, **content}) + '\n', encoding='utf-8')


def changed_text(text: str, rows: Mapping[str, Any], node: str) -> str:
    """
    Return a parameter file with other values; comments and all other lines stay.

    :param text: a file with a section of the node, or of ``/**``.
    :param rows: values by name, with dots between the parts.
    :raises ConfigurationError: if the file has no section for the node.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    section = next((parameters for name in (node, f'/{node}', '/**')
                    for parameters in [_child(_child(root, name), 'ros__parameters')]
                    if isinstance(parameters, yaml.MappingNode) and parameters.value), None)
    if section is None:
        raise ConfigurationError(f'it has no ros__parameters of {node}')
    changes, added = [], []
    end = '\r\n' if '\r\n' in text else '\n'
    indent = ' ' * section.value[0][0].start_mark.column
    for name, value in rows.items():
        found = _find(section, name)
        if found is None:
            added.append(f'{indent}{format_name(name)}: {format_value(value)}{end}')
        else:
            changes.append((found.start_mark.index, found.end_mark.index, format_value(value)))
    at = section.value[0][0].start_mark.index - len(indent)
    changes += [(at, at, ''.join(added))]
    for begin, end, new in sorted(changes, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _child(node: Any, name: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == name), None)
    return None


def _find(section: Any, name: str) -> Any:
    """Return the node of a value, whose name can be split at any of its dots."""
    if (found := _child(section, name)) is not None:
        return found
    parts = name.split('.')
    for count in range(1, len(parts)):
        below = _child(section, '.'.join(parts[:count]))
        if isinstance(below, yaml.MappingNode):
            if (found := _find(below, '.'.join(parts[count:]))) is not None:
                return found
    return None


def apply(path: Path, rows: Mapping[str, Any], node: str) -> Path:
    """
    Change a parameter file, and keep the old one.

    :returns: the backup.
    :raises ConfigurationError: if the file cannot be changed; it then stays as it is.
    :raises TransportError: if it cannot be written; likewise.
    """
    path = Path(os.path.realpath(path))    # a link of colcon build --symlink-install stays one
    old = _bytes_of(path)
    new = _changed(path, old, rows, node)
    backup, number = path.with_name(f'{path.name}.bak'), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f'{path.name}.bak{number}')
    with whole_file(path, ANY) as part:
        part.write_bytes(new)
        read = read_parameters(part, node)
        wrong = [name for name, value in rows.items()
                 if yaml.safe_load(format_value(value)) != read.get(name)]
        if wrong:
            raise ConfigurationError(f'{path}: cannot set {", ".join(wrong)}; it is unchanged')
        with whole_file(backup, ANY) as kept:
            kept.write_bytes(old)
            kept.chmod(path.stat().st_mode & 0o777)
    return backup


def check_changeable(path: Path, node: str) -> None:
    """Raise ConfigurationError if a parameter file cannot be changed."""
    _changed(path, _bytes_of(path), {}, node)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None


def _changed(path: Path, old: bytes, rows: Mapping[str, Any], node: str) -> bytes:
    try:
        text = old.decode('utf-8')
    except UnicodeDecodeError as error:
        raise ConfigurationError(f'{path}: {error}') from None
    parse_yaml(text, str(path), parameters=True)
    try:
        new = changed_text(text, rows, node)
    except ConfigurationError as error:
        raise ConfigurationError(f'{path}: {error}') from None
    parse_yaml(new, str(path), parameters=True)
    return new.encode('utf-8')
