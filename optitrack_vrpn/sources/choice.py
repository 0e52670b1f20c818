# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Choose between two protocols for a server if the settings do not.

Pure: reports of the two backends are the input, decisions are the output. NatNet is preferred
because it has exposure times and a tracking flag for each body. VRPN is started if NatNet does not
answer at once, and chosen if it has poses and NatNet has none. A choice stays until its stream has
ended: a protocol that appears later does not interrupt it.
"""

from dataclasses import dataclass, field
import enum
from typing import Optional

from optitrack_vrpn.sources.link import LinkState
from optitrack_vrpn.units import NS_PER_S

#: Chosen: VRPN is also tried after this time (ns); a NatNet server answers within milliseconds.
NATNET_FIRST_NS = 1_500_000_000
#: Chosen: time (ns) for NatNet's model definitions after VRPN has poses.
GRACE_NS = 1_500_000_000
#: A selected stream without poses for this time (ns) has ended, and both protocols are tried
#: again. Measured: the poses of the other protocol follow 9.4 s after the last one.
GIVE_UP_NS = 5 * NS_PER_S


class Protocol(enum.Enum):
    """A protocol that carries poses."""

    NATNET = 'natnet'
    VRPN = 'vrpn'


@dataclass
class Decision:
    """
    The next action.

    :ivar start_vrpn: whether to start the VRPN client.
    :ivar chosen: protocol to use, while the other is stopped; None to change nothing.
    :ivar reset: whether to use neither and to try both again.
    :ivar reason: the reason, for the log.
    """

    start_vrpn: bool = False
    chosen: Optional[Protocol] = None
    reset: bool = False
    reason: str = ''


@dataclass
class _Seen:
    reason: str = 'not started'
    poses_ns: Optional[int] = None


@dataclass
class Choice:
    """
    Choose between two protocols.

    :param now_ns: present time (ns) on a monotonic clock.
    """

    now_ns: int
    chosen: Optional[Protocol] = None
    vrpn_started: bool = False
    _since_ns: int = 0
    _seen: dict[Protocol, _Seen] = field(default_factory=dict)
    _silent_from_ns: Optional[int] = None

    def __post_init__(self) -> None:
        """Start without reports from either protocol."""
        self._begin(self.now_ns)

    def _begin(self, now_ns: int) -> None:
        self.chosen = None
        self.vrpn_started = False
        self._since_ns = now_ns
        self._seen = {protocol: _Seen() for protocol in Protocol}
        self._silent_from_ns = None

    def changed(self, protocol: Protocol, state: LinkState, reason: str, now_ns: int) -> None:
        """Process a change of one protocol's connection."""
        seen = self._seen[protocol]
        seen.reason = reason
        if state is LinkState.STREAMING and seen.poses_ns is None:
            seen.poses_ns = now_ns
        elif state is not LinkState.STREAMING:
            seen.poses_ns = None

    def decide(self, now_ns: int) -> Decision:
        """Return the decision; call it after every change and several times a second."""
        natnet, vrpn = self._seen[Protocol.NATNET], self._seen[Protocol.VRPN]
        if self.chosen is not None:
            return self._watch(self._seen[self.chosen], now_ns)
        if natnet.poses_ns is not None:
            self.chosen = Protocol.NATNET
            return Decision(chosen=self.chosen, reason=(
                'NatNet is used: it streams bodies, with exposure times and tracking flags'))
        if not self.vrpn_started:
            if now_ns - self._since_ns < NATNET_FIRST_NS:
                return Decision()
            self.vrpn_started = True
            return Decision(start_vrpn=True)
        if vrpn.poses_ns is None or now_ns - vrpn.poses_ns < GRACE_NS:
            return Decision()
        self.chosen = Protocol.VRPN
        return Decision(chosen=self.chosen, reason=(
            'VRPN is used: it streams poses, NatNet does not: '
            f'{natnet.reason}. Stamps are arrival times at best, and a tracking flag is missing; '
            'for both, enable NatNet streaming in Motive and start this node again'))

    def _watch(self, seen: _Seen, now_ns: int) -> Decision:
        if seen.poses_ns is not None:
            self._silent_from_ns = None
            return Decision()
        if self._silent_from_ns is None:
            self._silent_from_ns = now_ns
        if now_ns - self._silent_from_ns < GIVE_UP_NS:
            return Decision()
        assert self.chosen is not None
        name = self.chosen.value
        self._begin(now_ns)
        return Decision(reset=True, reason=(
            f'{name} has had no pose for {GIVE_UP_NS / NS_PER_S:g} s: '
            'both protocols are tried again'))
