# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node."""

import argparse
import sys
from typing import Sequence

from optitrack_vrpn.cli.arguments import Parser, without_ros_arguments
from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.core.settings.parameters import parameters_of
from optitrack_vrpn.node.base.node_command import run_node


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments that are not for ROS: help and version."""
    return Parser(
        prog='optitrack_vrpn_node', usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description='Run the lifecycle node: motion capture in, PoseStamped and TF out.',
        epilog='All settings are ROS parameters, as in: optitrack_vrpn_node --ros-args '
        '-p server:=10.0.0.1 -p autostart:=true, or --ros-args --params-file FILE. The tool '
        '"parameters" prints such a file with every parameter, its default and its meaning.')


def for_ros(given: Sequence[str]) -> str:
    """Return the ROS form of arguments that were probably meant for ROS, as a hint."""
    from optitrack_vrpn.node.settings import NodeSettings
    known = {parameter.name for parameter in parameters_of(NodeSettings)}
    found = []
    for argument, following in zip(given, [*given[1:], '']):
        name, sign, value = argument.lstrip('-').partition('=')
        name = name.rstrip(':')
        if name in known:
            found.append(f'-p {name}:={value if sign else following or "..."}')
        elif ':=' in argument:
            found.append(f'-r {argument}')
    return ' '.join(['--ros-args', *(found or ['-p server:=10.0.0.1'])])


def check(argv: Sequence[str]) -> None:
    """
    Print help, or refuse arguments that the node would ignore.

    :param argv: the command line without the program's name.
    :raises SystemExit: in both cases.
    """
    parser = make_parser()
    _, unknown = parser.parse_known_args(without_ros_arguments(argv))
    if unknown:
        parser.error(f'there is no argument {" ".join(unknown)}; parameters are given as '
                     f'in: {parser.prog} {for_ros(unknown)}')


def main() -> int:
    """
    Run the lifecycle node until a signal ends it; ``--ros-args`` as for any node.

    :returns: exit code.
    """
    end_with_parent()
    check(sys.argv[1:])
    return run_node(
        'optitrack_vrpn_node', 'optitrack_vrpn.node.node:OptitrackVrpnNode', sys.argv)
