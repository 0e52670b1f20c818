# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publishers are destroyed in the executor's thread, whichever thread is done with them."""

from collections import deque
import contextlib
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.node import Node


class Disposal:
    """
    Take publishers that nobody needs, and destroy them where no executor can stumble over them.

    Before each wait rclpy's executor looks at the events of every publisher. One that another
    thread destroys between two of its looks makes ``spin_once`` raise, up to Kilted at least.

    :param node: whose publishers; its executor's thread destroys them.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: deque[Any] = deque()
        self._guard = node.create_guard_condition(self.work_off)

    def add(self, publisher: Any) -> None:
        """Take a publisher that nobody uses any more, from any thread; returns at once."""
        self._waiting.append(publisher)
        with contextlib.suppress(InvalidHandle):    # the node is being destroyed, and works it off
            self._guard.trigger()

    def work_off(self) -> None:
        """Destroy what has been taken; in the executor's thread, or when nothing spins."""
        with contextlib.suppress(IndexError):
            while True:
                self._node.destroy_publisher(self._waiting.popleft())
