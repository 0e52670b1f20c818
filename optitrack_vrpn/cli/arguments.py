# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parsers and types of arguments: of the commands, and of launch files."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
import difflib
import itertools
import math
from pathlib import Path, PurePath
import re
import shutil
import sys
from typing import Any, NamedTuple, NoReturn, Optional

from optitrack_vrpn import __version__, RUNS
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.core.removed import LAUNCH_ARGUMENTS, OPTIONS, refusal
from optitrack_vrpn.core.settings.schema import did_you_mean

VERSION = f'optitrack_vrpn {__version__} ({RUNS})'
#: Exit code of every command for a wrong command line: EX_USAGE of sysexits.h. No command uses it
#: for a result.
USAGE = 64
#: Chosen: longest time of options that wait (s), so that a typing error does not cause an endless
#: wait.
_LONGEST_S = 3600.0
#: Chosen: characters of the choices of an option beyond which a line of its help is too wide.
_LONG_CHOICES = 40
_NAMESPACE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')


class _HelpFormatter(argparse.HelpFormatter):
    """Help of at most 80 columns: many choices are in the text and not in place of the value."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(shutil.get_terminal_size().columns, 80) - 2)

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        if self._listed(action):
            return lambda count: (default_metavar,) * count
        return super()._metavar_formatter(action, default_metavar)

    def _expand_help(self, action: argparse.Action) -> str:
        listed = self._listed(action)
        return super()._expand_help(action) + (f': {listed}' if listed else '')

    @staticmethod
    def _listed(action: argparse.Action) -> str:
        """Return the choices that are listed in the text; '' for none."""
        words = ', '.join(map(str, action.choices or ()))
        return words if action.metavar is None and len(words) > _LONG_CHOICES else ''


class _SubCommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The sub-commands of a parser; the summary of each is its description too."""

    def add_parser(self, name: str, **kwargs: Any) -> Any:
        if summary := kwargs.get('help'):
            kwargs.setdefault('description', f'{summary[:1].upper()}{summary[1:]}.')
        return super().add_parser(name, **kwargs)


class Parser(argparse.ArgumentParser):
    """
    The parser of every command.

    It adds ``--version``; a wrong command line is one line with what is allowed, and has one exit
    code.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{'formatter_class': _HelpFormatter, **kwargs})
        self.register('action', 'parsers', _SubCommands)
        if kwargs.get('add_help', True):
            self.add_argument('--version', action='version', version=VERSION)

    def error(self, message: str) -> NoReturn:
        """Print the error of the command line, and exit with ``USAGE``."""
        self.exit(USAGE, f'{self.prog}: {message}\n')

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; an argument that does not exist is an error that names another."""
        words = sys.argv[1:] if args is None else list(args)
        known = self._options()
        # Before argparse, which names a missing argument in place of a misspelt one.
        for word in itertools.takewhile(lambda word: word != '--', words):
            name = word.partition('=')[0]
            if name.startswith('--') and not any(each.startswith(name) for each in known):
                self.error(self.unknown(word))
        found, rest = self.parse_known_args(words, namespace)
        if rest:
            self.error(self.unknown(rest[0]))
        return found

    def unknown(self, word: str) -> str:
        """Return the error for an argument that does not exist."""
        if not word.startswith('-'):
            return f'there is one argument too many: {word!r}'
        name = word.partition('=')[0]
        known = self._options()
        if gone := refusal(OPTIONS, f'{self.prog.partition(" ")[0]} {name}'):
            return gone
        return f'there is no option {name}; ' + (
            did_you_mean(name, known) or f'allowed: {", ".join(known)}')

    def _options(self) -> dict[str, None]:
        """List the long options, of sub-commands too."""
        found: dict[str, None] = {}
        for action in self._actions:
            found |= dict.fromkeys(word for word in action.option_strings if word[:2] == '--')
            if isinstance(action, _SubCommands):
                for other in action.choices.values():
                    found |= other._options()
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, with a similar one."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, not_allowed(value, action.choices))

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


def server_address(text: str) -> tuple[str, int]:
    """Parse HOST or HOST:PORT; the port is 0 if none is given."""
    host, colon, port = text.partition(':')
    if ':' in port:
        raise argparse.ArgumentTypeError(
            f'{text!r} looks like an IPv6 address, and VRPN supports IPv4 only: give a name, or '
            'an address such as 192.168.1.20')
    if not host or any(c.isspace() for c in host):
        raise argparse.ArgumentTypeError(f'{text!r} is not HOST or HOST:PORT')
    if not colon:
        return host, 0
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


def not_allowed(value: Any, allowed: Iterable[Any]) -> str:
    """Describe a word that is none of those allowed, with the most similar one."""
    words = [str(word) for word in allowed]
    near = did_you_mean(str(value), words)
    return f'{value!r} is not allowed; allowed: {", ".join(words)}{f" ({near})" if near else ""}'


def one_of(*allowed: str) -> Callable[[str], str]:
    """Make a parser of words."""
    def parse(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(not_allowed(text, allowed))
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
    command_line: Sequence[str], file: str, declared: Sequence[str], advice: str = '',
) -> None:
    """
    Refuse arguments of the command line that a launch file does not declare.

    A launch file that another one includes is not checked: the command line then holds the
    arguments of the other file.

    :param command_line: as of ``sys.argv``: ``... FILE name:=value ...``.
    :param file: path of the launch file; it is checked if the command line names it, or the YAML
        or XML file of the same name.
    :param declared: names of the arguments that it declares.
    :param advice: what to do where another argument is wanted.
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
    raise ValueError('. '.join(lines) + f' (arguments: {", ".join(declared)})'
                     + (f'; {advice}' if advice else ''))
