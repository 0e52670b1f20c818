# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The whole chain on one machine: a simulated Motive, the node, and a subscriber with a table.

Each is a process of its own, as in a lab. With ``--server`` a real Motive takes the place of the
simulated one.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, IO, Iterator, Mapping, Optional, Sequence

from optitrack_vrpn.bodies.selection import Selection
from optitrack_vrpn.cli.arguments import duration, exit_code, Parser, server_address, USAGE
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.client.link import LinkState
from optitrack_vrpn.demo.view import BodyRow, missing, table
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError, TransportError
from optitrack_vrpn.sim.scenario_io import MAX_BODIES, named_bodies
from optitrack_vrpn.vrpn.constants import DEFAULT_PORT
import yaml

NODE = 'optitrack_vrpn_demo'
#: What the node is called elsewhere, and users' parameter files call it.
REAL_NODE = 'optitrack_vrpn'
#: Exit code for what only the user can put right, as of argparse and of the node.
WRONG = USAGE
_RATE = 240.0
#: How long a process may take to end (s): longer than the node waits for its middleware, whose
#: word on that would be lost otherwise.
_PATIENCE_S = 8.0
_NAMES = ('Rigid Body 1', '1drone', 'wand')


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='demo', description='Watch rigid bodies stream from Motive through the node.')
    parser.add_argument(
        '--server', metavar='HOST[:PORT]', type=server_address,
        help='a real Motive in place of the simulated one')
    parser.add_argument('--seconds', type=duration, default=10.0, help='how long (default 10)')
    parser.add_argument(
        '--bodies', type=body_count, metavar='N',
        help='so many simulated bodies, instead of three')
    parser.add_argument(
        '--rate', type=float, help='simulated frames per second (default 240)')
    parser.add_argument(
        '--params-file', type=existing_file, metavar='FILE',
        help='parameters of the node, as for any ROS node')
    return parser


def body_count(text: str) -> int:
    """
    Read how many bodies to simulate.

    :raises argparse.ArgumentTypeError: if it is none, or more than the simulator takes.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_BODIES):
        raise argparse.ArgumentTypeError(f'{text!r} is not allowed; allowed is 1 to {MAX_BODIES}')
    return int(text)


def existing_file(text: str) -> str:
    """
    Read the name of a file.

    :raises argparse.ArgumentTypeError: if it cannot be read.
    """
    try:
        with open(text, 'rb'):
            return text
    except OSError as error:
        raise argparse.ArgumentTypeError(f'{text}: {error.strerror}') from None


@contextlib.contextmanager
def interrupted_later() -> Iterator[None]:
    """Let a Ctrl-C wait until the end of a block."""
    came: list[int] = []
    before: Any = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(came[0], None)


class Child:
    """
    One process of the demo, its output kept in a file.

    :param tool: which tool of this package.
    :param arguments: its command line.
    :param children: gets it, for whoever ends them all.
    """

    def __init__(self, tool: str, arguments: Sequence[str], children: list['Child']) -> None:
        self.tool = tool
        self.log: IO[str] = tempfile.TemporaryFile('w+', errors='replace')
        # A Ctrl-C between the two would leave a process behind that nobody knows.
        with interrupted_later():
            # Sessions of their own: a Ctrl-C in the terminal reaches the demo alone, which then
            # ends them in order.
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'optitrack_vrpn', tool, *arguments],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                start_new_session=True)
            children.append(self)

    def text(self) -> str:
        """Read what it has printed so far."""
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def stop(self) -> None:
        """End it as Ctrl-C would, and by force if that does not help."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def start_sim(arguments: argparse.Namespace, children: list[Child]) -> tuple[str, int]:
    """
    Start the simulated Motive on a port that the system picks.

    :param children: gets the process.
    :returns: its address and port.
    :raises TransportError: if it does not come up.
    """
    bodies = ['--bodies', str(arguments.bodies)] if arguments.bodies else ['--names', *_NAMES]
    sim = Child('motive_sim', [
        *bodies, '--rate', str(arguments.rate), '--port', '0', '--noise-mm', '0.1',
        '--noise-deg', '0.05', '--jitter-ms', '0.3', '--skew-ppm', '40'], children)
    deadline = time.monotonic() + 15.0
    while time.monotonic() < deadline and sim.process.poll() is None:
        line = sim.text().partition('\n')[0]
        if line.startswith('listening on ') and '\n' in sim.text():
            host, _, port = line[len('listening on '):].strip().rpartition(':')
            return host, int(port)
        time.sleep(0.02)
    raise TransportError(f'the simulated Motive did not start:\n{sim.text()}')


class Screen:
    """Draw the table over itself on a terminal; elsewhere print it once, at the end."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._height = 0

    def say(self, line: str) -> None:
        """Show a line that stays, above what is drawn next."""
        self.draw([line, ''])
        self._height = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines in place of the last ones."""
        if self._height:
            sys.stdout.write(f'\x1b[{self._height}F\x1b[J')
        print('\n'.join(lines), flush=True)
        self._height = len(lines)


def shown(
    rows: Sequence[BodyRow], clock: Mapping[str, str], connection: str,
) -> list[str]:
    """Write the table and the connection; before the first body there is but the latter."""
    return [*table(rows, clock), '', connection] if rows else [connection]


def advice(cause: str, host: str, port: int) -> str:
    """
    Tell what to do where no body appeared, if the cause does not.

    :param cause: what the node says of its connection.
    :param host: the server.
    :param port: its VRPN port.
    """
    if not cause.startswith(LinkState.CONNECTED.value):
        return ''
    at_port = '' if port == DEFAULT_PORT else f' --port {port}'
    return ('; make a rigid body in Motive and tick it for streaming, or run the doctor with '
            f'--server {host}{at_port}')


