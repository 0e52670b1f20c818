# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the command lines of several tools have in common."""

import argparse
import math
import re
from typing import Sequence

from optitrack_vrpn.vrpn.constants import DEFAULT_PORT

_NAMESPACE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')


def split_ros_args(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part a tool's own arguments from those of ROS."""
    if '--ros-args' not in argv:
        return list(argv), []
    at = list(argv).index('--ros-args')
    return list(argv[:at]), list(argv[at:])


def positive_number(text: str) -> float:
    """
    Read a time (s), up to an hour, or a rate (Hz).

    :raises argparse.ArgumentTypeError: if it is not between 0 and 3600.
    """
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f'{text} is not between 0 and 3600')
    return value


def namespace(text: str) -> str:
    """
    Read a namespace of ROS; a slash in front or at the end makes no difference.

    :raises argparse.ArgumentTypeError: if ROS would not take it.
    """
    name = text.strip('/')
    if name and ('__' in name or not _NAMESPACE.fullmatch(name)):
        raise argparse.ArgumentTypeError(
            f'{text!r} is no namespace: letters, digits and single underscores, in parts that '
            'begin with no digit and are separated by /')
    return f'/{name}' if name else ''


def duration(text: str) -> float:
    """
    Read a time (s) of any length.

    :raises argparse.ArgumentTypeError: if it is none.
    """
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f'{text} is no number of seconds above 0')
    return value


def server_address(text: str) -> tuple[str, int]:
    """
    Read HOST or HOST:PORT.

    :raises argparse.ArgumentTypeError: if it is neither.
    """
    host, colon, port = text.partition(':')
    if ':' in port:
        raise argparse.ArgumentTypeError(
            f'{text!r} looks like an IPv6 address, and VRPN knows IPv4 alone: give a name, or an '
            'address as in 192.168.1.20')
    if not host or any(c.isspace() for c in host):
        raise argparse.ArgumentTypeError(f'{text!r} is no HOST or HOST:PORT')
    if not colon:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise argparse.ArgumentTypeError(
            f'{text!r}: {port!r} is no port; allowed is 1 to 65535')
    return host, int(port)


def without_ros_arguments(argv: Sequence[str]) -> list[str]:
    """Leave out what ``ros2 run`` and launch files add for ROS: ``--ros-args ... [--]``."""
    kept: list[str] = []
    skipping = False
    for argument in argv:
        if argument == '--ros-args':
            skipping = True
        elif not skipping:
            kept.append(argument)
        elif argument == '--':
            skipping = False
    return kept
