# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings as fields of frozen dataclasses that state their unit, range and meaning.

``checked`` makes the constructor of such a dataclass check every field. ``build`` creates a tree
of dataclasses from plain data, as in a YAML file. Both report the wrong value, its place, and the
allowed values.
"""

from collections.abc import Callable, Mapping
import dataclasses
from dataclasses import dataclass, MISSING
import difflib
import enum
import functools
import math
import re
import types
import typing
from typing import Any, Optional, TypeVar, Union

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.removed import KEYS, refusal, VALUES

T = TypeVar('T')

#: Numbers that YAML 1.1 reads as text.
_EXPONENT = re.compile(r'[-+]?\d+[eE][-+]?\d+')
_WORDS = {
    float: 'a number', int: 'a whole number', str: 'a string in quotes', bool: 'true or false'}
#: Types of values as users write them: ``5`` for 5.0. A truth value is no number.
_ACCEPTED: dict[Any, tuple[type[Any], ...]] = {
    float: (float, int), int: (int,), str: (str,), bool: (bool,)}
_PLURALS = {float: 'numbers', int: 'whole numbers', str: 'strings', bool: 'true or false'}


class Change(enum.Enum):
    """When a node accepts a change of a setting."""

    ANY_TIME = 'can change at any time'
    CONFIGURE = 'fixed while the node is configured'
    START = 'read when the node starts'


def setting(
    default: Any, *, unit: str = '', low: Optional[float] = None, high: Optional[float] = None,
    choices: tuple[str, ...] = (), tags: Optional[dict[str, type[Any]]] = None, doc: str = '',
    change: Change = Change.CONFIGURE, name: Optional[str] = None,
) -> Any:
    """
    Declare one field of a settings dataclass.

    :param default: its default; must be immutable. MISSING makes the field required.
    :param unit: unit of a number.
    :param low: smallest value; of each element if the field is a vector.
    :param high: largest value, likewise.
    :param choices: the allowed strings.
    :param tags: for a field that contains one of several dataclasses (or a list of such): the
        dataclass for each value of the key ``type``.
    :param doc: one sentence that describes the field for users.
    :param change: when a node accepts a change of it.
    :param name: name as a ROS parameter if it differs from the field's.
    """
    metadata = {'unit': unit, 'low': low, 'high': high, 'choices': choices, 'tags': tags,
                'doc': doc, 'change': change, 'name': name}
    if default is MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def section(default: Any, *, name: Optional[str] = None, doc: str = '') -> Any:
    """
    Declare a field that contains a settings dataclass.

    Its parameters are named ``section.field``.

    :param default: an instance of the dataclass.
    :param name: name of the section if it differs from the field's; with '' the names of the
        parameters do not contain the section.
    """
    return setting(default, name=name, doc=doc)


def is_section(hint: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether a field holds one settings dataclass."""
    return dataclasses.is_dataclass(hint) and not metadata.get('tags')


def checked(cls: type[T]) -> type[T]:
    """
    Make a settings dataclass check its fields, and then call its own ``check`` if it has one.

    Its constructor then raises ``ConfigurationError``. Fields that are not declared with
    ``setting`` are not checked.
    """
    own = getattr(cls, 'check', None)
    construct: Any = cls.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        hints = hints_of(type(self))
        for field in dataclasses.fields(self):
            if field.metadata:
                convert(hints[field.name], getattr(self, field.name), field.name, field.metadata)
        if own is not None:
            own(self)

    __init__.__doc__ = construct.__doc__
    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


#: Resolves the types of a dataclass's fields.
hints_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def allowed(metadata: Mapping[str, Any]) -> str:
    """Return what a field accepts, with its unit; empty if it accepts every value of its type."""
    if metadata.get('choices'):
        return ', '.join(metadata['choices'])
    low, high = metadata.get('low'), metadata.get('high')
    unit = f' {metadata["unit"]}' if metadata.get('unit') else ''
    if low is not None and high is not None:
        return f'{_plain(low)} to {_plain(high)}{unit}'
    if low is not None:
        return f'at least {_plain(low)}{unit}'
    if high is not None:
        return f'at most {_plain(high)}{unit}'
    return ''


def _plain(limit: float) -> str:
    """Return a limit without an exponent where that is short."""
    return f'{limit:.10g}'


def shown(value: Any) -> str:
    """Return a value as its user wrote it; rclpy holds lists of numbers as arrays."""
    if value is None:
        return 'nothing'
    text = repr(value.tolist() if hasattr(value, 'tolist') else value)
    return text if len(text) <= 60 else f'{text[:57]}...'


