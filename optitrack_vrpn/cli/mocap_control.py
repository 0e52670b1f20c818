# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Start, stop and list capture systems over mocap control, without rqt.

See docs/mocap_control.md.
"""

import argparse
from collections.abc import Sequence
import sys
from typing import Optional, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import namespace, positive_number, without_ros_arguments
from optitrack_vrpn.cli.loading import INTERRUPTED, loading
from optitrack_vrpn.core.control import AUTO, GENERATIONS, Kind
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError

if TYPE_CHECKING:
    from optitrack_vrpn.core.control_round import Round
    from optitrack_vrpn.ros.controller import MocapController

SUCCESS, SOMEBODY_MISSING, CANNOT = 0, 1, 2


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog='mocap_control',
        description='Start, stop and list the capture systems that follow mocap control.',
        epilog='Exit code: 0 if all systems acknowledged (status: if there are any), 1 if one '
        'did not, 2 if the command is wrong or no control messages are installed.')
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        '--timeout', type=positive_number, default=5.0, metavar='S',
        help='longest wait for answers and poses (default 5)')
    common.add_argument(
        '--discovery', type=positive_number, default=4.0, metavar='S',
        help='time in which systems are found; with names, the longest wait for them '
        '(default 4: ROS 2 nodes may take 3 s to find each other)')
    common.add_argument(
        '--generation', choices=[AUTO, *(g.name for g in GENERATIONS)], default=AUTO,
        help='generation of the protocol (default: all that are installed)')
    common.add_argument(
        '--namespace', type=namespace, default='', metavar='NS',
        help='namespace of the control topics, for systems with relative ones (default: root)')
    verbs = parser.add_subparsers(dest='verb', required=True, metavar='status | start | stop')
    verbs.add_parser('status', parents=[common], help='list systems, states and topics')
    for verb, text in (('start', 'start systems, or all of them'),
                       ('stop', 'stop systems, or all of them')):
        added = verbs.add_parser(verb, parents=[common], help=text)
        added.add_argument('systems', nargs='*', metavar='SYSTEM',
                           help='names of systems, as status lists them (default: all)')
        added.add_argument('--session', default='', metavar='ID',
                           help='name of the capture session')
    return parser


def main(args: Optional[Sequence[str]] = None) -> int:
    """
    Run the controller.

    :param args: command line without the program's name; ``--ros-args`` as for any node.
    :returns: exit code.
    """
    given = list(sys.argv[1:] if args is None else args)
    arguments = make_parser().parse_args(without_ros_arguments(given))
    try:
        with loading('mocap_control'):
            from optitrack_vrpn.ros.control_messages import find_dialects, how_to_install
            from optitrack_vrpn.ros.controller import open_controller
    except BackendUnavailableError as error:
        print(f'mocap_control: {error}', file=sys.stderr)
        return CANNOT
    dialects, problems = find_dialects([arguments.generation])
    for problem in problems:
        print(f'mocap_control: {problem}', file=sys.stderr)
    if not dialects:
        if not problems:
            print(f'mocap_control: {how_to_install()}', file=sys.stderr)
        return CANNOT
    run = _status if arguments.verb == 'status' else _command
    try:
        with open_controller([sys.argv[0], *given], dialects, arguments.namespace) as controller:
            return run(controller, arguments)
    except ConfigurationError as error:
        print(f'mocap_control: {error}', file=sys.stderr)
        return CANNOT
    except KeyboardInterrupt:
        print('mocap_control: stopped', file=sys.stderr)
        return INTERRUPTED


def _status(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    controller.discover(arguments.discovery)
    silent = controller.silent()
    if not controller.systems and not silent:
        return _nobody(controller, arguments)
    states = controller.states([*controller.systems, *silent], arguments.timeout)
    for name, system in sorted(controller.systems.items()):
        # In one order, whichever was heard of first.
        spoken = ', '.join(g.name for g in GENERATIONS if g.name in system.generations)
        print(f'{name}: {states.get(name, "state unknown")} ({spoken})')
        for topic in system.topics:
            print(f'  {topic}')
    for name in silent:
        print(f'{name}: {states.get(name, "state unknown")} (listens, announces no topics yet)')
    return SUCCESS


def _command(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    kind = Kind.START if arguments.verb == 'start' else Kind.STOP
    controller.discover(arguments.discovery, arguments.systems)
    if not arguments.systems and not controller.everyone(kind):
        return _nobody(controller, arguments)
    outcome = controller.command(
        kind, arguments.systems, arguments.session, arguments.timeout)
    states = controller.states(outcome.missing, min(1.0, arguments.timeout))
    names = [*outcome.wanted,
             *(name for name in outcome.answers if name not in outcome.wanted)]
    rows = [('system', 'answer', 'after', 'clock deviation', 'first pose')]
    rows += [_row(controller, outcome, name, states, arguments.timeout) for name in names]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if outcome.missing:
        print(f'mocap_control: no answer from {", ".join(outcome.missing)} within '
              f'{arguments.timeout:g} s', file=sys.stderr)
        asleep = [name for name in outcome.missing if states.get(name) == 'unconfigured']
        if asleep:
            print(f'mocap_control: configure {", ".join(asleep)} first, or let a START do that '
                  '(its parameter control.configure_on_start)', file=sys.stderr)
        return SOMEBODY_MISSING
    return SUCCESS


def _row(
    controller: 'MocapController', outcome: 'Round', name: str, states: dict[str, str],
    timeout_s: float,
) -> tuple[str, str, str, str, str]:
    answer = outcome.answers.get(name)
    if answer is None:
        return name, f'none ({states.get(name, "state unknown")})', '-', '-', '-'
    pose = '-'
    if name in outcome.poses:
        after_ns, topic = outcome.poses[name]
        pose = f'{_ms(after_ns)} on {topic}'
    elif outcome.kind is Kind.START:
        pose = f'none within {timeout_s:g} s'
        if not controller.has_poses(name):
            pose += ' (no pose topic yet)'
    deviation = _ms(answer.deviation_ns)
    return (name, f'{answer.kind.name} ({answer.generation})', _ms(answer.after_ns),
            deviation if deviation.startswith('-') else f'+{deviation}', pose)


def _ms(time_ns: int) -> str:
    return f'{time_ns / 1e6:.1f} ms'


def _nobody(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    print(f'mocap_control: no system has announced itself within {arguments.discovery:g} s: is '
          'one running and configured, in this ROS_DOMAIN_ID, and with these control topics '
          '(--namespace)?', file=sys.stderr)
    silent = controller.silent()
    if silent:
        print(f'mocap_control: {", ".join(silent)} can be started by name once configured',
              file=sys.stderr)
    return SOMEBODY_MISSING


if __name__ == '__main__':
    sys.exit(main())
