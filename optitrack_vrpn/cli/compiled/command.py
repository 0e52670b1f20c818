# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compile the path of a pose, or report how it runs."""

import sys

from optitrack_vrpn.cli.arguments import Parser
from optitrack_vrpn.cli.compiled.build_io import build, is_current
from optitrack_vrpn.cli.compiled.importer_io import build_folder, MODE
from optitrack_vrpn.core.errors import BackendUnavailableError


def main() -> int:
    """Compile for this Python."""
    parser = Parser(
        prog='compile', description='Compile the path of a pose with mypyc, for this Python and '
        'these sources. Needs mypy, a C compiler and the headers of Python.',
        epilog='OPTITRACK_VRPN_COMPILE=0 switches compiled modules off.')
    parser.add_argument(
        '--if-possible', action='store_true',
        help='exit with 0 where it cannot be compiled: the same files run as Python')
    parser.add_argument('--check', action='store_true', help='only report how it runs now')
    arguments = parser.parse_args()
    if arguments.check:
        print(MODE.text)
        return 0 if MODE.compiled else 1
    place = build_folder()
    try:
        if is_current(place):
            return 0
        print('compiling the path of a pose ...', file=sys.stderr, flush=True)
        print(f'compiled: {build(place)}', file=sys.stderr)
    except BackendUnavailableError as error:
        print(f'{error}; the node runs as plain Python', file=sys.stderr)
        return 0 if arguments.if_possible else 1
    return 0
