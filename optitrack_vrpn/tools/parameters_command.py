# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Make the parameter file and the README's table from the one table; print or write them."""

from pathlib import Path
import sys
from typing import Optional, Sequence

import optitrack_vrpn
from optitrack_vrpn.cli.arguments import Parser, USAGE, without_ros_arguments
from optitrack_vrpn.parameters import TABLE, Value

BEGIN, END = '<!-- parameters -->', '<!-- /parameters -->'


def _yaml_value(value: Value) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, tuple):
        return '[' + ', '.join(_yaml_value(item) for item in value) + ']'
    if isinstance(value, float):
        return repr(round(value, 6))
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def yaml_text() -> str:
    """Write the parameter file that ships with the package: every parameter at its default."""
    lines = [
        '# Every parameter of optitrack_vrpn at its default; delete what you do not change.',
        '# Made from optitrack_vrpn/parameters.py by: python -m optitrack_vrpn parameters --write',
        '/**:',
        '  ros__parameters:',
    ]
    section: list[str] = []
    for row in TABLE:
        *path, leaf = row.name.split('.')
        if section == ['bodies'] != path:
            lines += _EXAMPLE_OF_A_BODY
        for depth, name in enumerate(path):
            if section[:depth + 1] != path[:depth + 1]:
                lines.append('  ' * (depth + 2) + f'{name}:')
        section = path
        indent = '  ' * (len(path) + 2)
        unit = f' [{row.unit}]' if row.unit else ''
        allowed = f' ({row.allowed})' if row.allowed else ''
        lines += _wrapped(f'{row.description}{unit}{allowed}', f'{indent}# ')
        lines.append(f'{indent}{leaf}: {_yaml_value(row.default)}')
    return '\n'.join(lines) + '\n'


_EXAMPLE_OF_A_BODY = (
    '      # Settings for one body, under its name or a pattern: all of truth.*, lowpass.* and',
    '      # motion.* (but motion.learn_noise), and these:',
    "      # 'Rigid Body 1':",
    '      #   name: cf1            # its name in ROS; topic: and frame: name one of the two',
    '      #   truth: {max_speed: 30.0}      # this one is fast',
    '      #   lowpass: {cutoff_hz: 5.0}     # and smoothed',
    "      #   offset: [0.0, 0.0, -0.05]  # its base in Motive's body: x y z (m), then rpy or "
    'quaternion',
)


def _wrapped(text: str, prefix: str, width: int = 99) -> list[str]:
    lines, line = [], prefix
    for word in text.split():
        if len(line) + len(word) > width and line != prefix:
            lines.append(line.rstrip())
            line = prefix
        line += word + ' '
    return [*lines, line.rstrip()]


def markdown_table() -> str:
    """Write the table of the README, whose marks say when a parameter can not be changed."""
    lines = ['| parameter | type | default | allowed | what |', '|---|---|---|---|---|']
    for row in TABLE:
        allowed = row.allowed + (f' {row.unit}' if row.unit else '')
        star = '\\*\\*' if row.at_start else '' if row.dynamic else '\\*'
        lines.append(
            f'| `{row.name}`{star} | {row.type_name} | `{_yaml_value(row.default)}` '
            f'| {allowed.strip()} | {row.description} |')
    return '\n'.join([
        *lines, '', '\\* fixed while the node is configured',
        '', '\\*\\* read when the node starts, and fixed from then on']) + '\n'


def with_table(readme: str) -> str:
    """
    Put the present table between the marks of a README.

    :returns: the README; the same one if it has no marks.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return readme
    return f'{before}{BEGIN}\n{markdown_table()}{END}{after}'


def documents(root: Path) -> dict[Path, str]:
    """
    Make every file that follows from the table as it should be.

    :param root: a checkout.
    :returns: contents by path; a README that is not there is left out.
    """
    made = {root / 'config' / 'optitrack_vrpn.yaml': yaml_text()}
    readme = root / 'README.md'
    if readme.exists():
        made[readme] = with_table(readme.read_text(encoding='utf-8'))
    return made


def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: exit code.
    """
    parser = Parser(
        prog='parameters',
        description='Print a parameter file for the node: every default and what it means.')
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument('--markdown', action='store_true', help="print the README's table instead")
    choice.add_argument(
        '--write', action='store_true',
        help='for developers, in a checkout: write config/optitrack_vrpn.yaml and the table of '
        'README.md anew')
    arguments = parser.parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    if not arguments.write:
        print(markdown_table() if arguments.markdown else yaml_text(), end='')
        return 0
    root = Path(optitrack_vrpn.__file__).resolve().parent.parent
    if not (root / 'setup.py').exists():
        print('parameters: --write needs a checkout of the repository', file=sys.stderr)
        return USAGE
    for path, text in documents(root).items():
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            path.write_text(text, encoding='utf-8')
            print(f'wrote {path}')
    return 0
