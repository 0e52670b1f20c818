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
        self._woken = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name='ticker', daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._woken.wait(self._period_s)
            self._woken.clear()
            if self._ended:
                return
            self._call()

    def wake(self) -> None:
        """Let the next call come at once; returns before that."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread; when this returns, nothing is called any more."""
        self._ended = True
        self._woken.set()
        self._thread.join()
