# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parameter files of ROS: for which nodes they are, and the values of one node."""

from collections.abc import Iterator, Mapping, Sequence
import re
from typing import Any

_PARAMETERS = 'ros__parameters'


def files_given(argv: Sequence[str]) -> list[str]:
    """List the parameter files that a command line names for ROS."""
    found: list[str] = []
    for_ros = False
    for argument, following in zip(argv, [*argv[1:], '']):
        if argument in ('--ros-args', '--'):
            for_ros = argument == '--ros-args'
        elif for_ros and argument == '--params-file' and following:
            found.append(following)
    return found


def nodes_of(content: Any) -> list[str]:
    """
    List the full names of nodes, or patterns of names, in a parameter file.

    :param content: parsed content of the file; namespaces may be nested.
    """
    return list(dict.fromkeys(_sections(content, '')))


def _sections(content: Any, above: str) -> Iterator[str]:
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        if key == _PARAMETERS:
            if value is None or isinstance(value, Mapping):
                yield above or '/'
        else:
            yield from _sections(value, f'{above}/{str(key).strip("/")}')


def is_for(pattern: str, full_name: str) -> bool:
    """Return whether a name in a file, with the wildcards ``*`` and ``**`` of rcl, matches."""
    parts = re.escape(pattern).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')
    return re.fullmatch(parts, full_name) is not None


def values_for(content: Any, full_name: str) -> dict[str, Any]:
    """
    Return the parameters of a node in a file, by name; later sections override earlier ones.

    :param content: parsed content of the file.
    :param full_name: full name of the node.
    """
    found: dict[str, Any] = {}

    def look(tree: Any, above: str) -> None:
        for key, value in tree.items() if isinstance(tree, Mapping) else ():
            if key != _PARAMETERS:
                look(value, f'{above}/{str(key).strip("/")}')
            elif is_for(above or '/', full_name):
                found.update(_flat(value, ''))
    look(content, '')
    return found


def _flat(tree: Any, above: str) -> dict[str, Any]:
    """Return the leaves of nested mappings, their names joined by dots."""
    if not isinstance(tree, Mapping):
        return {above: tree} if above else {}
    return {name: leaf for key, value in tree.items()
            for name, leaf in _flat(value, f'{above}.{key}' if above else str(key)).items()}


def dotted_keys(content: Any, inside: int = 0) -> Iterator[str]:
    """
    Find keys that rcl's parser misreads: with a dot, above others, within a section.

    At the end of such a section the parser removes only the last part of the key, so that the
    first part stays in the names of all later keys (rcl_yaml_param_parser of Jazzy).

    :param inside: depth below ``ros__parameters``; 0 outside.
    """
    for key, value in content.items() if isinstance(content, Mapping) else ():
        if isinstance(value, Mapping):
            if inside > 1 and '.' in str(key):
                yield str(key)
            yield from dotted_keys(value, inside + 1 if inside or key == _PARAMETERS else 0)
