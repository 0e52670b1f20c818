# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A thread that calls a function at a fixed rate, on deadlines that do not drift."""

import math
import threading
import time
from typing import Callable

from optitrack_vrpn.sources import use_default_scheduling


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


class Cycle:
    """
    Count deadlines from one origin, so that delays do not accumulate.

    A cycle is late if it begins more than half a period after its deadline. Deadlines that have
    passed completely are skipped and counted: cycles never run in a burst.

    :param period_ns: time between two deadlines (ns).
    :ivar cycles: number of cycles begun.
    :ivar late: number of cycles that began late.
    :ivar skipped: number of deadlines without a cycle.
    :ivar worst_ns: largest delay of a cycle (ns).
    """

    def __init__(self, period_ns: int) -> None:
        self.period_ns = period_ns
        self.cycles = 0
        self.late = 0
        self.skipped = 0
        self.worst_ns = 0
        self._sum = 0.0
        self._squares = 0.0
        self._origin_ns: int | None = None
        self._number = 0

    def due_ns(self, now_ns: int) -> int:
        """
        Return the next deadline.

        :param now_ns: present time (ns), on the same clock in all calls; the first sets the
            origin.
        """
        if self._origin_ns is None:
            self._origin_ns = now_ns + self.period_ns
        return self._origin_ns + self._number * self.period_ns

    def begin(self, now_ns: int) -> int:
        """
        Begin the cycle of the next deadline.

        :returns: number of periods since the previous cycle, normally 1.
        """
        delay_ns = max(0, now_ns - self.due_ns(now_ns))
        missed = delay_ns // self.period_ns
        self._number += 1 + missed
        self.cycles += 1
        self.skipped += missed
        self.late += delay_ns > self.period_ns // 2
        self.worst_ns = max(self.worst_ns, delay_ns)
        self._sum += delay_ns
        self._squares += float(delay_ns) * delay_ns
        return 1 + missed

    def figures(self) -> dict[str, object]:
        """Return the counters for a diagnostic."""
        return {'cycles': self.cycles, 'late': self.late, 'skipped': self.skipped,
                'jitter_us': f'{self.jitter_ns / 1e3:.0f}',
                'worst_us': f'{self.worst_ns / 1e3:.0f}'}

    @property
    def jitter_ns(self) -> float:
        """Return the standard deviation of the delay of cycles (ns)."""
        if not self.cycles:
            return 0.0
        mean = self._sum / self.cycles
        return math.sqrt(max(0.0, self._squares / self.cycles - mean * mean))
