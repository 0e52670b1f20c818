# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Load what a tool needs, and say in one line why that cannot be."""

import contextlib
import importlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Callable, Iterator, Optional

from optitrack_vrpn.errors import BackendUnavailableError

INTERRUPTED = 130
#: What pip installs beside ROS 2; all else that this package imports comes with ROS 2.
_NOT_ROS = ('matplotlib', 'numpy', 'scipy', 'transforms3d', 'yaml')


@contextlib.contextmanager
def loading(tool: str, code: int = INTERRUPTED) -> Iterator[None]:
    """
    Import modules in a block, which takes long enough for a Ctrl-C.

    :param tool: what is being loaded.
    :param code: exit code on Ctrl-C, which ends the process: there is nothing to release yet, and
        an exception may get lost in modules that catch all. 0 is a normal end, without a word.
    :raises BackendUnavailableError: if something that is not of this package is not installed.
    """
    def leave(number: int, frame: Optional[FrameType]) -> None:
        if code:
            os.write(2, f'{tool}: stopped\n'.encode())
        os._exit(code)

    # Only the main thread may set handlers; another program's own handler stays.
    ours = (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    if ours:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    except ImportError as error:
        missing = (error.name or '').partition('.')[0]
        if missing == 'optitrack_vrpn':
            raise
        what, how = ((f'{missing} not found', 'install it') if missing in _NOT_ROS
                     else ('ROS 2 not found', 'source its setup.bash'))
        raise BackendUnavailableError(
            f'{what} ({error}): {how}, or run .venv/bin/python (make env)') from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def load(tool: str, function: str, code: int = INTERRUPTED) -> Callable[[], Any]:
    """
    Import what a tool runs.

    :param function: as ``module:function``.
    :param code: exit code on Ctrl-C.
    :raises SystemExit: if something is not installed, once that has been told.
    """
    module, name = function.split(':')
    try:
        with loading(tool, code):
            found: Callable[[], Any] = getattr(importlib.import_module(module), name)
            return found
    except BackendUnavailableError as error:
        print(f'{tool}: {error}', file=sys.stderr)
        raise SystemExit(2) from None
