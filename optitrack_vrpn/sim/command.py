# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stream rigid bodies like OptiTrack's Motive, without hardware.

Flags set the same values as a scenario file and take precedence over it. See docs/motive_sim.md.
"""

import argparse
from collections.abc import Sequence
import logging
import re
import sys
from typing import Any, Optional

from optitrack_vrpn.cli.arguments import exit_code, Parser, without_ros_arguments
from optitrack_vrpn.cli.config_files_io import find_config
from optitrack_vrpn.cli.output_io import ends_with_output
from optitrack_vrpn.cli.signals_io import end_with_parent, ENDING, SignalPipe
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.sim.faults import OCCLUSION_MODES
from optitrack_vrpn.sim.motion import MOTIONS
from optitrack_vrpn.sim.scenario_io import (
    NATNET_VERSIONS, plain_bodies, read_mapping, Scenario, scenario_from_mapping)
from optitrack_vrpn.sim.server_io import MotiveSimServer

#: Chosen: period of the check whether the scenario has ended (s). Halved or doubled, the process
#: ends by so much earlier or later.
_LOOK_S = 0.1
_OCCLUSION = re.compile(
    r'(?P<name>.+):(?P<mode>[a-z]+):(?P<start>[0-9.]+)-(?P<end>[0-9.]*)(/(?P<every>[0-9.]+))?')


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='motive_sim',
        description='Stream rigid bodies like Motive, by VRPN, NatNet or both: metres, y up, '
        'x forward.',
        epilog='Prints "listening on HOST:PORT" first. Ends on Ctrl-C or after --duration.')
    add = parser.add_argument
    add('--scenario', metavar='FILE',
        help='YAML file with these and further settings, or the name of a scenario of the package')
    bodies = parser.add_mutually_exclusive_group()
    bodies.add_argument('--bodies', type=int, metavar='N',
                        help='number of bodies, named "Rigid Body 1" and so on (default 3)')
    bodies.add_argument('--names', nargs='+', metavar='NAME', help='bodies with these names')
    add('--rate', type=float, metavar='HZ', help='frames per second (default 120)')
    add('--motion', choices=tuple(MOTIONS), help='motion of the bodies (default circle)')
    add('--host', metavar='ADDRESS',
        help='local address to listen on (default 127.0.0.1: this computer only; 0.0.0.0: every '
        'network)')
    add('--port', type=int, help='TCP and UDP port (default 3883); 0: any free port')
    add('--protocol', choices=('vrpn', 'natnet', 'both'), help='protocol (default vrpn)')
    add('--natnet-port', type=int, metavar='PORT',
        help='UDP port of NatNet commands (default 1510); 0: any free port')
    add('--natnet-version', choices=tuple(NATNET_VERSIONS),
        help='bitstream of NatNet (default 4.1)')
    add('--multicast', action='store_true', default=None,
        help='send NatNet frames to the multicast group 239.255.42.99')
    add('--noise-mm', type=float, metavar='MM', help='standard deviation of each coordinate')
    add('--noise-deg', type=float, metavar='DEG', help='standard deviation about each axis')
    add('--occlude', nargs='+', action='extend', default=[], metavar='NAME:MODE:START-END[/EVERY]',
        help='a body out of view: silent, frozen or zeroed from START to END (s; no END: for '
        'ever), repeated with the period EVERY (s)')
    add('--delay-ms', type=float, metavar='MS', help='delay of every frame')
    add('--jitter-ms', type=float, metavar='MS', help='mean of an additional random delay')
    add('--loss', type=float, metavar='SHARE', help='share of datagrams lost, 0 to 1')
    add('--skew-ppm', type=float, metavar='PPM', help="skew of the sender's clock")
    add('--stamps', choices=('motive', 'epoch'),
        help="origin of the stamps: the start, as in Motive, or the system's epoch")
    add('--stamp-start', type=float, metavar='S', help='first stamp, with --stamps motive')
    add('--velocities', action='store_true', default=None,
        help='send velocities and accelerations too, as other VRPN servers do')
    add('--stamp-in-pose', action='store_true', default=None,
        help='for benchmarks: x and y become seconds and nanoseconds of the monotonic clock')
    add('--connect-back-anywhere', action='store_true', default=None,
        help='connect to the address in a request even if it came from another one (unsafe)')
    add('--seed', type=int, help='the same seed gives the same poses (default 0)')
    add('--duration', type=float, metavar='S', help='end after this time (s)')
    add('--log-level', default='info', choices=('debug', 'info', 'warning', 'error'),
        help='lowest severity logged to the standard error output')
    return parser


#: Place of each flag (its name in argparse) in a scenario.
_PLACES: dict[str, tuple[str, ...]] = {
    'rate': ('rate',), 'motion': ('motion',), 'seed': ('seed',), 'duration': ('duration',),
    'velocities': ('velocities',), 'stamp_in_pose': ('stamp_in_pose',),
    'host': ('server', 'host'), 'port': ('server', 'port'),
    'connect_back_anywhere': ('server', 'connect_back_anywhere'),
    'protocol': ('protocol',), 'natnet_port': ('natnet', 'port'),
    'natnet_version': ('natnet', 'version'), 'multicast': ('natnet', 'multicast'),
    'noise_mm': ('noise', 'position_mm'), 'noise_deg': ('noise', 'attitude_deg'),
    'delay_ms': ('network', 'delay_ms'), 'jitter_ms': ('network', 'jitter_ms'),
    'loss': ('network', 'loss'),
    'skew_ppm': ('clock', 'skew_ppm'), 'stamps': ('clock', 'base'),
    'stamp_start': ('clock', 'start'),
}


def scenario_from_arguments(arguments: argparse.Namespace) -> Scenario:
    """
    Create the scenario that a command line describes.

    :raises ConfigurationError: if a value of it or of its file is not allowed.
    """
    data: dict[str, Any] = {}
    where = ''
    if arguments.scenario is not None:
        path = find_config(arguments.scenario, 'scenarios/*.yaml')
        where = f'{path}: '
        data = read_mapping(path)
        scenario_from_mapping(data, where)  # errors of the file, without flags
    for flag, (*parents, key) in _PLACES.items():
        value = getattr(arguments, flag)
        if value is None:
            continue
        target = data
        for parent in parents:
            target[parent] = dict(target.get(parent) or {})
            target = target[parent]
        target[key] = value
    if arguments.names is not None:
        data['bodies'] = arguments.names
    elif arguments.bodies is not None or not data.get('bodies'):
        data['bodies'] = 3 if arguments.bodies is None else arguments.bodies
    data['bodies'] = plain_bodies(data['bodies'], '--bodies')
    if arguments.occlude:
        _occlude(data, arguments.occlude)
    try:
        return scenario_from_mapping(data)
    except ConfigurationError as error:
        raise ConfigurationError(f'{where}with the flags given: {error}') from None


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


@ends_with_output
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0 after Ctrl-C, SIGTERM or ``--duration``; 1 for an error, 64 if the command line
        or the scenario is wrong.
    """
    end_with_parent()
    parser = make_parser()
    arguments = parser.parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    logging.basicConfig(
        level=arguments.log_level.upper(), format='[motive_sim] %(levelname)s %(message)s')
    try:
        scenario = scenario_from_arguments(arguments)
        with SignalPipe(ENDING) as signals, MotiveSimServer(scenario) as server:
            _announce(server)
            while not server.finished.is_set() and not signals.wait(_LOOK_S):
                pass
    except OptitrackVrpnError as error:
        print(f'motive_sim: {error}', file=sys.stderr)
        return exit_code(error)
    return 1 if server.failure is not None else 0


def _announce(server: MotiveSimServer) -> None:
    scenario = server.scenario
    reach = ('only this computer can connect; --host 0.0.0.0 admits others'
             if server.host.startswith('127.') else 'any host that reaches it can connect')
    names = [body.name for body in scenario.bodies]
    shown = ', '.join(map(repr, names[:5])) + (', ...' if len(names) > 5 else '')
    count = f'{len(names)} {"body" if len(names) == 1 else "bodies"}'
    where = []
    if scenario.protocol != 'natnet':
        where.append(f'listening on {server.host}:{server.port}')
    if scenario.protocol != 'vrpn':
        where.append(f'NatNet {scenario.natnet.version} on {server.host}:{server.natnet_port}'
                     + (f', frames to {scenario.natnet.group}:{scenario.natnet.data_port}'
                        if scenario.natnet.multicast else ''))
    listed = f': {shown}' if names else ''
    print('\n'.join(where) + '\n'
          f'{count} at {scenario.rate:g} Hz{listed}; {reach}', flush=True)


if __name__ == '__main__':
    sys.exit(main())
