# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a node in its own process, from the first argument to a clean end."""

from typing import Callable, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node


def run(make_node: Callable[[], Node], argv: Sequence[str]) -> int:
    """
    Spin one node until somebody ends it.

    :param make_node: called once ROS is up.
    :param argv: the whole command line, program name first.
    :returns: exit code; an interrupt is a normal end.
    """
    rclpy.init(args=list(argv))
    node = None
    try:
        node = make_node()
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    return 0
