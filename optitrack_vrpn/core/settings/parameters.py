# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The fields of a settings dataclass as ROS parameters: flat names, and values from them.

A field that holds a dataclass is a section: its fields are named ``section.field``.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import difflib
import functools
import typing
from typing import Any, TypeVar

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.removed import refusal, SETTINGS
from optitrack_vrpn.core.settings.peers import of_other_drivers
from optitrack_vrpn.core.settings.schema import (
    allowed, Change, convert, did_you_mean, hints_of, is_section, named)

T = TypeVar('T')
#: Words that YAML 1.1 reads as true or false.
_YAML_WORDS = {True: ('y', 'yes', 'on', 'true'), False: ('n', 'no', 'off', 'false')}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """
    One parameter.

    :ivar name: as in YAML, sections separated by dots.
    :ivar default: its default, of the field's type.
    :ivar hint: the field's type.
    :ivar metadata: the arguments of ``setting``.
    """

    name: str
    default: Any
    hint: Any
    metadata: Mapping[str, Any] = dataclasses.field(hash=False)

    @property
    def description(self) -> str:
        """Return the sentence that explains it."""
        return str(self.metadata['doc'])

    @property
    def unit(self) -> str:
        """Return the unit of a number; '' if it has none."""
        return str(self.metadata['unit'])

    @property
    def change(self) -> Change:
        """Return when it can change."""
        return typing.cast('Change', self.metadata['change'])

    @property
    def low(self) -> float | None:
        """Return the least value allowed."""
        return typing.cast('float | None', self.metadata['low'])

    @property
    def high(self) -> float | None:
        """Return the greatest value allowed."""
        return typing.cast('float | None', self.metadata['high'])

    @property
    def allowed(self) -> str:
        """Return what is allowed, with the unit; '' if every value of its type is."""
        return allowed(self.metadata)

    @property
    def item_type(self) -> type[Any]:
        """Return the type of a scalar, or of the elements of a list."""
        if typing.get_origin(self.hint) is tuple:
            return typing.cast('type[Any]', typing.get_args(self.hint)[0])
        return typing.cast('type[Any]', self.hint)

    @property
    def is_list(self) -> bool:
        """Return whether it is a list."""
        return typing.get_origin(self.hint) is tuple

    @property
    def type_name(self) -> str:
        """Return the name of the type in ROS."""
        name = {bool: 'bool', int: 'int', float: 'double', str: 'string'}[self.item_type]
        return f'{name}[]' if self.is_list else name

    @property
    def ros_default(self) -> Any:
        """Return the default as ROS takes it, which has no empty list of strings."""
        if not self.is_list:
            return self.default
        return list(self.default) or ([''] if self.item_type is str else [])

    def renamed(self, name: str) -> 'Parameter':
        """Return the same parameter under another name."""
        return dataclasses.replace(self, name=name)

    def check(self, value: Any) -> Any:
        """Check a value given by a user; return it in the field's type."""
        return convert(self.hint, self.as_meant(value), self.name, self.metadata)

    def as_meant(self, value: Any) -> Any:
        """
        Return a value as its user wrote it, where YAML or ROS has changed its type.

        YAML reads the choice ``y`` as true. ROS has no empty list of strings, which it keeps as
        [''] or as no value, and ``ros2 param dump`` writes that as null.
        """
        if self.is_list and self.item_type is str:
            if value in (None, 'null'):
                return ()
            if isinstance(value, (list, tuple)):
                return [item for item in value if item != '']
        if isinstance(value, bool) and self.hint is str:
            words = [word for word in self.metadata['choices'] if word in _YAML_WORDS[value]]
            return words[0] if len(words) == 1 else value
        return value


def parameters_of(cls: type[Any], prefix: str = '') -> tuple[Parameter, ...]:
    """
    List the parameters of a settings dataclass.

    Fields that are not declared with ``setting`` or ``section`` are not parameters.

    :param cls: a dataclass whose fields all have defaults.
    :param prefix: prefix of each name, with its dot.
    """
    return _listed(cls, prefix)


