# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The whole chain on one machine: a simulated Motive, the node, and a subscriber with a table.

Each runs in its own process, as in a lab. With ``--server`` a real Motive replaces the simulated
one.
"""

import argparse
import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Callable, Mapping, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import (
    duration, exit_code, hertz, Parser, server_address, USAGE, whole)
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.signals_io import ignore
from optitrack_vrpn.cli.terminal_io import Screen
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.names import counted, ros_name
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.table import port_parameter, SOURCES
from optitrack_vrpn.node.graph.domain_io import claim_domain, DOMAINS, isolate, own_domain
from optitrack_vrpn.node.topic_kinds import DEFAULT_OUTPUTS
from optitrack_vrpn.sim.demo.child_io import (
    addresses_of, AutopilotDemo, Child, display_file, for_demo, start_program, start_sim,
    start_tool, texts_of)
from optitrack_vrpn.sim.demo.view import body_names, missing, NAMES, table, too_fast
from optitrack_vrpn.sim.scenario_io import MAX_BODIES
from optitrack_vrpn.stream.bodies.settings import Selection

if TYPE_CHECKING:
    from optitrack_vrpn.sim.demo.view_ros import DemoView

NODE = 'optitrack_vrpn_demo'
#: The node's usual name, which users' parameter files contain.
REAL_NODE = 'optitrack_vrpn'
#: Chosen: periods of the table, and of the search for other publishers (s).
_LOOK_S, _GRAPH_S = 0.25, 1.0
#: Chosen: longest time for the node to appear (s), and for its topics to be discovered while it
#: already receives poses (s). Both take less than 1 s unless the computer is overloaded.
_APPEAR_S, _DISCOVERY_S = 40.0, 40.0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='demo', description='Watch rigid bodies stream from Motive through the node.')
    parser.add_argument(
        '--server', metavar='HOST[:PORT]', type=lambda text: server_address(text, 0),
        help='a real Motive in place of the simulated one')
    parser.add_argument(
        '--protocol', choices=tuple(SOURCES), default='',
        help='protocol of the node and of the simulated Motive (default: as in the parameter '
        'file; the simulated one then speaks several)')
    parser.add_argument(
        '--seconds', type=duration,
        help='duration after the time when all bodies stream (default 10; with --web until '
        'Ctrl-C)')
    parser.add_argument(
        '--bodies', type=whole(1, MAX_BODIES), metavar='N',
        help='number of simulated bodies (default 3)')
    parser.add_argument(
        '--rate', type=hertz, help='simulated frames per second (default 240)')
    parser.add_argument(
        '--params-file', type=existing_file, metavar='FILE',
        help='parameter file of the node, as for any ROS node')
    parser.add_argument(
        '--domain', type=whole(0, DOMAINS[-1]), metavar='N',
        help='ROS domain of the demo (default: a free one)')
    parser.add_argument(
        '--autopilot', choices=('px4', 'ardupilot'), nargs='?', const='px4',
        help='also send the first body to a fake autopilot through mavlink_bridge '
        '(default %(const)s)')
    parser.add_argument(
        '--web', action='store_true', help='also serve the live page: see dashboard')
    parser.add_argument(
        '--calibrate', action='store_true',
        help='a guided calibration of a simulated body with an IMU instead, in a minute')
    parser.add_argument(
        '--rviz', action='store_true', help='open rviz2 with the demo, if it is installed')
    return parser


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


def advice(cause: str, host: str, ports: Mapping[str, int]) -> str:
    """
    Return a further remedy where the server is connected and no body appears.

    :param cause: the node's report of its connection.
    :param host: the server.
    :param ports: the ports that are not the default, by parameter.
    """
    if not cause.startswith((LinkState.CONNECTED.value, LinkState.SILENT.value)):
        return ''
    at = ''.join(f' --{name.replace(".", "-")} {port}' for name, port in ports.items())
    return f'; or run the doctor with --server {host}{at}'


def wanted(names: Sequence[str], selection: Selection) -> int:
    """
    Count the simulated bodies that the node selects.

    :raises ConfigurationError: if there is none.
    """
    count = sum(selection.wanted(name) for name in names)
    if not count:
        raise ConfigurationError(
            'bodies.allow and bodies.deny select none of the simulated bodies, which are '
            f'{", ".join(names[:3])}{" and more" if len(names) > 3 else ""}')
    return count


def inspection(domain: int, topic: str) -> str:
    """Return the command that shows a topic of the demo in another shell."""
    if shutil.which('ros2'):
        return f'ROS_DOMAIN_ID={domain} ros2 topic echo {topic}'
    python = os.path.relpath(sys.executable) if sys.prefix != sys.base_prefix else sys.executable
    return f'ROS_DOMAIN_ID={domain} {python} -m optitrack_vrpn topics {topic}'


def watch(
    arguments: argparse.Namespace, domain: int, children: list[Child],
    files: contextlib.ExitStack,
) -> int:
    """
    Start all processes, show the table, and check the result.

    :param domain: the ROS domain of this process.
    :param children: list to which each started process is added.
    :param files: closes their temporary files at the end.
    :returns: exit code: 0 if every body streamed, 64 if parameters prevent it.
    """
    with loading('demo'):
        from optitrack_vrpn.sim.demo.view_ros import DemoView

    names: Sequence[str] = ()
    if arguments.server:
        host, port = arguments.server
        ports = {port_parameter(arguments.protocol): port} if port else {}
        print(f'demo: connecting to {host}' + (f' port {port}' if port else ''))
    else:
        names = body_names(arguments.bodies) if arguments.bodies else NAMES
        host, served = start_sim(names, arguments.rate, arguments.protocol, children)
        ports = {port_parameter(name): port for name, port in served.items()}
        print(f'demo: a simulated Motive streams {counted(len(names), "body")} at '
              f'{arguments.rate:g} Hz on {host} port {next(iter(served.values()))}')
    print(f'demo: ROS domain {domain}: other systems do not see the demo', flush=True)
    ros_arguments = ['--ros-args', '-r', f'__node:={NODE}']
    if arguments.params_file:
        ros_arguments += ['--params-file', files.enter_context(
            for_demo(arguments.params_file, REAL_NODE, NODE))]
    # For this node by name, which beats a section of that name in the file.
    protocol = [f'protocol:={arguments.protocol}'] if arguments.protocol else []
    for setting in (f'server:={host}', *protocol, *(
            f'{name}:={port}' for name, port in ports.items())):
        ros_arguments += ['-p', f'{NODE}:{setting}']
    if arguments.autopilot and not arguments.params_file:
        ros_arguments += ['-p', f'{NODE}:outputs:={[*DEFAULT_OUTPUTS, "odom"]}']
    node = start_tool('optitrack_vrpn_node', ros_arguments, children)
    view = files.enter_context(DemoView(NODE))
    screen = files.enter_context(Screen())
    autopilot: Optional[AutopilotDemo] = None

    def check() -> None:
        """Check whether the node still runs."""
        code = node.process.poll()
        if code is not None:
            kind = ConfigurationError if code == USAGE else TransportError
            raise kind('the node ended, see below')

    try:
        view.bring_up(_APPEAR_S, check, names)
        expected = wanted(names, view.selection) if names else 1
        if arguments.autopilot:
            autopilot = start_autopilot(arguments.autopilot, names, view, children, files)
        if arguments.rviz:
            start_program(
                ['rviz2', '-d', files.enter_context(display_file('', names))], children)
        if arguments.web:
            page = start_tool('dashboard', ['--port', '0'], children)
            url = texts_of(page, re.compile(r'http://\S+'), 'the dashboard', _APPEAR_S)[0][0]
            print(f'demo: open {url} in a browser; Ctrl-C ends the demo')
        print('demo: the node is active' + (
            f'; the demo ends {arguments.seconds:g} s after all bodies stream' if math.isfinite(
                arguments.seconds) else '') + '\n', flush=True)
        hint_shown = False
        begin = time.monotonic()
        graph_at = begin
        end, latest, complete = begin + arguments.seconds, begin + _DISCOVERY_S, False
        while (now := time.monotonic()) < end or (
                not complete and now < latest
                and view.connection.startswith(LinkState.STREAMING.value)):
            time.sleep(_LOOK_S)
            check()
            if now >= graph_at:
                graph_at = now + _GRAPH_S
                if others := view.others():
                    raise TransportError(
                        f'stopped: other nodes publish on its topics: {"; ".join(others)}')
            rows = view.rows()
            if not complete and not missing(rows, expected, view.transforms_wanted):
                complete, end = True, now + arguments.seconds
            seen = [row.name for row in rows if row.poses]
            if seen and not hint_shown:
                hint_shown = True
                screen.say(f'try: {inspection(domain, view.topic(seen[-1]))}')
            if screen.live:
                screen.draw(table(
                    rows, view.clock, status(view.connection, autopilot), *screen.size(),
                    elapsed_s=now - begin))
        rows = view.rows()
        if not screen.live and rows:
            screen.draw(table(
                rows, view.clock, status(view.connection, autopilot), *screen.size()))
        screen.close()
    except (TransportError, ConfigurationError) as error:
        screen.close()
        print(f'demo: {error}', file=sys.stderr)
        print(node.text(), file=sys.stderr)
        return exit_code(error)
    failures = missing(rows, expected, view.transforms_wanted)
    failures += autopilot.failures() if autopilot is not None else []
    if names:
        failures += filter(None, (
            too_fast(row.name, row.poses, row.rate_hz, row.arrival_rate_hz, arguments.rate)
            for row in rows))
    cause = view.trouble or view.connection
    if not rows and cause:
        # All other failures are consequences of that.
        print(f'demo: no body appeared: {cause}{advice(cause, host, ports)}', file=sys.stderr)
        return 1
    for line in failures:
        print(f'demo: {line}', file=sys.stderr)
    if failures:
        print(f'\noutput of the node:\n{node.text()}', file=sys.stderr)
        return 1
    print(f'\ndemo: all {counted(len(rows), "body")} streamed')
    return 0


def start_autopilot(
    kind: str, names: Sequence[str], view: 'DemoView', children: list[Child],
    files: contextlib.ExitStack,
) -> AutopilotDemo:
    """
    Start a fake autopilot and a bridge for the first body.

    :raises ConfigurationError: if there is no body, or pymavlink is not installed.
    """
    rows = view.rows()
    body = ros_name(names[0]) if names else rows[0].name if rows else ''
    if not body:
        raise ConfigurationError('--autopilot: the server has no body yet')
    autopilot = AutopilotDemo(kind, body, children)
    files.callback(autopilot.close)
    return autopilot


def status(connection: str, autopilot: Optional[AutopilotDemo]) -> str:
    """Return the lines below the table."""
    return connection if autopilot is None else f'{connection} -- {autopilot.line()}'


@command('demo')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the demo.

    :returns: exit code: 0 if every body streamed, 1 if not, 64 if the command line or
        the parameter file is wrong, 128 and the signal's number if a signal ended it.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    for name in ('bodies', 'rate'):
        if arguments.server and getattr(arguments, name) is not None:
            parser.error(f'--{name} is for the simulated Motive: omit it or --server')
    if arguments.rviz and not shutil.which('rviz2'):
        parser.error('--rviz: rviz2 is not installed, or no ROS 2 that has it is sourced')
    # Chosen: frame rate of the simulated cameras (Hz) without ``--rate``.
    arguments.rate = 240.0 if arguments.rate is None else arguments.rate
    if arguments.calibrate:
        return run(arguments.domain, lambda domain, children, files: calibrate(
            children, files, NODE, arguments.seconds))
    if arguments.seconds is None:
        # Chosen: duration (s) without ``--seconds``.
        arguments.seconds = math.inf if arguments.web else 10.0
    return run(arguments.domain, lambda domain, children, files: watch(
        arguments, domain, children, files))


def run(
    domain: Optional[int],
    work: Callable[[int, list[Child], contextlib.ExitStack], int],
) -> int:
    """
    Run a demo in a ROS domain of its own, and end its processes.

    :param domain: the domain; None for a free one.
    :param work: called with the domain, the list of started processes, and a stack for what must
        be removed at the end; returns the exit code.
    :returns: the exit code.
    """
    children: list[Child] = []
    files = contextlib.ExitStack()
    try:
        if domain is None:
            domain = files.enter_context(claim_domain({own_domain()})).domain
        isolate(os.environ, domain)
        return work(domain, children, files)
    finally:
        finish(children, files)


def finish(children: Sequence[Child], files: contextlib.ExitStack) -> None:
    """End every process; a second signal does not interrupt that."""
    ignore()
    for child in reversed(children):
        child.stop()
    files.close()


#: What is simulated (ms); the lever arm and rotation are the defaults of ImuModel.
_DELAY_MS, _IMU_DELAY_MS = 7.0, 1.5
#: Chosen: longest start of the simulator (s), and longest session (s): its body turns and swings
#: all the time, so that there is less to wait for than with a hand.
_START_S, _SESSION_S = 40.0, 75.0


def calibrate(
    children: list[Child], files: contextlib.ExitStack, node: str, seconds: Optional[float],
) -> int:
    """
    Start all processes, and run the session in the foreground.

    :param children: list to which each started process is added.
    :param files: removes the take at the end.
    :param node: name of the node.
    :param seconds: longest session (s); None for the default.
    :returns: exit code of ``calibrate``.
    """
    sim = start_tool('imu_sim', [
        '--names', 'wand', '--rate', '120', '--protocol', 'vrpn', '--port', '0', '--noise-mm',
        '0.3', '--noise-deg', '0.15', '--delay-ms', f'{_DELAY_MS}', '--imu-delay-ms',
        f'{_IMU_DELAY_MS}', '--imu-errors', '0.01', '--accelerometer-delay-ms', '3'], children)
    ((host, port),) = addresses_of(sim, 'the simulated Motive', _START_S)
    start_tool('optitrack_vrpn_node', [
        '--ros-args', '-r', f'__node:={node}', '-p', f'server:={host}', '-p', f'port:={port}',
        '-p', 'autostart:=true'], children)
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix='optitrack_vrpn_'))
    code = subprocess.call([
        sys.executable, '-m', 'optitrack_vrpn', 'calibrate', 'imu', '--body', 'wand', '--imu',
        '/imu/data_raw', '--seconds', f'{seconds or _SESSION_S:g}', '--node', node], cwd=folder)
    print(f'\ndemo: simulated are latency {_DELAY_MS - _IMU_DELAY_MS:g} ms ({_DELAY_MS:g} of the '
          f'frames less {_IMU_DELAY_MS:g} of the stamps of the IMU), lever arm 0.06 -0.04 0.03 m')
    return code
