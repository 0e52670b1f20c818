# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Message definitions from the fields of message classes.

A bag holds the definition of each type, so that it can be read without ROS. Where ROS is there,
classes know their fields (``get_fields_and_field_types``); .msg files need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import re

Fields = Mapping[str, str]

#: IDL's names of what .msg files call otherwise.
_BASIC = {'double': 'float64', 'float': 'float32', 'boolean': 'bool', 'octet': 'byte'}
_SEQUENCE = re.compile(r'sequence<(.+?)(?:, *(\d+))?>')
_ARRAY = re.compile(r'(.+?)\[(\d+)\]')
_STRING = re.compile(r'(w?string)<(\d+)>')
_SEPARATOR = '=' * 80


def field_type(idl: str) -> tuple[str, str]:
    """
    Translate a field's type.

    :param idl: as a message class says it, as in ``sequence<geometry_msgs/Point, 3>``.
    :returns: as a .msg file has it, as in ``geometry_msgs/Point[<=3]``, and the type of a nested
        message ('' for a basic type).
    """
    suffix = ''
    sequence, array = _SEQUENCE.fullmatch(idl), _ARRAY.fullmatch(idl)
    if sequence:
        idl, suffix = sequence[1], f'[<={sequence[2]}]' if sequence[2] else '[]'
    elif array:
        idl, suffix = array[1], f'[{array[2]}]'
    bounded = _STRING.fullmatch(idl)
    if bounded:
        return f'{bounded[1]}<={bounded[2]}{suffix}', ''
    nested = idl if '/' in idl else ''
    return _BASIC.get(idl, idl) + suffix, nested


def definition(name: str, fields_of: Callable[[str], Fields]) -> str:
    """
    Write the definition of a type and of all it holds, as MCAP's ``ros2msg`` wants it.

    :param name: as in ``geometry_msgs/msg/PoseStamped``.
    :param fields_of: gives the fields of a type of such a name.
    """
    parts: dict[str, str] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop(0)
        short = current.replace('/msg/', '/')
        if short in parts:
            continue
        lines = []
        for field, idl in fields_of(current).items():
            text, nested = field_type(idl)
            lines.append(f'{text} {field}')
            if nested:
                waiting.append(nested.replace('/', '/msg/', 1))
        parts[short] = '\n'.join(lines) + '\n'
    first, *others = parts.items()
    return first[1] + ''.join(
        f'{_SEPARATOR}\nMSG: {short}\n{text}' for short, text in others)
