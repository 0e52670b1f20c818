# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Choose one of two protocols for a server if the user does not.

Pure: what the two backends report goes in, and decisions come out. NatNet is preferred, since it
tells exposures and whether a body is tracked. VRPN is started when NatNet does not answer at once,
and chosen when it has poses and NatNet has none. A choice stays until its stream is lost for good:
a protocol that appears later interrupts nothing.
"""

from dataclasses import dataclass, field
import enum
from typing import Optional

from optitrack_vrpn.client.link import LinkState

_NS = 1_000_000_000
#: Chosen: VRPN is tried too after this time (ns); a NatNet server answers within milliseconds.
#: Half delays VRPN less; below about 0.5 s a lost datagram starts VRPN in vain.
NATNET_FIRST_NS = 1_500_000_000
#: Chosen: once VRPN has poses, NatNet has this time (ns) left for its model definitions. Half
#: selects VRPN more often at a slow server; double delays the first poses over VRPN.
GRACE_NS = 1_500_000_000
#: Chosen: a selected stream without poses for this time (ns) ends, and both are tried again. Half
#: interrupts shorter pauses of Motive; double delays the change of protocol.
GIVE_UP_NS = 10 * _NS


class Protocol(enum.Enum):
    """A protocol that poses come by."""

    NATNET = 'natnet'
    VRPN = 'vrpn'


@dataclass
class Decision:
    """
    What to do now.

    :ivar start_vrpn: start the VRPN client.
    :ivar chosen: use this one, and stop the other.
    :ivar reset: use neither, and try both again.
    :ivar reason: why, for the log.
    """

    start_vrpn: bool = False
    chosen: Optional[Protocol] = None
    reset: bool = False
    reason: str = ''


@dataclass
class _Seen:
    state: LinkState = LinkState.STOPPED
    reason: str = 'not started'
    poses_ns: Optional[int] = None


@dataclass
class Choice:
    """
    Choose between two protocols.

    :param now_ns: the present on a clock that does not step.
    """

    now_ns: int
    chosen: Optional[Protocol] = None
    vrpn_started: bool = False
    _since_ns: int = 0
    _seen: dict[Protocol, _Seen] = field(default_factory=dict)
    _silent_from_ns: Optional[int] = None

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        self._begin(self.now_ns)

    def _begin(self, now_ns: int) -> None:
        self.chosen = None
        self.vrpn_started = False
        self._since_ns = now_ns
        self._seen = {protocol: _Seen() for protocol in Protocol}
        self._silent_from_ns = None

    def changed(self, protocol: Protocol, state: LinkState, reason: str, now_ns: int) -> None:
        """Take a change of one protocol's connection."""
        seen = self._seen[protocol]
        seen.state, seen.reason = state, reason
        if state is LinkState.STREAMING and seen.poses_ns is None:
            seen.poses_ns = now_ns
        elif state is not LinkState.STREAMING:
            seen.poses_ns = None

    def decide(self, now_ns: int) -> Decision:
        """Decide; call it with every change, and some times a second."""
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
            f'{natnet.reason}. Stamps are arrivals at best, and nothing tells whether a body is '
            'tracked; switch NatNet on in Motive and start this node again for both'))

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
            f'{name} has had no pose for {GIVE_UP_NS / _NS:g} s: both protocols are tried again'))
