# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Print the parameter file, or write it and the README's table anew from the one table."""

import argparse
from pathlib import Path
import sys
from typing import Optional, Sequence

import optitrack_vrpn
from optitrack_vrpn.cli.arguments import without_ros_arguments
from optitrack_vrpn.parameters import markdown_table, yaml_text

BEGIN, END = '<!-- parameters -->', '<!-- /parameters -->'


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
    parser = argparse.ArgumentParser(
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
        return 1
    for path, text in documents(root).items():
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            path.write_text(text, encoding='utf-8')
            print(f'wrote {path}')
    return 0
