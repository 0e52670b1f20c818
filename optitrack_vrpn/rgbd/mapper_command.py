# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node rgbd_mapper."""

import sys
from typing import Sequence

from optitrack_vrpn.cli.arguments import exit_code, Parser, without_ros_arguments
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.errors import OptitrackVrpnError


def check(argv: Sequence[str]) -> None:
    """
    Give help, or refuse arguments that the node would not notice.

    :raises SystemExit: in both cases.
    """
    Parser(
        prog='rgbd_mapper', usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description='Map a place with a colour and depth camera and odometry.',
        epilog='Everything is a ROS parameter, as in: rgbd_mapper --ros-args '
        '-p odometry:=vo -p autostart:=true; see docs/rgbd.md.',
    ).parse_args(without_ros_arguments(argv))


def main() -> int:
    """
    Run the lifecycle node until it ends.

    :returns: exit code.
    """
    check(sys.argv[1:])
    try:
        with loading('rgbd_mapper', 0):
            from optitrack_vrpn.rgbd.mapper_ros import RgbdMapper
            from optitrack_vrpn.ros.run import run
        return run(RgbdMapper, sys.argv)
    except OptitrackVrpnError as error:
        print(f'rgbd_mapper: {error}', file=sys.stderr)
        return exit_code(error)
