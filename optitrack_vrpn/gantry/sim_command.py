# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run a simulated gantry: motors by UDP, and a simulated Motive with the carried bodies.

It accepts all flags of motive_sim, so that occlusion, noise and network faults act on the loop.
"""

import argparse
import contextlib
import logging
import signal
import sys
from typing import Optional, Sequence

from optitrack_vrpn.axes import load_table
from optitrack_vrpn.cli import command, end_with_parent, whole, without_ros_arguments
from optitrack_vrpn.gantry.machine_io import load_machine
from optitrack_vrpn.gantry.sim_io import carried, UdpMachine
from optitrack_vrpn.sim import (
    announce, make_parser as motive_parser, MotiveSimServer, scenario_from_arguments, serve)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser: that of motive_sim, and the machine."""
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


@command('gantry_sim', 0)
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool."""
    end_with_parent()
    arguments = make_parser().parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    logging.basicConfig(
        level=arguments.log_level.upper(), format='[gantry_sim] %(levelname)s %(message)s')
    settings, table = load_machine(arguments.machine), load_table(arguments.axes)
    if arguments.names is None and arguments.bodies is None and arguments.scenario is None:
        arguments.names = list(table.bodies)
    scenario = scenario_from_arguments(arguments)
    with contextlib.closing(UdpMachine(
            settings, arguments.machine_host, arguments.machine_port)) as machine:
        scenario, live = carried(scenario, table, machine.machine, machine.lock)

        def press(number: int, frame: object) -> None:
            machine.pressed = not machine.pressed
        signal.signal(signal.SIGUSR1, press)

        def started(server: MotiveSimServer) -> None:
            print(f'machine on {arguments.machine_host}:{machine.port}: '
                  f'{len(settings.axes)} axes')
            announce(server)

        return serve(scenario, started, live)
