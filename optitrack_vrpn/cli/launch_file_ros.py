# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Launch files as a table of arguments and a function of their values."""

import argparse
from collections.abc import Callable, Iterable
import os
import sys
from typing import Any

from optitrack_vrpn.cli.arguments import (
    check_launch_arguments, LaunchArgument, read_launch_arguments)
from optitrack_vrpn.cli.files_io import read_parameter_file
from optitrack_vrpn.core.errors import ConfigurationError


def existing_file(text: str) -> str:
    """
    Parse the path of a file; ``~`` is the user's folder.

    launch_ros would continue without a missing parameter file, with the default values.

    :raises argparse.ArgumentTypeError: if the file does not exist.
    """
    path = os.path.expanduser(text)
    if not os.path.isfile(path):
        raise argparse.ArgumentTypeError(f'{path} does not exist')
    return path


def parameters_of_nodes(text: str) -> str:
    """
    Parse the path of a parameter file that a node of this package will read.

    rcl takes the last of two equal keys, and a node fails at a file that is not YAML.

    :raises argparse.ArgumentTypeError: if it does not exist, is not YAML, or has a key twice.
    """
    path = existing_file(text)
    try:
        read_parameter_file(path)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def describe(
    file: str, rows: Iterable[tuple[Any, ...]], make: Callable[[dict[str, Any]], list[Any]],
) -> Any:
    """
    Describe a launch file.

    All arguments are checked, and all actions are made, before launch starts a process: launch
    does not end a process that runs already when a later action fails.

    :param file: path of the launch file.
    :param rows: of its arguments; see ``LaunchArgument``.
    :param make: makes the actions from the values of the arguments; ValueError for wrong ones.
    """
    # Imported here so that tests can load launch files with stand-ins.
    from launch import LaunchDescription
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    arguments = [LaunchArgument(*row) for row in rows]

    def make_all(context: Any) -> list[Any]:
        check_launch_arguments(sys.argv, file, [argument.name for argument in arguments])
        return make(read_launch_arguments(arguments, context.launch_configurations))

    return LaunchDescription([
        *(DeclareLaunchArgument(argument.name, default_value=argument.default,
                                description=argument.meaning) for argument in arguments),
        OpaqueFunction(function=make_all)])
