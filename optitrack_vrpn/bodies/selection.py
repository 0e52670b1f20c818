# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Select bodies by name, and apply the settings of single bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
import difflib
from fnmatch import fnmatchcase
from typing import Any

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import printable
from optitrack_vrpn.settings import Change, checked, setting


@checked
@dataclass(frozen=True)
class Selection:
    """
    Names and patterns of the selected bodies.

    Patterns are the shell's (``*``, ``?``, ``[abc]``), matched with case against the name that
    the sender gives, spaces included. A name that contains ``[`` also matches itself.
    """

    allow: tuple[str, ...] = setting(
        ('*',), change=Change.ANY_TIME,
        doc='names or patterns (*, ?, [abc]) of the bodies to publish; empty for all')
    deny: tuple[str, ...] = setting(
        (), change=Change.ANY_TIME,
        doc='names or patterns of bodies to ignore, even if bodies.allow matches them')

    def check(self) -> None:
        """
        Check the lists.

        :raises ConfigurationError: a pattern is empty.
        """
        for where in ('allow', 'deny'):
            if '' in getattr(self, where):
                raise ConfigurationError(
                    f"{where} contains an empty pattern; give names or patterns such as 'drone*'")

    def why_not(self, name: str) -> str:
        """
        Explain why a body is not selected, for the log.

        :param name: the body's name as sent.
        :returns: one clause, or an empty string when the body is selected.
        """
        for pattern in self.deny:
            if matches(name, pattern):
                return f'bodies.deny contains {pattern!r}'
        if self.allow and not any(matches(name, pattern) for pattern in self.allow):
            return 'nothing in bodies.allow matches it'
        return ''

    def wanted(self, name: str) -> bool:
        """
        Return whether a body is selected.

        :param name: the body's name as sent.
        """
        return not self.why_not(name)


def matches(name: str, pattern: str) -> bool:
    """
    Match a name with a pattern.

    :param name: a body's name as sent.
    :param pattern: a name or a shell pattern.
    """
    return name == pattern or fnmatchcase(name, pattern)


def unmatched(selection: Selection, named: Iterable[str], seen: Collection[str]) -> list[str]:
    """
    Find names and patterns in the settings that match no body: most likely a typing error.

    :param named: names and patterns that have settings of their own.
    :param seen: the names of all bodies seen so far, as sent, including those not selected.
    :returns: one line for each name or pattern that matches none of them.
    """
    given = dict.fromkeys([
        *(('settings for {!r} match', pattern) for pattern in named),
        *(('{!r} in bodies.allow matches', pattern) for pattern in selection.allow),
        *(('{!r} in bodies.deny matches', pattern) for pattern in selection.deny)])
    return [f'{text.format(printable(pattern))} no body seen so far{_meant(pattern, seen)}'
            for text, pattern in given if not any(matches(name, pattern) for name in seen)]


def _meant(pattern: str, seen: Collection[str]) -> str:
    """Suggest a body for a name or pattern that matches none."""
    plain = {name.lower(): name for name in seen}
    # ROS's parser of parameter files splits a key at its dots, and keeps the first part.
    last = pattern.rpartition('.')[2]
    near = [name for name in seen if name == last] or [
        plain[name] for name in difflib.get_close_matches(pattern.lower(), plain, 1)]
    hint = f'; did you mean {printable(near[0])!r}?' if near else ''
    if near and near[0] == last != pattern:
        hint += (' (in a parameter file, a key with a dot becomes a prefix of later keys: '
                 "write '?' for the dot)")
    return hint


def settings_for(name: str, overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """
    Collect the settings of one body.

    Patterns apply in the given order; a later one overrides an earlier one, and the body's own
    name overrides all patterns.

    :param name: the body's name as sent.
    :param overrides: settings by body name or pattern.
    :returns: the settings of this body, merged.
    """
    merged: dict[str, Any] = {}
    for pattern, settings in overrides.items():
        if pattern != name and matches(name, pattern):
            merged.update(settings)
    merged.update(overrides.get(name, {}))
    return merged


def configure(name: str, base: BodyConfig, settings: Mapping[str, Any]) -> BodyConfig:
    """
    Apply the thresholds of one body.

    :param name: the body's name, for messages.
    :param base: the thresholds of all bodies.
    :param settings: thresholds of this body; keys are the fields of ``BodyConfig``.
    :returns: the thresholds of this body.
    :raises ConfigurationError: a key is unknown, or a value not allowed.
    """
    known = [each.name for each in fields(base)]
    for key in settings:
        if key not in known:
            raise ConfigurationError(
                f'bodies.{name} sets {key!r}, which is not one of {", ".join(known)}')
    try:
        return replace(base, **settings)
    except ConfigurationError as error:
        raise ConfigurationError(f'bodies.{name}: {error}') from None
