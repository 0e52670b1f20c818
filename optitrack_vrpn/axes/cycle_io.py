# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A thread that calls a function at a fixed rate, on deadlines that do not drift."""

import threading
import time
from typing import Callable

from optitrack_vrpn.axes.cycle import Cycle
from optitrack_vrpn.client.scheduling_io import use_default_scheduling


def running_ns() -> int:
    """Return a monotonic clock (ns) that continues while the computer sleeps, unlike Python's."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class CycleThread:
    """
    Call a function at every deadline.

    A timer of the node would wait for other callbacks of its executor. The time in which the
    computer sleeps counts as missed cycles.

    :param period_s: time between two deadlines (s).
    :param call: receives the number of periods since the previous call; must not raise.
    :ivar cycle: late and skipped cycles, jitter.
    """

    def __init__(self, period_s: float, call: Callable[[int], None], name: str = 'cycle') -> None:
        self.cycle = Cycle(round(period_s * 1e9))
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        use_default_scheduling()
        cycle = self.cycle
        while True:
            now_ns = running_ns()
            wait_s = (cycle.due_ns(now_ns) - now_ns) * 1e-9
            if wait_s > 0.0:
                if self._ended.wait(wait_s):
                    return
            elif self._ended.is_set():
                return
            self._call(cycle.begin(running_ns()))

    def stop(self) -> None:
        """Stop the thread; after the return the function is not called any more."""
        self._ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
