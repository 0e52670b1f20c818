# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the serialised messages of a bag without ROS: poses, odometry, transforms, diagnostics.

XCDR1 of the OMG (formal/2014-09-03 annex, as written by ROS 2's middlewares): primitive types
aligned to their size, relative to the end of the four bytes of encapsulation.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

Pose7 = tuple[float, float, float, float, float, float, float]


class Stamped(NamedTuple):
    """A pose of any message type that has one."""

    stamp_ns: int
    frame: str
    pose: Pose7


class Status(NamedTuple):
    """A DiagnosticStatus."""

    level: int
    name: str
    message: str
    values: dict[str, str]


class _Reader:
    """Decode one message; raise ValueError if it is too short."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise ValueError('not plain CDR')
        self._order = '<' if data[1] else '>'
        self._data = data
        self._at = 4

    def _align(self, size: int) -> None:
        self._at += -(self._at - 4) % size

    def take(self, code: str, size: int, count: int = 1) -> tuple[float, ...]:
        self._align(size)
        try:
            found = struct.unpack_from(f'{self._order}{count}{code}', self._data, self._at)
        except struct.error as error:
            raise ValueError(str(error)) from None
        self._at += size * count
        return found

    def integer(self) -> int:
        return int(self.take('I', 4)[0])

    def byte(self) -> int:
        return int(self.take('B', 1)[0])

    def text(self) -> str:
        size = self.integer()
        if self._at + size > len(self._data):
            raise ValueError('a text is truncated')
        found = self._data[self._at:self._at + size]
        self._at += size
        return found.rstrip(b'\0').decode(errors='replace')

    def header(self) -> tuple[int, str]:
        sec = int(self.take('i', 4)[0])
        nanosec = self.integer()
        return sec * 1_000_000_000 + nanosec, self.text()

    def pose(self) -> Pose7:
        return self.take('d', 8, 7)  # type: ignore[return-value]

    def status(self) -> Status:
        level, name, message = self.byte(), self.text(), self.text()
        self.text()    # hardware id
        return Status(level, name, message,
                      {self.text(): self.text() for _ in range(self.integer())})


def read_pose(type_name: str, data: bytes) -> Stamped:
    """
    Decode a PoseStamped, PoseWithCovarianceStamped or Odometry.

    :raises ValueError: if it is damaged or of another type.
    """
    reader = _Reader(data)
    stamp_ns, frame = reader.header()
    if type_name == 'nav_msgs/msg/Odometry':
        reader.text()    # child frame
    elif type_name not in ('geometry_msgs/msg/PoseStamped',
                           'geometry_msgs/msg/PoseWithCovarianceStamped'):
        raise ValueError(f'{type_name} is not a pose')
    return Stamped(stamp_ns, frame, reader.pose())


def read_status(data: bytes) -> Status:
    """
    Decode a DiagnosticStatus.

    :raises ValueError: if it is damaged.
    """
    return _Reader(data).status()


def read_diagnostics(data: bytes) -> list[Status]:
    """
    Decode the entries of a DiagnosticArray.

    :raises ValueError: if it is damaged.
    """
    reader = _Reader(data)
    reader.header()
    return [reader.status() for _ in range(reader.integer())]
