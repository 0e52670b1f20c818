# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Generate documents from settings: a commented YAML parameter file, and a Markdown table."""

from collections.abc import Mapping, Sequence
from typing import Any

from optitrack_vrpn.core.settings.parameters import Parameter, parameters_of
from optitrack_vrpn.core.settings.schema import Change

#: Names that YAML 1.1 reads as something other than a string.
_NO_PLAIN_KEYS = ('on', 'off', 'yes', 'no', 'y', 'n', 'true', 'false', 'null')
#: Marks of parameters in the table, by the time at which they can change.
_MARKS = {Change.ANY_TIME: '', Change.CONFIGURE: '\\*', Change.START: '\\*\\*'}


def yaml_value(value: Any) -> str:
    """Return a value as YAML that ROS reads with the same type."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, (list, tuple)):
        return '[' + ', '.join(yaml_value(item) for item in value) + ']'
    if isinstance(value, float):
        return repr(round(value, 9))
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _key(name: str) -> str:
    return f"'{name}'" if name.lower() in _NO_PLAIN_KEYS else name


def parameter_file(
    node: str, cls: type[Any], notes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """
    Write the parameter file that ships with a node: every parameter at its default.

    Each has its description above it.

    :param node: the node's default name.
    :param cls: its settings dataclass.
    :param notes: lines of comment that follow a section, by its name.
    """
    lines = [
        f'# All parameters of the node {node} at their defaults; delete those you do not change.',
        f'# Generated from {cls.__module__} by: python -m optitrack_vrpn parameters --write',
        '/**:', '  ros__parameters:']
    section: list[str] = []
    for parameter in parameters_of(cls):
        *path, leaf = parameter.name.split('.')
        if path != section:
            lines += _notes(section, notes)
        for depth, name in enumerate(path):
            if section[:depth + 1] != path[:depth + 1]:
                lines.append('  ' * (depth + 2) + f'{_key(name)}:')
        section = path
        indent = '  ' * (len(path) + 2)
        rule = parameter.rule
        about = rule.allowed or rule.unit
        lines += _wrapped(
            rule.doc + (f' ({about})' if about else ''), f'{indent}# ')
        lines.append(f'{indent}{_key(leaf)}: {yaml_value(parameter.ros_default)}')
    return '\n'.join([*lines, *_notes(section, notes)]) + '\n'


def _notes(section: Sequence[str], notes: Mapping[str, Sequence[str]] | None) -> list[str]:
    indent = '  ' * (len(section) + 2)
    return [f'{indent}# {line}' for line in (notes or {}).get('.'.join(section), ())]


def _wrapped(text: str, prefix: str) -> list[str]:
    lines, line = [], prefix
    for word in text.split():
        # Longest line (characters), as in the code of this package.
        if len(line) + len(word) > 99 and line != prefix:
            lines.append(line.rstrip())
            line = prefix
        line += word + ' '
    return [*lines, line.rstrip()]


def markdown_table(parameters: Sequence[Parameter]) -> str:
    """Return a table of parameters, in which those that are fixed are marked, with when."""
    seen: dict[str, str] = {}    # names by descriptions, to which later rows refer
    lines = ['| parameter | default | allowed | meaning |', '|---|---|---|---|']
    for parameter in parameters:
        rule = parameter.rule
        text = rule.doc.replace('|', '\\|')
        if text in seen and len(text.split()) > 5:
            text = f'see `{seen[text]}`'
        seen.setdefault(text, parameter.name)
        lines.append(
            f'| `{parameter.name}`{_MARKS[rule.change]} '
            f'| `{yaml_value(parameter.ros_default)}` | {rule.allowed or rule.unit} '
            f'| {text} |')
    used = {parameter.rule.change for parameter in parameters}
    for change, mark in _MARKS.items():
        if mark and change in used:
            lines += ['', f'{mark} {change.value}']
    return '\n'.join(lines) + '\n'
