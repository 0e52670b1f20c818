# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Whether ROS is still there, for threads that may not wait for it."""

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


def ros_is_up(node: Node) -> bool:
    """
    Tell whether a node's context has not been shut down, without taking rclpy's lock.

    ``Context.ok()`` takes it. From Kilted on, ``rclpy.shutdown()`` destroys nodes while it holds
    that lock: a node whose end waits for a thread that asks would wait for ever.
    """
    handle = node.context.handle
    if handle is None:
        return False
    try:
        with handle:
            return bool(handle.ok())
    except InvalidHandle:    # destroyed by now
        return False
