# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parsers and types of arguments: of the commands, and of launch files."""

import argparse
from collections.abc import Callable, Mapping, Sequence
import difflib
import math
from pathlib import Path, PurePath
import re
import sys
from typing import Any, NamedTuple, NoReturn, Optional

from optitrack_vrpn import __version__
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.core.removed import LAUNCH_ARGUMENTS, refusal
from optitrack_vrpn.drivers.config import ClientConfig

VERSION = f'optitrack_vrpn {__version__}'
#: Exit code of every command for a wrong command line: EX_USAGE of sysexits.h. No command uses it
#: for a result.
USAGE = 64
#: Chosen: longest time of options that wait (s), so that a typing error does not cause an endless
#: wait.
_LONGEST_S = 3600.0
_NAMESPACE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')


class Parser(argparse.ArgumentParser):
    """The parser of every command: ``--version``, and one exit code for usage errors."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kwargs.get('add_help', True):
            self.add_argument('--version', action='version', version=VERSION)

    def error(self, message: str) -> NoReturn:
        """Print the error of the command line, and exit with ``USAGE``."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f'{self.prog}: {message}\n')

    def parse(
        self, argv: Optional[Sequence[str]] = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse a command line, by default that of the process; return ROS's arguments too."""
        own, for_ros = split_ros_args(sys.argv[1:] if argv is None else argv)
        return self.parse_args(own), for_ros


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that ends with an error of this package."""
    wrong = isinstance(error, ConfigurationError) and not isinstance(
        error, BackendUnavailableError)
    return USAGE if wrong else 1


def split_ros_args(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into a tool's arguments and those of ROS (``--ros-args ... [--]``)."""
    own: list[str] = []
    for_ros: list[str] = []
    inside = False
    for argument in argv:
        inside = inside or argument == '--ros-args'
        (for_ros if inside else own).append(argument)
        inside = inside and argument != '--'
    return own, for_ros


def without_ros_arguments(argv: Sequence[str]) -> list[str]:
    """Remove the arguments that ``ros2 run`` and launch files add."""
    return split_ros_args(argv)[0]


def _number(text: str, most: float, what: str) -> float:
    """Parse a number above 0, up to ``most``."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most or math.isinf(value):
        limit = f', at most {most:g}' if math.isfinite(most) else ''
        raise argparse.ArgumentTypeError(f'{text!r} is not {what} above 0{limit}')
    return value


def seconds(text: str) -> float:
    """Parse a time (s) above 0, at most an hour."""
    return _number(text, _LONGEST_S, 'a number of seconds')


def hertz(text: str) -> float:
    """Parse a rate (Hz) above 0, at most 10 kHz."""
    return _number(text, 10_000.0, 'a rate in Hz')


def whole(low: int, high: Optional[int] = None) -> Callable[[str], int]:
    """Make a parser of whole numbers in a range."""
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text)
                and (high is None or int(text) <= high)):
            limits = f'{low} or more' if high is None else f'{low} to {high}'
            raise argparse.ArgumentTypeError(f'{text!r} is not allowed; allowed is {limits}')
        return int(text)
    return parse


def namespace(text: str) -> str:
    """Parse a ROS namespace; a leading or trailing slash is optional."""
    name = text.strip('/')
    if name and ('__' in name or not _NAMESPACE.fullmatch(name)):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a namespace: use letters, digits and single underscores, in parts '
            'that are separated by / and do not begin with a digit')
    return f'/{name}' if name else ''


def duration(text: str) -> float:
    """Parse a time (s) above 0 without an upper limit."""
    return _number(text, math.inf, 'a number of seconds')


def new_file(text: str) -> Path:
    """Parse the name of a file to write, whose folder must exist."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f'{text}: there is no folder {path.parent}')
    return path


def server_address(text: str, port_without: int = ClientConfig().port) -> tuple[str, int]:
    """Parse HOST or HOST:PORT; ``port_without`` is the port if none is given."""
    host, colon, port = text.partition(':')
    if ':' in port:
        raise argparse.ArgumentTypeError(
            f'{text!r} looks like an IPv6 address, and VRPN supports IPv4 only: give a name, or '
            'an address such as 192.168.1.20')
    if not host or any(c.isspace() for c in host):
        raise argparse.ArgumentTypeError(f'{text!r} is not HOST or HOST:PORT')
    if not colon:
        return host, port_without
    return host, whole(1, 65535)(port)


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
        if gone := refusal(LAUNCH_ARGUMENTS, name):
            lines.append(gone)
            continue
        near = difflib.get_close_matches(name, declared, 1)
        hint = f'; did you mean {near[0]}:=?' if near else ''
        lines.append(f'{name}:= is not an argument of this launch file{hint}')
    raise ValueError('. '.join(lines) + f' (arguments: {", ".join(declared)})')
