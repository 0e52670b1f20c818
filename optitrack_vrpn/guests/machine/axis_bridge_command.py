# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node axis_bridge, or teach one axis."""

import argparse
import sys
import time
from typing import Optional, Sequence

from optitrack_vrpn.cli.arguments import Parser, seconds
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.core.axes import MOTIVE_X
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.axes_settings import ANGLE_UNITS, FRAMES, LENGTH_UNITS
from optitrack_vrpn.node.base.node_command import run_node


def make_parser() -> Parser:
    """Create the parser of the arguments that are not for ROS."""
    parser = Parser(
        prog='axis_bridge', allow_abbrev=False,
        description='Stream the axes of a machine from the poses of tracked bodies.',
        epilog='The node is set by ROS parameters, as in: axis_bridge --ros-args '
        '-p table:=axes_orion -p udp_host:=10.0.0.5 -p autostart:=true; see docs/axes.md.')
    add = parser.add_argument
    add('--teach', metavar='AXIS', help='determine which quantity of which body corresponds to an '
        'axis: move only that axis when asked')
    add('--distance', type=float, metavar='D',
        help='signed distance by which the machine reports to have moved; sets the scale')
    add('--unit', choices=(*LENGTH_UNITS, *ANGLE_UNITS), default='',
        help='unit of the axis (default m or deg)')
    add('--frame', choices=FRAMES, default='motive', help='frame of the quantity')
    add('--motive-x', choices=MOTIVE_X, default='north', help='as in the main node')
    add('--topic', default='{body}/pose', help='topics of the poses (default {body}/pose)')
    add('--body', action='append', metavar='NAME', help='use only this body (may be repeated)')
    add('--seconds', type=seconds, metavar='S',
        help='duration of each phase, instead of waiting for the Enter key')
    add('--write', metavar='FILE', help='write the row into this table')
    return parser


@command('axis_bridge')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool; return 1 if the movement corresponds to no axis."""
    parser = make_parser()
    arguments, for_ros = parser.parse(argv)
    if arguments.teach is None:
        for name in ('distance', 'write', 'seconds', 'body'):
            if getattr(arguments, name) is not None:
                parser.error(f'--{name} needs --teach')
        return run_node(
            'axis_bridge', 'optitrack_vrpn.guests.machine.axis_bridge_ros:AxisBridge',
            [sys.argv[0], *for_ros])
    if '{body}' not in arguments.topic or arguments.topic.endswith('{body}'):
        parser.error("--topic must contain '{body}' and something after it")
    try:
        return teach(arguments, for_ros)
    except EOFError:
        raise KeyboardInterrupt from None


def _wait(arguments: argparse.Namespace, text: str) -> None:
    """Wait until the user presses Enter, or for the given time."""
    if arguments.seconds is None:
        input(f'{text}; then press Enter ')
    else:
        print(f'{text} ({arguments.seconds:g} s)', flush=True)
        time.sleep(arguments.seconds)


def teach(arguments: argparse.Namespace, for_ros: Sequence[str]) -> int:
    """Record a movement and report the resulting row."""
    with loading('axis_bridge'):
        from optitrack_vrpn.guests.machine.axis_bridge_ros import TeachRecorder
    from optitrack_vrpn.core.names import ros_name
    from optitrack_vrpn.guests.machine.axes_teach import identify_axis, report
    from optitrack_vrpn.guests.machine.axis_bridge_io import row_mapping, write_row
    import yaml
    wanted = {ros_name(name): name for name in arguments.body or ()}
    with TeachRecorder(arguments.topic, for_ros) as recorder:
        print(f'bodies: {", ".join(recorder.find_bodies(5.0))}', flush=True)
        recorder.record('still')
        _wait(arguments, 'let the machine stand still')
        recorder.record('moved')
        way = 'in its positive direction' if arguments.distance is None else (
            f'by {arguments.distance:g} {arguments.unit}'.rstrip())
        _wait(arguments, f'move axis {arguments.teach} alone, {way}, and stop')
        recorder.record(None)
        found = {wanted.get(body, body): recording
                 for body, recording in recorder.recordings().items()
                 if not wanted or body in wanted}
    try:
        result = identify_axis(
            arguments.teach, found, distance=arguments.distance, unit=arguments.unit,
            frame=arguments.frame, motive_x=arguments.motive_x)
    except ConfigurationError as error:    # the movement is wrong, not the command line
        print(f'axis_bridge: {error}', file=sys.stderr)
        return 1
    print(report(result))
    print(yaml.safe_dump([row_mapping(result.row)], default_flow_style=None, sort_keys=False,
                         width=1000, allow_unicode=True), end='')
    if arguments.write:
        write_row(arguments.write, result.row)
        print(f'written to {arguments.write}')
    return 0
