# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Generate parameter files and tables of parameters from the settings of the nodes."""

import importlib
from pathlib import Path
import sys
from typing import Any, Optional, Sequence

import optitrack_vrpn
from optitrack_vrpn.cli.arguments import Parser, USAGE
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.files_io import read_parameter_file
from optitrack_vrpn.cli.rows_io import Node, nodes
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.documents import (
    markdown_table, parameter_file as write_parameter_file)
from optitrack_vrpn.core.settings.parameters import (
    is_foreign, Parameter, parameters_of, sift, unknown)
from optitrack_vrpn.core.settings.peers import of_other_drivers
from optitrack_vrpn.core.settings.schema import Change
from optitrack_vrpn.node.base.parameter_files import dotted_keys, is_for, nodes_of, values_for

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
    return '\n'.join((markdown_table(parameters(node)), *_own_sections(node)))


def _own_sections(node: Node) -> tuple[str, ...]:
    sections = _note(node, 'sections', None)
    return (sections(),) if sections is not None else ()


def page() -> str:
    """Write docs/parameters.md: what the parameter files of the nodes do not contain."""
    return '\n'.join((
        '# Parameters', '',
        f'This page is generated from the settings in the code by `{_REMAKE}`. The file '
        '`config/NAME.yaml` has every parameter of a node with its default, range and meaning; '
        '`ros2 run optitrack_vrpn parameters --node NAME` prints it, with `--markdown` as a '
        'table. The type of a parameter is that of its default: `1.0` double, `1` int, `[]` a '
        'list.', '',
        'Parameters are fixed while a node is configured. These can change at any time, within '
        'the limits stated below:', '',
        *(f'- {node.name}: {free}' for node in nodes() if (free := _changeable(node))), '',
        *('\n'.join((f'## {node.name}', '', *sections)) for node in nodes()
          if (sections := _own_sections(node)))))


def _changeable(node: Node) -> str:
    """List the parameters that can change at any time; a group is named if all of it can."""
    of_group: dict[str, list[Parameter]] = {}
    for each in parameters(node):
        of_group.setdefault(each.name.rpartition('.')[0], []).append(each)
    found = []
    for group, several in of_group.items():
        free = [each.name for each in several if each.rule.change is Change.ANY_TIME]
        found += [f'{group}.*'] if group and len(free) == len(several) else free
    return ', '.join(f'`{name}`' for name in found)


def check_file(node: Node, path: str) -> list[str]:
    """
    Check a parameter file for a node that has its usual name.

    :returns: what the node would do with it, one line each.
    :raises ConfigurationError: if it cannot be read, has no section for the node, or a wrong
        value or name.
    """
    content, name = read_parameter_file(path), f'/{node.name}'
    found = nodes_of(content)
    if not found:
        raise ConfigurationError(
            f'{path} has no parameters of a node: write {node.name}:, below it ros__parameters:, '
            'and below that the parameters')
    if not any(is_for(pattern, name) for pattern in found):
        peers = of_other_drivers(
            each for pattern in found for each in values_for(content, pattern))
        raise ConfigurationError(f'no parameter of {path} is for {name}: the file is for '
                                 f'{", ".join(found)}; '
                                 f'write {name} or /** there' + (f'; {peers}' if peers else ''))
    values = values_for(content, name)
    check = _note(node, 'check', None)
    dotted = [f'{key!r} has a dot: ROS makes the part before it a prefix of all later keys; write '
              f'{key.replace(".", "?")!r}, a pattern' for key in dotted_keys(content)]
    if check is not None:
        lines: list[str] = check(values)
        return lines + dotted
    _, wrong = sift(settings_class(node), values)
    known = [each.name for each in parameters(node)]
    wrong += [unknown(each, known) for each in values
              if each not in known and not is_foreign(each, known)]
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return dotted


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
    choice.add_argument('--check', metavar='FILE', help=(
        'check a parameter file without a node: names, values, and what would be published'))
    choice.add_argument(
        '--write', action='store_true',
        help='for developers, in a checkout: update config/*.yaml and docs/parameters.md')
    arguments, _ = parser.parse(argv)
    node = by_name[arguments.node]
    if arguments.check is not None:
        with loading('parameters'):
            lines = check_file(node, arguments.check)
        print('\n'.join([f'{node.name} can be configured with {arguments.check}', *lines]))
        return 0
    if not arguments.write:
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
