# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The node's lock: the thread with the poses gets it before threads with periodic work.

Python's locks are not fair: a thread that releases a lock and acquires it again at once gets it
before a waiting thread, which still has to wake up. Diagnostics hold the lock once for each body,
so that poses would wait for the report of all bodies.
"""

import threading
from typing import Callable


class TurnLock:
    """A lock as a context manager; ``acquire_first`` is for the one thread that goes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Held by the first thread while it waits, so that the others wait behind it.
        self._turn = threading.Lock()
        # Bound once: they are called with each datagram.
        self._acquire: Callable[[], object] = self._lock.acquire
        self._release: Callable[[], object] = self._lock.release
        self._take_turn: Callable[[], object] = self._turn.acquire
        self._end_turn: Callable[[], object] = self._turn.release

    def acquire_first(self) -> None:
        """Acquire the lock before all threads that have not acquired it yet."""
        self._take_turn()
        try:
            self._acquire()
        finally:
            self._end_turn()

    def release(self) -> None:
        """Release the lock."""
        self._release()

    def __enter__(self) -> None:
        with self._turn:
            pass
        self._acquire()

    def __exit__(self, *error: object) -> None:
        self._release()
