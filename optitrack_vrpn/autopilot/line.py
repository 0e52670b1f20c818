# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
When the messages that wait in a serial port leave it, and which of them have grown too old.

The system says how many bytes it has not sent yet (TIOCOUTQ); those written last are unsent.
"""

from __future__ import annotations

from collections import deque
import math

#: Bits on the line for each byte: start, 8 data bits, stop.
BITS_PER_BYTE = 10


class LineQueue:
    """
    Follow the messages in the output queue of a port.

    :param baud: of the line (bit/s).
    """

    def __init__(self, baud: int) -> None:
        self._bytes_per_s = baud / BITS_PER_BYTE
        self._written = 0
        #: Count of bytes at the end of each message that has a limit, and its limit (s).
        self._limits: deque[tuple[int, float]] = deque()

    def leaves_s(self, size: int, unsent: int, now_s: float) -> float:
        """
        Tell when the last byte of a message leaves if it is written now (s).

        :param size: of the message (bytes).
        :param unsent: bytes that wait before it.
        """
        return now_s + (unsent + size) / self._bytes_per_s

    def written(self, size: int, until_s: float) -> None:
        """
        Note a message.

        :param until_s: when it is too old; infinite for one that does not age.
        """
        self._written += size
        if math.isfinite(until_s):
            self._limits.append((self._written, until_s))

    def next_limit_s(self) -> float:
        """Return when the first of them may be too old; infinite if none waits."""
        return self._limits[0][1] if self._limits else math.inf

    def stale(self, unsent: int, now_s: float) -> bool:
        """
        Return whether a message that waits is too old.

        :param unsent: bytes that wait.
        """
        sent = self._written - unsent
        while self._limits and self._limits[0][0] <= sent:
            self._limits.popleft()
        return bool(self._limits) and self._limits[0][1] <= now_s

    def flushed(self, unsent: int) -> None:
        """
        Note that what waited was thrown away.

        :param unsent: how many bytes that were.
        """
        self._written -= unsent
        self._limits.clear()
