# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rate-limited log of a node, while ROS is running."""

import sys
import threading
from typing import Hashable

from optitrack_vrpn.clock import HostClock
from optitrack_vrpn.names import counted
from optitrack_vrpn.throttle import Throttle
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.logging import LoggingSeverity
from rclpy.node import Node

_log_line = rclpy_implementation.rclpy_logging_rcutils_log
_SEVERITIES = {'warn': LoggingSeverity.WARN, 'error': LoggingSeverity.ERROR}

#: Chosen: shortest time between two lines with the same key (s).
_PERIOD_S = 5.0


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


class ThrottledLog:
    """
    Log a line unless its key was logged within 5 s or ROS has shut down; from any thread.

    :param node: node whose logger is used.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._throttle = Throttle(_PERIOD_S)
        self._lock = threading.Lock()

    def __call__(self, severity: str, text: str, key: Hashable) -> None:
        """
        Log a line.

        :param severity: 'info', 'warn' or 'error'.
        :param key: key of the line among those of its severity; after 5 s it is logged again,
            with the number suppressed.
        """
        if not ros_is_up(self._node):
            return
        with self._lock:
            left_out = self._throttle.allow((severity, key), HostClock.now_ns())
        if left_out is None:
            return
        if left_out:
            text = f'{text} ({counted(left_out, "similar line")} suppressed)'
        self._write(severity, text)

    def _write(self, severity: str, text: str) -> None:
        """
        Write a line with the function that rclpy's logger calls in the end.

        The logger itself first searches the calling line in the files of all loaded modules, in
        about 1 ms and 40 ms the first time: poses would wait for it.
        """
        caller = sys._getframe(2)
        _log_line(
            _SEVERITIES.get(severity, LoggingSeverity.INFO), self._node.get_logger().name, text,
            caller.f_code.co_name, caller.f_code.co_filename, caller.f_lineno)
