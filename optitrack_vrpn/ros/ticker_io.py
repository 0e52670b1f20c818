# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A thread that calls a function periodically."""

import threading
from typing import Callable


class Ticker:
    """
    Call a function periodically from a separate thread.

    A timer of the node costs more: before each wait rclpy's executors visit all entities of a
    node, including the events of every publisher. At 10 Hz that takes more processor time than
    the poses of several bodies, with Python's interpreter lock held.

    :param period_s: time between two calls (s).
    :param call: the function; it must not raise.
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
        """Trigger the next call immediately; return before the call."""
        self._woken.set()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._ended = True
        self._woken.set()
        self._thread.join()
