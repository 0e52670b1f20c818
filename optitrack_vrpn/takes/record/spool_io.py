# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A thread that writes data of other threads to a file.

``put`` never waits for the disk: items for a full queue are counted and dropped. The thread stops
if the disk is nearly full or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import os
from pathlib import Path
import time
from typing import NamedTuple, Optional

from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.worker_io import Worker
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


class DiskFullError(OSError):
    """The disk has less space than the recording keeps free."""


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
        self._min_free = min_free
        self._free_bytes = free_bytes or (lambda: _free(folder))
        self._free = -1
        self._looked_ns, self._synced_ns = 0, time.monotonic_ns()
        #: Why the thread has stopped, and how many messages the queue had dropped until then:
        #: the disk was too slow for them, not for those that come later.
        self._stopped = ''
        self._too_slow = 0
        self._worker: Worker[list[Item]] = Worker(
            'recorder', self._failed, process=self._write, turn=self._look_after,
            period_s=_TURN_S, limit=max_waiting, end=self._close)

    def start(self) -> None:
        """Start to write."""
        self._worker.start()

    def put(self, items: list[Item]) -> None:
        """Queue items, from any thread; if the queue is full, count and drop all of them."""
        if items:
            self._worker.put(items, sum(map(_size, items)), len(items), wake=False)

    def status(self) -> SpoolStatus:
        """Return the state of the recording, from any thread."""
        return SpoolStatus(
            self._writer.messages, self._writer.size, self._worker.dropped, self._worker.waiting,
            self._free, self._stopped)

    def stop(self, patience_s: float = 30.0) -> str:
        """
        Write the waiting items, close the file and stop the thread.

        :param patience_s: timeout for the disk (s).
        :returns: what went wrong, including dropped messages; '' if nothing did.
        """
        if not self._worker.stop(patience_s, finish=True):
            return (f'the disk did not accept the rest within {patience_s:g} s; the file is not '
                    f'closed: {self._writer.remedy}')
        dropped = self._worker.dropped
        return self._stopped or (
            f'{counted(dropped, "message")} dropped because the disk was too slow'
            if dropped else '')

    # -- the thread ----------------------------------------------------------------------------

    def _write(self, items: list[Item]) -> None:
        now_ns = time.monotonic_ns()
        for item in items:
            self._writer.write(item, now_ns)

    def _look_after(self) -> None:
        """
        Check the disk, and end what is old enough.

        :raises DiskFullError: if the disk is nearly full.
        """
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns >= _CHECK_NS:
            self._looked_ns = now_ns
            self._free = self._free_bytes()
            if 0 <= self._free < self._min_free:
                raise DiskFullError(
                    f'the disk is nearly full: {self._free / 1e6:.0f} MB are free, and the '
                    f'recording keeps {self._min_free / 1e6:.0f} MB free')
        self._writer.tick(now_ns)
        if now_ns - self._synced_ns >= _SYNC_NS:
            self._synced_ns = now_ns
            self._writer.sync()

    def _failed(self, error: Exception) -> bool:
        """Stop, so that the file is closed while there is space."""
        if isinstance(error, DiskFullError):
            self._stopped = str(error)
        elif isinstance(error, OSError):
            self._stopped = f'the file cannot be written: {error.strerror or error}'
        else:
            self._stopped = f'bug while writing: {error!r}'
        self._too_slow = self._worker.dropped
        return False

    def _close(self) -> None:
        try:
            notes = dict(self._notes())
            if self._stopped:
                notes['stopped'] = self._stopped
            dropped = self._too_slow if self._stopped else self._worker.dropped
            if dropped:
                notes['dropped'] = str(dropped)
            self._writer.close(notes)
        except Exception as error:    # a bug must not end the thread without a report
            reason = getattr(error, 'strerror', None) or error
            self._stopped = '; '.join(filter(None, (
                self._stopped,
                f'the file could not be closed ({reason}): {self._writer.remedy}')))


def _size(item: Item) -> int:
    """Return the memory of an item (bytes)."""
    return 0 if isinstance(item, NewTopic) else len(item.data) + 64


def _free(folder: Path) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return -1
    return found.f_bavail * found.f_frsize
