# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A bounded queue, and the thread that processes it; also a thread with a period and no queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
import contextlib
import math
import threading
import time
from typing import Any, Generic, Optional, TypeVar

T = TypeVar('T')
R = TypeVar('R')


class Worker(Generic[T]):
    """
    Process in one thread what other threads put into a queue.

    ``put`` never waits. The thread waits for an item, a call, ``wake`` or the end of the period;
    then it serves the calls, calls ``turn``, and processes the items that wait.

    :param name: name of the thread.
    :param failed: called in the thread with an error of ``process`` or ``turn``; returns whether
        the thread goes on, with the next item or after the next wait. It must not raise.
    :param process: processes one item.
    :param turn: called after each wait.
    :param period_s: longest time between two turns (s). After a turn that takes more than two
        thirds of it, the thread rests for half the time of that turn, at most half a period, so
        that other threads get their share of the interpreter.
    :param limit: total size of the waiting items at which the queue is full.
    :param oldest: drop the oldest items of a full queue instead of the new one.
    :param end: called once, as the last, in the thread; while the thread was never started, by
        ``stop``. It must not raise.
    :param wait: waits instead of the worker, for sockets for instance; then ``wake`` interrupts
        it.
    :ivar dropped: number of items that were put and will never be processed.
    """

    def __init__(
        self, name: str, failed: Callable[[Exception], bool], *,
        process: Optional[Callable[[T], None]] = None, turn: Callable[[], None] = lambda: None,
        period_s: Optional[float] = None, limit: float = math.inf, oldest: bool = False,
        end: Callable[[], None] = lambda: None, wait: Optional[Callable[[], None]] = None,
        wake: Optional[Callable[[], None]] = None,
    ) -> None:
        self._failed, self._process, self._turn, self._end = failed, process, turn, end
        self._period_s, self._limit, self._oldest = period_s, limit, oldest
        # Free when the thread is to wake; an Event makes a lock of its own for each wait.
        self._woken = threading.Lock()
        self._woken.acquire()
        self._wait = wait or self._wait_to_wake
        self.wake: Callable[[], None] = wake or self._wake
        self._turned_s = time.monotonic()
        self._lock = threading.Lock()
        #: Items with their sizes, and for how many each one counts.
        self._queue: deque[tuple[T, int, int]] = deque()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._waiting = 0
        self.dropped = 0
        #: Whether nothing more is accepted.
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def waiting(self) -> int:
        """Return the total size of the waiting items."""
        return self._waiting

    @property
    def running(self) -> bool:
        """Return whether the thread was started, and accepts items and calls."""
        return self._thread.ident is not None and not self._closed

    @property
    def is_current(self) -> bool:
        """Return whether the caller is this thread."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def put(self, item: T, size: int = 1, count: int = 1, wake: bool = True) -> None:
        """
        Queue an item, from any thread; an item of any size fits into a queue that is not full.

        :param size: its share of the limit.
        :param count: for how many items it counts if it is dropped.
        :param wake: process it at once; otherwise at the end of the period.
        """
        with self._lock:
            while self._oldest and self._queue and self._waiting >= self._limit:
                self.dropped += self._pop()[2]
            if self._closed or self._waiting >= self._limit:
                self.dropped += count
                return
            self._queue.append((item, size, count))
            self._waiting += size
        if wake:
            self.wake()

    def call(self, work: Callable[[], R]) -> Future[R]:
        """
        Call a function in the thread, before the waiting items; in the thread itself, at once.

        :returns: its future result, cancelled if the thread ends before.
        """
        future: Future[R] = Future()
        if self.is_current:
            _serve(work, future)
            return future
        with self._lock:
            if self._closed:
                future.cancel()
            else:
                self._calls.append((work, future))
        self.wake()
        return future

    def clear(self) -> None:
        """Discard the waiting items, which do not count as dropped."""
        with self._lock:
            self._queue.clear()
            self._waiting = 0

    def stop(self, patience_s: Optional[float] = None, finish: bool = False) -> bool:
        """
        Accept nothing more and end the thread; idempotent.

        :param patience_s: longest wait for its end (s); None for any time.
        :param finish: process the waiting items before; otherwise they are discarded.
        :returns: whether it has ended; False in the thread itself.
        """
        with self._lock:
            first, self._closed = not self._closed, True
        if not finish:    # nothing is put any more
            self.clear()
        self.wake()
        if self.is_current:
            return False
        if self._thread.ident is not None:
            self._thread.join(patience_s)
        elif first:
            self._leave()
        return not self._thread.is_alive()

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (self._queue or not self._closed) and self._round():
                pass
        finally:
            self._leave()

    def _round(self) -> bool:
        """Wait, and do what is due; return whether the thread goes on."""
        if not self._closed and not self._goes_on(self._wait):
            return False
        self._turned_s = time.monotonic()
        self._serve_calls()
        if (not self._closed or self._queue) and not self._goes_on(self._turn):
            return False
        # Only what waits now, so that the next turn is not late.
        for _ in range(len(self._queue)):
            with self._lock:
                if not self._queue:    # cleared meanwhile
                    break
                item, _, _ = self._pop()
            if self._process is not None and not self._goes_on(self._process, item):
                return False
            self._serve_calls()
        return True

    def _goes_on(self, work: Callable[..., None], *of: T) -> bool:
        """Do something; return whether the thread goes on."""
        try:
            work(*of)
        except Exception as error:
            return self._failed(error)
        return True

    def _wait_to_wake(self) -> None:
        rest_s = -1.0
        if self._period_s is not None:
            took_s = time.monotonic() - self._turned_s
            rest_s = max(self._period_s - took_s, min(took_s, self._period_s) / 2)
        self._woken.acquire(timeout=rest_s)

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):    # it is to wake already
            self._woken.release()

    def _pop(self) -> tuple[T, int, int]:
        """Take the oldest item out of the queue; with the lock held."""
        found = self._queue.popleft()
        self._waiting -= found[1]
        return found

    def _serve_calls(self) -> None:
        while self._calls and not self._closed:
            _serve(*self._calls.popleft())

    def _leave(self) -> None:
        """Drop and cancel what is left."""
        with self._lock:
            self._closed = True
            while self._queue:
                self.dropped += self._pop()[2]
            calls, self._calls = self._calls, deque()
        for _, future in calls:
            future.cancel()
        self._end()


def _serve(work: Callable[[], Any], future: Future[Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:    # it is the caller's
            future.set_exception(error)
