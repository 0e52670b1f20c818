# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find the fields of serialised messages from the message definition in a bag, without ROS.

XCDR1 of the OMG (formal/2014-09-03 annex, as written by ROS 2's middlewares): primitive types
aligned to their size, relative to the end of the four bytes of encapsulation. Definitions are in
.msg syntax with nested types, MCAP's ``ros2msg``; they are made from message classes, so that .msg
files need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import functools
import re
import struct
from typing import Any, NamedTuple, Optional, Union

import numpy as np

Path = tuple[Union[str, int], ...]
Fields = Mapping[str, str]

#: Types with different names in IDL and in .msg files.
_FROM_IDL = {'double': 'float64', 'float': 'float32', 'boolean': 'bool', 'octet': 'byte'}
_IDL_SEQUENCE = re.compile(r'sequence<(.+?)(?:, *(\d+))?>')
_IDL_ARRAY = re.compile(r'(.+?)\[(\d+)\]')
_IDL_STRING = re.compile(r'(w?string)<(\d+)>')
_SEPARATOR = '=' * 80

_CODES = {
    'bool': 'u1', 'byte': 'u1', 'char': 'u1', 'int8': 'i1', 'uint8': 'u1', 'int16': 'i2',
    'uint16': 'u2', 'int32': 'i4', 'uint32': 'u4', 'int64': 'i8', 'uint64': 'u8',
    'float32': 'f4', 'float64': 'f8', 'string': 'text'}
_NUMBERS = {*_CODES.values()} - {'text'}
_FIELD = re.compile(r'([\w/]+)(?:<=\d+)?(\[(?:<=)?\d*\])?\s+(\w+)\s*(=?)')
#: Names of .msg syntax in schemas; a type without a definition has no language.
_LANGUAGES = ('ros2msg', 'ros1msg', '')
#: Definitions of the types that are read, for bags that contain none (Humble's sqlite3).
_KNOWN = {
    'std_msgs/Header': 'builtin_interfaces/Time stamp\nstring frame_id',
    'builtin_interfaces/Time': 'int32 sec\nuint32 nanosec',
    'geometry_msgs/Point': 'float64 x\nfloat64 y\nfloat64 z',
    'geometry_msgs/Vector3': 'float64 x\nfloat64 y\nfloat64 z',
    'geometry_msgs/Quaternion': 'float64 x\nfloat64 y\nfloat64 z\nfloat64 w',
    'geometry_msgs/Pose': 'Point position\nQuaternion orientation',
    'geometry_msgs/PoseStamped': 'std_msgs/Header header\nPose pose',
    'geometry_msgs/PoseWithCovariance': 'Pose pose\nfloat64[36] covariance',
    'geometry_msgs/PoseWithCovarianceStamped':
        'std_msgs/Header header\nPoseWithCovariance pose',
    'geometry_msgs/Twist': 'Vector3 linear\nVector3 angular',
    'geometry_msgs/TwistWithCovariance': 'Twist twist\nfloat64[36] covariance',
    'nav_msgs/Odometry': 'std_msgs/Header header\nstring child_frame_id\n'
        'geometry_msgs/PoseWithCovariance pose\ngeometry_msgs/TwistWithCovariance twist',
    'geometry_msgs/Transform': 'Vector3 translation\nQuaternion rotation',
    'geometry_msgs/TransformStamped':
        'std_msgs/Header header\nstring child_frame_id\nTransform transform',
    'tf2_msgs/TFMessage': 'geometry_msgs/TransformStamped[] transforms',
    'sensor_msgs/Imu': 'std_msgs/Header header\ngeometry_msgs/Quaternion orientation\n'
        'float64[9] orientation_covariance\ngeometry_msgs/Vector3 angular_velocity\n'
        'float64[9] angular_velocity_covariance\ngeometry_msgs/Vector3 linear_acceleration\n'
        'float64[9] linear_acceleration_covariance',
    'diagnostic_msgs/KeyValue': 'string key\nstring value',
    'diagnostic_msgs/DiagnosticStatus':
        'byte level\nstring name\nstring message\nstring hardware_id\nKeyValue[] values',
    'diagnostic_msgs/DiagnosticArray': 'std_msgs/Header header\nDiagnosticStatus[] status'}


class Field(NamedTuple):
    """
    A field of a message type.

    :ivar kind: a code such as 'f8' or 'text', or the name of a nested type.
    :ivar size: None for one, -1 for a sequence, else the length of an array.
    """

    name: str
    kind: str
    size: Optional[int]


class Leaf(NamedTuple):
    """
    A primitive of a message.

    :ivar code: of numpy, as in '<f8'; 'text'; 'count' for the length of a sequence.
    :ivar at: offset in the message (bytes).
    :ivar size: all bytes, including the length of a text.
    """

    path: Path
    code: str
    at: int
    size: int


Types = Mapping[str, list[Field]]


def parse_definition(type_name: str, text: str, encoding: str = 'ros2msg') -> Types:
    """
    Parse a definition with its nested types; an empty one is taken from the types known here.

    :param type_name: as in ``geometry_msgs/msg/PoseStamped``.
    :returns: the types; empty if the text is in another language than .msg, is damaged, or lacks a
        nested type: its messages cannot be decoded, because their fields can be in another order.
    """
    try:
        return _parse(type_name, text if encoding in _LANGUAGES else f'?{encoding}')
    except ValueError:
        return {}


def _parse(type_name: str, text: str) -> Types:
    root = type_name.replace('/msg/', '/')
    texts = dict(_KNOWN)
    if text.strip():
        first, *others = re.split(r'^=+\s*$', text, flags=re.M)
        texts[root] = first
        for other in others:
            head, _, body = other.strip().partition('\n')
            texts[head.removeprefix('MSG:').strip().replace('/msg/', '/')] = body
    types: dict[str, list[Field]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        if name not in texts:
            raise ValueError(f'the definition of {name} is missing')
        types[name] = []
        for line in texts[name].splitlines():
            line = line.partition('#')[0].strip()
            found = _FIELD.match(line)
            if line and found is None:
                raise ValueError(f'{line!r} is no line of a message definition')
            if found is None or found[4]:    # a constant
                continue
            kind = _CODES.get(found[1]) or _full_name(found[1], name)
            digits = found[2] and found[2].strip('[]')
            types[name].append(Field(
                found[3], kind, None if digits is None else int(digits) if digits.isdecimal()
                else -1))
            if found[1] not in _CODES:
                waiting.append(kind)
    return types


def _full_name(kind: str, inside: str) -> str:
    if kind == 'Header':
        return 'std_msgs/Header'
    return kind.replace('/msg/', '/') if '/' in kind else f'{inside.partition("/")[0]}/{kind}'


def leaves(data: bytes, types: Types, root: str) -> Iterator[Leaf]:
    """
    Walk a message.

    :param root: type of the message.
    :raises ValueError: if it is damaged, or not plain CDR.
    """
    if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
        raise ValueError('not plain CDR')
    order = '<' if data[1] else '>'
    at = 4

    def length() -> int:
        nonlocal at
        at += -(at - 4) % 4
        if at + 4 > len(data):
            raise ValueError('truncated')
        found: int = struct.unpack_from(f'{order}I', data, at)[0]
        at += 4
        if found > len(data):
            raise ValueError('longer than its message')
        return found

    def visit(name: str, path: Path) -> Iterator[Leaf]:
        nonlocal at
        for field, kind, count in types[name]:
            here = (*path, field)
            if count is not None and count < 0:
                count = length()
                yield Leaf(here, 'count', at - 4, 4)
            if kind == 'text':
                for number in range(1 if count is None else count):
                    size = length()
                    yield Leaf(here if count is None else (*here, number), kind, at - 4, 4 + size)
                    at += size
            elif kind in _NUMBERS:
                width = int(kind[1])
                if count != 0:
                    at += -(at - 4) % width
                    yield Leaf(here, order + kind, at, width * (1 if count is None else count))
                    at += width * (1 if count is None else count)
            else:
                for number in range(1 if count is None else count):
                    yield from visit(kind, here if count is None else (*here, number))
        if not types[name]:    # an empty type has one byte
            at += 1
        if at > len(data):
            raise ValueError('truncated')

    return visit(root.replace('/msg/', '/'), ())


def decode(data: bytes, types: Types, root: str) -> dict[Any, Any]:
    """
    Decode a message to nested dictionaries.

    Sequences of numbers are lists, the elements of other sequences have their numbers as keys.

    :raises ValueError: if it is damaged.
    """
    made: dict[Any, Any] = {}
    for path, code, at, size in leaves(data, types, root):
        place = functools.reduce(lambda node, key: node.setdefault(key, {}), path[:-1], made)
        if code == 'count':
            place[path[-1]] = {}
        elif code == 'text':
            place[path[-1]] = data[at + 4:at + size].rstrip(b'\0').decode(errors='replace')
        else:
            numbers = np.frombuffer(data, code, size // int(code[2:]), at).tolist()
            alone = len(numbers) == 1 and path[-1] not in place
            place[path[-1]] = numbers[0] if alone else numbers
    return made


def field_type(idl: str) -> tuple[str, str]:
    """
    Convert a field's type from IDL to .msg syntax.

    :param idl: type from a message class, as in ``sequence<geometry_msgs/Point, 3>``.
    :returns: type in a .msg file, as in ``geometry_msgs/Point[<=3]``, and the type of a nested
        message ('' for a basic type).
    """
    suffix = ''
    sequence, array = _IDL_SEQUENCE.fullmatch(idl), _IDL_ARRAY.fullmatch(idl)
    if sequence:
        idl, suffix = sequence[1], f'[<={sequence[2]}]' if sequence[2] else '[]'
    elif array:
        idl, suffix = array[1], f'[{array[2]}]'
    bounded = _IDL_STRING.fullmatch(idl)
    if bounded:
        return f'{bounded[1]}<={bounded[2]}{suffix}', ''
    nested = idl if '/' in idl else ''
    return _FROM_IDL.get(idl, idl) + suffix, nested


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
