# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS domain of a demo, and the programs that it starts beside its own process."""

import contextlib
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, IO, Iterator, Optional, Sequence

from optitrack_vrpn.cli.files_io import package_file
from optitrack_vrpn.cli.signals_io import ENDING, ignore, with_parent
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.node.graph.domain_io import claim_domain, in_use, isolate, own_domain
from optitrack_vrpn.sim.demo.table import display

#: Timeout of the end of a process (s). Chosen: longer than the node's own timeout of 5 s for its
#: middleware.
PATIENCE_S = 8.0
_LISTENING = re.compile(r'^[\w. ]+ on (\S+?):(\d+)\b.*\n', re.MULTILINE)
#: Replaces the process by another program; the request to end with the parent stays (prctl(2)).
_EXEC = ('import os, sys; from optitrack_vrpn.cli.signals_io import end_with_parent; '
         'end_with_parent(); os.execvp(sys.argv[1], sys.argv[1:])')


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Delay signals that end the demo until the end of a block."""
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
    One process of the demo, with its output in a file.

    It ends with the demo, even if the demo is killed.

    :param command: arguments of Python.
    :param children: list to which the process is added, so that the demo can end it.
    """

    def __init__(self, command: Sequence[str], children: list['Child']) -> None:
        self.log: IO[str] = tempfile.TemporaryFile('w+', errors='replace')
        # A signal between the two statements would leave a process that is not in the list.
        with signals_later():
            # A new session: a Ctrl-C in the terminal reaches only the demo, which then ends the
            # processes in order.
            self.process = subprocess.Popen(
                [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=subprocess.STDOUT, start_new_session=True, env=with_parent(os.environ))
            children.append(self)

    def text(self) -> str:
        """Return its output so far."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def stop(self) -> None:
        """Terminate the process; kill it after ``PATIENCE_S``."""
        if self.process.poll() is None:
            # Not SIGINT, which background jobs of a shell ignore.
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def start_tool(tool: str, arguments: Sequence[str], children: list[Child]) -> Child:
    """Start a tool of this package."""
    return Child(['-m', 'optitrack_vrpn', tool, *arguments], children)


def start_program(command: Sequence[str], children: list[Child]) -> Child:
    """Start a program of another package; it ends with the demo too."""
    return Child(['-c', _EXEC, *command], children)


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


@contextlib.contextmanager
def display_file(names: Sequence[str]) -> Iterator[str]:
    """
    Write the display for a demo into a file that exists during the block.

    :param names: the simulated bodies.
    :returns: its path.
    """
    shipped = package_file('optitrack_vrpn.rviz').read_text(encoding='utf-8')
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        path = Path(folder) / 'demo.rviz'
        path.write_text(display(shipped, names), encoding='utf-8')
        yield str(path)


@contextlib.contextmanager
def isolated(domain: Optional[int], simulated: bool = True) -> Iterator[
        tuple[int, list[Child], contextlib.ExitStack]]:
    """
    Stay in a ROS domain of this computer during a block, and end the processes that it started.

    :param domain: the domain; None for a free one.
    :param simulated: whether poses are simulated, which must not reach programs of the domain.
    :returns: the domain, the list of started processes, and a stack for what must be removed.
    :raises TransportError: if the domain is in use, or none is free.
    """
    children: list[Child] = []
    with contextlib.ExitStack() as files:
        try:
            if domain is None:
                domain = files.enter_context(claim_domain({own_domain()})).domain
            elif simulated and in_use(domain):
                raise TransportError(
                    f'ROS domain {domain} is in use on this computer, and simulated poses would '
                    'reach it: omit --domain for a free one, or end its programs (ros2 daemon '
                    'stop, too)')
            isolate(os.environ, domain)
            yield domain, children, files
        finally:
            ignore()    # a second signal does not interrupt the end of the processes
            for child in children:
                child.process.terminate()
            for child in children:
                child.stop()
