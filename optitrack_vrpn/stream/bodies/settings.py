# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which bodies are selected, and the thresholds of the validity gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
import difflib
from fnmatch import fnmatchcase
from typing import Any

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.settings.schema import Change, checked, setting


@checked
@dataclass(frozen=True)
class BodyConfig:
    """
    Thresholds for the poses of one body.

    The defaults suit a drone and a hand-held wand. Fields without ``setting`` are constants: users
    have no reason to change them, tests and benchmarks do.
    """

    acquire_frames: int = setting(
        3, low=1, high=1000, change=Change.ANY_TIME, doc=(
            'consistent frames that make a body TRACKED, at first sight and after every fault; '
            'the last of them is published'))
    stale_after_s: float = setting(
        0.0, unit='s', low=0.0, high=60.0, change=Change.ANY_TIME, doc=(
            'time without a pose after which a body is STALE, at least 1.5 frame intervals; 0 '
            'takes ten intervals, and at least 0.1 s'))
    frozen_after_s: float = setting(
        0.2, unit='s', low=0.0, high=60.0, change=Change.ANY_TIME, doc=(
            'time with one bit-identical pose after which a body is FROZEN; repeats before that '
            'are withheld too; 0 switches the check off, for simulators without noise'))
    detect_zeroed: bool = setting(
        True, change=Change.ANY_TIME, doc='treat an exactly zero pose as a body out of view')
    max_speed: float = setting(
        15.0, unit='m/s', low=0.0, high=1000.0, change=Change.ANY_TIME, doc=(
            'fastest motion that is accepted as valid; 0 switches the check off'))
    max_angular_rate: float = setting(
        30.0, unit='rad/s', low=0.0, high=1000.0, change=Change.ANY_TIME, doc=(
            'fastest rotation that is accepted as valid; 0 switches this check off, but turns of '
            'more than 60 degrees between two poses or in a gap are still held'))
    jump_accept_s: float = setting(
        2.0, unit='s', low=0.0, high=600.0, change=Change.ANY_TIME, doc=(
            'time that a body must be seen at its new place before a jump is accepted; 0 never '
            'accepts one'))
    attitude_accept_s: float = setting(
        2.0, unit='s', low=0.0, high=600.0, change=Change.ANY_TIME, doc=(
            'time that a body must be seen in an attitude that it cannot have turned to before '
            'this is accepted, at most 1 s after a gap in which it can have turned; 0 never '
            'accepts one without such a gap'))
    max_mean_error: float = setting(
        0.0, unit='m', low=0.0, high=1.0, change=Change.ANY_TIME, doc=(
            'mean distance of the markers from their places in the model above which a pose is '
            'withheld (NatNet sends it, VRPN does not); 0 switches the check off'))
    stale_frames: float = 10.0
    """
    Frame intervals of the body's own rate in the automatic ``stale_after_s``; 0 for never. Chosen:
    at 50 Hz it is 0.2 s.
    """
    stale_min_s: float = 0.1
    """
    Smallest automatic ``stale_after_s`` (s). Chosen: networks delay frames for longer than ten
    intervals of a fast body.
    """
    position_margin: float = 0.02
    """
    Allowance (m) for noise, added to the distance by ``max_speed``. Chosen: ten times the noise of
    a poor calibration.
    """
    attitude_margin: float = 0.15
    """Allowance (rad) for noise, added to the angle by ``max_angular_rate``; chosen likewise."""
    max_turn: float = 1.4
    """
    Rotation (rad) between two poses within ``memory_s`` that is rejected; 0 for none. Chosen: it
    separates flips by a body's symmetry (90 degrees, 1.57 rad, and more) from turns. For a body
    that turned fast before, the limit is twice the angle at that rate.
    """
    memory_s: float = 1.0
    """
    Time (s) for which the next pose is compared with the last valid one. After it (or four frame
    intervals, if longer) the body is acquired again. Chosen: ``max_speed`` then allows 15 m.
    """
    norm_tolerance: float = 0.01
    """
    Deviation of a quaternion's norm from 1 that is normalised; beyond it a pose is INVALID. 0
    switches the check off. Chosen: senders of 32-bit floats deviate by 1e-7.
    """


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
    :param settings: settings of this body; those that are no fields of ``BodyConfig`` are ignored.
    :returns: the thresholds of this body.
    :raises ConfigurationError: a value is not allowed.
    """
    own = {each.name: settings[each.name] for each in fields(base) if each.name in settings}
    try:
        return replace(base, **own)
    except ConfigurationError as error:
        raise ConfigurationError(f'bodies.{name}: {error}') from None


# -- names of the settings of single bodies: bodies.<name>.<setting> ------------------------------

#: The section whose name may be left out: ``bodies.wand.max_speed`` for
#: ``bodies.wand.validation.max_speed``.
OPTIONAL_SECTION = 'validation'
SECTIONS = (OPTIONAL_SECTION, 'lowpass', 'motion', 'rates')


def is_body_setting(name: str) -> bool:
    """Return whether a parameter is a setting of single bodies."""
    return name.startswith('bodies.') and name.count('.') >= 2


def split(name: str) -> tuple[str, str]:
    """
    Split ``bodies.<name>.<setting>`` into body and setting.

    The setting follows the last dot, or the last but one if a section precedes it; so names of
    bodies may contain dots and spaces.

    :returns: the body's name or pattern, and the setting, without ``validation.``.
    """
    body, _, key = name[len('bodies.'):].rpartition('.')
    parent, _, section_name = body.rpartition('.')
    if parent and section_name in SECTIONS:
        return parent, key if section_name == OPTIONAL_SECTION else f'{section_name}.{key}'
    return body, key
