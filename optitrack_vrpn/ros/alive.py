# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check whether ROS is running, for threads that must not wait for rclpy's lock."""

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


def ros_is_up(node: Node) -> bool:
    """
    Return whether a node's context is valid, without acquiring rclpy's lock.

    ``Context.ok()`` acquires it. From Kilted on, ``rclpy.shutdown()`` destroys nodes while it
    holds that lock: a node that joins a thread which calls ``ok()`` would deadlock.
    """
    handle = node.context.handle
    if handle is None:
        return False
    try:
        with handle:
            return bool(handle.ok())
    except InvalidHandle:    # the context has been destroyed
        return False
