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

from optitrack_vrpn.cli.early import INTERRUPTED
from optitrack_vrpn.cli.signals_io import ENDING, replaced
from optitrack_vrpn.errors import BackendUnavailableError

#: Dependencies that pip installs; all other imports of this package belong to ROS 2.
_NOT_ROS = ('aiohttp', 'jinja2', 'matplotlib', 'numpy', 'scipy', 'transforms3d', 'yaml')


def how_to_install(otherwise: str) -> str:
    """
    Return how to install what is missing, in the environment in use.

    :param otherwise: how to do it outside of the environment that ``make demo`` and ``make env``
        create, as in ``sudo apt install python3-serial``.
    """
    if os.path.isfile(os.path.join(sys.prefix, 'stamps', 'venv')):    # tools/environment.py
        return 'run "make env" in the folder of this package (make demo installs less)'
    return otherwise


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
        what, how = f'{missing} not found', 'install it'
        if missing not in _NOT_ROS:
            if missing in ('', 'rclpy') or importlib.util.find_spec('rclpy') is None:
                what, how = 'ROS 2 not found', 'source its setup.bash'
            else:
                distribution = os.environ.get('ROS_DISTRO', 'DISTRO')
                how = f'install ros-{distribution}-{missing.replace("_", "-")}'
        remedy = how_to_install(f'{how}, or run .venv/bin/python (make env)')
        raise BackendUnavailableError(f'{what} ({error}): {remedy}') from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def load(tool: str, function: str, code: int = INTERRUPTED) -> Callable[[], Any]:
    """Import the function ``module:function`` of a tool, or end with the error printed."""
    module, name = function.split(':')
    try:
        with loading(tool, code):
            found: Callable[[], Any] = getattr(importlib.import_module(module), name)
            return found
    except BackendUnavailableError as error:
        print(f'{tool}: {error}', file=sys.stderr)
        raise SystemExit(2) from None