def wanted(names: Sequence[str], selection: Selection) -> int:
    """
    Count the simulated bodies that the node is to follow.

    :raises ConfigurationError: if there is none.
    """
    count = sum(selection.wanted(name) for name in names)
    if not count:
        raise ConfigurationError(
            'bodies.allow and bodies.deny leave none of the simulated bodies, which are '
            f'{", ".join(names[:3])}{" and more" if len(names) > 3 else ""}')
    return count


def renamed(text: str, name: str, new: str) -> str:
    """
    Give what a parameter file says for one node to another.

    :returns: the file as it was but for that name; all as it was if it is no YAML, which the
        node itself will say.
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
def for_demo(path: str) -> Iterator[str]:
    """
    Make what a file says for the node itself hold for the demo's.

    The demo's has a name of its own, so that it is never mistaken for a node in earnest.

    :returns: the name of a file that says so.
    """
    with open(path, encoding='utf-8', errors='surrogateescape', newline='') as file:
        text = file.read()
    changed = renamed(text, REAL_NODE, NODE)
    if changed == text:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_demo_') as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, 'w', encoding='utf-8', errors='surrogateescape', newline='') as file:
            file.write(changed)
        yield copy


def watch(
    arguments: argparse.Namespace, children: list[Child], files: contextlib.ExitStack,
) -> int:
    """
    Start everything, show the table, and judge.

    :param children: gets every process that was started.
    :param files: gets what they read, for as long as they run.
    :returns: exit code: 0 if every body streamed, 2 if parameters stand against it.
    """
    with loading('demo'):
        from optitrack_vrpn.demo.view_ros import DemoView

    names: list[str] = []
    if arguments.server:
        host, port = arguments.server
        print(f'demo: connecting to {host} port {port}')
    else:
        host, port = start_sim(arguments, children)
        names = [body.name for body in named_bodies(arguments.bodies or _NAMES)]
        print(f'demo: a simulated Motive streams {len(names)} bodies at {arguments.rate:g} Hz '
              f'on {host} port {port}')
    ros_arguments = ['--ros-args', '-r', f'__node:={NODE}']
    if arguments.params_file:
        ros_arguments += ['--params-file', files.enter_context(for_demo(arguments.params_file))]
    # For this node by name, which beats a section of that name in the file.
    ros_arguments += ['-p', f'{NODE}:server:={host}', '-p', f'{NODE}:port:={port}']
    node = Child('optitrack_vrpn_node', ros_arguments, children)
    view = DemoView(NODE)

    def check() -> None:
        """Look whether the node still runs."""
        code = node.process.poll()
        if code is not None:
            kind = ConfigurationError if code == WRONG else TransportError
            raise kind('the node ended by itself, see below')

    try:
        view.bring_up(20.0, check)
        expected = wanted(names, view.selection) if names else 1
        print(f'demo: the node is active; for {arguments.seconds:g} s\n', flush=True)
        screen = Screen()
        hinted = not shutil.which('ros2')
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            time.sleep(0.25)
            check()
            rows = view.rows()
            seen = [row.name for row in rows if row.poses]
            if seen and not hinted:
                hinted = True
                screen.say(f'try: ros2 topic echo {view.topic(seen[-1])}')
            if screen.live:
                screen.draw(shown(rows, view.clock, view.connection))
        rows = view.rows()
        if not screen.live and rows:
            screen.draw(shown(rows, view.clock, view.connection))
    except (TransportError, ConfigurationError) as error:
        print(f'demo: {error}', file=sys.stderr)
        print(node.text(), file=sys.stderr)
        return exit_code(error)
    finally:
        view.close()
    lacking = missing(rows, expected, view.transforms_wanted)
    cause = view.trouble or view.connection
    if not rows and cause:
        # All else would be a consequence of that.
        print(f'demo: no body appeared: {cause}{advice(cause, host, port)}', file=sys.stderr)
        return 1
    for line in lacking:
        print(f'demo: {line}', file=sys.stderr)
    if lacking:
        print(f'\nwhat the node said:\n{node.text()}', file=sys.stderr)
        return 1
    print(f'\ndemo: all {len(rows)} bodies streamed')
    return 0


def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the demo.

    :returns: exit code: 0 if every body streamed, 1 if not, 64 if the command line or the
        parameter file is wrong, 130 on Ctrl-C.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    for name in ('bodies', 'rate'):
        if arguments.server and getattr(arguments, name) is not None:
            parser.error(f'--{name} is for the simulated Motive: leave out either it or --server')
    arguments.rate = _RATE if arguments.rate is None else arguments.rate
    if not arguments.server:
        # Nothing of a demo on one machine belongs on the lab's network.
        os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
        if os.environ.get('ROS_DISTRO') == 'humble':
            os.environ.setdefault('ROS_LOCALHOST_ONLY', '1')
    children: list[Child] = []
    files = contextlib.ExitStack()
    try:
        return watch(arguments, children, files)
    except KeyboardInterrupt:
        print('\ndemo: stopped')
        return 130
    except OptitrackVrpnError as error:
        print(f'demo: {error}', file=sys.stderr)
        return exit_code(error)
    finally:
        # A second Ctrl-C, of somebody impatient, must not leave half of them running.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for child in reversed(children):
            child.stop()
        files.close()
        signal.signal(signal.SIGINT, before)
