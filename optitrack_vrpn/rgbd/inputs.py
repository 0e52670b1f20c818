# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Pair the messages of two streams by nearest stamp; find transforms in /tf_static."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.rgbd.geometry import Floats, pose_of
from optitrack_vrpn.units import NS_PER_S


@dataclass
class _Stream:
    """One of the streams: its queue, last stamp (ns) and least recent interval (ns)."""

    waiting: deque[tuple[int, Any]] = field(default_factory=deque)
    last: Optional[int] = None
    interval: Optional[int] = None


class Pairer:
    """
    Pair messages of stream 0 with those of stream 1, with bounded queues.

    A pair is returned as soon as no later message can be nearer: the stamps are equal, or the next
    message of the stream with the earlier stamp is known, or the gap is at most half of the
    interval of that stream.

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
        self._streams = (_Stream(), _Stream())

    def add(self, stream: int, stamp_ns: int, message: Any) -> list[tuple[Any, Any]]:
        """
        Add a message.

        :param stream: 0 or 1.
        :returns: the pairs that are certain now, oldest first.
        """
        own = self._streams[stream]
        if own.last is not None and stamp_ns <= own.last:
            if own.last - stamp_ns < NS_PER_S:
                self.late[stream] += 1
                return []
            self._restart()
            own = self._streams[stream]
        if own.last is not None:
            interval = stamp_ns - own.last
            # it grows by 10 % at most, so that a dropped message does not double it
            own.interval = interval if own.interval is None else min(
                interval, own.interval + own.interval // 10)
        own.last = stamp_ns
        own.waiting.append((stamp_ns, message))
        if len(own.waiting) > self.capacity:
            self._drop(stream)
        return self._match()

    def _restart(self) -> None:
        """Empty the queues: the stamps went back by a second or more."""
        for number, stream in enumerate(self._streams):
            self.unpaired[number] += len(stream.waiting)
        self._streams = (_Stream(), _Stream())

    def _drop(self, stream: int) -> None:
        self._streams[stream].waiting.popleft()
        self.unpaired[stream] += 1

    def _match(self) -> list[tuple[Any, Any]]:
        found = []
        first, second = (stream.waiting for stream in self._streams)
        while first and second:
            behind = 0 if first[0][0] <= second[0][0] else 1
            early, late_ns = self._streams[behind], self._streams[1 - behind].waiting[0][0]
            gap = late_ns - early.waiting[0][0]
            following = early.waiting[1][0] if len(early.waiting) > 1 else None
            if gap > self.tolerance_ns or (
                    following is not None and abs(following - late_ns) < gap):
                self._drop(behind)
                continue
            if gap and following is None and (
                    early.interval is None or 2 * gap > early.interval):
                break
            found.append((first.popleft()[1], second.popleft()[1]))
            self.pairs += 1
        return found


class StaticFrames:
    """The static transforms received so far."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Floats]] = {}

    def add(
        self, parent: str, child: str, translation: tuple[float, float, float],
        quat_xyzw: tuple[float, float, float, float],
    ) -> bool:
        """
        Store parent_from_child.

        :returns: False for a zero quaternion or a value that is not finite; it is not stored.
        """
        if not np.isfinite([*translation, *quat_xyzw]).all() or not any(quat_xyzw):
            return False
        self._parents[child.lstrip('/')] = parent.lstrip('/'), pose_of(translation, quat_xyzw)
        return True

    def parent(self, frame: str) -> Optional[str]:
        """Return the static parent of a frame, None if there is none."""
        return self._parents.get(frame.lstrip('/'), (None,))[0]

    def lookup(self, target: str, source: str) -> Optional[Floats]:
        """Return target_from_source, 4x4; None if no chain of transforms joins them."""
        to_target, to_source = self._chain(target), self._chain(source)
        for ancestor, from_target in to_target.items():
            if ancestor in to_source:
                return np.linalg.inv(from_target) @ to_source[ancestor]
        return None

    def _chain(self, frame: str) -> dict[str, Floats]:
        """Return ancestor_from_frame of a frame and each of its ancestors."""
        frame = frame.lstrip('/')
        chain = {frame: np.eye(4)}
        while frame in self._parents:
            parent, transform = self._parents[frame]
            if parent in chain:    # wrong publishers can create a loop
                break
            chain[parent] = transform @ chain[frame]
            frame = parent
        return chain