def _parameters_of(defaults: Any, prefix: str) -> Iterable[Parameter]:
    hints = hints_of(type(defaults))
    for field in dataclasses.fields(defaults):
        if not field.metadata:
            continue
        default = getattr(defaults, field.name)
        if is_section(hints[field.name], field.metadata):
            yield from _parameters_of(default, f'{prefix}{_section_prefix(field)}')
        else:
            yield Parameter(f'{prefix}{_name(field)}', default, hints[field.name], field.metadata)


#: Listing checks every default, and a node lists several times at its start.
_listed: Callable[[Any, str], tuple[Parameter, ...]] = functools.cache(
    lambda cls, prefix: tuple(_parameters_of(cls(), prefix)))


def _name(field: 'dataclasses.Field[Any]') -> str:
    given = field.metadata['name']
    return field.name if given is None else str(given)


def _section_prefix(field: 'dataclasses.Field[Any]') -> str:
    name = _name(field)
    return f'{name}.' if name else ''


def sift(cls: type[T], values: Mapping[str, Any], prefix: str = '') -> tuple[T, list[str]]:
    """Create settings from values by name; return them and a line for each wrong value."""
    return changed(cls(), values, prefix)


def changed(settings: T, values: Mapping[str, Any], prefix: str = '') -> tuple[T, list[str]]:
    """
    Change settings; sections without a new value are neither created nor checked again.

    :param settings: a dataclass as for ``parameters_of``.
    :param values: values by the names of parameters; other names are ignored.
    :returns: the new settings, and a line for each wrong value, which leaves the old one.
    """
    wrong: list[str] = []
    given: dict[str, Any] = {}
    for parameter in parameters_of(type(settings), prefix):
        if parameter.name in values:
            try:
                given[parameter.name] = parameter.check(values[parameter.name])
            except ConfigurationError as error:
                wrong.append(str(error))
    return _assemble(settings, given, prefix, wrong), wrong


def _assemble(settings: T, checked: Mapping[str, Any], prefix: str, wrong: list[str]) -> T:
    """Change a dataclass and its sections; one that its own check refuses stays as it is."""
    given: dict[str, Any] = {}
    hints = hints_of(type(settings))
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        if not field.metadata:
            continue
        before = value = getattr(settings, field.name)
        if is_section(hints[field.name], field.metadata):
            value = _assemble(before, checked, f'{prefix}{_section_prefix(field)}', wrong)
        else:
            value = checked.get(f'{prefix}{_name(field)}', before)
        if value is not before and value != before:
            given[field.name] = value
    if not given:
        return settings
    try:
        return named(lambda: dataclasses.replace(settings, **given), prefix)  # type: ignore
    except ConfigurationError as error:
        wrong += str(error).splitlines()
        return settings


def unknown(name: str, known: Iterable[str]) -> str:
    """Describe a parameter that does not exist: removed, or with the most similar name."""
    if known_elsewhere := removed(name) or of_other_drivers([name]):
        return known_elsewhere
    # Similarity (difflib's ratio) of an unknown name to a known one above which the known one is
    # suggested. Chosen.
    near = did_you_mean(name, known, 0.5)
    return f'there is no parameter {name!r}; {near or "ros2 param list shows those that exist"}'


def removed(name: str) -> str:
    """Return why a parameter of an earlier version is refused; '' for any other name."""
    own = name.split('.', 2)[2] if name.startswith('bodies.') and name.count('.') > 1 else name
    return refusal(SETTINGS, name) or refusal(SETTINGS, own)


def is_foreign(name: str, known: Iterable[str]) -> bool:
    """Return whether an unknown parameter resembles no known one: it is another node's."""
    known = list(known)
    if removed(name):
        return False
    start = name.partition('.')[0]
    # Similarity above which an unknown name is an error of this node: nodes share parameter files,
    # and a name of another node must not stop this one. Chosen.
    return not (
        difflib.get_close_matches(name, known, 1, 0.7)
        or ('.' in name and any(each.startswith(f'{start}.') for each in known)))
