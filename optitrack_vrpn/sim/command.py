# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stream rigid bodies like OptiTrack's Motive, without hardware.

Flags set the same values as a scenario file and take precedence over it. See docs/motive_sim.md.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import logging
import re
from typing import Any, Optional

from optitrack_vrpn.cli.arguments import Parser, whole
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.files_io import find_config
from optitrack_vrpn.cli.signals_io import end_with_parent, ENDING, SignalPipe
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import hints_of
from optitrack_vrpn.drivers.table import load, SOURCES
from optitrack_vrpn.sim.faults import OCCLUSION_MODES
from optitrack_vrpn.sim.scenario_io import (
    BOTH, both, MAX_BODIES, plain_bodies, read_mapping, Scenario, scenario_from_mapping)
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.sim.world import LiveMotion

_OCCLUSION = re.compile(
    r'(?P<name>.+):(?P<mode>[a-z]+):(?P<start>[0-9.]+)-(?P<end>[0-9.]*)(/(?P<every>[0-9.]+))?')


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='motive_sim',
        description='Stream rigid bodies like Motive, by one protocol or several: metres, y up, '
        'x forward.',
        epilog='Three bodies by default. Prints its addresses first. Ends on Ctrl-C or after '
               '--duration.')
    add = parser.add_argument
    add('--scenario', metavar='FILE',
        help='YAML file with these and further settings, or the name of a scenario of the package')
    bodies = parser.add_mutually_exclusive_group()
    bodies.add_argument('--bodies', type=whole(1, MAX_BODIES), metavar='N',
                        help='number of bodies, named "Rigid Body 1" and so on')
    bodies.add_argument('--names', nargs='+', metavar='NAME', help='bodies with these names')
    add('--occlude', nargs='+', action='extend', default=[], metavar='NAME:MODE:START-END[/EVERY]',
        help='a body out of view: silent, frozen or zeroed from START to END (s; no END: for '
        'ever), repeated with the period EVERY (s)')
    for flag, path in {**_SETTINGS, **_own_settings()}.items():
        _add_setting(parser, flag, path)
    add('--log-level', default='info', choices=('debug', 'info', 'warning', 'error'),
        help='lowest severity logged to the standard error output')
    return parser


#: Flags and the settings of a scenario that they set.
_SETTINGS = {
    '--rate': 'rate', '--motion': 'motion', '--host': 'server.host', '--port': 'server.port',
    '--protocol': 'protocol', '--noise-mm': 'noise.position_mm',
    '--noise-deg': 'noise.attitude_deg', '--delay-ms': 'network.delay_ms',
    '--jitter-ms': 'network.jitter_ms', '--loss': 'network.loss', '--skew-ppm': 'clock.skew_ppm',
    '--stamps': 'clock.base', '--stamp-start': 'clock.start', '--velocities': 'velocities',
    '--seed': 'seed', '--duration': 'duration',
}


def _own_settings() -> dict[str, str]:
    """List the flags for the settings of single protocols, as ``--PROTOCOL-SETTING``."""
    return {
        f'--{protocol}-{field.name.replace("_", "-")}': f'{protocol}.{field.name}'
        for protocol, kind in SOURCES.items() if kind.server_settings
        for field in dataclasses.fields(load(kind.server_settings))
        if field.default is not True and isinstance(field.default, (int, float, str))}


def _add_setting(parser: argparse.ArgumentParser, flag: str, path: str) -> None:
    """Add a flag with type, choices and description of its setting."""
    *parents, key = path.split('.')
    cls: Any = Scenario
    for parent in parents:
        cls = hints_of(cls)[parent]
    field = next(field for field in dataclasses.fields(cls) if field.name == key)
    about, default, kind = field.metadata['rule'], field.default, hints_of(cls)[key]
    if kind is bool:
        parser.add_argument(flag, dest=path, action='store_true', default=None, help=about.doc)
        return
    unit = f' {about.unit}' if about.unit else ''
    text = about.doc if default is None else f'{about.doc} (default {default}{unit})'
    parser.add_argument(
        flag, dest=path, type=kind if kind in (int, str) else float,
        choices=about.choices or None, help=text,
        metavar=None if about.choices else (about.unit or key).upper())


