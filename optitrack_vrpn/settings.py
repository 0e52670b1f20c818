# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings as frozen dataclasses whose fields say their unit and range, and plain data into them.

What a YAML file holds (mappings, lists, numbers, strings) becomes a tree of dataclasses.
Whatever does not fit is refused with its file, its key and what is allowed.
"""

import dataclasses
from dataclasses import MISSING
import math
import types
import typing
from typing import Any, Optional, TypeVar, Union

from optitrack_vrpn.errors import ConfigurationError

T = TypeVar('T')


def setting(
    default: Any, *, unit: str = '', low: Optional[float] = None, high: Optional[float] = None,
    choices: tuple[str, ...] = (), tags: Optional[dict[str, type[Any]]] = None, doc: str = '',
) -> Any:
    """
    Declare one field of a settings dataclass.

    :param default: its default; must be immutable. MISSING makes the field required.
    :param low: least value, of every element where the field is a vector.
    :param high: greatest value, likewise.
    :param choices: the strings that are allowed.
    :param tags: for a field that holds one of several dataclasses (or a list of such): the
        dataclass that each value of the key ``type`` stands for.
    """
    metadata = {'unit': unit, 'low': low, 'high': high, 'choices': choices, 'tags': tags,
                'doc': doc}
    if default is MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def checked(cls: type[T]) -> type[T]:
    """
    Make a settings dataclass check its fields' ranges, before its own ``check`` if it has one.

    Its constructor then raises ``ConfigurationError``.
    """
    own = getattr(cls, 'check', None)
    construct: Any = cls.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if own is not None:
            own(self)

    __init__.__doc__ = construct.__doc__
    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


def allowed(field: 'dataclasses.Field[Any]') -> str:
    """Say in words what a field takes."""
    meta = field.metadata
    unit = f' {meta["unit"]}' if meta.get('unit') else ''
    if meta.get('choices'):
        return ', '.join(meta['choices'])
    low, high = meta.get('low'), meta.get('high')
    if low is not None and high is not None:
        return f'{low:g} to {high:g}{unit}'
    if low is not None:
        return f'at least {low:g}{unit}'
    return f'a value{unit}'


def _check_field(field: 'dataclasses.Field[Any]', value: Any) -> None:
    meta = field.metadata
    if value is None or not meta:
        return
    for item in value if isinstance(value, tuple) else (value,):
        bad = False
        if meta['choices']:
            bad = item not in meta['choices']
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            low, high = meta['low'], meta['high']
            bad = (not math.isfinite(item) or (low is not None and item < low)
                   or (high is not None and item > high))
        if bad:
            raise ConfigurationError(
                f'{field.name}: {item!r} is not allowed; allowed: {allowed(field)}')


def build(cls: type[T], data: Any, where: str) -> T:
    """
    Make a settings dataclass from plain data.

    :param cls: a dataclass whose fields are declared with ``setting``.
    :param data: a mapping of field names to plain values.
    :param where: file and key that the data came from, for messages; ends in ``: `` or ``.``
        or is empty.
    :raises ConfigurationError: for unknown or missing keys, wrong types and values out of
        range.
    """
    if not isinstance(data, dict):
        raise ConfigurationError(
            f'{_place(where)}: expected a mapping of settings, got {_kind(data)}; '
            f'allowed keys: {_keys(cls)}')
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise ConfigurationError(
                f'{where}{key}: unknown key; allowed keys: {_keys(cls)}')
    hints = typing.get_type_hints(cls)
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _convert(
                hints[name], data[name], f'{where}{name}', field)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigurationError(f'{where}{name}: missing; it has no default')
    try:
        return cls(**values)
    except ConfigurationError as error:
        raise ConfigurationError(f'{where}{error}') from None


def _convert(hint: Any, value: Any, where: str, field: 'dataclasses.Field[Any]') -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    tags = field.metadata.get('tags')
    if origin in (Union, types.UnionType) and type(None) in arguments:
        if value is None:
            return None
        rest = [argument for argument in arguments if argument is not type(None)]
        return _convert(Union[tuple(rest)], value, where, field)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigurationError(f'{where}: expected a list, got {_kind(value)}')
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ConfigurationError(
                f'{where}: expected {len(arguments)} values, got {len(value)}')
        return tuple(_convert(arguments[0], item, f'{where}[{i}]', field)
                     for i, item in enumerate(value))
    if tags:
        return _convert_tagged(tags, value, where)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast('type[Any]', hint), value, f'{where}.')
    return _convert_scalar(hint, value, where, field)


def _convert_tagged(tags: dict[str, type[Any]], value: Any, where: str) -> Any:
    if isinstance(value, str):
        value = {'type': value}
    if not isinstance(value, dict) or 'type' not in value:
        raise ConfigurationError(
            f'{where}: expected a mapping with the key type; allowed types: {", ".join(tags)}')
    kind = value['type']
    if not isinstance(kind, str) or kind not in tags:
        raise ConfigurationError(
            f'{where}.type: {kind!r} is not allowed; allowed: {", ".join(tags)}')
    rest = {key: item for key, item in value.items() if key != 'type'}
    return build(tags[kind], rest, f'{where}.')


def _convert_scalar(
    hint: Any, value: Any, where: str, field: 'dataclasses.Field[Any]',
) -> Any:
    fits = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value, fits = float(value), True
        except OverflowError:
            fits = False
    if not fits:
        words = {float: 'a number', int: 'a whole number', str: 'a text', bool: 'true or false'}
        raise ConfigurationError(
            f'{where}: expected {words[hint]}, got {_kind(value)}; allowed: {allowed(field)}')
    return value


def _kind(value: Any) -> str:
    if value is None:
        return 'nothing'
    shown = repr(value)
    return f'{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + "..."}'


def _keys(cls: Any) -> str:
    return ', '.join(field.name for field in dataclasses.fields(cls))


def _place(where: str) -> str:
    return where.rstrip(':. ') or 'settings'
