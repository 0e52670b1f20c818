# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The fields of a settings dataclass as ROS parameters: flat names, and values from them.

A field that holds a dataclass is a section: its fields are named ``section.field``.
"""

from collections.abc import Callable, Iterable, Mapping
import copy
import dataclasses
import difflib
import functools
import typing
from typing import Any, TypeVar

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.removed import refusal, SETTINGS
from optitrack_vrpn.core.settings.peers import of_other_drivers
from optitrack_vrpn.core.settings.schema import (
    Change, convert_scalar, convert_tuple, did_you_mean, hints_of, is_section, rule_of,
    SettingRule)

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
    :ivar rule: what it is and accepts.
    :ivar path: names of the fields that lead to it.
    """

    name: str
    default: Any
    hint: Any
    rule: SettingRule = dataclasses.field(hash=False)
    path: tuple[str, ...] = ()

    @functools.cached_property
    def item_type(self) -> type[Any]:
        """Return the type of a scalar, or of the elements of a list."""
        if typing.get_origin(self.hint) is tuple:
            return typing.cast('type[Any]', typing.get_args(self.hint)[0])
        return typing.cast('type[Any]', self.hint)

    @functools.cached_property
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
        if self.item_type is str:
            value = self.as_meant(value)
        to_type = convert_tuple if self.is_list else convert_scalar
        return to_type(self.hint, value, self.name, self.rule)

    def check_change(self, value: Any, configured: bool) -> Any:
        """
        Check a value that is set at run time; return it in the field's type.

        :param configured: whether the node is in another state than unconfigured.
        :raises ConfigurationError: if it is wrong, or fixed at present.
        """
        if value is None:
            raise ConfigurationError(f'{self.name} cannot be deleted, only set')
        value = self.check(value)
        if self.rule.change is Change.START:
            raise ConfigurationError(
                f'{self.name} is read when the node starts; restart the node to change it')
        if configured and self.rule.change is Change.CONFIGURE:
            raise ConfigurationError(
                f'{self.name} is fixed while the node is configured: clean it up first '
                '(ros2 lifecycle set <node> cleanup)')
        return value

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
            words = [word for word in self.rule.choices if word in _YAML_WORDS[value]]
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


def _parameters_of(
    defaults: Any, prefix: str, path: tuple[str, ...] = (),
) -> Iterable[Parameter]:
    hints = hints_of(type(defaults))
    for field in dataclasses.fields(defaults):
        rule = rule_of(field)
        if rule is None:
            continue
        default = getattr(defaults, field.name)
        if is_section(hints[field.name], rule):
            yield from _parameters_of(
                default, f'{prefix}{_section_prefix(field)}', (*path, field.name))
        else:
            yield Parameter(
                f'{prefix}{_name(field)}', default, hints[field.name], rule, (*path, field.name))


#: Listing checks every default, and a node lists several times at its start.
_listed: Callable[[Any, str], tuple[Parameter, ...]] = functools.cache(
    lambda cls, prefix: tuple(_parameters_of(cls(), prefix)))


def _name(field: 'dataclasses.Field[Any]') -> str:
    rule = rule_of(field)
    return field.name if rule is None or rule.name is None else rule.name


def _section_prefix(field: 'dataclasses.Field[Any]') -> str:
    name = _name(field)
    return f'{name}.' if name else ''


def sift(cls: type[T], values: Mapping[str, Any], prefix: str = '') -> tuple[T, list[str]]:
    """
    Create settings from values by name.

    :param cls: a dataclass as for ``parameters_of``.
    :param values: values by the names of parameters; other names are ignored.
    :returns: the settings, and a line for each wrong value, which the default replaces.
    """
    wrong: list[str] = []
    given: dict[Parameter, Any] = {}
    for parameter in parameters_of(cls, prefix):
        if parameter.name in values:
            try:
                given[parameter] = parameter.check(values[parameter.name])
            except ConfigurationError as error:
                wrong.append(str(error))
    return replaced(cls(), given, wrong, prefix), wrong


def replaced(
    settings: T, given: Mapping[Parameter, Any], wrong: list[str], prefix: str = '',
) -> T:
    """
    Make settings with other values; sections without a new value are the same objects.

    The values have been checked one by one; sections that have changed check how theirs fit
    together (their method ``check``).

    :param settings: a dataclass as for ``parameters_of``.
    :param given: checked values.
    :param wrong: gets a line for each section that refuses them, which stays as it is.
    :param prefix: prefix of each name in these lines.
    """
    sections: dict[tuple[str, ...], dict[str, Any]] = {}
    for parameter, value in given.items():
        sections.setdefault(parameter.path[:-1], {})[parameter.path[-1]] = value
    while sections:    # the deepest first: a changed section is a new value of the one above
        path = max(sections, key=len)
        before: Any = functools.reduce(getattr, path, settings)
        made: Any = None
        for name, value in sections.pop(path).items():
            if value != getattr(before, name):
                made = made or copy.copy(before)
                object.__setattr__(made, name, value)
        if made is None:
            continue
        try:
            if hasattr(made, 'check'):
                made.check()
        except ConfigurationError as error:
            where = _prefix_of(type(settings), path, prefix)
            wrong += [f'{where}{line}' for line in str(error).splitlines()]
            continue
        if not path:
            return typing.cast('T', made)
        sections.setdefault(path[:-1], {})[path[-1]] = made
    return settings


def _prefix_of(cls: type[Any], path: tuple[str, ...], prefix: str) -> str:
    """Return the prefix of the names of a section, given the names of the fields to it."""
    for name in path:
        (field,) = (each for each in dataclasses.fields(cls) if each.name == name)
        prefix, cls = f'{prefix}{_section_prefix(field)}', hints_of(cls)[name]
    return prefix


def unknown(name: str, known: Iterable[str]) -> str:
    """Describe a parameter that does not exist: removed, or with the most similar name."""
    if gone := removed(name) or of_other_drivers([name]):
        return gone
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
    if of_other_drivers([name]):
        return True
    start = name.partition('.')[0]
    # Similarity above which an unknown name is an error of this node: nodes share parameter files,
    # and a name of another node must not stop this one. Chosen.
    return not (
        difflib.get_close_matches(name, known, 1, 0.7)
        or ('.' in name and any(each.startswith(f'{start}.') for each in known)))
