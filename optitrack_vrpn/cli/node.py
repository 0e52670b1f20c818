# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node."""

import sys
from typing import Optional, Sequence


def main(args: Optional[Sequence[str]] = None) -> int:
    """
    Run the lifecycle node until it is told to end.

    :param args: command line without the program's name; ``--ros-args`` as for any node.
    :returns: exit code.
    """
    import rclpy
    from optitrack_vrpn.ros.node import OptitrackVrpnNode
    from rclpy.executors import ExternalShutdownException

    rclpy.init(args=[sys.argv[0], *(sys.argv[1:] if args is None else args)])
    node = None
    try:
        node = OptitrackVrpnNode()
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    return 0
