# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Ctrl-C while a command still imports its modules: an end without a traceback.

The package imports this file first, so that it imports almost nothing.
"""

from importlib.machinery import EXTENSION_SUFFIXES
import os
import signal
import sys


#: Exit code after Ctrl-C: 128 + SIGINT, as shells report it.
INTERRUPTED = 130
#: Commands that run until they are stopped: Ctrl-C is their normal end.
_UNTIL_STOPPED = (
    'optitrack_vrpn_node', 'motive_sim', 'mavlink_bridge', 'axis_bridge', 'gantry_controller',
    'gantry_sim', 'rgbd_image_proc', 'rgbd_odometry', 'rgbd_mapper', 'rgbd_play', 'rgbd_sim',
    'imu_sim', 'replay', 'discovery_server', 'dashboard')
#: Options with which such a command ends by itself.
_ONCE = ('--check', '--teach')


def interrupt_code(tool: str) -> int:
    """Return the exit code of a command after Ctrl-C: 0 where that is its normal end."""
    until_stopped = tool in _UNTIL_STOPPED and not any(word in _ONCE for word in sys.orig_argv)
    return 0 if until_stopped else INTERRUPTED


def is_command() -> bool:
    """Return whether this process was started as a command of the package."""
    program = (sys.argv or [''])[0]
    # `python -m` has not found its module yet, which can only be one of this package; a script of
    # `ros2 run` is in lib/optitrack_vrpn.
    return program == '-m' or os.path.basename(os.path.dirname(program)) == 'optitrack_vrpn'


def leave(number: int, frame: object) -> None:
    """End the process at once, with the exit code that the command has after Ctrl-C."""
    os._exit(min(interrupt_code(os.path.basename(word)) for word in sys.orig_argv[:6]))


def end_at_interrupt() -> None:
    """Handle SIGINT until the command itself does."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


def form() -> str:
    """Tell how the path of a pose runs: extension modules lie beside the sources they replace."""
    package = os.path.dirname(os.path.dirname(__file__))
    compiled = os.path.join(package, 'stream', 'pipeline' + EXTENSION_SUFFIXES[0])
    return 'compiled' if os.path.exists(compiled) else 'as plain Python'
