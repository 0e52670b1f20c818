# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The commands, nodes and checks of all packages, as each package lists them in its ``__init__.py``.

The lists are literals, which are read without importing the package:

- ``TOOLS``: commands, as (name, ``file:function``, summary). They become ``ros2 run
  optitrack_vrpn NAME`` and ``python -m optitrack_vrpn NAME``.
- ``NODES``: nodes with settings, as (name, ``file:Class``), perhaps with a file of notes. They
  become ``config/NAME.yaml`` and a section of docs/parameters.md.
- ``CHECKS``: checks that the doctor loads, as ``file:Class``.

setup.py executes this file alone, so that it imports only the standard library.
"""

import ast
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = 'optitrack_vrpn'


class Tool(NamedTuple):
    """
    One tool.

    :ivar name: name on the command line.
    :ivar function: entry point, as ``module:function``. It has no arguments, reads ``sys.argv``
        and returns the exit code.
    :ivar summary: one line for the list of tools.
    """

    name: str
    function: str
    summary: str


class Node(NamedTuple):
    """
    One node.

    :ivar name: its default name, also that of its parameter file.
    :ivar settings: its settings dataclass, as ``module:Class``; the module imports no ROS. The
        first line of the class's docstring is the heading of its table.
    :ivar notes: a module with more for its documents; '' for none. It may define
        ``YAML_NOTES`` (comment lines by section of the parameter file) and ``sections()``
        (Markdown that follows the table).
    """

    name: str
    settings: str
    notes: str = ''


def rows(table: str) -> list[tuple[str, Any]]:
    """Read a table from all packages, ``node`` first: (full name of the package, row)."""
    found = []
    folder = Path(__file__).resolve().parents[1]
    for path in sorted(folder.rglob('__init__.py'),
                       key=lambda path: (path.parent.name != 'node', path)):
        text = path.read_text(encoding='utf-8')
        if f'\n{table} = ' not in text:
            continue
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == table:
                package = '.'.join((PACKAGE, *path.parent.relative_to(folder).parts))
                found += [(package, row) for row in ast.literal_eval(statement.value)]
    return found


def tools() -> list[Tool]:
    """List the commands of all packages."""
    return [Tool(name, f'{package}.{function}', summary)
            for package, (name, function, summary) in rows('TOOLS')]


def nodes() -> list[Node]:
    """List the nodes of all packages that have settings."""
    return [Node(name, *(f'{package}.{place}' for place in places))
            for package, (name, *places) in rows('NODES')]


def checks() -> list[str]:
    """List the checks of all packages, as ``module:class``; see ``doctor/extensions_ros.py``."""
    return [f'{package}.{place}' for package, place in rows('CHECKS')]


def console_scripts() -> list[str]:
    """List the tools as entry points of setuptools."""
    return [f'{tool.name} = {tool.function}' for tool in tools()]
