# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The processes of the demo: their start, their output, their end."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, IO, Iterator, Sequence

from optitrack_vrpn.cli.signals_io import ENDING, with_parent
from optitrack_vrpn.errors import TransportError

#: How long a process may take to end (s): longer than the node waits for its middleware, whose
#: message about that would be lost otherwise.
PATIENCE_S = 8.0
#: How long the simulator may take to start (s): it takes 0.3 s on an idle machine with two cores.
_START_S = 15.0
#: Becomes another program; the request to end with the parent stays (prctl(2)).
_EXEC = ('import os, sys; from optitrack_vrpn.cli.signals_io import end_with_parent; '
         'end_with_parent(); os.execvp(sys.argv[1], sys.argv[1:])')


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Let signals that end the demo wait until the end of a block."""
    came: list[int] = []
    # A blocked signal would stay blocked in the child; a handler does not outlive the exec.
    before: dict[int, Any] = {
        number: signal.signal(number, lambda n, frame: came.append(n)) for number in ENDING
        if callable(signal.getsignal(number))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        before[came[0]](came[0], None)


class Child:
    """
    One process of the demo, its output kept in a file.

    It ends with the demo, even if the demo is killed.

    :param command: arguments of Python.
    :param children: gets it, so that the demo can end it.
    """

    def __init__(self, command: Sequence[str], children: list['Child']) -> None:
        self.log: IO[str] = tempfile.TemporaryFile('w+', errors='replace')
        # A signal between the two statements would leave a process behind that no list holds.
        with signals_later():
            # Sessions of their own: a Ctrl-C in the terminal reaches the demo alone, which then
            # ends them in order.
            self.process = subprocess.Popen(
                [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=subprocess.STDOUT, start_new_session=True, env=with_parent(os.environ))
            children.append(self)

    def text(self) -> str:
        """Read what it has printed so far."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def stop(self) -> None:
        """End it in order, and by force if that does not help."""
        if self.process.poll() is None:
            # Not SIGINT, which a shell ignores for jobs in the background.
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
    """Start a program that is not of this package; it ends with the demo all the same."""
    return Child(['-c', _EXEC, *command], children)


def start_sim(names: Sequence[str], rate: float, children: list[Child]) -> tuple[str, int]:
    """
    Start the simulated Motive on a port that the system picks.

    :param names: its bodies.
    :param rate: frames per second.
    :param children: gets the process.
    :returns: its address and port.
    :raises TransportError: if it does not come up.
    """
    sim = start_tool('motive_sim', [
        '--names', *names, '--rate', str(rate), '--port', '0', '--noise-mm', '0.1',
        '--noise-deg', '0.05', '--jitter-ms', '0.3', '--skew-ppm', '40'], children)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and sim.process.poll() is None:
        line = sim.text().partition('\n')[0]
        if line.startswith('listening on ') and '\n' in sim.text():
            host, _, port = line[len('listening on '):].strip().rpartition(':')
            return host, int(port)
        time.sleep(0.02)
    raise TransportError(f'the simulated Motive did not start:\n{sim.text()}')
