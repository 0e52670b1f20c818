# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Serve a raw recording as a VRPN server: ``replay FILE``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys
import time
from typing import Optional

from optitrack_vrpn.cli.arguments import duration, Parser, whole, without_ros_arguments
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.takes.bag_read_io import find_file
from optitrack_vrpn.takes.record.capture_io import load_sessions
from optitrack_vrpn.takes.record.replay_io import ReplayConfig, ReplayServer

_PORT = 3883


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='replay', description='Serve a raw recording, or any pcap of VRPN made with tcpdump, '
        'as a VRPN server with the recorded times, for node, doctor and any other client.',
        epilog='Every client gets its own playback, from the beginning. See '
        'docs/recording.md.')
    parser.add_argument('recording', type=Path, help='a .pcap, or a folder with one')
    parser.add_argument('--rate', type=float, default=1.0, metavar='N',
                        help="speed; the sender's times are scaled too (default 1)")
    parser.add_argument('--start', type=float, default=0.0, metavar='S',
                        help='begin this many seconds into each conversation')
    parser.add_argument('--end', type=duration, default=None, metavar='S', help='end there')
    parser.add_argument('--loop', action='store_true',
                        help='start again at the end, like a restarted Motive')
    parser.add_argument('--host', default='127.0.0.1', help='local address (default %(default)s)')
    parser.add_argument('--port', type=whole(0, 65535), default=_PORT,
                        help='default %(default)s; 0: any free port')
    return parser


@command('replay')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool until the end of the recording or the interruption.

    :param argv: arguments, those of the process by default.
    :returns: 0, or see ``exit_code``.
    """
    arguments = make_parser().parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    sessions = load_sessions(find_file(arguments.recording, '.pcap'))
    for session in sessions:
        if session.cut:
            print(f'replay: {arguments.recording}: {session.cut}', file=sys.stderr)
    config = ReplayConfig(
        arguments.rate, arguments.start, arguments.end, arguments.loop, arguments.host,
        arguments.port)
    longest_s = max(session.end_ns - session.begin_ns for session in sessions) / 1e9
    if arguments.start > longest_s:
        raise ConfigurationError(
            f'{arguments.recording}: nothing is after --start {arguments.start:g}; the longest '
            f'conversation has {longest_s:.1f} s')
    with ReplayServer(sessions, config) as server:
        total_s = sum(s.end_ns - s.begin_ns for s in sessions) / 1e9
        print(f'{counted(len(sessions), "conversation")}, {total_s:.1f} s; serving on '
              f'{config.host} port {server.port}', flush=True)
        while not server.finished.wait(0.2):
            pass
        print(f'played; latest action {server.late_ns / 1e6:.1f} ms late', flush=True)
        # Clients read the rest before the connection closes.
        time.sleep(0.5)
    return 0
