# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the command lines of several tools have in common."""

import argparse
from typing import Sequence


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
