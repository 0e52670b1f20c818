# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The processes of the demo; its files: parameters, rviz display; a fake autopilot."""

import contextlib
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, IO, Iterator, Sequence

from optitrack_vrpn.cli.files_io import package_file
from optitrack_vrpn.cli.signals_io import ENDING, with_parent
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.table import own_port, SOURCES
from optitrack_vrpn.sim.demo.view import display
from optitrack_vrpn.sim.scenario_io import BOTH, both
import yaml

#: Timeout of the end of a process (s). Chosen: longer than the node's own timeout of 5 s for its
#: middleware.
PATIENCE_S = 8.0
#: Timeout of the simulator's start (s). Chosen: 0.3 s are measured on an idle machine with two
#: cores.
_START_S = 15.0
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


def start_sim(
    names: Sequence[str], rate: float, protocol: str, children: list[Child],
) -> tuple[str, dict[str, int]]:
    """
    Start the simulated Motive on ports that the system chooses.

    :param names: its bodies.
    :param rate: frames per second.
    :param protocol: its protocol; one without a server, and none, stand for several.
    :param children: list to which the process is added.
    :returns: its address, and the port of each protocol.
    :raises TransportError: if it does not start.
    """
    single = protocol in SOURCES and bool(SOURCES[protocol].server)
    served = [protocol] if single else both()
    sim = start_tool('motive_sim', [
        '--names', *names, '--rate', str(rate), '--protocol', protocol if single else BOTH,
        '--port', '0', *(f'--{name}-port=0' for name in served if own_port(name)),
        '--noise-mm', '0.1', '--noise-deg', '0.05', '--jitter-ms', '0.3', '--skew-ppm', '40'],
        children)
    found = addresses_of(sim, 'the simulated Motive', _START_S, len(served))
    return found[0][0], {name: port for name, (_, port) in zip(served, found)}


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
def display_file(namespace: str, names: Sequence[str]) -> Iterator[str]:
    """
    Write the display for a demo into a file that exists during the block.

    :param namespace: namespace of topics and frames, without slashes at its ends; may be empty.
    :param names: the simulated bodies.
    :returns: its path.
    """
    shipped = package_file('optitrack_vrpn.rviz').read_text(encoding='utf-8')
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        path = Path(folder) / 'demo.rviz'
        path.write_text(display(shipped, namespace, names), encoding='utf-8')
        yield str(path)


def renamed(text: str, name: str, new: str) -> str:
    """
    Rename a node in a parameter file.

    :returns: the text with the new name; unchanged if it is not YAML, which the node reports.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    if not isinstance(root, yaml.MappingNode):
        return text
    for key, _ in reversed(root.value):
        begin, end = key.start_mark.index, key.end_mark.index
        if text[begin:end].strip('\'"') in (name, f'/{name}'):
            text = f'{text[:begin]}{new}{text[end:]}'
    return text


@contextlib.contextmanager
def for_demo(path: str, name: str, new: str) -> Iterator[str]:
    """
    Apply a file that names the node to the demo's node, which has another name.

    :param name: name of the node in the file.
    :param new: the name of the demo's node.
    :returns: the name of a file for the demo's node.
    """
    with open(path, encoding='utf-8', errors='surrogateescape', newline='') as file:
        text = file.read()
    changed = renamed(text, name, new)
    if changed == text:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, 'w', encoding='utf-8', errors='surrogateescape', newline='') as file:
            file.write(changed)
        yield copy


# -- a fake autopilot ---------------------------------------------------------------------------

_BRIDGE = 'optitrack_vrpn_demo_bridge'
#: Chosen: the fake's clock differs from the host's: it starts at its boot, and is 40 ppm fast (a
#: usual quartz).
_BOOT_NS, _SKEW_PPM = 50_000_000_000, 40.0


class AutopilotDemo:
    """
    Send the poses of one body to a fake autopilot, and describe its state.

    :param kind: ``px4`` or ``ardupilot``.
    :param body: name of the body in ROS.
    :param children: list to which the bridge's process is added.
    :raises BackendUnavailableError: if pymavlink is not installed.
    """

    def __init__(self, kind: str, body: str, children: list[Child]) -> None:
        from optitrack_vrpn.guests.autopilot.fake_autopilot_io import (
            FakeAutopilot, FakeConfig, FakeServer)
        from optitrack_vrpn.guests.autopilot.settings import PROFILES
        self._name = f'fake {PROFILES[kind].name}, body {body}'
        # Chosen: requests of TIMESYNC per second: five times PX4's, so that a demo of 15 s shows
        # the convergence.
        self._server = FakeServer(FakeAutopilot(FakeConfig(
            kind, epoch_ns=time.time_ns(), boot_ns=_BOOT_NS, skew_ppm=_SKEW_PPM,
            timesync_hz=50.0)))
        self.bridge = start_tool('mavlink_bridge', [
            '--ros-args', '-r', f'__node:={_BRIDGE}', '-p', f"body:='{body}'", '-p',
            f'autopilot:={kind}', '-p', f'connection:={self._server.connection}', '-p',
            'autostart:=true', '-p', "control.generations:=['none']"], children)

    @property
    def messages(self) -> int:
        """Count the poses that have arrived."""
        return len(self._server.heard)

    def line(self) -> str:
        """Describe the received messages, in one line."""
        received: Sequence[Any] = self._server.heard[-200:]
        name = self._name
        if not received:
            return f'{name}: no pose yet'
        fake, now_ns, last = self._server.fake, time.time_ns(), received[-1]
        rate = sum(now_ns - one.arrival_ns < NS_PER_S for one in received)
        age_ms = (last.arrival_ns - last.message.fields['time_usec'] * 1000) / 1e6
        estimator = 'fuses the poses' if fake.fused(now_ns) else 'does not fuse'
        stamps = '' if fake.converged else ', stamps on arrival until TIMESYNC converges'
        return (f'{name}: {last.message.name} at {rate} Hz, {age_ms:.1f} ms old, reset counter '
                f'{last.message.fields["reset_counter"]}; its estimator {estimator}{stamps}')

    def failures(self) -> list[str]:
        """List the failures; empty if the estimator fuses the poses."""
        if not self.messages:
            return [f'no pose reached the fake autopilot; output of the bridge:\n'
                    f'{self.bridge.text()}']
        if not self._server.fake.fused(time.time_ns()):
            return [f'the estimator of the fake autopilot does not fuse: {self.line()}']
        return []

    def close(self) -> None:
        """End the fake autopilot."""
        self._server.close()
