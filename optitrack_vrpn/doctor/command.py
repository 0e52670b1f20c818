# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find out, step by step, why poses of Motive do or do not arrive, and report the remedy.

Each check ends as OK, WARN, FAIL or SKIP with a finding. A summary follows, with the remedy for
each failure and warning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from typing import Any, Optional, TextIO, TYPE_CHECKING

from optitrack_vrpn.cli.arguments import hertz, Parser, seconds, split_ros_args, whole
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.loading import how_to_install
from optitrack_vrpn.doctor import bodies, graph as graph_checks, natnet, network, stream
from optitrack_vrpn.doctor.natnet_io import probe_natnet
from optitrack_vrpn.doctor.probe_io import Probe
from optitrack_vrpn.doctor.probe_results import DISCOVERY_VARIABLES, Graph, ProbeResults
from optitrack_vrpn.doctor.processes_io import local_nodes
from optitrack_vrpn.doctor.result import CheckResult, exit_code, Level, skip
from optitrack_vrpn.doctor.takeover import choose_target, Target, variables_of_node
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import counted, printable
from optitrack_vrpn.sources import ClientConfig, CONNECTIONS, LinkConfig, SOURCES
from optitrack_vrpn.sources.natnet import COMMAND_PORT
from optitrack_vrpn.sources.vrpn import DEFAULT_PORT

if TYPE_CHECKING:
    from optitrack_vrpn.doctor.graph_ros import GraphView

#: Longest wait (s) for nodes, for a node that the user names, and for one whose settings are
#: wanted while the server is known. Chosen: DDS repeats its announcements every 3 s.
_DISCOVERY_S, _NAMED_S, _SETTINGS_S = 3.5, 10.0, 1.0
#: Timeout (s) of NatNet when the protocol is VRPN. Chosen: an answer takes milliseconds.
_IN_PASSING_S = 0.4
Check = Callable[[ProbeResults], CheckResult]

#: Checks of each stage; they run when the probes of the stage have ended.
STAGES: dict[str, tuple[Check, ...]] = {
    'name': (network.check_name,),
    'route': (network.check_route,),
    'connections': (network.check_udp, network.check_connect_back, network.check_tcp),
    'stream': (
        stream.check_handshake, stream.check_senders, stream.check_data, stream.check_rate,
        bodies.check_bodies, stream.check_axes, stream.check_stamps, stream.check_clock),
    'natnet': (natnet.check_natnet, natnet.check_natnet_data, natnet.check_natnet_clock),
    'graph': (
        graph_checks.check_qos, graph_checks.check_publishers, graph_checks.check_published,
        graph_checks.check_lifecycle, graph_checks.check_reach, graph_checks.check_settings),
}
_COLOURS = {Level.OK: 32, Level.WARN: 33, Level.FAIL: 31, Level.SKIP: 90}
_INDENT = 20
_GRAPH_CHECKS = ('qos', 'publishers', 'published', 'lifecycle', 'reach', 'settings')
#: Stages whose failures do not keep poses from a node that receives them by NatNet.
_OF_VRPN = ('connections', 'stream')


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='doctor', description='Find out why poses of Motive do or do not arrive.',
        epilog='What no option states is taken from the running node. Exit code: 0 nothing is '
        'wrong, 1 warnings, 2 failures, 64 the command line is wrong, 130 Ctrl-C. Skipped checks '
        'do not change it. Arguments of ROS follow --ros-args; ROS_DOMAIN_ID selects the domain.')
    add = parser.add_argument
    like = 'like the parameter of the node'
    add('--server', metavar='HOST',
        help='the Motive PC: name or IPv4 address; auto: search it by NatNet, as the node does')
    add('--port', type=int, help=f'its VRPN port (default {DEFAULT_PORT})')
    add('--interface', metavar='CARD', help=f'local address or network card, {like}')
    add('--advertise', metavar='HOST[:PORT]',
        help=f'address that the server is asked to connect back to, {like}')
    add('--connection', choices=CONNECTIONS, help=f'{like} (default auto)')
    add('--protocol', choices=tuple(SOURCES),
        help=f'{like}; natnet skips VRPN if NatNet answers, auto checks both (default vrpn: '
        'NatNet only if VRPN does not answer)')
    add('--natnet-port', type=whole(1, 65535), metavar='PORT',
        help=f'command port of NatNet (default {COMMAND_PORT})')
    add('--seconds', type=seconds, default=4.0, metavar='S',
        help='time to receive after the first pose (default %(default)g)')
    add('--timeout', type=seconds, default=3.0, metavar='S',
        help='longest wait for each connection to the server (default %(default)g)')
    add('--expect-rate', type=hertz, default=0.0, metavar='HZ', help="the cameras' rate")
    add('--lift', type=seconds, nargs='?', const=8.0, default=0.0, metavar='S',
        help='ask the user to lift one body, and report which axis is up (default %(const)g s)')
    add('--node', default='', metavar='NAME',
        help='full name of the running node to check (default: all of this package)')
    add('--no-ros', action='store_true', help='skip the checks of the ROS graph')
    add('--json', action='store_true', help='print one JSON object, for tools')
    return parser


