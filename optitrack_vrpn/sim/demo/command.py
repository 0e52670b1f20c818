# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The whole chain in one process: a simulated Motive, the node, and a subscriber with a table.

With ``--server`` a real Motive replaces the simulated one. No latency is shown: the parts share
one interpreter, which a lab's computers do not.
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
from typing import Mapping, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import duration, hertz, Parser, server_address, whole
from optitrack_vrpn.cli.child_io import (
    addresses_of, Child, start_program, start_tool, texts_of)
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.cli.terminal_io import Screen
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.table import own_port, port_parameter, SOURCES
from optitrack_vrpn.node.graph.domain_io import DOMAINS
from optitrack_vrpn.sim import command as sim_command
from optitrack_vrpn.sim.command import scenario_from_arguments
from optitrack_vrpn.sim.demo.isolation_io import display_file, isolated
from optitrack_vrpn.sim.demo.table import body_names, missing, NAMES, table
from optitrack_vrpn.sim.scenario_io import BOTH, both, MAX_BODIES
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.stream.bodies.settings import Selection

if TYPE_CHECKING:
    from optitrack_vrpn.sim.demo.chain_ros import Chain

#: The node's usual name: the demo has a ROS domain of its own.
NODE = 'optitrack_vrpn'
#: Chosen: period of the table (s).
_LOOK_S = 0.25
#: Chosen: longest time for the page to appear (s), and for topics to be discovered while the node
#: already receives poses (s). Both take less than 1 s unless the computer is overloaded.
_APPEAR_S, _DISCOVERY_S = 40.0, 40.0


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='demo', description='Watch rigid bodies stream from Motive through the node.')
    parser.add_argument(
        '--server', metavar='HOST[:PORT]', type=server_address,
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


def simulated(
    names: Sequence[str], rate: float, protocol: str, files: contextlib.ExitStack,
) -> tuple[str, dict[str, int]]:
    """
    Start the simulated Motive in a thread, on ports that the system chooses.

    :param protocol: its protocol; one without a server, and none, stand for several.
    :param files: stops it.
    :returns: its address, and the port of each protocol.
    """
    single = protocol in SOURCES and bool(SOURCES[protocol].server)
    served = [protocol] if single else both()
    sim = files.enter_context(MotiveSimServer(scenario_from_arguments(
        sim_command.make_parser().parse_args([
            '--names', *names, '--rate', str(rate), '--protocol', protocol if single else BOTH,
            '--port', '0', *(f'--{name}-port=0' for name in served if own_port(name)),
            '--noise-mm', '0.1', '--noise-deg', '0.05', '--skew-ppm', '40']))))
    return sim.host, {name: sim.port_of(name) for name in served}


def watch(
    arguments: argparse.Namespace, domain: int, children: list[Child],
    files: contextlib.ExitStack,
) -> int:
    """
    Run the simulated Motive, the node and the table in this process, and check the result.

    :param domain: the ROS domain of this process.
    :param children: list to which each started process is added.
    :param files: ends everything else.
    :returns: exit code: 0 if every body streamed, 64 if parameters prevent it.
    """
    with loading('demo'):
        from optitrack_vrpn.sim.demo.chain_ros import Chain

    names: Sequence[str] = ()
    if arguments.server:
        host, port = arguments.server
        ports = {port_parameter(arguments.protocol): port} if port else {}
        print(f'demo: connecting to {host}' + (f' port {port}' if port else ''))
    else:
        names = body_names(arguments.bodies) if arguments.bodies else NAMES
        host, served = simulated(names, arguments.rate, arguments.protocol, files)
        ports = {port_parameter(name): port for name, port in served.items()}
        print(f'demo: a simulated Motive streams {counted(len(names), "body")} at '
              f'{arguments.rate:g} Hz on {host} port {next(iter(served.values()))}')
    print('demo: no other system sees it; in another terminal: '
          f'export ROS_DOMAIN_ID={domain}', flush=True)
    ros_arguments = ['--ros-args', '--disable-stdout-logs']
    if arguments.params_file:
        ros_arguments += ['--params-file', arguments.params_file]
    # For this node by name, which beats a section of that name in the file.
    protocol = [f'protocol:={arguments.protocol}'] if arguments.protocol else []
    for setting in (f'server:={host}', 'autostart:=false', *protocol, *(
            f'{name}:={port}' for name, port in ports.items())):
        ros_arguments += ['-p', f'{NODE}:{setting}']
    chain = files.enter_context(Chain(ros_arguments))
    selection = chain.start()
    expected = wanted(names, selection) if names else 1
    if arguments.rviz:
        start_program(['rviz2', '-d', files.enter_context(display_file(names))], children)
    if arguments.web:
        page = start_tool('dashboard', ['--port', '0'], children)
        url = texts_of(page, re.compile(r'http://\S+'), 'the dashboard', _APPEAR_S)[0][0]
        print(f'demo: open {url} in a browser; Ctrl-C ends the demo')
    print('demo: the node is active' + (
        f'; the demo ends {arguments.seconds:g} s after all bodies stream' if math.isfinite(
            arguments.seconds) else '') + '\n', flush=True)
    show(arguments.seconds, chain, expected, domain)
    return verdict(chain, expected, host, ports)


def show(seconds: float, chain: 'Chain', expected: int, domain: int) -> None:
    """Draw the table until the time is over."""
    hint_shown, complete = False, False
    begin = time.monotonic()
    end, latest = begin + seconds, begin + _DISCOVERY_S
    with Screen() as screen:
        while (now := time.monotonic()) < end or (
                not complete and now < latest
                and chain.connection.startswith(LinkState.STREAMING.value)):
            time.sleep(min(_LOOK_S, max(end - now, 0.01)))
            rows = chain.rows()
            if not complete and not missing(rows, expected, chain.transforms_wanted):
                complete, end = True, now + seconds
            seen = [row.name for row in rows if row.poses]
            if seen and not hint_shown:
                hint_shown = True
                screen.say(f'try: {inspection(domain, chain.topic(seen[-1]))}')
            if screen.live:
                screen.draw(table(
                    rows, chain.clock, chain.connection, *screen.size(), now - begin))
        if not screen.live and rows:
            screen.draw(table(rows, chain.clock, chain.connection, *screen.size()))


def verdict(chain: 'Chain', expected: int, host: str, ports: Mapping[str, int]) -> int:
    """
    Print what is missing.

    :returns: exit code.
    """
    rows, cause = chain.rows(), chain.trouble or chain.connection
    if not rows and cause:
        # All other failures are consequences of that.
        print(f'demo: no body appeared: {cause}{advice(cause, host, ports)}', file=sys.stderr)
        return 1
    failures = missing(rows, expected, chain.transforms_wanted)
    if not failures:
        print(f'\ndemo: all {counted(len(rows), "body")} streamed')
        return 0
    for line in failures:
        print(f'demo: {line}', file=sys.stderr)
    print(f'\nlog of the node:\n{chain.log()}', file=sys.stderr)
    return 1


@command('demo')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the demo.

    :returns: exit code: 0 if every body streamed, 1 if not, 64 if the command line or
        the parameter file is wrong, 128 and the signal's number if a signal ended it.
    """
    launched = end_with_parent()
    parser = make_parser()
    arguments, _ = parser.parse(argv)    # launch adds --ros-args to every node
    for name in ('bodies', 'rate'):
        if arguments.server and getattr(arguments, name) is not None:
            parser.error(f'--{name} is for the simulated Motive: omit it or --server')
    if arguments.rviz and not shutil.which('rviz2'):
        parser.error('--rviz: rviz2 is not installed, or no ROS 2 that has it is sourced')
    # Chosen: frame rate of the simulated cameras (Hz) without ``--rate``.
    arguments.rate = 240.0 if arguments.rate is None else arguments.rate
    if arguments.seconds is None and not arguments.calibrate:
        # Chosen: duration (s) without ``--seconds``.
        arguments.seconds = math.inf if arguments.web else 10.0
    try:
        with isolated(arguments.domain, not arguments.server) as (domain, children, files):
            if arguments.calibrate:
                return calibrate(children, files, NODE, arguments.seconds)
            return watch(arguments, domain, children, files)
    except KeyboardInterrupt:
        if launched:    # to launch, Ctrl-C is the normal end
            return 0
        raise


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
