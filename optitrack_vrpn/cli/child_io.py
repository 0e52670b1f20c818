# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The programs that a command starts beside its own process, and that end with it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, IO, Iterator, Optional, Sequence

from optitrack_vrpn.cli.signals_io import ENDING, with_parent
from optitrack_vrpn.core.errors import TransportError

#: Timeout of the end of a process (s). Chosen: longer than the node's own timeout of 5 s for its
#: middleware.
PATIENCE_S = 8.0
_LISTENING = re.compile(r'^[\w. ]+ on (\S+?):(\d+)\b.*\n', re.MULTILINE)
#: Replaces the process by another program; the request to end with the parent stays (prctl(2)).
_EXEC = ('import os, sys; from optitrack_vrpn.cli.signals_io import end_with_parent; '
         'end_with_parent(); os.execvp(sys.argv[1], sys.argv[1:])')


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Delay signals that end this process until the end of a block."""
    received: list[int] = []
    # A blocked signal would stay blocked in the child; a handler does not outlive the exec.
    before: dict[int, Any] = {
        number: signal.signal(number, lambda n, frame: received.append(n)) for number in ENDING
        if callable(signal.getsignal(number))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        before[received[0]](received[0], None)


class Child:
    """
    A process, with its output in a file; it ends with this process, even if this one is killed.

    :param command: arguments of Python.
    :param children: list to which the process is added, so that its owner can end it.
    :param output: file for the standard output alone; by default it is in the log too.
    """

    def __init__(
        self, command: Sequence[str], children: list['Child'],
        output: Optional[IO[bytes]] = None,
    ) -> None:
        self.log: IO[str] = tempfile.TemporaryFile('w+', errors='replace')
        # A signal between the two statements would leave a process that is not in the list.
        with signals_later():
            # A new session: a Ctrl-C in the terminal reaches only this process, which then ends
            # the others in order.
            self.process = subprocess.Popen(
                [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=output or self.log,
                stderr=self.log, start_new_session=True, env=with_parent(os.environ))
            children.append(self)

    def text(self) -> str:
        """Return its output so far."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        """
        Terminate the process, if it has not ended.

        :param patience_s: time after which it is killed (s).
        """
        if self.process.poll() is None:
            # Not SIGINT, which background jobs of a shell ignore.
            self.process.terminate()
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def start_tool(tool: str, arguments: Sequence[str], children: list[Child]) -> Child:
    """Start a tool of this package."""
    return Child(['-m', 'optitrack_vrpn', tool, *arguments], children)


def start_program(
    command: Sequence[str], children: list[Child], output: Optional[IO[bytes]] = None,
) -> Child:
    """Start a program that is not Python; it ends with this process too."""
    return Child(['-c', _EXEC, *command], children, output)


def addresses_of(
    server: Child, what: str, timeout_s: float, count: int = 1,
) -> list[tuple[str, int]]:
    """
    Wait until a process prints lines such as ``listening on HOST:PORT``.

    :param what: its name in the error.
    :param count: number of the lines.
    :returns: its addresses and ports, in the order of the lines.
    :raises TransportError: if it does not within the timeout, or ends.
    """
    found = texts_of(server, _LISTENING, what, timeout_s, count)
    return [(one[1], int(one[2])) for one in found]


def texts_of(
    child: Child, pattern: re.Pattern[str], what: str, timeout_s: float, count: int = 1,
) -> list[re.Match[str]]:
    """
    Wait until a process prints texts that a pattern matches; see ``addresses_of``.

    :raises TransportError: if it does not within the timeout, or ends.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and child.process.poll() is None:
        found = list(pattern.finditer(child.text()))
        if len(found) >= count:
            return found[:count]
        time.sleep(0.02)
    raise TransportError(f'{what} did not start:\n{child.text()}')