def convert(hint: Any, value: Any, where: str, metadata: Mapping[str, Any]) -> Any:
    """
    Convert a value to the type of a field and check it.

    A whole number is accepted for a number, because users write ``5`` for 5.0.

    :param hint: the field's type.
    :param where: name of the value in messages.
    :param metadata: the field's metadata, from ``setting``.
    :raises ConfigurationError: if the value is of another type or not allowed.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType) and type(None) in arguments:
        if value is None:
            return None
        rest = [argument for argument in arguments if argument is not type(None)]
        return convert(Union[tuple(rest)], value, where, metadata)
    if origin is tuple:
        return convert_tuple(hint, value, where, metadata)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value    # checked by its own constructor
    if metadata.get('tags'):
        return _convert_tagged(metadata['tags'], value, where)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast('type[Any]', hint), value, f'{where}.')
    return convert_scalar(hint, value, where, metadata)


def convert_tuple(
    hint: Any, value: Any, where: str, metadata: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Convert a list; as ``convert``."""
    arguments = typing.get_args(hint)
    item_hint = arguments[0]
    fixed = None if arguments[-1] is Ellipsis else len(arguments)
    items = list(value) if isinstance(value, (list, tuple)) or hasattr(value, 'tolist') else None
    if items is None or (fixed is not None and len(items) != fixed) or (
            item_hint in _WORDS and not all(
                isinstance(item, _ACCEPTED[item_hint]) and (
                    isinstance(item, bool) is (item_hint is bool)) for item in items)):
        kind = _PLURALS.get(item_hint, 'values')
        example = ", such as ['a', 'b']" if item_hint is str else ''
        count = '' if fixed is None else f'{fixed} '
        raise ConfigurationError(
            f'{where} is {shown(value)}; it must be a list of {count}{kind}{example}')
    return tuple(convert(item_hint, item, f'{where}[{i}]', metadata)
                 for i, item in enumerate(items))


def _convert_tagged(tags: dict[str, type[Any]], value: Any, where: str) -> Any:
    if isinstance(value, str):
        value = {'type': value}
    if not isinstance(value, dict) or 'type' not in value:
        raise ConfigurationError(
            f'{where} is {shown(value)}; it must be a mapping with the key type; '
            f'allowed types: {", ".join(tags)}')
    kind = value['type']
    if not isinstance(kind, str) or kind not in tags:
        raise _not_allowed(f'{where}.type', kind, ', '.join(tags), tuple(tags))
    rest = {key: item for key, item in value.items() if key != 'type'}
    return build(tags[kind], rest, f'{where}.')


def convert_scalar(
    hint: Any, value: Any, where: str, metadata: Mapping[str, Any],
) -> Any:
    """Convert a number, a string or a truth value; as ``convert``."""
    if hint is float and isinstance(value, str) and _EXPONENT.fullmatch(value):
        value = float(value)    # YAML 1.1 reads 1e-6, without a point, as text
    if not isinstance(value, _ACCEPTED[hint]) or isinstance(value, bool) is not (hint is bool):
        words = allowed(metadata)
        limits = f' ({words})' if words else ''
        raise ConfigurationError(
            f'{where} is {shown(value)}; it must be {_WORDS[hint]}{limits}')
    if hint is float:
        try:
            value = float(value)
        except OverflowError:
            raise _not_allowed(
                where, value, allowed(metadata) or 'a finite number') from None
    choices, low, high = metadata.get('choices'), metadata.get('low'), metadata.get('high')
    if choices:
        if value not in choices:
            if removed := refusal(VALUES, value if isinstance(value, str) else ''):
                raise ConfigurationError(f'{where}: {removed}')
            raise _not_allowed(where, value, allowed(metadata), choices)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and (
            not math.isfinite(value) or (low is not None and value < low)
            or (high is not None and value > high)):
        raise _not_allowed(where, value, allowed(metadata) or 'a finite number')
    return value


def _not_allowed(
    where: str, value: Any, words: str, choices: tuple[str, ...] = (),
) -> ConfigurationError:
    near = did_you_mean(value, choices) if isinstance(value, str) else ''
    return ConfigurationError(
        f'{where} is {shown(value)}; allowed: {words}{f" ({near})" if near else ""}')


def did_you_mean(given: str, known: Any, cutoff: float = 0.6) -> str:
    """Return a question with the most similar known name; '' if none is similar."""
    near = difflib.get_close_matches(given, list(known), 1, cutoff)
    return f'did you mean {near[0]!r}?' if near else ''


def build(cls: type[T], data: Any, where: str) -> T:
    """
    Create a settings dataclass from plain data.

    :param cls: a dataclass whose fields are declared with ``setting``.
    :param data: a mapping of field names to plain values.
    :param where: file and key of the data, for messages; ends in ``: `` or ``.`` or is empty.
    :raises ConfigurationError: for unknown or missing keys, wrong types and values out of
        range.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    keys = ', '.join(fields)
    if not isinstance(data, dict):
        raise ConfigurationError(
            f'{where.rstrip(":. ") or "the whole"} is {shown(data)}; it must be a mapping of '
            f'settings; allowed keys: {keys}')
    for key in data:
        if key not in fields:
            if removed := refusal(KEYS, str(key)):
                raise ConfigurationError(f'{where}{removed}')
            near = did_you_mean(str(key), fields)
            raise ConfigurationError(
                f'{where}{key}: unknown key; {f"{near} " if near else ""}allowed keys: {keys}')
    hints = hints_of(cls)
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = convert(hints[name], data[name], f'{where}{name}', field.metadata)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigurationError(f'{where}{name}: missing; it has no default')
    return named(lambda: cls(**values), where)


def named(make: Callable[[], T], where: str) -> T:
    """Call a constructor and put a prefix before each line of its ConfigurationError."""
    try:
        return make()
    except ConfigurationError as error:
        raise ConfigurationError(
            '\n'.join(f'{where}{line}' for line in str(error).splitlines())) from None


@dataclass(frozen=True)
class LifecycleSettings:
    """The transitions that a node makes by itself after its start."""

    autostart: bool = setting(False, change=Change.START,
                              doc='configure and activate without a lifecycle manager')
    activate: bool = setting(True, change=Change.START,
                             doc='false: autostart leaves the node inactive, for mocap control')
