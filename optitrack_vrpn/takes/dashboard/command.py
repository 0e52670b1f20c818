# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Serve a live page for the lab: ``dashboard``; see docs/dashboard.md."""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
import secrets
import sys
from typing import Optional, TYPE_CHECKING
from urllib.parse import quote

from optitrack_vrpn.cli.arguments import Parser, whole
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.signals_io import ENDING
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.drivers.sockets_io import local_address
from optitrack_vrpn.takes.dashboard.access import Access, is_loopback, WILDCARDS

if TYPE_CHECKING:
    from optitrack_vrpn.takes.dashboard.server_io import Dashboard

#: Chosen: bytes of randomness in a token that was not given.
_TOKEN_BYTES = 18


def token(text: str) -> str:
    """
    Parse a token.

    :raises argparse.ArgumentTypeError: if it is empty.
    """
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError('a token needs characters; omit it to have one made')
    return text


def make_parser() -> Parser:
    """Make the parser of the command line."""
    parser = Parser(
        prog='dashboard', description='Serve a live page: where the bodies are, what is wrong and '
        'why, START and STOP of mocap control, recording. Ctrl-C ends it.',
        epilog='Arguments for ROS follow --ros-args. See docs/dashboard.md.')
    parser.add_argument('--host', default='127.0.0.1', metavar='ADDRESS', help=(
        'address to listen on (default %(default)s: browsers of this computer only); any other '
        'needs the token; 0.0.0.0 for all'))
    parser.add_argument('--port', type=whole(0, 65535), default=8080,
                        help='TCP port (default %(default)s); 0 for a free one')
    parser.add_argument('--token', type=token, metavar='TEXT',
                        help='secret of those who may open the page; made if --host needs one')
    parser.add_argument('--read-only', action='store_true', help=(
        'admit everybody without START, STOP and recording; with a token, who has it may do all'))
    parser.add_argument('--name', action='append', default=[], metavar='HOST',
                        help='a further name of this computer in browsers; may be repeated')
    parser.add_argument('--takes', type=Path, default=Path('takes'), metavar='FOLDER',
                        help='folder of the recordings (default %(default)s)')
    return parser


def address(access: Access, port: int) -> str:
    """Return the address to open."""
    host = access.host
    if host in WILDCARDS:
        try:    # the address of the route to elsewhere: TEST-NET-1 (RFC 5737), nothing is sent
            host = access.names[0] if access.names else local_address('192.0.2.1', 9, '')
        except TransportError:
            host = '127.0.0.1'
    host = f'[{host}]' if ':' in host else host
    return f'http://{host}:{port}/' + (f'?token={quote(access.token)}' if access.token else '')


def show(url: str) -> None:
    """Print the address, and its QR code for telephones if that is possible and of use."""
    print(f'dashboard: {url}', flush=True)
    if 'token=' not in url or not sys.stdout.isatty():
        return
    try:
        import qrcode
    except ImportError:
        print('dashboard: with python3-qrcode installed, a QR code stands here', flush=True)
        return
    code = qrcode.QRCode(border=2)
    code.add_data(url)
    code.print_ascii(invert=True)
    print('dashboard: http is not encrypted: who can read this network can read the token',
          flush=True)


def print_once() -> Callable[[str], None]:
    """Make a function that prints a problem in one line, each once, and no more than 100."""
    repetition: Repetition[str] = Repetition()

    def complain(text: str) -> None:
        text = printable(text, 200)
        if repetition.state(text, text):
            print(f'dashboard: {text}', file=sys.stderr, flush=True)
    return complain


async def serve(dashboard: 'Dashboard', access: Access, port: int) -> None:
    """
    Serve until a signal.

    :raises TransportError: if the address cannot be used.
    """
    stop = asyncio.Event()
    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        try:
            port = await dashboard.start(access.host, port)
        except OSError as error:
            raise TransportError(f'{access.host} port {port}: {error.strerror or error}; choose '
                                 'another with --host or --port') from None
        show(address(access, port))
        await dashboard.run(stop)
    finally:
        await dashboard.close()


@command('dashboard')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0 after a signal; else see ``exit_code``.
    """
    arguments, ros_arguments = make_parser().parse(argv)
    with loading('dashboard'):
        from optitrack_vrpn.takes.dashboard.server_io import Dashboard
    secret = arguments.token or ''
    if not secret and not is_loopback(arguments.host):
        secret = secrets.token_urlsafe(_TOKEN_BYTES)
    access = Access(arguments.host, tuple(map(str.lower, arguments.name)), secret,
                    arguments.read_only)
    dashboard = Dashboard(access, arguments.takes, ros_arguments, print_once())
    asyncio.run(serve(dashboard, access, arguments.port))
    return 0
