# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a node: rate-limited log, polled readers, deferred destruction."""

from collections import deque
import contextlib
import sys
import threading
from typing import Any, Hashable

from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import ERROR, Severity, WARN
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.logging import LoggingSeverity
from rclpy.node import Node

_log_line = rclpy_implementation.rclpy_logging_rcutils_log
_SEVERITIES = {WARN: LoggingSeverity.WARN, ERROR: LoggingSeverity.ERROR}


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
    :ivar repetition: what was logged.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.repetition: Repetition[Any] = Repetition()
        self._lock = threading.Lock()

    def __call__(self, severity: Severity, text: str, key: Hashable) -> None:
        """
        Log a line.

        :param key: key of the line among those of its severity; after 5 s it is logged again,
            with the number suppressed.
        """
        if not ros_is_up(self._node):
            return
        with self._lock:
            left_out = self.repetition.event((severity, key), HostClock.now_ns())
        if left_out is None:
            return
        if left_out:
            text = f'{text} ({counted(left_out, "similar line")} suppressed)'
        self._write(severity, text)

    def state(self, severity: Severity, text: str, key: Hashable) -> None:
        """Log a line if it differs from the last one of its key; '' is no line."""
        with self._lock:
            changed = self.repetition.state(
                key, (severity, text) if text else '', HostClock.now_ns())
        if changed and ros_is_up(self._node):
            self._write(severity, text)

    def _write(self, severity: Severity, text: str) -> None:
        """
        Write a line with the function that rclpy's logger calls in the end.

        The logger itself first searches the calling line in the files of all loaded modules, in
        about 1 ms and 40 ms the first time: poses would wait for it.
        """
        caller = sys._getframe(2)
        _log_line(
            _SEVERITIES.get(severity, LoggingSeverity.INFO), self._node.get_logger().name, text,
            caller.f_code.co_name, caller.f_code.co_filename, caller.f_lineno)


class PolledGroup(CallbackGroup):
    """Subscriptions that no executor reads: their owner takes the messages."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass


class DeferredDestruction:
    """
    Destroy retired publishers on the thread of the node's executor.

    That takes milliseconds each, for which the thread that retires them holds the node's lock.

    :param node: the publishers' node.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: deque[Any] = deque()
        self._guard = node.create_guard_condition(self.run)

    def add(self, publisher: Any) -> None:
        """Retire a publisher, from any thread; return immediately."""
        self._waiting.append(publisher)
        with contextlib.suppress(InvalidHandle):    # the node is being destroyed and will call run
            self._guard.trigger()

    def run(self) -> None:
        """Destroy retired publishers; on the executor thread, or while no executor spins."""
        with contextlib.suppress(IndexError):
            while True:
                self._node.destroy_publisher(self._waiting.popleft())
