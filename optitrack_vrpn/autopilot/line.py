# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Predict when messages in a serial port's output queue are sent, and detect those that are too old.

The system reports the number of unsent bytes (TIOCOUTQ); they are the last ones written.
"""

from __future__ import annotations

from collections import deque
import math

#: Bits on the line for each byte: start, 8 data bits, stop.
BITS_PER_BYTE = 10


class LineQueue:
    """
    Track the messages in the output queue of a port.

    :param baud: rate of the line (bit/s).
    """

    def __init__(self, baud: int) -> None:
        self._bytes_per_s = baud / BITS_PER_BYTE
        self._written = 0
        #: For each message with a limit: count of bytes up to its end, and the limit (s).
        self._limits: deque[tuple[int, float]] = deque()

    def leaves_s(self, size: int, unsent: int, now_s: float) -> float:
        """
        Return the time at which the last byte of a message leaves if it is written now (s).

        :param size: size of the message (bytes).
        :param unsent: number of bytes that wait before it.
        """
        return now_s + (unsent + size) / self._bytes_per_s

    def written(self, size: int, until_s: float) -> None:
        """
        Add a message.

        :param until_s: time from which it is too old; infinite if it does not age.
        """
        self._written += size
        if math.isfinite(until_s):
            self._limits.append((self._written, until_s))

    def next_limit_s(self) -> float:
        """Return the earliest time at which a message is too old; infinite if none waits."""
        return self._limits[0][1] if self._limits else math.inf

    def stale(self, unsent: int, now_s: float) -> bool:
        """
        Return whether a waiting message is too old.

        :param unsent: number of bytes that wait.
        """
        sent = self._written - unsent
        while self._limits and self._limits[0][0] <= sent:
            self._limits.popleft()
        return bool(self._limits) and self._limits[0][1] <= now_s

    def flushed(self, unsent: int) -> None:
        """
        Remove the waiting bytes, which were discarded.

        :param unsent: number of these bytes.
        """
        self._written -= unsent
        self._limits.clear()
