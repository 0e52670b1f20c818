# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Count what is missing in the numbers of a sender's datagrams, without what arrives late."""

from dataclasses import dataclass

#: Numbers have 32 bits.
_MODULUS = 1 << 32
#: Chosen: gaps that are kept to recognise late datagrams. At 240 Hz this covers one second of
#: alternately lost frames or more.
_MOST_HOLES = 256


@dataclass
class LossCounters:
    """
    Counters of one conversation.

    :ivar udp_lost: numbers missing, without those that arrived late while their gap was known.
    :ivar udp_reordered: datagrams that arrived after one with a higher number, into a gap.
    :ivar udp_repeated: datagrams that arrived twice, or too late to be recognised.
    """

    udp_lost: int = 0
    udp_reordered: int = 0
    udp_repeated: int = 0


class LossCounter:
    """
    Keep the gaps in the numbers.

    :param counters: counters to update.
    """

    def __init__(self, counters: LossCounters) -> None:
        self._counters = counters
        #: First number, length and regular step, oldest first.
        self._holes: list[tuple[int, int, int]] = []

    def clear(self) -> None:
        """Forget all gaps: the numbers start again."""
        self._holes.clear()

    def skip(self, begin: int, length: int, step: int) -> None:
        """
        Process a gap.

        :param begin: the first number of the gap.
        :param step: the sender sends every number that is a multiple of it; 0 if it is not known
            what was sent, so that nothing counts as lost.
        """
        self._counters.udp_lost += _lost(length, step)
        self._holes.append((begin, length, step))
        del self._holes[:-_MOST_HOLES]

    def take_late(self, first: int, size: int) -> None:
        """
        Process a datagram with numbers below the expected one.

        A copy of a datagram that had arrived is in no gap, and finds none of the lost ones.
        """
        holes, counters = self._holes, self._counters
        for place in range(len(holes) - 1, -1, -1):
            begin, length, step = holes[place]
            before = (first - begin) % _MODULUS
            if before < length:
                found = min(size, length - before)
                after = length - before - found
                counters.udp_lost -= (
                    _lost(length, step) - _lost(before, step) - _lost(after, step))
                counters.udp_reordered += 1
                rest = (begin, before, step), ((first + found) % _MODULUS, after, step)
                holes[place:place + 1] = [hole for hole in rest if hole[1]]
                return
        counters.udp_repeated += 1


def _lost(length: int, step: int) -> int:
    """Return how many of the sent numbers a gap contains."""
    return length // step if step else 0
