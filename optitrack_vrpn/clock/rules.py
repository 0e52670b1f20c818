# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The stamps of mode ``min_offset``, the original package's rule."""

from __future__ import annotations


class MinOffset:
    """
    Place frames by the least offset of the first messages, which then is constant.

    Arrivals until ``samples`` messages arrived (each counts, also those of one frame), afterwards
    sender time plus the least (arrival - sender time) of these. The drift of the two clocks is
    contained in the stamps.

    :param samples: number of these messages.
    :ivar offset_ns: the least offset.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self.restart()

    def restart(self) -> None:
        """Determine the constant from the messages to come."""
        self._left = self._samples
        self.offset_ns = 1 << 70

    @property
    def learnt(self) -> bool:
        """Return whether the constant is known."""
        return not self._left

    def place(self, sender_ns: int, arrival_ns: int) -> int:
        """Count a message, and return its place on the arrival clock, not after its arrival."""
        offset_ns = arrival_ns - sender_ns
        if self._left:
            self.offset_ns = min(self.offset_ns, offset_ns)
            self._left -= 1
            return arrival_ns
        return sender_ns + min(offset_ns, self.offset_ns)
