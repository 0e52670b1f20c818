# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Pair the messages of two streams by nearest stamp, with bounded queues.

A pair is returned as soon as no later message can be nearer: the stamps are equal, or the next
message of the stream with the earlier stamp is known, or the gap is at most half of the interval
of that stream.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Optional

#: Chosen: stamps that go back by at least this mean a restart of the stream (ns); less is late.
_RESTART_NS = 1_000_000_000


@dataclass
class _Stream:
    """One of the streams: its queue, last stamp (ns) and least recent interval (ns)."""

    waiting: deque[tuple[int, Any]]
    last: Optional[int] = None
    interval: Optional[int] = None


class Pairer:
    """
    Pair messages of stream 0 with those of stream 1.

    :param tolerance_ns: greatest difference of the stamps of a pair.
    :param capacity: most messages in the queue of each stream.
    :ivar pairs: number of returned pairs.
    :ivar unpaired: number of messages that were dropped without a partner, by stream.
    :ivar late: number of messages that were not newer than the one before, by stream.
    """

    def __init__(self, tolerance_ns: int = 20_000_000, capacity: int = 10) -> None:
        self.tolerance_ns = tolerance_ns
        self.capacity = capacity
        self.pairs = 0
        self.unpaired = [0, 0]
        self.late = [0, 0]
        self._streams = (_Stream(deque()), _Stream(deque()))

    def add(self, stream: int, stamp_ns: int, message: Any) -> list[tuple[Any, Any]]:
        """
        Add a message.

        :param stream: 0 or 1.
        :returns: the pairs that are certain now, oldest first.
        """
        own = self._streams[stream]
        if own.last is not None and stamp_ns <= own.last:
            if own.last - stamp_ns < _RESTART_NS:
                self.late[stream] += 1
                return []
            self.clear()
        if own.last is not None:
            interval = stamp_ns - own.last
            # it grows by 10 % at most, so that a dropped message does not double it
            own.interval = interval if own.interval is None else min(
                interval, own.interval + own.interval // 10)
        own.last = stamp_ns
        own.waiting.append((stamp_ns, message))
        if len(own.waiting) > self.capacity:
            own.waiting.popleft()
            self.unpaired[stream] += 1
        return self._match()

    def clear(self) -> None:
        """Empty the queues, and reset the intervals."""
        for number, stream in enumerate(self._streams):
            self.unpaired[number] += len(stream.waiting)
            stream.waiting.clear()
            stream.last = stream.interval = None

    def _match(self) -> list[tuple[Any, Any]]:
        found = []
        first, second = (stream.waiting for stream in self._streams)
        while first and second:
            behind = 0 if first[0][0] <= second[0][0] else 1
            early, late = self._streams[behind], self._streams[1 - behind]
            late_ns = late.waiting[0][0]
            gap = late_ns - early.waiting[0][0]
            following = early.waiting[1][0] if len(early.waiting) > 1 else None
            if gap > self.tolerance_ns or (
                    following is not None and abs(following - late_ns) < gap):
                early.waiting.popleft()
                self.unpaired[behind] += 1
                continue
            if gap and following is None and (
                    early.interval is None or 2 * gap > early.interval):
                break
            found.append((first.popleft()[1], second.popleft()[1]))
            self.pairs += 1
        return found
