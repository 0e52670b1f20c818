# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Progress of a long command on a terminal: percent and seconds left, nothing when piped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import os
import sys
import time
from typing import Any, IO, TypeVar

T = TypeVar('T')

#: Least time between two lines, and before the first one (s).
_PERIOD_S, _FIRST_S = 0.2, 1.0


class Progress:
    """A line on the terminal, rewritten for each step, and removed at the end."""

    def __init__(
        self, what: str, steps: int = 1, stream: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._steps = what, steps
        self._stream, self._clock = stream or sys.stderr, clock
        self._began = clock()
        self._due = self._began + _FIRST_S
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._stream.write('\r\x1b[K')
            self._stream.flush()

    def show(self, share: float) -> None:
        """Show the fraction that is done, 0 to 1."""
        now = self._clock()
        if now < self._due or not self._stream.isatty():
            return
        self._due, self._shown = now + _PERIOD_S, True
        left = (now - self._began) * (1.0 - share) / share if share > 0.0 else 0.0
        self._stream.write(f'\r{self._what} {100 * share:.0f} %, {left:.0f} s left\x1b[K')
        self._stream.flush()

    def over_file(self, values: Iterable[T], file: IO[str]) -> Iterator[T]:
        """Give values that are read from a file, and show how much of it was read."""
        bytes_read: Any = getattr(file, 'buffer', None)
        size = os.fstat(file.fileno()).st_size if bytes_read and file.seekable() else 0
        for value in values:
            yield value
            if size:
                self.show(min(bytes_read.tell() / size, 1.0))

    def over(self, values: Iterable[T]) -> Iterator[T]:
        """Give values, and show the progress after each."""
        for number, value in enumerate(values, 1):
            yield value
            self.show(number / self._steps)
