# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node."""

from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.node.base.node_command import run_node_by_parameters


def main() -> int:
    """
    Run the lifecycle node until a signal ends it; ``--ros-args`` as for any node.

    :returns: exit code.
    """
    end_with_parent()
    return run_node_by_parameters(
        'optitrack_vrpn_node', 'optitrack_vrpn.node.node:OptitrackVrpnNode',
        'Run the lifecycle node: motion capture in, PoseStamped and TF out.',
        '-p server:=10.0.0.1', 'parameters.md')
