# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""How a command begins and ends: its imports; errors in one line, exit codes, no traceback."""

from collections.abc import Callable
import contextlib
import errno
import functools
import importlib
import importlib.util
import os
import signal
import sys
from types import FrameType
from typing import Any, Iterator, Optional, ParamSpec

from optitrack_vrpn.cli.arguments import exit_code
from optitrack_vrpn.cli.early import interrupt_code
from optitrack_vrpn.cli.signals_io import EndedBySignal, ENDING, raised, replaced
from optitrack_vrpn.core.errors import BackendUnavailableError, OptitrackVrpnError

#: 128 + SIGPIPE, as a shell reports a command whose output pipe was closed.
OUTPUT_CLOSED = 141
#: Errors of a write without the name of a file: a pipe without a reader, a full disk.
_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

P = ParamSpec('P')
Main = Callable[P, int]


def command(tool: str) -> Callable[[Main[P]], Main[P]]:
    """
    Decorate the function of a command, which returns the exit code.

    An error of this package is printed, and gives ``exit_code``. Once nothing reads the output,
    as in ``| head``, the command ends with ``OUTPUT_CLOSED``. A signal of ``ENDING`` raises an
    exception, so that files, processes and terminal are released. Where Ctrl-C is the normal end
    (``interrupt_code``), the command handles the signals itself.

    :param tool: name of the command.
    """
    interrupted = interrupt_code(tool)

    def decorate(main: Main[P]) -> Main[P]:
        @functools.wraps(main)
        def run(*args: P.args, **kwargs: P.kwargs) -> int:
            # A shell closes them with `>&-` and `2>&-`.
            sys.stdout = sys.stdout or open(os.devnull, 'w')
            sys.stderr = sys.stderr or open(os.devnull, 'w')
            try:
                with raised(ENDING if interrupted else ()):
                    code = main(*args, **kwargs)
                    sys.stdout.flush()
                return code
            except OptitrackVrpnError as error:
                print(f'{tool}: {error}', file=sys.stderr)
                return exit_code(error)
            except KeyboardInterrupt:
                if interrupted:
                    _complain(f'{tool}: stopped')
                return interrupted
            except EndedBySignal as ended:
                _complain(f'{tool}: {ended}')
                return 128 + ended.number
            except OSError as error:
                if error.filename is None:
                    if error.errno not in _UNWRITABLE:    # a bug, not a file that the user named
                        raise
                    _discard(1)
                    if error.errno == errno.EPIPE:
                        return OUTPUT_CLOSED
                print(f'{tool}: {error}', file=sys.stderr)
                return 1
            finally:
                # Python ends with SIGINT in place of the exit code if an interrupt has left an
                # eval(), as of a namedtuple during an import, also if it was caught later; the
                # next eval() clears that (run_eval_code_obj in CPython's pythonrun.c).
                eval('None')
        return run
    return decorate


def _complain(line: str) -> None:
    """Print a line, and discard the output of which the terminal or reader is gone."""
    for number, stream, text in ((1, sys.stdout, ''), (2, sys.stderr, f'{line}\n')):
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            _discard(number)


def _discard(number: int) -> None:
    """Discard what is written to a descriptor: at its end the interpreter writes the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


#: Dependencies that pip installs; all other imports of this package belong to ROS 2.
NOT_ROS = ('aiohttp', 'cv2', 'jinja2', 'lz4', 'matplotlib', 'mcap', 'numpy', 'pyarrow',
           'pymavlink', 'qrcode', 'rich', 'ruckig', 'scipy', 'serial', 'transforms3d', 'vrpn',
           'yaml', 'zstandard')


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
def loading(tool: str) -> Iterator[None]:
    """
    Handle Ctrl-C and missing dependencies while a block imports modules.

    Ctrl-C ends the process immediately: no resource needs to be released yet, and imported modules
    may catch KeyboardInterrupt.

    :param tool: name of the command.
    :raises BackendUnavailableError: if a dependency is not installed.
    """
    code = interrupt_code(tool)

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
        if missing not in NOT_ROS:
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


def load(tool: str, function: str) -> Callable[[], Any]:
    """Import the function ``module:function`` of a tool, or end with the error printed."""
    module, name = function.split(':')
    try:
        with loading(tool):
            found: Callable[[], Any] = getattr(importlib.import_module(module), name)
            return found
    except BackendUnavailableError as error:
        print(f'{tool}: {error}', file=sys.stderr)
        raise SystemExit(2) from None
