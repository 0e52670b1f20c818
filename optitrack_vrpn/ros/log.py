# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A node's log, kept readable."""

import threading
from typing import Hashable

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.ros.alive import ros_is_up
from optitrack_vrpn.throttle import Throttle
from rclpy.node import Node

_PERIOD_S = 5.0


class ThrottledLog:
    """
    Log one line unless the same was said a moment ago, or ROS is gone; from any thread.

    :param node: whose log.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._throttle = Throttle(_PERIOD_S)
        self._lock = threading.Lock()

    def __call__(self, severity: str, text: str, key: Hashable) -> None:
        """
        Say something.

        :param severity: 'info', 'warn' or 'error'.
        :param key: what it is about: the same is said again after 5 s, with a count.
        """
        if not ros_is_up(self._node):
            return
        with self._lock:
            left_out = self._throttle.allow(key, HostClock.now_ns())
        if left_out is None:
            return
        if left_out:
            text = f'{text} (and {left_out} times more in the last {_PERIOD_S:g} s)'
        logger = self._node.get_logger()
        # A line each: rclpy raises where one line logs at several severities.
        if severity == 'error':
            logger.error(text)
        elif severity == 'warn':
            logger.warning(text)
        else:
            logger.info(text)
