# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rate-limited log of a node."""

import threading
from typing import Hashable

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.ros.alive import ros_is_up
from optitrack_vrpn.throttle import Throttle
from rclpy.node import Node

#: Chosen: shortest time between two lines with the same key (s). Halved or doubled, a persistent
#: fault writes twice or half as many lines.
_PERIOD_S = 5.0


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
        :param key: key of the line; after 5 s it is logged again, with the number suppressed.
        """
        if not ros_is_up(self._node):
            return
        with self._lock:
            left_out = self._throttle.allow(key, HostClock.now_ns())
        if left_out is None:
            return
        if left_out:
            text = f'{text} ({left_out} similar lines suppressed)'
        logger = self._node.get_logger()
        # One source line per severity: rclpy raises if a line logs at several severities.
        if severity == 'error':
            logger.error(text)
        elif severity == 'warn':
            logger.warning(text)
        else:
            logger.info(text)
