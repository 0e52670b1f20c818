# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Start, stop and list capture systems over mocap control, without rqt.

See docs/mocap_control.md.
"""

import argparse
from collections.abc import Sequence
import os
import sys
from typing import Optional, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import namespace, Parser, seconds
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.terminal_io import format_table
from optitrack_vrpn.control.protocol import AUTO, GENERATIONS, Kind
from optitrack_vrpn.control.round import DISCOVERY_S
from optitrack_vrpn.core.errors import BackendUnavailableError
from optitrack_vrpn.core.units import span_text

if TYPE_CHECKING:
    from optitrack_vrpn.control.controller_ros import MocapController
    from optitrack_vrpn.control.round import Answer, Listeners, Round

#: Exit codes, as the help text states them.
SUCCESS, SYSTEM_MISSING, CANNOT, REFUSED = 0, 1, 2, 3


def make_parser() -> Parser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='mocap_control',
        description='Start, stop and list the capture systems that follow mocap control.',
        epilog='Exit code: 0 if all systems acknowledged (status: if there are any), 1 if one '
        'did not, or if several systems have one name, 2 if no control messages are installed or '
        'a name is that of several systems, 3 if STOP is refused because a vehicle is armed, 64 '
        'if the command line is wrong.')
    common = Parser(add_help=False)
    common.add_argument(
        '--timeout', type=seconds, default=5.0, metavar='S',
        help='longest wait for answers and poses (default 5)')
    common.add_argument(
        '--discovery', type=seconds, default=DISCOVERY_S, metavar='S',
        help='time in which systems are found; with names, the longest wait for them '
        f'(default {DISCOVERY_S:g}: ROS 2 nodes may take 3 s to find each other)')
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
                           help='names of systems, as status lists them, or full names '
                           '(default: all)')
        added.add_argument('--session', default='', metavar='ID',
                           help='name of the capture session')
    return parser


@command('mocap_control')
def main(args: Optional[Sequence[str]] = None) -> int:
    """
    Run the controller.

    :param args: command line without the program's name; ``--ros-args`` as for any node.
    :returns: exit code.
    """
    arguments, for_ros = make_parser().parse(args)
    try:
        with loading('mocap_control'):
            from optitrack_vrpn.control.controller_ros import MocapController
            from optitrack_vrpn.control.endpoint_ros import find_dialects, install_messages
            from optitrack_vrpn.node.base.tool_node import ToolNode
    except BackendUnavailableError as error:
        _say(str(error))
        return CANNOT
    dialects, problems = find_dialects([arguments.generation])
    for problem in problems:
        _say(problem)
    if not dialects:
        if not problems:
            _say(install_messages())
        return CANNOT
    run = _status if arguments.verb == 'status' else _command
    with ToolNode(f'mocap_control_{os.getpid()}', for_ros) as tool:
        return run(MocapController(
            tool.node, tool.executor, dialects, arguments.namespace), arguments)


def _say(text: str) -> None:
    print(f'mocap_control: {text}', file=sys.stderr)


def _status(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    controller.discover(arguments.discovery)
    silent = controller.silent()
    if not controller.systems and not silent:
        return _report_no_system(controller, arguments)
    names = [*sorted(controller.systems), *silent]
    shared = controller.listeners().ambiguous(names)
    states = controller.states(
        [one for name in names for one in dict.fromkeys(shared.get(name, (name,)))],
        arguments.timeout)
    for name in names:
        system = controller.systems.get(name)
        # In a fixed order, independent of the order of discovery.
        known = ', '.join(g.name for g in GENERATIONS if system and g.name in system.generations)
        known = known or 'listens, announces no topics yet'
        for one in shared.get(name, (name,)):
            print(f'{one}: {states.get(one, "state unknown")} ({known})')
        for topic in system.topics if system else ():
            print(f'  {topic}')
    _report_shared(shared)
    return SUCCESS


def _command(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    kind = Kind.START if arguments.verb == 'start' else Kind.STOP
    controller.discover(arguments.discovery, arguments.systems)
    listeners = controller.listeners()
    systems = [name if name in controller.systems else listeners.target(name)
               for name in arguments.systems]
    if _report_shared(listeners.ambiguous(dict.fromkeys(systems))):
        return CANNOT
    unknown = [name for name in dict.fromkeys(systems)
               if name not in controller.systems and name not in listeners.names]
    if unknown:
        _report_known_systems(controller, listeners, unknown)
        if len(unknown) == len(set(systems)):
            return SYSTEM_MISSING
    if not systems and not controller.all_systems(kind):
        return _report_no_system(controller, arguments)
    outcome = controller.command(kind, systems, arguments.session, arguments.timeout)
    states = controller.states(outcome.missing, min(1.0, arguments.timeout))
    states.update(dict.fromkeys(unknown, 'no such system'))
    names = [*outcome.wanted,
             *(name for name in outcome.answers if name not in outcome.wanted)]
    rows = [_row(controller, outcome, name, states, arguments.timeout) for name in names]
    head, _, *lines = format_table(_HEAD, rows, _HEAD)
    print('\n'.join([head, *lines]))
    for name in outcome.answers:
        _report_clock(name, outcome.answers[name])
    shared = _report_shared(listeners.ambiguous(names))
    if outcome.missing:
        _report_missing(outcome, unknown, states, arguments.timeout)
    if outcome.refusal:
        return REFUSED
    return SYSTEM_MISSING if shared or outcome.missing else SUCCESS


def _report_shared(shared: dict[str, list[str]]) -> bool:
    """Report the names that several systems have; return whether there are any."""
    for name, found in shared.items():
        _say(f'{len(found)} systems have the name {name}: {", ".join(found)}; a command reaches '
             'all of them and their answers cannot be told apart: give each a name of its own '
             '(--ros-args -r __node:=NAME)')
    return bool(shared)


def _report_clock(name: str, answer: 'Answer') -> None:
    """Report a clock of which the answer proves that it differs."""
    if answer.ahead_ns:
        _say(f'the clock of {name} is {span_text(abs(answer.ahead_ns) / 1e9)} '
             f'{"ahead of" if answer.ahead_ns > 0 else "behind"} the clock of this computer: '
             'synchronise them (docs/lab.md, clocks); until then its stamps do not compare with '
             'others')


def _report_known_systems(
    controller: 'MocapController', listeners: 'Listeners', unknown: Sequence[str],
) -> None:
    known = []
    for name in sorted({*controller.systems, *controller.silent()}):
        found = listeners.with_base_name(name)
        known.append(name if found in ([], [f'/{name}']) else f'{name} ({", ".join(found)})')
    for name in unknown:
        _say(f'no system of that name: {name}; there are: '
             f'{", ".join(known) or "none at all (see --namespace)"}')


def _report_missing(
    outcome: 'Round', unknown: Sequence[str], states: dict[str, str], timeout_s: float,
) -> None:
    silent = [name for name in outcome.missing if name not in unknown]
    if silent and outcome.refusal:
        _say(f'STOP is not followed by {", ".join(silent)}: {outcome.refusal}')
    elif silent:
        _say(f'no answer from {", ".join(silent)} within {timeout_s:g} s')
    idle = [name for name in outcome.missing if states.get(name) == 'unconfigured']
    if idle:
        _say(f'configure {", ".join(idle)} first, or set its parameter '
             'control.configure_on_start')


_HEAD = ('system', 'answer', 'after', 'clock deviation', 'first pose')
_Row = tuple[str, str, str, str, str]


def _row(
    controller: 'MocapController', outcome: 'Round', name: str, states: dict[str, str],
    timeout_s: float,
) -> _Row:
    answer = outcome.answers.get(name)
    if answer is None:
        if outcome.refusal and states.get(name) == 'active':
            return name, 'refused (active)', '-', '-', '-'
        return name, f'none ({states.get(name, "state unknown")})', '-', '-', '-'
    deviation = answer.deviation_ns / 1e9
    return (name, f'{answer.kind.name} ({answer.generation})', span_text(answer.after_ns / 1e9),
            ('-' if deviation < 0.0 else '+') + span_text(abs(deviation)),
            _pose(controller, outcome, name, timeout_s))


def _pose(
    controller: 'MocapController', outcome: 'Round', name: str, timeout_s: float,
) -> str:
    """Describe when the first pose of a system arrived."""
    if name in outcome.poses:
        after_ns, topic = outcome.poses[name]
        return f'{span_text(after_ns / 1e9)} on {topic}'
    if outcome.kind is not Kind.START:
        return '-'
    pose = f'none within {timeout_s:g} s'
    return pose if controller.has_poses(name) else f'{pose} (no pose topic yet)'


def _report_no_system(controller: 'MocapController', arguments: argparse.Namespace) -> int:
    _say(f'no system has announced itself within {arguments.discovery:g} s: is one running and '
         'configured, in this ROS_DOMAIN_ID, and with these control topics (--namespace)?')
    silent = controller.silent()
    if silent:
        _say(f'{", ".join(silent)} can be started by name once configured')
    return SYSTEM_MISSING
