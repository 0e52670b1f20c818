# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Generate message definitions from the fields of message classes.

A bag contains the definition of each type, so that it can be read without ROS. Message classes
list their fields (``get_fields_and_field_types``); .msg files need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import re

Fields = Mapping[str, str]

#: Types with different names in IDL and in .msg files.
_BASIC = {'double': 'float64', 'float': 'float32', 'boolean': 'bool', 'octet': 'byte'}
_SEQUENCE = re.compile(r'sequence<(.+?)(?:, *(\d+))?>')
_ARRAY = re.compile(r'(.+?)\[(\d+)\]')
_STRING = re.compile(r'(w?string)<(\d+)>')
_SEPARATOR = '=' * 80


def field_type(idl: str) -> tuple[str, str]:
    """
    Convert a field's type from IDL to .msg syntax.

    :param idl: type from a message class, as in ``sequence<geometry_msgs/Point, 3>``.
    :returns: type in a .msg file, as in ``geometry_msgs/Point[<=3]``, and the type of a nested
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
    Return the definition of a type and of all nested types, in MCAP's ``ros2msg`` encoding.

    :param name: type name, as in ``geometry_msgs/msg/PoseStamped``.
    :param fields_of: returns the fields of a type.
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
