# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the controller, or a simulated machine; watch and command them from the terminal."""

import argparse
import contextlib
import os
import queue
import signal
import sys
import termios
import threading
import time
import tty
from typing import Any, Iterator, Optional, Sequence

from optitrack_vrpn.cli.arguments import Parser, whole
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.terminal_io import Screen
from optitrack_vrpn.core.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.guests.machine.view import table
from optitrack_vrpn.node.base.node_command import run_node_by_parameters

#: Commands to an axis: name, number of values, help.
_COMMANDS = (
    ('go_to', 1, 'move to a position'), ('jog', 1, 'move by a distance'),
    ('velocity', 1, 'move at a velocity'), ('sine', 2, 'follow a sine: amplitude, frequency'),
    ('home', 0, 'search the reference switch'),
    ('max_velocity', 1, 'change the greatest velocity'),
    ('max_acceleration', 1, 'change the greatest acceleration'),
    ('soft_limits', 2, 'change the soft limits: low, high'),
    ('mode', 1, 'manual, stream, reference, stopping or lock'),
    ('tracking', 1, 'closed loop on or off'), ('lock', 1, 'lock on or off'),
    ('calibrate', 1, 'measure the steps per unit over a distance'))
#: Commands to all axes, and their keys in the view.
_TRIGGERS = {'stop': 'stop all axes', 'emergency_stop': 'switch off the power',
             'reset': 'end an emergency; the axes hold'}
_KEYS = {' ': 'stop', 's': 'stop', 'e': 'emergency_stop', 'r': 'reset'}


def _value(text: str) -> Any:
    if text in ('on', 'off', 'true', 'false'):
        return text in ('on', 'true')
    try:
        return float(text)
    except ValueError:
        return text


def make_parser() -> Parser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='gantry', description='Watch and command a gantry_controller.',
        epilog='Lengths are in m and angles in degrees. See docs/gantry.md.')
    parser.add_argument('--node', default='/gantry_controller', help='name of the controller')
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    view = commands.add_parser('view', help='a live table of all axes, with a stop key')
    view.add_argument('--once', action='store_true', help='print the table once')
    for name, count, words in _COMMANDS:
        sub = commands.add_parser(name, help=words)
        sub.add_argument('axis', help='name of an axis, or all')
        if count:
            sub.add_argument('values', metavar='VALUE', nargs=count,
                             type=_value if count == 1 else float)
    sub = commands.add_parser('trajectory', help='follow a file: time; one column per axis')
    sub.add_argument('file')
    sub.add_argument('--loop', action='store_true')
    for name, words in _TRIGGERS.items():
        commands.add_parser(name, help=words)
    return parser


