# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A thread that does something small again and again."""

import threading
from typing import Callable


class Ticker:
    """
    Call a function at a steady pace from a thread of its own.

    A timer of the node would do, but before each wait rclpy's executors go through all entities
    of a node, every publisher's events among them: ten times a second that takes more of the
    processor than the poses of several bodies, and Python's lock from them.

    :param period_s: time between two calls (s).
    :param call: must not raise.
    """

    def __init__(self, period_s: float, call: Callable[[], None]) -> None:
        self._period_s = period_s
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='ticker', daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            self._call()

    def stop(self) -> None:
        """End the thread; when this returns, nothing is called any more."""
        self._ended.set()
        self._thread.join()
