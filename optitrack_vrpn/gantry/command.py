# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the controller; watch and command it from the terminal."""

import argparse
import os
import shutil
import sys
import time
from typing import Any, Optional, Sequence

from optitrack_vrpn.cli.arguments import Parser, split_ros_args
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.errors import OptitrackVrpnError
from optitrack_vrpn.gantry.control import table
from optitrack_vrpn.gantry.keyboard_io import Keyboard
from optitrack_vrpn.ros.node_command import run_node_by_parameters

#: Longest wait for the axes (s). Measured on a busy computer: 6 of 40 new nodes miss the first
#: announcements of DDS, which are repeated after 3 s and 6 s.
_DISCOVERY_S = 7.0
_KEYS = 'space: stop all   e: emergency stop   r: reset   q: quit'


def _value(text: str) -> Any:
    if text in ('on', 'off', 'true', 'false'):
        return text in ('on', 'true')
    try:
        return float(text)
    except ValueError:
        return text


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='gantry', description='Watch and command a gantry_controller.',
        epilog='Lengths are in m and angles in degrees. See docs/gantry.md.')
    parser.add_argument('--node', default='/gantry_controller', help='name of the controller')
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    view = commands.add_parser('view', help='a live table of all axes, with a stop key')
    view.add_argument('--once', action='store_true', help='print the table once')
    for name, words in (
            ('go_to', 'move to a position'), ('jog', 'move by a distance'),
            ('velocity', 'move at a velocity'), ('max_velocity', 'change the greatest velocity'),
            ('max_acceleration', 'change the greatest acceleration'),
            ('mode', 'manual, stream, reference, stopping or lock'),
            ('tracking', 'closed loop on or off'), ('lock', 'lock on or off'),
            ('calibrate', 'measure the steps per unit over a distance')):
        sub = commands.add_parser(name, help=words)
        sub.add_argument('axis', help='name of an axis, or all')
        sub.add_argument('value', type=_value)
    sub = commands.add_parser('home', help='search the reference switch')
    sub.add_argument('axis', help='name of an axis, or all')
    for name, words, first, second in (
            ('sine', 'follow a sine', 'amplitude', 'frequency'),
            ('soft_limits', 'change the soft limits', 'low', 'high')):
        sub = commands.add_parser(name, help=words)
        sub.add_argument('axis', help='name of an axis, or all')
        sub.add_argument('first', type=float, metavar=first)
        sub.add_argument('second', type=float, metavar=second)
    sub = commands.add_parser('trajectory', help='follow a file: time; one column per axis')
    sub.add_argument('file')
    sub.add_argument('--loop', action='store_true')
    for name, words in (('stop', 'stop all axes'), ('emergency_stop', 'switch off the power'),
                        ('reset', 'end an emergency; the axes hold')):
        commands.add_parser(name, help=words)
    return parser


@command('gantry')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :returns: 0 if all was accepted, 1 after a refusal or without a controller.
    """
    own, for_ros = split_ros_args(sys.argv[1:] if argv is None else list(argv))
    arguments = make_parser().parse_args(own)
    with loading('gantry'):
        from optitrack_vrpn.gantry.client_ros import GantryClient
    with GantryClient(arguments.node, for_ros) as client:
        if arguments.command == 'view':
            return _once(client) if arguments.once else _watch(client)
        refused = _send(client, arguments)
    for reason in refused:
        print(f'gantry: refused: {reason}', file=sys.stderr)
    return 1 if refused else 0


def _send(client: Any, arguments: argparse.Namespace) -> list[str]:
    """Send a command; return the reasons of refusals."""
    name = arguments.command
    if name in ('stop', 'emergency_stop', 'reset'):
        reason = client.trigger(name)
        return [reason] if reason else []
    refused: list[str]
    if name == 'trajectory':
        # the controller has another working directory
        values = {'file': os.path.abspath(os.path.expanduser(arguments.file)),
                  **({'loop': True} if arguments.loop else {})}
        refused = client.command('trajectory_file', values)[:1]
    elif name in ('sine', 'soft_limits'):
        refused = client.command(name, {arguments.axis: [arguments.first, arguments.second]})
    else:
        value = True if name == 'home' else arguments.value
        refused = client.command(name, {arguments.axis: value})
    return refused


def _once(client: Any) -> int:
    deadline = time.monotonic() + _DISCOVERY_S
    while time.monotonic() < deadline:
        axes, _ = client.axes()
        if axes:
            print('\n'.join(table(axes)))
            return 0
        time.sleep(0.05)
    print('gantry: no axes are published: is the controller configured?', file=sys.stderr)
    return 1


def _watch(client: Any) -> int:
    """Print the table five times per second; keys act immediately."""
    actions = {' ': 'stop', 's': 'stop', 'e': 'emergency_stop', 'r': 'reset'}
    result = ''
    clear = '\x1b[2J\x1b[H' if sys.stdout.isatty() else ''
    with Keyboard() as keyboard:
        while True:
            axes, age_s = client.axes()
            width = shutil.get_terminal_size().columns if clear else 0
            lines = table(axes, width) if axes else ['no axes yet']
            if axes and age_s > 1.0:
                lines.append(f'NO DATA FROM THE CONTROLLER FOR {age_s:.0f} s')
            print(clear + '\n'.join([*lines, '', _KEYS, result]), flush=True)
            key = keyboard.read(0.2)
            if key in ('q', ''):
                return 0
            if key in actions:
                try:
                    result = f'{actions[key]}: {client.trigger(actions[key]) or "done"}'
                except OptitrackVrpnError as error:
                    result = f'{actions[key]} FAILED: {error}'


def controller() -> int:
    """Run the node gantry_controller; return the exit code."""
    return run_node_by_parameters(
        'gantry_controller', 'optitrack_vrpn.gantry.controller_ros:GantryController',
        'Control a machine of several axes in closed loop on motion capture.',
        '-p machine:=gantry_orion -p driver:=udp', 'gantry.md')
