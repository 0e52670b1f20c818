# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the bridge, or check a vehicle before the take-off (``--check``)."""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from optitrack_vrpn.cli.arguments import Parser, seconds, split_ros_args
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.core.checks import CheckResult, exit_code
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.node.base.node_command import run_node

TOOL = 'mavlink_bridge'


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the arguments that are not for ROS."""
    parser = Parser(
        prog=TOOL, description='Send the poses of one body to a PX4 or ArduPilot vehicle.',
        epilog='All settings are ROS parameters, as in: mavlink_bridge --ros-args '
        '-p body:=cf1 -p autopilot:=px4 -p connection:=udpin:0.0.0.0:14540 -p autostart:=true. '
        'Exit code of --check: 0 without problems, 1 with warnings, 2 with failures, 64 for a '
        'wrong command line or parameter.')
    parser.add_argument(
        '--check', action='store_true', help='report link, autopilot, clocks, parameters, '
        'estimator and attitude, and exit; uses a running bridge of the same name, or else '
        'opens the link')
    parser.add_argument(
        '--send', action='store_true', help='with --check: send poses meanwhile, as the bridge '
        'does, so that the estimator can fuse them; never to an armed vehicle')
    parser.add_argument(
        '--seconds', type=seconds, default=8.0, metavar='S',
        help='duration of --check (default %(default)g)')
    return parser


def lines(findings: Sequence[CheckResult]) -> list[str]:
    """Format findings for a terminal."""
    found = []
    for one in findings:
        found.append(f'{one.word:5} {one.check:11} {one.found}')
        if one.advice and one.severity in (WARN, ERROR):
            found.append(f'{"":18}-> {one.advice}')
    return found


def check(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    """Check the vehicle; return the exit code."""
    with loading(TOOL):
        from optitrack_vrpn.guests.autopilot.check_ros import examine
    findings = examine(argv, arguments.seconds, arguments.send)
    print('\n'.join(lines(findings)))
    return exit_code(findings)


@command(TOOL)
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the bridge or the check; return the exit code."""
    given = list(sys.argv if argv is None else argv)
    own, ros_args = split_ros_args(given[1:])
    arguments = make_parser().parse_args(own)
    whole = [given[0], *ros_args]
    if arguments.check:
        return check(arguments, whole)
    return run_node(TOOL, 'optitrack_vrpn.guests.autopilot.bridge_ros:MavlinkBridge', whole)
