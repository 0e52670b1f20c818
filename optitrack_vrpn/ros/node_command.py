# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Commands that run one node: check the arguments, import the node, spin until a signal."""

import gc
import importlib
import sys
from typing import Sequence

from optitrack_vrpn.cli import command, loading, Parser, without_ros_arguments
from optitrack_vrpn.ros.type_support import leave_generator_out


def run_node(tool: str, node: str, argv: Sequence[str]) -> int:
    """
    Import the class of a node and spin one, with errors in one line.

    :param tool: name of the command.
    :param node: the class, as ``module:class``; it is created without arguments.
    :param argv: the command line for ROS, with the program's name first.
    :returns: exit code.
    """
    @command(tool, interrupted=0)
    def main() -> int:
        with loading(tool, 0):
            leave_generator_out()
            module, name = node.split(':')
            make_node = getattr(importlib.import_module(module), name)
            from optitrack_vrpn.ros.process import run
        return run(make_node, argv)

    # Each collection visits all objects that the imports have created and frees nothing: a ninth
    # of the processor time of the imports (measured). ``run`` enables them again.
    gc.disable()
    try:
        return main()
    finally:
        gc.enable()


def run_node_by_parameters(
    tool: str, node: str, description: str, parameters: str, page: str,
) -> int:
    """
    Run a command whose only arguments are those of ROS, beside help and version.

    :param tool: name of the command.
    :param node: as for ``run_node``.
    :param description: one sentence of the help text.
    :param parameters: an example of its parameters, as ``-p name:=value``.
    :param page: the page about it in docs/.
    :returns: exit code.
    :raises SystemExit: after help, and for arguments that the node would ignore.
    """
    Parser(
        prog=tool, usage='%(prog)s [-h] [--ros-args ...]', allow_abbrev=False,
        description=description,
        epilog=f'All settings are ROS parameters, as in: {tool} --ros-args {parameters} '
        f'-p autostart:=true; see docs/{page}.',
    ).parse_args(without_ros_arguments(sys.argv[1:]))
    return run_node(tool, node, sys.argv)
