# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Serve a raw recording as a server: ``replay FILE``."""

from collections.abc import Sequence
from pathlib import Path
import sys
import time
from typing import Optional

from optitrack_vrpn.cli.arguments import duration, Parser, whole
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.natnet.messages import COMMAND_PORT
from optitrack_vrpn.takes.bag_read_io import find_file
from optitrack_vrpn.takes.record.raw_events import of_one_protocol
from optitrack_vrpn.takes.record.raw_read_io import is_raw, load_raw
from optitrack_vrpn.takes.record.replay_io import ReplayConfig, ReplayServer
from optitrack_vrpn.takes.record.replay_natnet_io import NatNetReplay

#: Usual ports by protocol.
_PORTS = {'vrpn': 3883, 'natnet': COMMAND_PORT}


def make_parser() -> Parser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='replay', description='Serve a raw recording (record --raw) as a server of its '
        'protocol, VRPN or NatNet, with the recorded times, for node, doctor and other clients.',
        epilog='Every client gets its own playback, from the beginning. See '
        'docs/recording.md.')
    parser.add_argument('recording', type=Path, help='a raw recording, FILE.mcap')
    parser.add_argument('--protocol', choices=tuple(_PORTS), help='what to serve, if both were '
                        'recorded; by default what was recorded longer')
    parser.add_argument('--rate', type=float, default=1.0, metavar='N',
                        help="speed; the sender's times are scaled too (default 1)")
    parser.add_argument('--start', type=float, default=0.0, metavar='S',
                        help='begin this many seconds into each conversation')
    parser.add_argument('--end', type=duration, default=None, metavar='S', help='end there')
    parser.add_argument('--loop', action='store_true',
                        help='start again at the end, like a restarted Motive')
    parser.add_argument('--host', default='127.0.0.1', help='local address (default %(default)s)')
    parser.add_argument('--port', type=whole(0, 65535), default=None,
                        help='default 3883, with NatNet 1510; 0: any free port')
    return parser


@command('replay')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool until the end of the recording or the interruption.

    :param argv: arguments, those of the process by default.
    :returns: 0, or see ``exit_code``.
    """
    arguments, _ = make_parser().parse(argv)
    path = find_file(arguments.recording, '.mcap')
    if not is_raw(path):
        raise ConfigurationError(
            f'{path}: is not a raw recording (record --raw); ros2 bag play plays a recording of '
            'topics')
    recording = load_raw(path)
    sessions = [session for session in recording.sessions
                if arguments.protocol in (None, session.protocol)]
    if not sessions:
        raise ConfigurationError(
            f'{path}: contains no {arguments.protocol}, only {recording.sessions[0].protocol}: '
            'leave out --protocol')
    sessions = of_one_protocol(sessions)
    for text in (recording.cut, *(f'{reason}' for reason, _ in recording.damaged),
                 *(session.cut for session in sessions)):
        if text:
            print(f'replay: {arguments.recording}: {text}', file=sys.stderr)
    protocol = sessions[0].protocol
    config = ReplayConfig(
        arguments.rate, arguments.start, arguments.end, arguments.loop, arguments.host,
        _PORTS[protocol] if arguments.port is None else arguments.port)
    longest_s = max(session.end_ns - session.begin_ns for session in sessions) / 1e9
    if arguments.start > longest_s:
        raise ConfigurationError(
            f'{arguments.recording}: nothing is after --start {arguments.start:g}; the longest '
            f'conversation has {longest_s:.1f} s')
    serve = NatNetReplay if protocol == 'natnet' else ReplayServer
    with serve(sessions, config) as server:
        total_s = sum(s.end_ns - s.begin_ns for s in sessions) / 1e9
        print(f'{counted(len(sessions), "conversation")}, {total_s:.1f} s; serving '
              f'{protocol} on {config.host} port {server.port}', flush=True)
        while not server.finished.wait(0.2):
            pass
        print(f'played; latest action {server.late_ns / 1e6:.1f} ms late', flush=True)
        # Clients read the rest before the connection closes.
        time.sleep(0.5)
    return 0
