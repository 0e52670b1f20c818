# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find out, step by step, why poses of Motive do or do not arrive, and report the remedy.

Each check ends as OK, WARN, FAIL or SKIP with a finding. A summary follows, with the remedy for
each failure and warning.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
import contextlib
from dataclasses import replace
import ipaddress
import json
import os
import shutil
import subprocess
import sys
import textwrap
from typing import Any, Optional, TextIO, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import hertz, Parser, seconds, whole
from optitrack_vrpn.cli.command_io import command, how_to_install
from optitrack_vrpn.cli.terminal_io import console
from optitrack_vrpn.core.checks import CheckResult, exit_code
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.drivers.config import ClientConfig, CONNECTIONS
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.sockets_io import is_unused
from optitrack_vrpn.drivers.table import (
    load, make_source, own_settings, protocols_of, SourceOptions, SOURCES)
from optitrack_vrpn.node.graph.processes import DISCOVERY_VARIABLES, variables_of_node
from optitrack_vrpn.node.graph.processes_io import local_nodes
from optitrack_vrpn.telling.doctor.checks import ALSO, CHECKS
from optitrack_vrpn.telling.doctor.probes_io import find_route, listen, look_up
from optitrack_vrpn.telling.doctor.results import (
    choose_target, Graph, ports, ProbeResults, Tried)

if TYPE_CHECKING:
    from optitrack_vrpn.telling.doctor.graph_ros import GraphView

#: Longest wait (s) for nodes, for a node that the user names, and for one whose settings are
#: wanted while the server is known. Chosen: DDS repeats its announcements every 3 s.
_DISCOVERY_S, _NAMED_S, _SETTINGS_S = 3.5, 10.0, 1.0


