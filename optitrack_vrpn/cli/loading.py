# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Import the modules of a tool: one line for a missing dependency, an end at once on Ctrl-C."""

import contextlib
import importlib
import importlib.util
import os
import signal
import sys
from types import FrameType
from typing import Any, Callable, Iterator, Optional

from optitrack_vrpn.cli.signals_io import ENDING, replaced
from optitrack_vrpn.errors import BackendUnavailableError

#: Exit code after Ctrl-C: 128 + SIGINT, as shells report it.
INTERRUPTED = 130
#: Dependencies that pip installs; all other imports of this package belong to ROS 2.
_NOT_ROS = ('matplotlib', 'numpy', 'scipy', 'transforms3d', 'yaml')


@contextlib.contextmanager
def loading(tool: str, code: int = INTERRUPTED) -> Iterator[None]:
    """
    Handle Ctrl-C and missing dependencies while a block imports modules.

    :param tool: name of the tool.
    :param code: exit code on Ctrl-C, which ends the process immediately: no resource needs to be
        released yet, and imported modules may catch KeyboardInterrupt. 0 is a normal, silent end.
    :raises BackendUnavailableError: if a dependency is not installed.
    """
    def leave(number: int, frame: Optional[FrameType]) -> None:
        if code:
            os.write(2, f'{tool}: stopped\n'.encode())
        os._exit(code)

    before = replaced({**dict.fromkeys(ENDING, signal.SIG_DFL), signal.SIGINT: leave})
    try:
        yield
    except ImportError as error:
        missing = (error.name or '').partition('.')[0]
        if missing == 'optitrack_vrpn':
            raise
        if missing in _NOT_ROS:
            what, how = f'{missing} not found', 'install it'
        elif missing in ('', 'rclpy') or importlib.util.find_spec('rclpy') is None:
            what, how = 'ROS 2 not found', 'source its setup.bash'
        else:
            distribution = os.environ.get('ROS_DISTRO', 'DISTRO')
            what = f'{missing} not found'
            how = f'install ros-{distribution}-{missing.replace("_", "-")}'
        raise BackendUnavailableError(
            f'{what} ({error}): {how}, or run .venv/bin/python (make env)') from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def load(tool: str, function: str, code: int = INTERRUPTED) -> Callable[[], Any]:
    """
    Import the function that a tool runs.

    :param function: as ``module:function``.
    :param code: exit code on Ctrl-C.
    :raises SystemExit: after printing the error, if a dependency is not installed.
    """
    module, name = function.split(':')
    try:
        with loading(tool, code):
            found: Callable[[], Any] = getattr(importlib.import_module(module), name)
            return found
    except BackendUnavailableError as error:
        print(f'{tool}: {error}', file=sys.stderr)
        raise SystemExit(2) from None
