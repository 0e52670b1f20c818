# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node."""

import sys

from optitrack_vrpn.errors import ConfigurationError


def main() -> int:
    """
    Run the lifecycle node until it is told to end; ``--ros-args`` as for any node.

    :returns: exit code.
    """
    from optitrack_vrpn.ros.node import OptitrackVrpnNode
    from optitrack_vrpn.ros.run import run
    try:
        return run(OptitrackVrpnNode, sys.argv)
    except ConfigurationError as error:
        print(f'optitrack_vrpn_node: {error}', file=sys.stderr)
        return 2
