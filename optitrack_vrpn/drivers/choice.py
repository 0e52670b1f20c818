# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Choose among protocols, for servers whose protocol is not set: the first that delivers a pose.

The best one is tried first, the others too if it has no pose soon. A choice stays until its stream
has ended: a protocol that appears later does not interrupt it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.link import LinkState


class Patience(NamedTuple):
    """
    Times of a choice; both are chosen.

    :ivar first_ns: the others are tried too after this time; a server answers within ms.
    :ivar give_up_ns: a chosen stream without poses for this time has ended, and all protocols are
        tried again. Measured: the poses of the other protocol follow 9.4 s after the last one.
    """

    first_ns: int = 1_500_000_000
    give_up_ns: int = 5 * NS_PER_S


class SourceChoice:
    """
    Choose among protocols.

    :param of: the protocols, best first.
    :param now_ns: present time (ns) on a monotonic clock.
    :ivar chosen: the protocol in use, '' for none.
    """

    def __init__(
        self, of: Sequence[str], now_ns: int, patience: Optional[Patience] = None,
    ) -> None:
        self.of = of
        self.patience = patience or Patience()
        self.restart(now_ns)

    def restart(self, now_ns: int) -> None:
        """Try all protocols again."""
        self.chosen = ''
        self._began_ns = now_ns
        self._started = 0
        self._silent_ns: Optional[int] = None

    def changed(self, protocol: str, state: LinkState, now_ns: int) -> bool:
        """Process a change of one protocol's connection; return whether it is chosen now."""
        streams = state is LinkState.STREAMING
        if self.chosen:
            if protocol == self.chosen:
                self._silent_ns = None if streams else self._silent_ns or now_ns
            return False
        if streams:
            self.chosen = protocol
        return streams

    def to_start(self, now_ns: int) -> Sequence[str]:
        """Return the protocols whose clients are to be started now."""
        before = self._started
        if not self.chosen:
            self._started = len(self.of) if (
                now_ns - self._began_ns >= self.patience.first_ns) else 1
        return self.of[before:max(before, self._started)]

    def has_ended(self, now_ns: int) -> bool:
        """Return whether the stream of the chosen protocol has ended."""
        return self._silent_ns is not None and (
            now_ns - self._silent_ns >= self.patience.give_up_ns)
