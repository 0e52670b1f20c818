# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Generate parameter files and tables of parameters from the settings of the nodes."""

import importlib
from pathlib import Path
import sys
from typing import Any, Optional, Sequence

import optitrack_vrpn
from optitrack_vrpn.cli.arguments import Parser, USAGE
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.rows_io import Node, nodes
from optitrack_vrpn.core.settings.documents import (
    markdown_table, parameter_file as write_parameter_file)
from optitrack_vrpn.core.settings.parameters import Parameter, parameters_of

_REMAKE = 'python -m optitrack_vrpn parameters --write'


def settings_class(node: Node) -> type[Any]:
    """Import the settings dataclass of a node."""
    module, _, name = node.settings.partition(':')
    found: type[Any] = getattr(importlib.import_module(module), name)
    return found


def parameters(node: Node) -> tuple[Parameter, ...]:
    """List the parameters of a node."""
    return parameters_of(settings_class(node))


def _note(node: Node, name: str, default: Any) -> Any:
    return getattr(importlib.import_module(node.notes), name, default) if node.notes else default


def parameter_file(node: Node) -> str:
    """Return the parameter file of a node: every parameter at its default."""
    return write_parameter_file(
        node.name, settings_class(node), _note(node, 'YAML_NOTES', {}))


def section(node: Node) -> str:
    """Return the tables of the parameters of a node."""
    seen: dict[str, str] = {}
    return '\n'.join((
        markdown_table(parameters(node), seen),
        *(sections(seen) for sections in filter(None, [_note(node, 'sections', None)]))))


def page() -> str:
    """Write docs/parameters.md: the main node in full, the others by their parameter files."""
    main, *others = nodes()
    return '\n'.join((
        '# Parameters', '',
        f'This page is generated from the settings in the code by `{_REMAKE}`. '
        '`ros2 run optitrack_vrpn parameters --node NAME` prints a parameter file, which has the '
        'meaning and the range of each parameter, with `--markdown` a table.', '',
        f'## {main.name}', '', f'Parameter file: `config/{main.name}.yaml`. The type of a '
        'parameter is that of its default: `1.0` double, `1` int, `[]` a list.', '',
        section(main), *(_in_short(node) for node in others)))


def _in_short(node: Node) -> str:
    summary = (settings_class(node).__doc__ or '').strip().splitlines()[0]
    names = ', '.join(f'`{each.name}`' for each in parameters(node))
    return f'## {node.name}\n\n{summary} See `config/{node.name}.yaml`: {names}.\n'


def generated(root: Path) -> dict[Path, str]:
    """Generate every file that is made from settings, by path, for a checkout."""
    made = {root / 'config' / f'{node.name}.yaml': parameter_file(node) for node in nodes()}
    made[root / 'docs' / 'parameters.md'] = page()
    return made


@command('parameters')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool."""
    by_name = {node.name: node for node in nodes()}
    parser = Parser(
        prog='parameters',
        description='Print a parameter file for a node, with all defaults and descriptions.')
    parser.add_argument(
        '--node', choices=list(by_name), default=next(iter(by_name)),
        help='the node (default: %(default)s)')
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument('--markdown', action='store_true', help='print a table instead')
    choice.add_argument(
        '--write', action='store_true',
        help='for developers, in a checkout: update config/*.yaml and docs/parameters.md')
    arguments, _ = parser.parse(argv)
    if not arguments.write:
        node = by_name[arguments.node]
        print(section(node) if arguments.markdown else parameter_file(node), end='')
        return 0
    root = Path(optitrack_vrpn.__file__).resolve().parent.parent
    if not (root / 'setup.py').exists():
        print('parameters: --write needs a checkout of the repository', file=sys.stderr)
        return USAGE
    for path, text in generated(root).items():
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            path.write_text(text, encoding='utf-8')
            print(f'wrote {path}')
    return 0
