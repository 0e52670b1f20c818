# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Signals that end a program: handlers without locks, and the end with the parent process."""

import contextlib
import ctypes
import os
import select
import signal
import threading
from types import FrameType
from typing import Any, Iterator, Mapping, MutableMapping, Optional, Sequence

from optitrack_vrpn.cli.early import leave

#: Environment variable with the id of the parent process; see ``with_parent``.
PARENT = 'OPTITRACK_VRPN_PARENT'
#: Signals that a terminal, a supervisor or a shell sends to end a program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class EndedBySignal(BaseException):
    """Ends the main thread as KeyboardInterrupt does, for the other signals of ``ENDING``."""

    def __init__(self, number: int) -> None:
        super().__init__(f'ended by {signal.Signals(number).name}')
        self.number = number


def _raise(number: int, frame: Optional[FrameType]) -> None:
    _arrived.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else EndedBySignal(number)


def _nothing(number: int, frame: Optional[FrameType]) -> None:
    """Do nothing: Python's C handler has written the number to the pipe."""


#: Signals that ``_raise`` has raised.
_arrived: list[int] = []
#: Handlers that end the process; those of another program are kept.
_ENDS = (signal.SIG_DFL, signal.default_int_handler, leave, _raise)


def replaced(handlers: Mapping[int, Any]) -> dict[int, Any]:
    """Set handlers; return the previous ones, none outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number, handler in handlers.items()
            if signal.getsignal(number) in _ENDS}


def _install(numbers: Sequence[int], handler: Any) -> dict[int, Any]:
    """Set a handler for signals that are not ignored; return the previous handlers."""
    # A shell ignores SIGHUP for `nohup`, and SIGINT and SIGQUIT for jobs in the background.
    return {number: signal.signal(number, handler) for number in numbers
            if signal.getsignal(number) is not signal.SIG_IGN}


@contextlib.contextmanager
def raised(numbers: Sequence[int] = ENDING) -> Iterator[None]:
    """
    Raise KeyboardInterrupt or EndedBySignal in the main thread when a signal arrives.

    After a block in which one arrived they are ignored, so that they do not interrupt the
    shutdown. Within the block each one raises: Python drops exceptions in some callbacks, and the
    user can then repeat the signal.
    """
    before = replaced(dict.fromkeys(numbers, _raise))
    try:
        yield
    except Exception:
        if _arrived:    # pybind11 replaces the exception during the conversion of a message
            _raise(_arrived[-1], None)
        raise
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _raise:
                signal.signal(number, signal.SIG_IGN if _arrived else handler)


def leave_to_ros() -> None:
    """
    Leave the signals to rclpy, whose ``init`` must follow.

    It shuts ROS down on SIGINT and SIGTERM. The other signals are passed on as SIGTERM.
    """
    def terminate(number: int, frame: Optional[FrameType]) -> None:
        signal.raise_signal(signal.SIGTERM)

    replaced({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL,
              signal.SIGHUP: terminate, signal.SIGQUIT: terminate})


def ignore(numbers: Sequence[int] = ENDING) -> None:
    """Ignore these signals from now on."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


class SignalPipe:
    """
    Wait for a signal through a pipe (the self-pipe trick).

    A handler that acquires a lock, such as ``threading.Event.set``, deadlocks if the interrupted
    thread holds that lock. Here Python's C handler writes to a pipe, and no Python code runs in a
    handler. Only the main thread may use it.

    :param numbers: the signals; SIGHUP and SIGQUIT stay ignored if they were ignored before.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # Handle SIGINT also if it is ignored, as in a script's background job.
        always = [n for n in numbers if n in (signal.SIGINT, signal.SIGTERM)]
        self._before = {n: signal.signal(n, _nothing) for n in always}
        self._before.update(_install([n for n in numbers if n not in always], _nothing))
        self._came = False

    def wait(self, timeout_s: float) -> bool:
        """Wait for a signal; return True as soon as one of them has arrived."""
        if not select.select([self._read], [], [], timeout_s)[0]:
            return False
        self._came = any(number in self._before for number in os.read(self._read, 4096))
        return self._came

    def close(self) -> None:
        """
        Restore the previous handlers.

        After one of the signals the program is shutting down: another signal must not turn that
        into a failure, so that default handlers are not restored.
        """
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._came and handler in _ENDS else handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._read)
        os.close(self._write)

    def __enter__(self) -> 'SignalPipe':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def with_parent(variables: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """
    Return the environment of a child process that ends together with this process.

    The main thread must start the child, because the kernel treats the end of the starting thread
    as the end of the parent (prctl(2)). The child must call ``end_with_parent``.
    """
    return {**variables, PARENT: str(os.getpid())}


_parents: list[int] = []


def end_with_parent() -> bool:
    """
    Request SIGTERM from the kernel for the end of the parent process.

    Does nothing without ``with_parent`` in the parent, or on systems without prctl(2) (Linux).

    :returns: whether this process was started ``with_parent``.
    """
    parent = os.environ.pop(PARENT, '')
    if parent:
        _parents.append(int(parent))
        end_with(int(parent))
    return bool(_parents)


def end_with(parent: int) -> None:
    """
    Request SIGTERM from the kernel for the end of the parent process, if it has this id.

    The request remains after ``exec``, so that it can be made for any program
    (``preexec_fn`` of ``subprocess``).
    """
    prctl = getattr(ctypes.CDLL(None), 'prctl', None)
    # 1 is PR_SET_PDEATHSIG of linux/prctl.h.
    if prctl is None or prctl(1, int(signal.SIGTERM), 0, 0, 0):
        return
    # The parent may have ended before the call.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
