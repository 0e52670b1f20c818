# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run a simulated Motive and a simulated colour and depth camera on its first body.

It accepts every option of motive_sim; ROS parameters configure the camera.
"""

import argparse
import logging
import sys
from typing import Optional, Sequence

from optitrack_vrpn.cli.arguments import split_ros_args
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.fast_dds_io import use_profile
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.sim.command import make_parser as motive_parser, scenario_from_arguments

#: Default name of the body in Motive.
BODY = 'Camera'


def make_parser() -> argparse.ArgumentParser:
    """Make the parser: that of motive_sim."""
    parser = motive_parser()
    parser.prog = 'rgbd_sim'
    parser.description = (
        'A simulated Motive, and a simulated colour and depth camera on its first body, in a '
        'textured room.')
    parser.epilog = (
        'ROS parameters configure the camera, as in: rgbd_sim --port 0 --ros-args -p '
        'trajectory:=hand_held -p camera.rate_hz:=15.0; see docs/rgbd.md. The first body moves '
        f'along the parameter trajectory; its name is {BODY!r} by default.')
    return parser


@command('rgbd_sim', 0)
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool until it is interrupted.

    :param argv: arguments, those of the process by default.
    :returns: exit code.
    """
    end_with_parent()
    own, for_ros = split_ros_args(sys.argv[1:] if argv is None else argv)
    arguments = make_parser().parse_args(own)
    logging.basicConfig(
        level=arguments.log_level.upper(), format='[rgbd_sim] %(levelname)s %(message)s')
    if arguments.names is None and arguments.bodies is None and arguments.scenario is None:
        arguments.names = [BODY]
    scenario = scenario_from_arguments(arguments)
    use_profile()
    with loading('rgbd_sim', 0):
        from optitrack_vrpn.rgbd.sim_ros import RgbdSim
        from optitrack_vrpn.ros.run import run

    def make() -> RgbdSim:
        node = RgbdSim(scenario)
        print(f'listening on {node.server.host}:{node.server.port}: '
              f'{scenario.bodies[0].name!r} carries the camera', flush=True)
        return node

    return run(make, [sys.argv[0], *for_ros])
