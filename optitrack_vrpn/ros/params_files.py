# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find parameter files that set nothing for a node; rcl ignores them without a message."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
from pathlib import Path
import re
from typing import Any

from optitrack_vrpn.names import printable
from rclpy.node import Node
import yaml

_PARAMETERS = 'ros__parameters'
#: Chosen: names in a file that a warning lists.
_MOST_NAMES = 5


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
            yield above or '/'
        else:
            yield from _sections(value, f'{above}/{str(key).strip("/")}')


def is_for(pattern: str, full_name: str) -> bool:
    """Return whether a name in a file, with the wildcards ``*`` and ``**`` of rcl, matches."""
    parts = re.escape(pattern).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')
    return re.fullmatch(parts, full_name) is not None


def warn_of_files_of_others(node: Node, argv: Sequence[str]) -> None:
    """
    Log parameter files that set nothing for this node.

    :param argv: the command line.
    """
    name = node.get_fully_qualified_name()
    for file in files_given(argv):
        # rcl itself reports files that it cannot read.
        with contextlib.suppress(OSError, ValueError, RecursionError, yaml.YAMLError):
            found = nodes_of(yaml.safe_load(Path(file).read_text(encoding='utf-8')))
            if not any(is_for(pattern, name) for pattern in found):
                shown = ', '.join(printable(each) for each in found[:_MOST_NAMES])
                if len(found) > _MOST_NAMES:
                    shown += f' and {len(found) - _MOST_NAMES} more'
                node.get_logger().warning(
                    f'{file} sets no parameter of this node: it contains {shown or "no node"}, '
                    f'and the node is {name}; use {name} or /** in the file')