def parse(
    parser: Parser, argv: Optional[Sequence[str]],
) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line of a simulator, and set its log; also return those for ROS."""
    end_with_parent()
    arguments, for_ros = parser.parse(argv)
    logging.basicConfig(
        level=arguments.log_level.upper(), format=f'[{parser.prog}] %(levelname)s %(message)s')
    return arguments, for_ros


def scenario_from_arguments(
    arguments: argparse.Namespace, names: Sequence[str] = (),
) -> Scenario:
    """
    Create the scenario that a command line describes.

    :param names: the bodies if it names none, neither by a number nor by a file.
    :raises ConfigurationError: if a value of it or of its file is not allowed.
    """
    data: dict[str, Any] = {}
    where = ''
    if arguments.scenario is not None:
        file = find_config(arguments.scenario, 'scenarios/*.yaml')
        where = f'{file}: '
        data = read_mapping(file)
        scenario_from_mapping(data, where)  # errors of the file, without flags
    own = _own_settings()
    for path in (*_SETTINGS.values(), *own.values()):
        *parents, key = path.split('.')
        value = getattr(arguments, path)
        if value is None:
            continue
        target = data
        for parent in parents:
            target[parent] = dict(target.get(parent) or {})
            target = target[parent]
        target[key] = value
    if arguments.names is not None:
        data['bodies'] = arguments.names
    elif names and arguments.bodies is arguments.scenario is None:
        data['bodies'] = list(names)
    elif arguments.bodies is not None or data.get('bodies') is None:
        data['bodies'] = 3 if arguments.bodies is None else arguments.bodies
    data['bodies'] = plain_bodies(data['bodies'], '--bodies')
    if arguments.occlude:
        _occlude(data, arguments.occlude)
    try:
        scenario = scenario_from_mapping(data)
    except ConfigurationError as error:
        raise ConfigurationError(f'{where}with the flags given: {error}') from None
    for flag, path in own.items():
        protocol, _, name = path.partition('.')
        # A port may be given for a protocol that is not used.
        if name != 'port' and protocol not in scenario.protocols and (
                getattr(arguments, path) is not None):
            raise ConfigurationError(f'{flag} needs --protocol {protocol}' + (
                f' or --protocol {BOTH}' if protocol in both() else ''))
    return scenario


def _occlude(data: dict[str, Any], occlusions: Sequence[str]) -> None:
    data['bodies'] = bodies = [dict(body) for body in data['bodies']]
    for text in occlusions:
        match = _OCCLUSION.fullmatch(text)
        body = next((body for body in bodies if match and body['name'] == match['name']), None)
        if match is None or body is None:
            names = ', '.join(repr(body['name']) for body in bodies)
            raise ConfigurationError(
                f'--occlude is {text!r}; allowed: NAME:MODE:START-END[/EVERY] with '
                f'NAME one of {names} and MODE one of {", ".join(OCCLUSION_MODES)}')
        fault: dict[str, Any] = {'type': 'occlusion', 'mode': match['mode']}
        try:
            fault.update({key: float(match[key]) for key in ('start', 'end', 'every')
                          if match[key]})
        except ValueError:
            raise ConfigurationError(f'--occlude: {text!r}: times are seconds') from None
        body['faults'] = [*body.get('faults', ()), fault]


@command('motive_sim')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0 after Ctrl-C, SIGTERM or ``--duration``; 1 for an error, 64 if the command line
        or the scenario is wrong.
    """
    return serve(scenario_from_arguments(parse(make_parser(), argv)[0]), announce)


def serve(
    scenario: Scenario, started: Callable[[MotiveSimServer], None],
    live: Optional[Mapping[str, LiveMotion]] = None,
) -> int:
    """
    Run a simulated Motive until a signal or the end of the scenario.

    :param started: called with the running server.
    :param live: as for ``MotiveSimServer``.
    :returns: exit code.
    """
    with SignalPipe(ENDING) as signals, MotiveSimServer(scenario, live=live) as server:
        started(server)
        while not server.finished.is_set() and not signals.wait(0.1):    # s; chosen
            pass
    return 1 if server.failure is not None else 0


def announce(server: MotiveSimServer) -> None:
    """Print where a server listens, and what it streams."""
    scenario = server.scenario
    reach = ('only this computer can connect; --host 0.0.0.0 admits others'
             if server.host == 'localhost' or server.host.startswith('127.') else
             'any host that reaches it can connect')
    names = [body.name for body in scenario.bodies]
    shown = ', '.join(map(repr, names[:5])) + (', ...' if len(names) > 5 else '')
    count = f'{len(names)} {"body" if len(names) == 1 else "bodies"}'
    listed = f': {shown}' if names else ''
    print('\n'.join(server.addresses) + '\n'
          f'{count} at {scenario.rate:g} Hz{listed}; {reach}', flush=True)
