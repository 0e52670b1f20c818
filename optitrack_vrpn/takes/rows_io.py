# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Poses of many topics on disk instead of in memory: 72 bytes each, 2.5 GB of 2 h of 20 bodies.

They are in one file without a name in the system's folder for such files (TMPDIR), and are read
again body by body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import os
import tempfile
from typing import Generic, Optional, TypeVar

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.columns import ROW, Rows, valid
from optitrack_vrpn.takes.take import longest_rise
from optitrack_vrpn.takes.trajectory import Stamps

T = TypeVar('T')
#: Why a pose is left out that is none.
NOT_FINITE = 'not finite or without attitude'


class Scratch:
    """
    A temporary file that many topics share.

    :raises OSError: if it cannot be created or read.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix='optitrack_vrpn_')
        self._size = 0

    def append(self, data: bytes) -> tuple[int, int]:
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
    Poses of one topic in the order of their arrival; see ``take.PoseRows``.

    :param scratch: the file for them.
    :ivar count: number of poses that were added.
    :ivar left_out: number of them that are not finite or whose stamp does not rise.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._blocks: list[tuple[int, int]] = []
        self._stored = self.count = 0
        self._last_ns: Optional[int] = None
        self._rises = True
        self._kept: Optional[Stamps] = None

    def add(self, rows: Rows) -> None:
        """
        Append poses, best some thousands at a time.

        :raises ConfigurationError: if the disk is full.
        """
        self.count += len(rows)
        good = valid(rows)
        if not good.all():
            rows = rows[good]
        if not len(rows):
            return
        stamps = rows['stamp']
        self._rises = (self._rises and bool((np.diff(stamps) > 0).all())
                       and (self._last_ns is None or int(stamps[0]) > self._last_ns))
        self._last_ns = int(stamps[-1])
        self._kept = None
        self._stored += len(rows)
        self._blocks.append(self._scratch.append(rows.tobytes()))

    def _all(self) -> Rows:
        found, at = np.empty(self._stored, ROW), 0
        for place, size in self._blocks:
            part = np.frombuffer(self._scratch.read(place, size), ROW)
            found[at:at + len(part)] = part
            at += len(part)
        return found

    def _chosen(self) -> Optional[Stamps]:
        """Return the indices of the poses whose stamps rise; None for all."""
        if self._rises:
            return None
        if self._kept is None:
            self._kept = longest_rise(self._all()['stamp'])
        return self._kept

    @property
    def left_out(self) -> int:
        """Return the number of poses that were added and are not contained."""
        return self.count - len(self)

    @property
    def reason(self) -> str:
        """Return why poses are left out, with numbers where there are several reasons."""
        kept = self._chosen()
        wrong = self.count - self._stored
        if kept is None:
            return NOT_FINITE
        stamps = self._all()['stamp']
        left = np.setdiff1d(np.arange(len(stamps)), kept)
        same = int(np.isin(stamps[left], stamps[kept]).sum())
        back = self._stored - len(kept) - same
        reasons = [(count, text) for count, text in (
            (wrong, NOT_FINITE), (same, 'the stamp is that of another pose'),
            (back, 'the stamps go back')) if count]
        return ', '.join(f'{text} ({count})' if reasons[1:] else text for count, text in reasons)

    def __len__(self) -> int:
        kept = self._chosen()
        return self._stored if kept is None else len(kept)

    def span(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return stamp and arrival (ns) of the first and of the last pose."""
        kept = self._chosen()
        if kept is None:
            ends = [np.frombuffer(self._scratch.read(*self._blocks[at]), ROW)[at]
                    for at in (0, -1)]
        else:
            ends = list(self._all()[kept[[0, -1]]])
        (first, last) = ((int(row['stamp']), int(row['arrival'])) for row in ends)
        return first, last

    def table(self) -> Rows:
        """Return the poses whose stamps rise; 124 MB for 2 h at 240 Hz."""
        kept = self._chosen()
        return self._all() if kept is None else self._all()[kept]


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
