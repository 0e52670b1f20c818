# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node gantry_controller."""

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
        prog='gantry_controller', usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description='Control a machine of several axes in closed loop on motion capture.',
        epilog='Everything is a ROS parameter, as in: gantry_controller --ros-args '
        '-p machine:=gantry_orion -p driver:=udp -p autostart:=true; see docs/gantry.md.',
    ).parse_args(without_ros_arguments(argv))


def main() -> int:
    """
    Run the lifecycle node until it ends.

    :returns: exit code.
    """
    check(sys.argv[1:])
    try:
        with loading('gantry_controller', 0):
            from optitrack_vrpn.gantry.controller_ros import GantryController
            from optitrack_vrpn.ros.run import run
        return run(GantryController, sys.argv)
    except OptitrackVrpnError as error:
        print(f'gantry_controller: {error}', file=sys.stderr)
        return exit_code(error)