@command('gantry')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool; return 1 after a refusal or without a controller."""
    arguments, for_ros = make_parser().parse(argv)
    with loading('gantry'):
        from optitrack_vrpn.guests.machine.services_ros import GantryClient
    with GantryClient(arguments.node, for_ros) as client:
        if arguments.command == 'view':
            return _once(client) if arguments.once else _watch(client)
        refused = _send(client, arguments)
    for reason in refused:
        print(f'gantry: refused: {reason}', file=sys.stderr)
    return 1 if refused else 0


def _send(client: Any, arguments: argparse.Namespace) -> list[str]:
    """Send a command; return the reasons of refusals."""
    name, values = arguments.command, getattr(arguments, 'values', [True])
    if name in _TRIGGERS:
        return list(filter(None, [client.trigger(name)]))
    if name == 'trajectory':
        # the controller has another working directory
        path = os.path.abspath(os.path.expanduser(arguments.file))
        found: list[str] = client.command(
            'trajectory_file', {'file': path, 'loop': arguments.loop})
        return found[:1]
    found = client.command(name, {arguments.axis: values if len(values) > 1 else values[0]})
    return found


def _once(client: Any) -> int:
    # Measured on a busy computer: 6 of 40 new nodes miss the first announcements of DDS, which
    # are repeated after 3 s and 6 s.
    deadline = time.monotonic() + 7.0
    while time.monotonic() < deadline:
        axes, _ = client.axes()
        if axes:
            print('\n'.join(table(axes)))
            return 0
        time.sleep(0.05)
    print('gantry: no axes are published: is the controller configured?', file=sys.stderr)
    return 1


@contextlib.contextmanager
def _keys() -> Iterator['queue.SimpleQueue[str]']:
    """
    Queue the keys pressed in the terminal, without Enter; '' at the end of the input.

    :raises ConfigurationError: if the standard input is closed.
    """
    if sys.stdin is None:
        raise ConfigurationError('there is no standard input to read keys from')
    file, keys = sys.stdin.fileno(), queue.SimpleQueue[str]()

    def read() -> None:
        with contextlib.suppress(OSError):      # the terminal is gone
            while key := os.read(file, 1):
                keys.put(key.decode(errors='replace'))
        keys.put('')
    before = termios.tcgetattr(file) if os.isatty(file) else None
    try:
        if before is not None:
            tty.setcbreak(file)
        threading.Thread(target=read, daemon=True).start()
        yield keys
    finally:
        if before is not None:
            termios.tcsetattr(file, termios.TCSADRAIN, before)


def _watch(client: Any) -> int:
    """Print the table five times per second; keys act immediately."""
    result = ''
    with _keys() as keys, Screen() as screen:
        while True:
            axes, age_s = client.axes()
            lines = table(axes, screen.size()[0] if screen.live else 0) if axes else [
                'no axes yet']
            if axes and age_s > 1.0:
                lines.append(f'NO DATA FROM THE CONTROLLER FOR {age_s:.0f} s')
            lines += ['', 'space: stop all   e: emergency stop   r: reset   q: quit', result]
            screen.draw(lines)
            try:
                key = keys.get(timeout=0.2)
            except queue.Empty:
                continue
            if key in ('q', ''):
                return 0
            if key in _KEYS:
                try:
                    result = f'{_KEYS[key]}: {client.trigger(_KEYS[key]) or "done"}'
                except OptitrackVrpnError as error:
                    result = f'{_KEYS[key]} FAILED: {error}'


def controller() -> int:
    """Run the node gantry_controller; return the exit code."""
    return run_node_by_parameters(
        'gantry_controller',
        'optitrack_vrpn.guests.machine.gantry_controller_ros:GantryController',
        'Control a machine of several axes in closed loop on motion capture.',
        '-p machine:=gantry_orion -p driver:=udp', 'gantry.md')


def sim_parser() -> Parser:
    """Make the parser of gantry_sim: that of motive_sim, and the machine."""
    from optitrack_vrpn.sim.command import make_parser as motive_parser
    parser = motive_parser()
    parser.prog = 'gantry_sim'
    parser.description = (
        'A simulated machine with slip, backlash and switches that takes set points by UDP, and '
        'a simulated Motive that streams the bodies it carries.')
    parser.epilog = (
        'Prints where both listen. Ends on Ctrl-C or after --duration. The signal USR1 presses '
        'and releases the emergency button of the machine: kill -USR1 PID.')
    add = parser.add_argument
    add('--machine', default='gantry_orion', metavar='FILE',
        help='YAML file of the machine, or a name in config/ (default gantry_orion)')
    add('--axes', default='axes_orion', metavar='FILE',
        help='axis table of the bodies that it carries (default axes_orion)')
    add('--machine-host', default='127.0.0.1', metavar='ADDRESS',
        help='local address of the machine (default 127.0.0.1)')
    add('--machine-port', type=whole(0, 65535), default=9200, metavar='PORT',
        help='its UDP port (default 9200); 0 takes any free one')
    return parser


@command('gantry_sim')
def simulate(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run a simulated gantry: motors by UDP, and a simulated Motive with the carried bodies.

    It accepts all flags of motive_sim, so that occlusion, noise and network faults act on the
    loop.
    """
    from optitrack_vrpn.guests.machine.axis_bridge_io import load_table
    from optitrack_vrpn.guests.machine.gantry_sim_io import carried, UdpMachine
    from optitrack_vrpn.guests.machine.machine_io import load_machine
    from optitrack_vrpn.sim.command import announce, parse, scenario_from_arguments, serve
    from optitrack_vrpn.sim.server_io import MotiveSimServer
    arguments, _ = parse(sim_parser(), argv)
    settings, axes = load_machine(arguments.machine), load_table(arguments.axes)
    scenario = scenario_from_arguments(arguments, axes.bodies)
    with contextlib.closing(UdpMachine(
            settings, arguments.machine_host, arguments.machine_port)) as machine:
        scenario, live = carried(scenario, axes, machine.machine, machine.lock)

        def press(number: int, frame: object) -> None:
            machine.pressed = not machine.pressed
        signal.signal(signal.SIGUSR1, press)

        def started(server: MotiveSimServer) -> None:
            print(f'machine on {arguments.machine_host}:{machine.port}: '
                  f'{len(settings.axes)} axes')
            announce(server)

        return serve(scenario, started, live)
