# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Launch files as a table of arguments and a function of their values."""

import argparse
from collections.abc import Callable, Iterable
import os
import sys
import time
from typing import Any

from optitrack_vrpn.cli.arguments import (
    check_launch_arguments, LaunchArgument, read_launch_arguments)
from optitrack_vrpn.cli.files_io import read_parameter_file
from optitrack_vrpn.core.errors import ConfigurationError


#: Chosen: a node that ends within this time (s) has failed at once, as by a wrong parameter; and
#: how often in succession it is started again then. A later end is one of a running node.
_AT_ONCE_S, _MOST_STARTS = 10.0, 3
#: Chosen: pause before a node is started again (s).
_PAUSE_S = 1.0


class Restarts:
    """Decide whether a node that ended is started again."""

    def __init__(self) -> None:
        self._failed = 0

    def again(self, ran_s: float) -> bool:
        """
        Return whether a node is started again.

        :param ran_s: time for which it ran (s).
        """
        self._failed = self._failed + 1 if ran_s < _AT_ONCE_S else 0
        return self._failed <= _MOST_STARTS


def kept_running(make: Callable[[], Any], again: bool = True) -> list[Any]:
    """
    Make a node that is started again 1 s after it ended.

    launch's own ``respawn`` starts a node for ever that fails at each start.

    :param make: makes the action of the node, anew for each start.
    :param again: false starts it once.
    """
    return _started(make, Restarts()) if again else [make()]


def _started(make: Callable[[], Any], restarts: Restarts) -> list[Any]:
    from launch.actions import LogInfo, OpaqueFunction, RegisterEventHandler, TimerAction
    from launch.event_handlers import OnProcessExit
    node, began = make(), time.monotonic()

    def ended(event: Any, context: Any) -> list[Any]:
        if context.is_shutdown:
            return []
        if not restarts.again(time.monotonic() - began):
            return [LogInfo(msg=(
                f'{event.process_name} ended {_MOST_STARTS + 1} times within {_AT_ONCE_S:g} s of '
                'its start and is not started again: the lines above have the reason'))]
        return [TimerAction(period=_PAUSE_S, actions=[
            OpaqueFunction(function=lambda context: _started(make, restarts))])]

    return [RegisterEventHandler(OnProcessExit(target_action=node, on_exit=ended)), node]


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
    advice: str = '',
) -> Any:
    """
    Describe a launch file.

    All arguments are checked, and all actions are made, before launch starts a process: launch
    does not end a process that runs already when a later action fails.

    :param file: path of the launch file.
    :param rows: of its arguments; see ``LaunchArgument``.
    :param make: makes the actions from the values of the arguments; ValueError for wrong ones.
    :param advice: what to do where an argument that is not declared is wanted.
    """
    # Imported here so that tests can load launch files with stand-ins.
    from launch import LaunchDescription
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    arguments = [LaunchArgument(*row) for row in rows]

    def make_all(context: Any) -> list[Any]:
        check_launch_arguments(
            sys.argv, file, [argument.name for argument in arguments], advice)
        return make(read_launch_arguments(arguments, context.launch_configurations))

    return LaunchDescription([
        *(DeclareLaunchArgument(argument.name, default_value=argument.default,
                                description=argument.meaning) for argument in arguments),
        OpaqueFunction(function=make_all)])
