# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parsers and argument types shared by the commands."""

import argparse
import math
from pathlib import Path
import re
import sys
from typing import Any, Callable, NoReturn, Optional, Sequence

from optitrack_vrpn import __version__
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.sources import ClientConfig

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
