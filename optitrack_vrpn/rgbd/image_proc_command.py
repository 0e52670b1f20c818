# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node rgbd_image_proc."""

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
        prog='rgbd_image_proc', usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description='Rectify colour and depth images, and register the depth to the colour.',
        epilog='Everything is a ROS parameter, as in: rgbd_image_proc --ros-args '
        '-p extrinsics_file:=extr.yml -p autostart:=true; see docs/rgbd_odometry.md.',
    ).parse_args(without_ros_arguments(argv))


def main() -> int:
    """
    Run the lifecycle node until it ends.

    :returns: exit code.
    """
    check(sys.argv[1:])
    try:
        with loading('rgbd_image_proc', 0):
            from optitrack_vrpn.rgbd.image_proc_ros import RgbdImageProc
            from optitrack_vrpn.ros.run import run
        return run(RgbdImageProc, sys.argv)
    except OptitrackVrpnError as error:
        print(f'rgbd_image_proc: {error}', file=sys.stderr)
        return exit_code(error)
