# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run Fast DDS's Discovery Server: ``discovery_server``; see docs/swarm.md."""

import argparse
from collections.abc import Sequence
import ipaddress
import os
from typing import Optional

from optitrack_vrpn.cli.arguments import Parser, whole
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.discovery.instructions import for_robots, PORT, super_client_profile
from optitrack_vrpn.cli.discovery.server_io import cards, ready


def server(text: str) -> tuple[str, int]:
    """Parse ``ADDRESS`` or ``ADDRESS:PORT``."""
    address, _, port = text.partition(':')
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not an IPv4 address') from None
    return address, whole(1, 65535)(port) if port else PORT


def make_parser() -> Parser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='discovery_server', description="Start Fast DDS's Discovery Server, through which "
        'programs find each other without multicast, and print what each robot sets. Ctrl-C ends '
        'it.', epilog='See docs/swarm.md.')
    parser.add_argument('--port', type=whole(1, 65535), default=PORT,
                        help='UDP port (default %(default)s)')
    parser.add_argument('--xml', type=server, metavar='ADDRESS[:PORT]', help=(
        'only print a profile of Fast DDS for tools that use the server at this address'))
    return parser


@command('discovery_server')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool: it becomes the server, which ends by the signals of the terminal."""
    arguments, _ = make_parser().parse(argv)
    if arguments.xml:
        print(super_client_profile(*arguments.xml), end='')
        return 0
    words, environment = ready(arguments.port)
    print('\n'.join(for_robots([*cards().values()], arguments.port)), flush=True)
    os.execve(words[0], words, environment)