def ipv4(text: str) -> str:
    """Parse an IPv4 address."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not an IPv4 address') from None


_STYLES = {'OK': 'green', 'WARN': 'yellow', 'FAIL': 'red', 'SKIP': 'bright_black', '->': ''}
_INDENT = 20


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='doctor', description='Find out why poses of Motive do or do not arrive.',
        epilog='What no option states is taken from the running node. Exit code: 0 nothing is '
        'wrong, 1 warnings, 2 failures, 64 the command line is wrong, 130 Ctrl-C. Skipped checks '
        'do not change it. Arguments of ROS follow --ros-args; ROS_DOMAIN_ID selects the domain.')
    add = parser.add_argument
    like = 'like the parameter of the node'
    add('--server', metavar='HOST',
        help='the Motive PC: name or IPv4 address; auto: search it, as the node does')
    add('--port', type=int, help=f'its port, {like}')
    add('--interface', metavar='CARD', help=f'local address or network card, {like}')
    add('--connection', choices=CONNECTIONS, help=f'{like} (default auto)')
    add('--protocol', choices=tuple(SOURCES),
        help=f'{like}; others are tried only if it does not answer')
    for name, parameter in ports().items():
        add(f'--{name}-port', type=whole(1, 65535), metavar='PORT', dest=parameter,
            help=f'like the parameter {parameter}')
    add('--seconds', type=seconds, default=4.0, metavar='S',
        help='time to receive after the first pose (default %(default)g)')
    add('--timeout', type=seconds, default=3.0, metavar='S',
        help='longest wait for each connection to the server (default %(default)g)')
    add('--expect-rate', type=hertz, default=0.0, metavar='HZ', help="the cameras' rate")
    add('--lift', type=seconds, nargs='?', const=8.0, default=0.0, metavar='S',
        help='ask the user to lift one body, and report which axis is up (default %(const)g s)')
    add('--node', default='', metavar='NAME',
        help='full name of the running node to check (default: all of this package)')
    add('--robot', action='append', default=[], type=ipv4, metavar='ADDRESS',
        help='a robot: check whether it is found by multicast; may be repeated')
    add('--no-ros', action='store_true', help='skip the checks of the ROS graph')
    add('--json', action='store_true', help='print one JSON object, for tools')
    return parser


class DoctorReport:
    """
    Print results as they arrive.

    :param probed: results of the probes.
    :param as_json: collect the results for one JSON object at the end.
    :param port: the port of the protocol; 0 for the parameter ``port``.
    """

    def __init__(self, probed: ProbeResults, as_json: bool, port: int = 0) -> None:
        self._probed = probed
        self._port = port or probed.port
        self._json = as_json
        self._console = console()
        self._width = max(60, min(shutil.get_terminal_size().columns, 120))
        self.results: list[CheckResult] = []
        if not as_json:
            how = f'port {self._port}, protocol {probed.protocol}'
            taken = f' (of {printable(probed.taken_from)})' if probed.taken_from else ''
            print(f'doctor: {printable(probed.server) or "no server"} {how}{taken}', flush=True)

    def run_checks(self, stage: str) -> None:
        """Run the checks of a stage and print their results."""
        for check in CHECKS:
            if check.stage == stage:
                self.add(check.run(self._probed))

    def add(self, one: CheckResult) -> None:
        """Add a result and print it."""
        self.results.append(one)
        if not self._json and one.severity is not None:
            self._print(one.word, one.check, one.found)

    def _print(self, word: str, head: str, text: str) -> None:
        """Print a row of word, name and text, which is wrapped."""
        first, *rest = textwrap.wrap(
            text, self._width - _INDENT, break_on_hyphens=False) or ['']
        self._console.print(word, style=_STYLES[word], end='', soft_wrap=True)
        print('\n'.join([f'{" " * (6 - len(word))}{head:13} {first}', *(
            ' ' * _INDENT + line for line in rest)]), flush=True)

    def _print_skipped(self) -> None:
        """Summarise the skipped checks: one line for each reason, one for all after a failure."""
        reasons: dict[str, list[str]] = {}
        failed = on_graph = False
        graph = {check.name for check in CHECKS if check.stage == 'graph'}
        for one in self.results:
            failed = failed or one.severity is ERROR
            on_graph = on_graph or one.check in graph    # checks of other packages follow
            if one.severity is None:
                reason = one.found if on_graph or not failed else 'not possible after the failure'
                reasons.setdefault(reason, []).append(one.check)
        for reason, checks in reasons.items():
            self._print('SKIP', counted(len(checks), 'check'), (
                f'{", ".join(checks)}: {reason}'))

    def _print_remedies(self) -> None:
        """Print the remedies, those of failures first."""
        checks: dict[str, list[str]] = {}
        for severity in (ERROR, WARN):
            for one in self.results:
                if one.severity is severity and one.advice:
                    checks.setdefault(one.advice, []).append(one.check)
        for advice, names in checks.items():
            self._print('->', ', '.join(names), advice)

    def end(self) -> int:
        """
        Print the summary.

        :returns: the exit code.
        """
        code = exit_code(self.results)
        if self._json:
            print(json.dumps(self._mapping(code), indent=2, allow_nan=False), flush=True)
            return code
        counts = Counter(one.severity for one in self.results)
        parts = [counted(counts[severity], name) for severity, name in (
            (ERROR, 'failure'), (WARN, 'warning')) if counts[severity]]
        self._print_skipped()
        print(f'doctor: {" and ".join(parts) or "nothing is wrong"}', flush=True)
        self._print_remedies()
        return code

    def _mapping(self, code: int) -> dict[str, Any]:
        probed = self._probed
        return {
            'server': printable(probed.server), 'port': self._port,
            'protocol': probed.protocol, 'exit_code': code,
            'checks': [{'check': one.check, 'level': one.word, 'found': one.found,
                        'advice': one.advice, 'values': one.values} for one in self.results]}


def examine(arguments: argparse.Namespace, ros_args: Sequence[str]) -> int:
    """
    Run all checks in order.

    :returns: the exit code.
    :raises ConfigurationError: for options that exclude each other, or a wrong value.
    """
    given = {name: vars(arguments)[name] for name in (
        'server', 'port', 'protocol', 'connection', 'interface', *ports().values())}
    if arguments.no_ros and not arguments.server:
        raise ConfigurationError('with --no-ros, --server is needed')
    if arguments.no_ros and arguments.robot:
        raise ConfigurationError('--robot is a check of the ROS graph, which --no-ros skips: '
                                 'leave one of them out')
    choose_target(given, (), False).config(arguments.timeout)
    before = dict(os.environ)
    wait_s = _NAMED_S if arguments.node else _DISCOVERY_S
    with contextlib.ExitStack() as stack:
        view, graph, nodes = None, None, []
        if not arguments.no_ros:
            processes = local_nodes()
            os.environ.update(variables_of_node(processes, before, DISCOVERY_VARIABLES))
            view, graph = _open_graph(ros_args, before, arguments.robot, stack)
            if view is not None:
                nodes = view.settings(arguments.node, wait_s if (
                    processes or arguments.node or not arguments.server) else _SETTINGS_S)
        target = choose_target(given, nodes, bool(local_nodes()))
        config, settings = target.config(arguments.timeout)
        probed = ProbeResults(
            target.server, config.port, target.protocol, arguments.expect_rate, graph=graph,
            taken_from=target.node if target.taken else '')
        report = DoctorReport(probed, arguments.json, getattr(
            own_settings(settings, target.protocol), 'port', 0))
        # Chosen: timeout of the name resolution (s), the default of glibc's resolver for one
        # server.
        look_up(probed, config, settings, 5.0)
        report.run_checks('name')
        find_route(probed, config)
        report.run_checks('route')
        if probed.local:
            _receive_all(arguments, config, settings, probed)
        report.run_checks('protocol')
        report.run_checks('stream')
        if probed.also:
            report.add(ALSO.run(probed))
        if view is not None:
            probed.graph = view.look(arguments.node, wait_s)
        report.run_checks('graph')
        for one in view.extension_findings() if view is not None else ():
            report.add(one)
    return report.end()


def _receive_all(
    arguments: argparse.Namespace, config: ClientConfig, settings: Any, probed: ProbeResults,
) -> None:
    """
    Receive by the client of each protocol of the node, and of the others if none answers.

    Of several that the node chooses from, one that answers is enough; by the others that answer
    too, the doctor receives for a second.
    """
    for name in protocols_of(probed.protocol, config, settings):
        _receive(arguments, name, config, settings, probed, True)
    if not probed.answering and SOURCES[next(iter(probed.tried))].probe:
        # Timeout (s) of a protocol that the node does not use. Chosen: an answer takes
        # milliseconds.
        link = replace(config.link, connection='tcp', attempt_s=min(arguments.timeout, 0.4))
        for name, kind in SOURCES.items():
            if kind.probe and name not in probed.tried:
                _receive(arguments, name, replace(config, link=link), settings, probed, False)
    if not probed.answering:
        probed.unused = is_unused(probed.place.address)


def _receive(
    arguments: argparse.Namespace, name: str, config: ClientConfig, settings: Any,
    probed: ProbeResults, wanted: bool,
) -> None:
    """Receive by one protocol, briefly if it is not the first, and find out what hinders it."""
    also = probed.stream is not None and probed.stream.poses > 0
    config = replace(config, link=replace(
        config.link, connect_back_s=config.link.attempt_s, blocked_s=config.link.attempt_s))

    def client(config: ClientConfig) -> Callable[[Sink], Source]:
        return lambda sink: make_source(name, config, settings, sink, SourceOptions())
    # Chosen: time (s) to receive by a further protocol.
    stream = listen(
        client(config), 1.0 if also else arguments.seconds, config.link.attempt_s,
        0.0 if also else arguments.lift, lambda: _ask_for_lift(
            arguments.lift, sys.stderr if arguments.json else sys.stdout))
    attempts, by_tcp = stream.link.attempts, None
    if attempts and 'tcp' not in attempts:
        # Until the first pose: it shows what another ``connection`` would give.
        by_tcp = listen(client(replace(config, link=replace(config.link, connection='tcp'))),
                        0.0, config.link.attempt_s)
    kind, own = SOURCES[name], own_settings(settings, name)
    link = replace(stream.link, attempts={
        **(by_tcp.link.attempts if by_tcp is not None else {}), **attempts})
    around = load(kind.probe)(probed.place, config, own, link) if kind.probe else None
    # What is told of the surroundings is no message of the client too.
    stream.messages = tuple(text for text in stream.messages if text not in (around or ()))
    probed.tried[name] = Tried(wanted, config, own, stream, by_tcp, around)
    probed.stated_up = probed.stated_up or stream.link.known.up_axis
    if probed.stream is None or (stream.listened_s and not also):
        probed.stream, probed.by = stream, name


def _open_graph(
    ros_args: Sequence[str], given: Mapping[str, str], robots: Sequence[str],
    stack: contextlib.ExitStack,
) -> tuple[Optional[GraphView], Optional[Graph]]:
    """Join the ROS graph; return why that is not possible in place of the graph."""
    middleware = os.environ.get('RMW_IMPLEMENTATION')
    if middleware and 'RMW implementation' in subprocess.run(
            [sys.executable, '-c', 'import rclpy'], capture_output=True, text=True).stderr:
        # The import ends the process.
        return None, Graph(
            absent=f'ROS 2 does not start: RMW_IMPLEMENTATION={middleware} is not installed',
            broken=True)
    try:
        from optitrack_vrpn.node.base.process import explained
        from optitrack_vrpn.telling.doctor.graph_ros import GraphView
    except ImportError as error:
        return None, Graph(absent=f'ROS 2 is not available ({error}): ' + how_to_install(
            'source its setup.bash'))
    try:
        return stack.enter_context(GraphView(ros_args, given, robots)), None
    except Exception as error:    # any error of the middleware
        return None, Graph(absent='ROS 2 does not start here ({})'.format(
            explained(error).replace('\n', ': ')), broken=True)


def _ask_for_lift(seconds: float, stream: TextIO) -> None:
    print(f'===>  Now lift one body straight up by half a metre, in view; {seconds:g} s',
          file=stream, flush=True)


@command('doctor')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0 if nothing is wrong, 1 for warnings, 2 for failures, 64 for a wrong command line,
        130 after Ctrl-C.
    """
    arguments, ros_args = make_parser().parse(argv)
    # Names can contain characters that this terminal cannot show.
    for output in (sys.stdout, sys.stderr):
        if hasattr(output, 'reconfigure'):
            output.reconfigure(errors='backslashreplace')
    return examine(arguments, ros_args)
