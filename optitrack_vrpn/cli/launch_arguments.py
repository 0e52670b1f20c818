# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of launch files: their types, and misspelt ones, which launch itself ignores."""

import argparse
from collections.abc import Callable, Mapping, Sequence
import difflib
from pathlib import PurePath
from typing import Any, NamedTuple

from optitrack_vrpn.cli.arguments import whole

_ASSIGN = ':='


def flag(text: str) -> bool:
    """Parse true or false."""
    try:
        return {'true': True, '1': True, 'false': False, '0': False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not allowed; allowed: true, false') from None


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number') from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """Make a parser of words."""
    def parse(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(
                f'{text!r} is not allowed; allowed: {", ".join(allowed)}')
        return text
    return parse


port = whole(1, 65535)


def log_level(text: str) -> str:
    """Parse a log level, in capitals too, as rcl does."""
    return one_of('debug', 'info', 'warn', 'error', 'fatal')(text.lower())


class LaunchArgument(NamedTuple):
    """
    An argument of a launch file.

    :param default: a text, or a substitution of launch.
    :param kind: converts the text, or raises argparse.ArgumentTypeError. Where the default is
        empty, an empty text of another type than ``str`` becomes None.
    """

    name: str
    default: Any
    meaning: str
    kind: Callable[[str], Any] = str


def read_launch_arguments(
    arguments: Sequence[LaunchArgument], texts: Mapping[str, str],
) -> dict[str, Any]:
    """Convert all arguments of a launch file; ValueError names the first wrong one."""
    values: dict[str, Any] = {}
    for name, default, _, kind in arguments:
        text = texts[name].strip()
        try:
            values[name] = kind(text) if text or default or kind is str else None
        except argparse.ArgumentTypeError as error:
            raise ValueError(f'{name}{_ASSIGN}{error}') from None
    return values


def check_launch_arguments(
    command_line: Sequence[str], file: str, declared: Sequence[str],
) -> None:
    """
    Refuse arguments of the command line that a launch file does not declare.

    A launch file that another one includes is not checked: the command line then holds the
    arguments of the other file.

    :param command_line: as of ``sys.argv``: ``... FILE name:=value ...``.
    :param file: path of the launch file; it is checked if the command line names it, or the YAML
        or XML file of the same name.
    :param declared: names of the arguments that it declares.
    :raises ValueError: naming each unknown argument and the closest valid name.
    """
    if not any(PurePath(word).stem == PurePath(file).stem for word in command_line):
        return
    given = [word.split(_ASSIGN, 1)[0] for word in command_line if _ASSIGN in word]
    unknown = [name for name in dict.fromkeys(given) if name not in declared]
    if not unknown:
        return
    lines = []
    for name in unknown:
        near = difflib.get_close_matches(name, declared, 1)
        hint = f'; did you mean {near[0]}:=?' if near else ''
        lines.append(f'{name}:= is not an argument of this launch file{hint}')
    raise ValueError('. '.join(lines) + f' (arguments: {", ".join(declared)})')
