# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Destroy publishers on the executor thread, whichever thread retires them."""

from collections import deque
import contextlib
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


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
