# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node rgbd_odometry."""

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
        prog='rgbd_odometry', usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description='Follow a colour and depth camera by its images.',
        epilog='Everything is a ROS parameter, as in: rgbd_odometry --ros-args '
        '-p input.colour:=camera/color/image_raw -p autostart:=true; see docs/rgbd_odometry.md.',
    ).parse_args(without_ros_arguments(argv))


def main() -> int:
    """
    Run the lifecycle node until it ends.

    :returns: exit code.
    """
    check(sys.argv[1:])
    try:
        with loading('rgbd_odometry', 0):
            from optitrack_vrpn.rgbd.odometry_ros import RgbdOdometry
            from optitrack_vrpn.ros.run import run
        return run(RgbdOdometry, sys.argv)
    except OptitrackVrpnError as error:
        print(f'rgbd_odometry: {error}', file=sys.stderr)
        return exit_code(error)