class Report:
    """
    Print results as they arrive.

    :param probed: results of the probes.
    :param as_json: collect the results for one JSON object at the end.
    """

    def __init__(self, probed: ProbeResults, as_json: bool) -> None:
        self._probed = probed
        self._json = as_json
        self._colours = sys.stdout.isatty() and not os.environ.get('NO_COLOR')
        self._width = max(60, min(shutil.get_terminal_size().columns, 120))
        self.results: list[CheckResult] = []
        if not as_json:
            how = ('protocol natnet' if probed.protocol == 'natnet' else
                   f'port {probed.port}, connection {probed.connection}')
            taken = f' (of {printable(probed.taken_from)})' if probed.taken_from else ''
            print(f'doctor: {printable(probed.server) or "no server"} {how}{taken}', flush=True)

    def run_checks(self, stage: str, skipped: str = '') -> None:
        """
        Run the checks of a stage and print their results.

        :param skipped: the reason if the probes of the stage did not run.
        """
        for check in STAGES[stage]:
            result = check(self._probed)
            if result.level is Level.FAIL and stage in _OF_VRPN and self._probed.by_natnet:
                result = result._replace(level=Level.WARN)
            self.add(skip(result.check, skipped) if skipped else result)

    def add(self, one: CheckResult) -> None:
        """Add a result and print it."""
        self.results.append(one)
        if not self._json and one.level is not Level.SKIP:
            print('\n'.join(self._lines(one)), flush=True)

    def _lines(self, one: CheckResult) -> list[str]:
        level = f'{one.level.value:5}'
        if self._colours:
            level = f'\x1b[{_COLOURS[one.level]}m{level}\x1b[0m'
        head = f'{one.check:13} '
        first, *rest = self._wrapped(one.found)
        return [f'{level} {head}{first}', *(' ' * _INDENT + line for line in rest)]

    def _skipped(self) -> list[str]:
        """Summarise the skipped checks: one line for each reason, one for all after a failure."""
        reasons: dict[str, list[str]] = {}
        failed = False
        for one in self.results:
            failed = failed or one.level is Level.FAIL
            if one.level is Level.SKIP:
                on_graph = one.check in _GRAPH_CHECKS
                reason = one.found if on_graph or not failed else 'not possible after the failure'
                reasons.setdefault(reason, []).append(one.check)
        return [line for reason, checks in reasons.items()
                for line in self._lines(skip(counted(len(checks), 'check'), (
                    f'{", ".join(checks)}: {reason}')))]

    def _remedies(self) -> list[str]:
        """Return the remedies, those of failures first."""
        checks: dict[str, list[str]] = {}
        for level in (Level.FAIL, Level.WARN):
            for one in self.results:
                if one.level is level and one.advice:
                    checks.setdefault(one.advice, []).append(one.check)
        lines = []
        for advice, names in checks.items():
            first, *rest = self._wrapped(advice)
            lines.append(f'{"->":5} {", ".join(names):13} {first}')
            lines += [' ' * _INDENT + line for line in rest]
        return lines

    def _wrapped(self, text: str) -> list[str]:
        return textwrap.wrap(text, self._width - _INDENT, break_on_hyphens=False) or ['']

    def end(self) -> int:
        """
        Print the summary.

        :returns: the exit code.
        """
        code = exit_code(self.results)
        if self._json:
            print(json.dumps(self._mapping(code), indent=2, allow_nan=False), flush=True)
            return code
        counts = {level: sum(one.level is level for one in self.results) for level in Level}
        parts = [counted(counts[level], name) for level, name in (
            (Level.FAIL, 'failure'), (Level.WARN, 'warning')) if counts[level]]
        verdict = f'doctor: {" and ".join(parts) or "nothing is wrong"}'
        print('\n'.join([*self._skipped(), verdict, *self._remedies()]), flush=True)
        return code

    def _mapping(self, code: int) -> dict[str, Any]:
        probed = self._probed
        return {
            'server': printable(probed.server), 'port': probed.port,
            'connection': probed.connection, 'exit_code': code,
            'checks': [{**one._asdict(), 'level': one.level.value} for one in self.results]}


