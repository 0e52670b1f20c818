# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""For which nodes a ROS parameter file is: rcl passes over those of others without a word."""

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
    List the full names, or patterns of them, that a parameter file has something for.

    :param content: what was read from the file; namespaces may be nested in it.
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
    """Tell whether a name in a file, with ``*`` and ``**`` as rcl has them, means a node."""
    parts = re.escape(pattern).replace(r'/\*\*', r'(/\w+)*').replace(r'/\*', r'/\w+')
    return re.fullmatch(parts, full_name) is not None
