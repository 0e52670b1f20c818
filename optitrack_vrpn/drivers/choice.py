# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Choose among protocols, for servers whose protocol is not set.

The best one is tried first. The others are tried too if it does not answer at once, and chosen if
they have poses and it has none. A choice stays until its stream has ended: a protocol that appears
later does not interrupt it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.core.severity import INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.table import SOURCES, title


@dataclass(frozen=True)
class Patience:
    """
    Times of a choice; all are chosen.

    :ivar first_ns: the others are tried too after this time; a server answers within ms.
    :ivar grace_ns: time for a better protocol, such as for the model definitions of NatNet, after
        another one has poses.
    :ivar give_up_ns: a chosen stream without poses for this time has ended, and all protocols are
        tried again. Measured: the poses of the other protocol follow 9.4 s after the last one.
    """

    first_ns: int = 1_500_000_000
    grace_ns: int = 1_500_000_000
    give_up_ns: int = 5 * NS_PER_S


@dataclass
class Decision:
    """
    The next action.

    :ivar start: protocols whose clients to start.
    :ivar chosen: protocol to use, while the others are stopped; '' to change nothing.
    :ivar reset: whether to use none and to try all again.
    :ivar reason: the reason, for the log.
    :ivar severity: of the reason.
    """

    start: Sequence[str] = ()
    chosen: str = ''
    reset: bool = False
    reason: str = ''
    severity: Severity = INFO


@dataclass
class _Seen:
    """Reason of a connection's state, and since when it has had poses (ns)."""

    reason: str = 'not started'
    poses_ns: Optional[int] = None


@dataclass
class SourceChoice:
    """
    Choose among protocols.

    :param of: the protocols, best first.
    :param now_ns: present time (ns) on a monotonic clock.
    """

    of: Sequence[str]
    now_ns: int
    patience: Patience = Patience()
    chosen: str = ''
    _others_started: bool = False
    _since_ns: int = 0
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _silent_from_ns: Optional[int] = None

    def __post_init__(self) -> None:
        """Start without reports of any protocol."""
        self._begin(self.now_ns)

    def _begin(self, now_ns: int) -> None:
        self.chosen = ''
        self._others_started = False
        self._since_ns = now_ns
        self._seen = {protocol: _Seen() for protocol in self.of}
        self._silent_from_ns = None

    def changed(self, protocol: str, state: LinkState, reason: str, now_ns: int) -> None:
        """Process a change of one protocol's connection."""
        seen = self._seen[protocol]
        seen.reason = reason
        if state is not LinkState.STREAMING:
            seen.poses_ns = None
        elif seen.poses_ns is None:
            seen.poses_ns = now_ns

    def decide(self, now_ns: int) -> Decision:
        """Return the decision; call it after every change and several times a second."""
        if self.chosen:
            return self._watch(self._seen[self.chosen], now_ns)
        best, *others = self.of
        if self._seen[best].poses_ns is not None:
            self.chosen = best
            merit = SOURCES[best].merit
            return Decision(chosen=best, reason=(
                f'{title(best)} is used: it streams bodies{f", with {merit}" if merit else ""}'))
        if not self._others_started:
            self._others_started = now_ns - self._since_ns >= self.patience.first_ns
            return Decision(start=others if self._others_started else ())
        streaming = [name for name in others if self._seen[name].poses_ns is not None]
        if not any(now_ns - (self._seen[name].poses_ns or now_ns) >= self.patience.grace_ns
                   for name in streaming):
            return Decision()
        self.chosen = chosen = streaming[0]
        merit = SOURCES[best].merit or 'what it adds'
        return Decision(chosen=chosen, severity=WARN, reason=(
            f'{title(chosen)} is used: it streams poses, {title(best)} does not: '
            f'{self._seen[best].reason}. {title(chosen)} lacks {merit}: enable {title(best)} at '
            'the server and start this node again'))

    def _watch(self, seen: _Seen, now_ns: int) -> Decision:
        """Give up a choice whose stream has ended."""
        if seen.poses_ns is not None:
            self._silent_from_ns = None
            return Decision()
        if self._silent_from_ns is None:
            self._silent_from_ns = now_ns
        give_up_ns = self.patience.give_up_ns
        if now_ns - self._silent_from_ns < give_up_ns:
            return Decision()
        name = self.chosen
        self._begin(now_ns)
        return Decision(start=self.of[:1], reset=True, severity=WARN, reason=(
            f'{name} has had no pose for {give_up_ns / NS_PER_S:g} s: '
            'all protocols are tried again'))
