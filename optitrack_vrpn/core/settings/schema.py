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


@dataclass(frozen=True)
class SettingRule:
    """
    What a setting is and accepts.

    :ivar unit: unit of a number.
    :ivar low: smallest value; of each element if the field is a vector.
    :ivar high: largest value, likewise.
    :ivar choices: the allowed strings.
    :ivar tags: for a field that contains one of several dataclasses (or a list of such): the
        dataclass for each value of the key ``type``.
    :ivar doc: one sentence that describes the field for users.
    :ivar change: when a node accepts a change of it.
    :ivar name: name as a ROS parameter if it differs from the field's.
    """

    unit: str = ''
    low: Optional[float] = None
    high: Optional[float] = None
    choices: tuple[str, ...] = ()
    tags: Optional[Mapping[str, type[Any]]] = None
    doc: str = ''
    change: Change = Change.CONFIGURE
    name: Optional[str] = None

    @property
    def allowed(self) -> str:
        """Return what is accepted, with the unit; '' if every value of its type is."""
        if self.choices:
            return ', '.join(self.choices)
        low, high = self.low, self.high
        unit = f' {self.unit}' if self.unit else ''
        if low is not None and high is not None:
            return f'{_plain(low)} to {_plain(high)}{unit}'
        if low is not None:
            return f'at least {_plain(low)}{unit}'
        return '' if high is None else f'at most {_plain(high)}{unit}'


def setting(default: Any, **rule: Any) -> Any:
    """
    Declare one field of a settings dataclass.

    :param default: its default; must be immutable. MISSING makes the field required.
    :param rule: the fields of ``SettingRule``.
    """
    metadata = {'rule': SettingRule(**rule)}
    if default is MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def rule_of(field: 'dataclasses.Field[Any]') -> Optional[SettingRule]:
    """Return the rule of a field; None if it is not declared with ``setting``."""
    return field.metadata.get('rule')


def section(default: Any, *, name: Optional[str] = None, doc: str = '') -> Any:
    """
    Declare a field that contains a settings dataclass.

    Its parameters are named ``section.field``.

    :param default: an instance of the dataclass.
    :param name: name of the section if it differs from the field's; with '' the names of the
        parameters do not contain the section.
    """
    return setting(default, name=name, doc=doc)


def is_section(hint: Any, rule: SettingRule) -> bool:
    """Return whether a field holds one settings dataclass."""
    return dataclasses.is_dataclass(hint) and not rule.tags


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
            if (rule := rule_of(field)) is not None:
                convert(hints[field.name], getattr(self, field.name), field.name, rule)
        if own is not None:
            own(self)

    __init__.__doc__ = construct.__doc__
    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


#: Resolves the types of a dataclass's fields.
hints_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def _plain(limit: float) -> str:
    """Return a limit without an exponent where that is short."""
    return f'{limit:.10g}'


def shown(value: Any) -> str:
    """Return a value as its user wrote it; rclpy holds lists of numbers as arrays."""
    if value is None:
        return 'nothing'
    text = repr(value.tolist() if hasattr(value, 'tolist') else value)
    return text if len(text) <= 60 else f'{text[:57]}...'


def convert(hint: Any, value: Any, where: str, rule: SettingRule) -> Any:
    """
    Convert a value to the type of a field and check it.

    A whole number is accepted for a number, because users write ``5`` for 5.0.

    :param hint: the field's type.
    :param where: name of the value in messages.
    :param rule: the field's rule.
    :raises ConfigurationError: if the value is of another type or not allowed.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType) and type(None) in arguments:
        if value is None:
            return None
        rest = [argument for argument in arguments if argument is not type(None)]
        return convert(Union[tuple(rest)], value, where, rule)
    if origin is tuple:
        return convert_tuple(hint, value, where, rule)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value    # checked by its own constructor
    if rule.tags:
        return _convert_tagged(rule.tags, value, where)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast('type[Any]', hint), value, f'{where}.')
    return convert_scalar(hint, value, where, rule)


def convert_tuple(hint: Any, value: Any, where: str, rule: SettingRule) -> tuple[Any, ...]:
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
    return tuple(convert(item_hint, item, f'{where}[{i}]', rule)
                 for i, item in enumerate(items))


def _convert_tagged(tags: Mapping[str, type[Any]], value: Any, where: str) -> Any:
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


def convert_scalar(hint: Any, value: Any, where: str, rule: SettingRule) -> Any:
    """Convert a number, a string or a truth value; as ``convert``."""
    if hint is float and isinstance(value, str) and _EXPONENT.fullmatch(value):
        value = float(value)    # YAML 1.1 reads 1e-6, without a point, as text
    if not isinstance(value, _ACCEPTED[hint]) or isinstance(value, bool) is not (hint is bool):
        limits = f' ({rule.allowed})' if rule.allowed else ''
        raise ConfigurationError(
            f'{where} is {shown(value)}; it must be {_WORDS[hint]}{limits}')
    if hint is float:
        try:
            value = float(value)
        except OverflowError:
            raise _not_allowed(
                where, value, rule.allowed or 'a finite number') from None
    choices, low, high = rule.choices, rule.low, rule.high
    if choices:
        if value not in choices:
            if removed := refusal(VALUES, value if isinstance(value, str) else ''):
                raise ConfigurationError(f'{where}: {removed}')
            raise _not_allowed(where, value, rule.allowed, choices)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and (
            not math.isfinite(value) or (low is not None and value < low)
            or (high is not None and value > high)):
        raise _not_allowed(where, value, rule.allowed or 'a finite number')
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
            values[name] = convert(
                hints[name], data[name], f'{where}{name}', rule_of(field) or SettingRule())
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
