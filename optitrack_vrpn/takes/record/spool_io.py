# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A thread that writes data of other threads to a file, with a bounded queue.

``put`` never waits for the disk: items for a full queue are counted and dropped. The thread stops
if the disk is nearly full or fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
import os
from pathlib import Path
import threading
import time
from typing import NamedTuple, Optional

from optitrack_vrpn.core.names import counted
from optitrack_vrpn.takes.record.bag_io import BagWriter, Item, NewTopic

#: Chosen: maximum amount of waiting data (bytes): ten seconds of 50 bodies at 240 Hz.
MAX_WAITING = 64 << 20
#: Chosen: free space (bytes) below which the recording stops, because a full disk would stop other
#: programs.
MIN_FREE = 256 << 20
#: Chosen: pause of the thread (s), and periods (ns) of the checks of the disk and of flushing to
#: the disk. A power failure loses the last period.
_TURN_S = 0.05
_CHECK_NS = 250_000_000
_SYNC_NS = 1_000_000_000


class SpoolStatus(NamedTuple):
    """
    State of the recording.

    :ivar messages: number of written messages.
    :ivar size: bytes written.
    :ivar dropped: number of messages that came while the queue was full.
    :ivar waiting: bytes in the queue.
    :ivar free: free bytes on the disk; -1 if unknown.
    :ivar stopped: reason why the thread has stopped without ``stop``; '' while it runs.
    """

    messages: int
    size: int
    dropped: int
    waiting: int
    free: int
    stopped: str


class Spool:
    """
    Write messages and topics in a thread.

    :param writer: the writer; only the thread uses it after ``start``.
    :param folder: folder on the disk whose space is checked.
    :param max_waiting: amount of waiting data at which the queue is full (bytes).
    :param min_free: space that stays free on the disk (bytes).
    :param free_bytes: measures the free space.
    :param notes: returns the notes that are stored in the file when it is closed.
    """

    def __init__(
        self, writer: BagWriter, folder: Path, max_waiting: int = MAX_WAITING,
        min_free: int = MIN_FREE, free_bytes: Optional[Callable[[], int]] = None,
        notes: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._writer = writer
        self._notes = notes
        self._max_waiting, self._min_free = max_waiting, min_free
        self._free_bytes = free_bytes or (lambda: _free(folder))
        #: Items of one call of ``put``, with their size (bytes).
        self._queue: deque[tuple[list[Item], int]] = deque()
        self._lock = threading.Lock()
        self._waiting = self._dropped = 0
        self._free = -1
        self._stopped = ''
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name='recorder', daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def put(self, items: list[Item]) -> None:
        """
        Queue items, from any thread; if the queue is full, count and drop all of them.

        Items of any size fit into a queue that is not full: they are in memory anyway.
        """
        total = sum(map(_size, items))
        with self._lock:
            if self._waiting >= self._max_waiting or self._stopped or self._ending.is_set():
                self._dropped += len(items)
            elif items:
                self._queue.append((items, total))
                self._waiting += total

    def status(self) -> SpoolStatus:
        """Return the state of the recording, from any thread."""
        with self._lock:
            return SpoolStatus(
                self._writer.messages, self._writer.size, self._dropped, self._waiting,
                self._free, self._stopped)

    def stop(self, patience_s: float = 30.0) -> str:
        """
        Write the waiting items, close the file and stop the thread.

        :param patience_s: timeout for the disk (s).
        :returns: what went wrong, including dropped messages; '' if nothing did.
        """
        self._ending.set()
        self._thread.join(patience_s)
        if self._thread.is_alive():
            return (f'the disk did not accept the rest within {patience_s:g} s; the file is not '
                    f'closed: {self._writer.remedy}')
        lost = (f'{counted(self._dropped, "message")} dropped because the disk was too slow'
                if self._dropped and not self._stopped else '')
        return self._stopped or lost

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            problem = self._write_all()
        except OSError as error:
            problem = f'the file cannot be written: {error.strerror or error}'
        except Exception as error:    # a bug must not end the thread without a report
            problem = f'bug while writing: {error!r}'
        # If the thread stops early, it closes the file at once, while there is space.
        with self._lock:
            # The disk was too slow for the messages before, not for those that come now.
            self._stopped, dropped = problem, self._dropped
            self._dropped += sum(len(items) for items, _ in self._queue)
            self._queue.clear()
            self._waiting = 0
        try:
            notes = dict(self._notes())
            if self._stopped:
                notes['stopped'] = self._stopped
            if dropped:
                notes['dropped'] = str(dropped)
            self._writer.close(notes)
        except Exception as error:    # as above
            reason = getattr(error, 'strerror', None) or error
            self._stopped = '; '.join(filter(None, (
                self._stopped,
                f'the file could not be closed ({reason}): {self._writer.remedy}')))

    def _write_all(self) -> str:
        """Write until the end; return the reason why it ends early, or ''."""
        looked_ns, synced_ns, write = 0, time.monotonic_ns(), self._writer.write
        while True:
            ending = self._ending.is_set()
            now_ns = time.monotonic_ns()
            if now_ns - looked_ns >= _CHECK_NS:
                looked_ns = now_ns
                self._free = self._free_bytes()
                if 0 <= self._free < self._min_free:
                    return (f'the disk is nearly full: {self._free / 1e6:.0f} MB are free, and '
                            f'the recording keeps {self._min_free / 1e6:.0f} MB free')
            batch = self._take()
            for item in batch:
                write(item, now_ns)
            self._writer.tick(now_ns)
            if now_ns - synced_ns >= _SYNC_NS:
                synced_ns = now_ns
                self._writer.sync()
            if not batch:
                if ending:
                    return ''
                self._ending.wait(_TURN_S)

    def _take(self) -> list[Item]:
        with self._lock:
            if not self._queue:
                return []
            batch, size = self._queue.popleft()
            self._waiting -= size
        return batch


def _size(item: Item) -> int:
    """Return the memory of an item (bytes)."""
    return 0 if isinstance(item, NewTopic) else len(item.data) + 64


def _free(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return -1
    return found.f_bavail * found.f_frsize
