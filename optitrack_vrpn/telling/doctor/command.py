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
from collections.abc import Mapping, Sequence
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
from optitrack_vrpn.core.checks import CheckResult, exit_code, fail, skip
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.drivers.config import ClientConfig, CONNECTIONS
from optitrack_vrpn.drivers.probing import Probe
from optitrack_vrpn.drivers.table import (
    load, make_source, own_settings, protocols_of, SourceOptions, SOURCES, title, using)
from optitrack_vrpn.node.graph.processes import DISCOVERY_VARIABLES, variables_of_node
from optitrack_vrpn.node.graph.processes_io import local_nodes
from optitrack_vrpn.telling.doctor.checks import ALSO, CHECKS
from optitrack_vrpn.telling.doctor.probes_io import find_route, listen, look_up
from optitrack_vrpn.telling.doctor.results import (
    choose_target, Graph, ports, ProbeResults, WatchedStream)

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
    """

    def __init__(self, probed: ProbeResults, as_json: bool) -> None:
        self._probed = probed
        self._json = as_json
        self._console = console()
        self._width = max(60, min(shutil.get_terminal_size().columns, 120))
        self.results: list[CheckResult] = []
        if not as_json:
            how = f'port {probed.port}, protocol {probed.protocol}'
            taken = f' (of {printable(probed.taken_from)})' if probed.taken_from else ''
            print(f'doctor: {printable(probed.server) or "no server"} {how}{taken}', flush=True)

    def run_checks(self, stage: str) -> None:
        """Run the checks of a stage and print their results."""
        for check in CHECKS:
            if check.stage == stage:
                one = check.run(self._probed)
                silence = self._probed.stream and self._probed.stream.silence
                if check.name == 'data' and silence:
                    one = silence._replace(values={**one.values, **silence.values})
                self.add(one)

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
            'server': printable(probed.server), 'port': probed.port,
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
        report = DoctorReport(probed, arguments.json)
        # Chosen: timeout of the name resolution (s), the default of glibc's resolver for one
        # server.
        look_up(probed, config, settings, 5.0)
        report.run_checks('name')
        find_route(probed, config)
        report.run_checks('route')
        _probe_protocols(arguments, config, settings, probed, report)
        report.run_checks('stream')
        if view is not None:
            probed.graph = view.look(arguments.node, wait_s)
        report.run_checks('graph')
        for one in view.extension_findings() if view is not None else ():
            report.add(one)
    return report.end()


def _probe_protocols(
    arguments: argparse.Namespace, config: ClientConfig, settings: Any, probed: ProbeResults,
    report: DoctorReport,
) -> None:
    """
    Probe the protocol of the node, and others if it does not answer; receive by it.

    Of several that the node chooses from, one that answers is enough; by the others that answer
    too, the doctor receives for a second.
    """
    wanted = protocols_of(probed.protocol, config, settings)
    probes: dict[str, Probe] = {}

    def connect(name: str, config: ClientConfig) -> bool:
        if not SOURCES[name].probe or not probed.local:
            return False
        probe = probes[name] = load(SOURCES[name].probe)(
            config, own_settings(settings, name), probed.place)
        probe.connect()
        return bool(probe.answered)

    answering = [name for name in wanted if connect(name, config)]
    # Timeout (s) of a protocol that the node does not use. Chosen: an answer takes milliseconds.
    link = replace(config.link, connection='tcp', attempt_s=min(
        arguments.timeout, 0.4))
    others = [] if answering or not SOURCES[wanted[0]].probe else [
        name for name in SOURCES
        if name not in wanted and connect(name, replace(config, link=link))]
    streams: dict[str, WatchedStream] = {}
    for name in answering or others or (wanted if probed.local and not probes else ()):
        also = probed.stream is not None and probed.stream.poses > 0
        streams[name] = _receive(arguments, name, probes.get(name), config, settings, also)
        probed.stated_up = probed.stated_up or streams[name].link.known.up_axis
        if not also:
            probed.stream, probed.by = streams[name], name
    for name, kind in SOURCES.items():
        probe = probes.get(name)
        if probe is None or name not in (*wanted, *others):
            why = ('there is no route to the server' if not probed.local else
                   f'{title(name)} does not answer either' if probe else
                   f'{title(name)} is not checked') + f' (protocol {probed.protocol})'
            for check in load(kind.probe).checks if kind.probe else ():
                report.add(skip(check, why))
            continue
        for one in probe.results(streams[name].heard() if name in streams else None):
            if one.severity is ERROR and name in wanted:
                one = _beside(one, name, answering, others)
            report.add(one)
    if probed.stream is not None and probed.stream.poses:
        probed.also = {name: streams[name] for name in answering if name != probed.by}
    if probed.also:
        report.add(ALSO.run(probed))


def _beside(
    one: CheckResult, name: str, answering: Sequence[str], others: Sequence[str],
) -> CheckResult:
    """Change the failure of a protocol if another one answers."""
    if answering and name not in answering:
        # The node tries several (auto); usually only one of them is switched on.
        return skip(one.check, f'{title(name)} does not answer; the node uses '
                    f'{title(answering[0])}')
    if others:
        return one._replace(
            found=f'{one.found}; {title(others[0])} answers',
            advice=f'set protocol: {" or ".join(using(others[0]))}; or: {one.advice}')
    return one


def _receive(
    arguments: argparse.Namespace, name: str, probe: Optional[Probe], config: ClientConfig,
    settings: Any, also: bool,
) -> WatchedStream:
    """Receive by one protocol, briefly if it is not the first; explain it if no pose arrives."""
    # Chosen: time (s) to receive by a further protocol.
    found = listen(
        probe.source if probe else lambda sink: make_source(
            name, config, settings, sink, SourceOptions()),
        1.0 if also else arguments.seconds, arguments.timeout, 0.0 if also else arguments.lift,
        lambda: _ask_for_lift(
            arguments.lift, sys.stderr if arguments.json else sys.stdout))
    if not found.poses:
        found.silence = probe.silence(found.heard()) if probe else fail(
            'data', 'no pose arrived' + (f': {found.ended}' if found.ended else ''),
            'does the server send, and to this computer and port?')
    return found


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
