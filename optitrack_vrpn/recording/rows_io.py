# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Poses of many topics on disk instead of in memory: an hour of 50 bodies at 240 Hz is 3 GB.

They are in one file without a name in the system's folder for such files (TMPDIR), and are read
again one topic at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
import os
import struct
import tempfile
from typing import Generic, Optional, TypeVar

import numpy as np
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.take import Columns

T = TypeVar('T')

_ROW = struct.Struct('<qq7d')
_COLUMNS = np.dtype([('stamp', '<i8'), ('arrival', '<i8'), ('pose', '<f8', 7)])
#: Chosen: bytes of a topic in memory before they are written; of 200 topics 13 MB. Halved, twice
#: as many writes; doubled, twice the memory.
_BLOCK = 910 * _ROW.size


class Scratch:
    """
    A temporary file that many topics share.

    :raises OSError: if it cannot be created or read.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix='optitrack_vrpn_')
        self._size = 0

    def append(self, data: bytes | bytearray) -> tuple[int, int]:
        """
        Write a block.

        :returns: its place and size.
        :raises ConfigurationError: if the disk is full.
        """
        place, rest = self._size, memoryview(data)
        try:
            while rest:
                done = os.pwrite(self._file.fileno(), rest, self._size)
                self._size += done
                rest = rest[done:]
        except OSError as error:
            raise ConfigurationError(
                f'cannot store the recording in {tempfile.gettempdir()} ({error.strerror}): set '
                'TMPDIR to a folder with more space') from None
        return place, len(data)

    def read(self, place: int, size: int) -> bytes:
        """Read a block."""
        return os.pread(self._file.fileno(), size, place)


class StoredRows:
    """
    Poses of one topic in the order of their arrival.

    :param scratch: the file for them.
    :ivar count: number of poses.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._blocks: list[tuple[int, int]] = []
        self._waiting = bytearray()
        self.count = 0

    def add(self, stamp_ns: int, arrival_ns: int, pose: Iterable[float]) -> None:
        """
        Append a pose.

        :param pose: seven numbers.
        :raises ConfigurationError: if the disk is full.
        :raises ValueError: if a time has more than 63 bits.
        """
        try:
            self._waiting += _ROW.pack(stamp_ns, arrival_ns, *pose)
        except struct.error as error:
            raise ValueError(str(error)) from None
        self.count += 1
        if len(self._waiting) >= _BLOCK:
            self._blocks.append(self._scratch.append(self._waiting))
            self._waiting = bytearray()

    def columns(self) -> Columns:
        """Read all of them."""
        data = b''.join((*(self._scratch.read(*block) for block in self._blocks), self._waiting))
        table = np.frombuffer(data, dtype=_COLUMNS)
        return table['stamp'], table['arrival'], table['pose']


class Stored(Mapping[str, T], Generic[T]):
    """
    Values that are made when they are needed; the last one is kept.

    :param makers: make each value, in the order of iteration.
    """

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = dict(makers)
        self._last: Optional[tuple[str, T]] = None

    def __getitem__(self, name: str) -> T:
        make = self._makers[name]
        if self._last is None or self._last[0] != name:
            self._last = None    # its memory is free before the next one is made
            self._last = (name, make())
        return self._last[1]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
