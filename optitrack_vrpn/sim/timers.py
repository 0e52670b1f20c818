# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Actions of the simulated Motive at later times; pure, times are arguments."""

from collections.abc import Callable
import heapq
from typing import Optional


class Timers:
    """Actions, in the order of their times and then of their registration."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Callable[[], object]]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def at(self, due_ns: int, action: Callable[[], object]) -> None:
        """Register an action."""
        self._order += 1
        heapq.heappush(self._waiting, (due_ns, self._order, action))

    @property
    def next_ns(self) -> Optional[int]:
        """Return the time of the next action (ns); None without one."""
        return self._waiting[0][0] if self._waiting else None

    def run(self, now_ns: int) -> None:
        """Execute the actions that are due."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            heapq.heappop(self._waiting)[2]()
