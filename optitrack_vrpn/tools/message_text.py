# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Format any ROS message as text, as `ros2 topic echo` does."""

from typing import Any

#: Chosen: elements of a long array that are shown; they fit one line. Halved, less is visible;
#: doubled, it takes two lines.
_MOST = 16


def lines_of(value: Any, indent: int = 0) -> list[str]:
    """
    Format a message.

    :param value: a ROS message.
    :param indent: number of spaces before each line.
    :returns: lines of YAML.
    """
    lines: list[str] = []
    for name in value.get_fields_and_field_types():
        lines += _field(name, getattr(value, name), ' ' * indent)
    return lines


def _field(name: str, value: Any, space: str) -> list[str]:
    if hasattr(value, 'get_fields_and_field_types'):
        return [f'{space}{name}:', *lines_of(value, len(space) + 2)]
    if isinstance(value, str):
        return [f'{space}{name}: {value!r}']
    if not hasattr(value, '__len__'):
        return [f'{space}{name}: {value}']
    items = list(value)
    more = [f'{space}# and {len(items) - _MOST} more'] if len(items) > _MOST else []
    if items and hasattr(items[0], 'get_fields_and_field_types'):
        lines = [f'{space}{name}:']
        for item in items[:_MOST]:
            first, *rest = lines_of(item, len(space) + 2)
            lines += [f'{space}- {first.strip()}', *rest]
        return lines + more
    shown = ', '.join(repr(item) if isinstance(item, str) else str(item)
                      for item in items[:_MOST])
    return [f'{space}{name}: [{shown}]', *more]