def examine(arguments: argparse.Namespace, ros_args: Sequence[str]) -> int:
    """
    Run all checks in order.

    :returns: the exit code.
    :raises ConfigurationError: for options that exclude each other, or a wrong value.
    """
    given = {name: getattr(arguments, name) for name in _TARGET}
    if arguments.no_ros and not arguments.server:
        raise ConfigurationError('with --no-ros, --server is needed')
    config_of(choose_target({'server': 'auto', **_stated(given)}, (), False), arguments.timeout)
    before = dict(os.environ)
    wait_s = _NAMED_S if arguments.node else _DISCOVERY_S
    with contextlib.ExitStack() as stack:
        view, graph, nodes = None, None, []
        if not arguments.no_ros:
            processes = local_nodes()
            os.environ.update(variables_of_node(processes, before, DISCOVERY_VARIABLES))
            view, graph = _open_graph(ros_args, before, stack)
            if view is not None:
                nodes = view.settings(arguments.node, wait_s if (
                    processes or arguments.node or not arguments.server) else _SETTINGS_S)
        target = choose_target(given, nodes, bool(local_nodes()))
        config = config_of(target, arguments.timeout)
        probed = ProbeResults(
            target.server, config.port, config.link.connection, config.advertise,
            arguments.expect_rate, protocol=target.protocol, graph=graph,
            taken_from=target.node if target.taken else '')
        report = Report(probed, arguments.json)
        _probe(arguments, config, target.natnet_port, probed, report)
        if view is not None:
            probed.graph = view.look(arguments.node, wait_s)
        report.run_checks('graph')
        for one in view.extension_findings() if view is not None else ():
            report.add(one)
    return report.end()


#: Options that complete the settings of a running node.
_TARGET = ('server', 'port', 'protocol', 'connection', 'interface', 'advertise', 'natnet_port')


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def config_of(target: Target, timeout_s: float) -> ClientConfig:
    """
    Make the configuration of the client for the probes.

    :raises ConfigurationError: for a wrong value.
    """
    return ClientConfig(
        server=target.server or 'localhost', port=target.port, interface=target.interface,
        advertise=target.advertise, link=LinkConfig(
            connection=target.connection, attempt_s=timeout_s))


def _probe(
    arguments: argparse.Namespace, config: ClientConfig, natnet_port: int, probed: ProbeResults,
    report: Report,
) -> None:
    """Probe the server by name, route and protocols, and report each stage."""
    with Probe(config, probed) as probe:
        probe.look_up(natnet_port)
        report.run_checks('name')
        probe.find_route()
        report.run_checks('route')
        if probed.local and probed.protocol != 'vrpn':    # first, as the node does
            probed.natnet = probe_natnet(
                config, probed.address, natnet_port, arguments.seconds, arguments.timeout)
            if not probed.natnet.version:
                probe.look_for_machine()
        no_vrpn = ''
        if probed.protocol == 'natnet' and (probed.natnet is None or probed.natnet.version):
            no_vrpn = 'VRPN is not checked (protocol natnet)'
        else:
            probe.try_connections()
            if probed.protocol == 'natnet' and not network.is_open(probed.tcp):
                no_vrpn = 'VRPN does not answer either (protocol natnet)'
        report.run_checks('connections', no_vrpn)
        if not no_vrpn:
            probe.listen(
                arguments.seconds, arguments.lift, lambda: _ask_for_lift(
                    arguments.lift, sys.stderr if arguments.json else sys.stdout))
        report.run_checks('stream', no_vrpn)
        if probed.local and probed.protocol == 'vrpn' and probed.stream is None:
            found = probe_natnet(
                config, probed.address, natnet_port, arguments.seconds,
                min(arguments.timeout, _IN_PASSING_S))
            probed.natnet = found if found.version else None    # a missing one is no finding
        report.run_checks('natnet', '' if probed.natnet else (
            'NatNet is not checked (use --protocol natnet or auto)'))


def _open_graph(
    ros_args: Sequence[str], given: Mapping[str, str], stack: contextlib.ExitStack,
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
        from optitrack_vrpn.doctor.graph_ros import GraphView
        from optitrack_vrpn.ros.run import explained
    except ImportError as error:
        return None, Graph(absent=f'ROS 2 is not available ({error}): ' + how_to_install(
            'source its setup.bash'))
    try:
        return stack.enter_context(GraphView(ros_args, given)), None
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
    own, ros_args = split_ros_args(sys.argv[1:] if argv is None else argv)
    arguments = make_parser().parse_args(own)
    # Names can contain characters that this terminal cannot show.
    for output in (sys.stdout, sys.stderr):
        if hasattr(output, 'reconfigure'):
            output.reconfigure(errors='backslashreplace')
    return examine(arguments, ros_args)
