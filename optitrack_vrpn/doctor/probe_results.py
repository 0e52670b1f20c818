# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Results of the doctor's probes, the input of all checks.

Every field is optional: a probe that fails leaves the later ones without results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
import enum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.bodies.states import BodyStatus
from optitrack_vrpn.clock import ClockStatus
from optitrack_vrpn.doctor.stream_statistics import Intervals
from optitrack_vrpn.vrpn.messages import Vector


class Outcome(enum.Enum):
    """How an attempt to get to the server ended."""

    OPEN = 'open'
    """Connected."""
    REFUSED = 'refused'
    """The server's machine answered that nothing listens there."""
    SILENT = 'silent'
    """No answer in time."""
    FAILED = 'failed'
    """The network or this machine's operating system refused."""


@dataclass
class Attempt:
    """
    One way to the server.

    :ivar outcome: how far it came.
    :ivar detail: the error's own sentence, or ''.
    :ivar took_s: until it was decided (s).
    :ivar peer: address and port of the other end, once connected.
    :ivar version: the peer's version of VRPN, (major, minor), once it said its cookie.
    :ivar note: what is unusual about the version.
    :ivar fault: what it said or did instead of VRPN.
    :ivar version_refused: True if it speaks another major version of VRPN.
    """

    outcome: Outcome
    detail: str = ''
    took_s: float = 0.0
    peer: str = ''
    version: Optional[tuple[int, int]] = None
    note: str = ''
    fault: str = ''
    version_refused: bool = False


class Lift(NamedTuple):
    """The largest displacement of one body while the user lifted it, in the sender's axes (m)."""

    body: str
    displacement: Vector

    @property
    def length(self) -> float:
        """How far that is (m)."""
        return math.hypot(*self.displacement)


@dataclass
class Stream:
    """
    What was heard in one conversation.

    :ivar way: 'udp' or 'tcp'.
    :ivar attempt: the handshake.
    :ivar listened_s: time from the handshake to the end (s).
    :ivar first_pose_s: time from the handshake to the first pose (s), None without any.
    :ivar quiet_s: time from the last pose to the end (s).
    :ivar poses: poses of any kind.
    :ivar senders: names that were described, the library's own left out.
    :ivar answered: those that answered a ping.
    :ivar bodies: those that sent poses, as the node judges them.
    :ivar rates: frame rate (Hz) of each body, by sender time, gaps left out.
    :ivar paces: how regularly the frames of each body came.
    :ivar pace: how regularly frames of any body came.
    :ivar returns: how often a body became TRACKED again after it was lost.
    :ivar exchanged: bodies that were seen at the place of another body, and that body.
    :ivar more_bodies: poses of bodies beyond the most that are followed.
    :ivar clock: what the node's estimator makes of the stamps.
    :ivar newest_sender_ns: the newest sender time (ns, its own zero).
    :ivar ahead_s: that less the host's time of its arrival (s).
    :ivar lifts: displacements of all bodies, where the user was asked to lift one.
    :ivar texts: what the server wants people to read.
    :ivar counters: the protocol's counters, and what the kernel says of the sockets.
    :ivar ended: why the conversation ended before its time, or ''.
    """

    way: str
    attempt: Attempt
    listened_s: float = 0.0
    first_pose_s: Optional[float] = None
    poses: int = 0
    senders: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    bodies: tuple[BodyStatus, ...] = ()
    rates: dict[str, float] = field(default_factory=dict)
    paces: dict[str, Intervals] = field(default_factory=dict)
    pace: Intervals = field(default_factory=Intervals)
    returns: dict[str, int] = field(default_factory=dict)
    exchanged: dict[str, str] = field(default_factory=dict)
    more_bodies: int = 0
    clock: Optional[ClockStatus] = None
    newest_sender_ns: int = 0
    ahead_s: float = math.nan
    lifts: Optional[tuple[Lift, ...]] = None
    texts: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    ended: str = ''
    quiet_s: float = 0.0


@dataclass
class Mismatch:
    """
    A subscription that receives nothing from a publisher.

    :ivar topic: the topic.
    :ivar node: who subscribes.
    :ivar reason: which quality of service does not match, in the middleware's words.
    :ivar refused: publishers of the running node from which it gets nothing.
    :ivar publishers: all those of the running node: two nodes of one name have two.
    """

    topic: str
    node: str
    reason: str
    refused: int = 1
    publishers: int = 1


@dataclass
class RunningNode:
    """
    A node of this package on the ROS graph.

    :ivar name: its full name.
    :ivar count: nodes of this name; two would mix up their services.
    :ivar state: its lifecycle state, '' where it did not say.
    :ivar settings: those of its parameters that the doctor compares; those it did not tell are
        missing.
    :ivar topics: topics that it publishes.
    :ivar subscribers: subscriptions to those.
    :ivar mismatches: those of the subscriptions that do not match.
    :ivar bodies: names and patterns of bodies that have settings of their own.
    :ivar pose_topics: those of the topics that bring poses.
    :ivar conflicting: those of them on which others publish too, and the others' full names.
    """

    name: str
    count: int = 1
    state: str = ''
    settings: dict[str, object] = field(default_factory=dict)
    topics: int = 0
    subscribers: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    bodies: tuple[str, ...] = ()
    pose_topics: int = 0
    conflicting: dict[str, tuple[str, ...]] = field(default_factory=dict)


class LocalProcess(NamedTuple):
    """
    A process of this machine that runs the node.

    :ivar pid: its process id.
    :ivar stopped: True where it is stopped, as by SIGSTOP or a debugger.
    :ivar domain: its ROS_DOMAIN_ID, '0' where that is not set; None where it is unknown.
    """

    pid: int
    stopped: bool
    domain: Optional[str]


@dataclass
class Graph:
    """
    What the ROS graph shows.

    :ivar absent: why there is no graph to look at, or ''.
    :ivar wanted: full name of the node that the user asked for, or ''.
    :ivar waited_s: how long nodes had to be discovered (s).
    :ivar nodes: nodes of this package, or the one that was asked for.
    :ivar domain: the ROS_DOMAIN_ID of the doctor.
    :ivar processes: processes of this machine that run the node, in any domain.
    """

    absent: str = ''
    wanted: str = ''
    waited_s: float = 0.0
    nodes: tuple[RunningNode, ...] = ()
    domain: str = '0'
    processes: tuple[LocalProcess, ...] = ()


@dataclass
class NatNetResults:
    """
    What was heard by NatNet.

    :ivar port: command port.
    :ivar name: of the server's application.
    :ivar version: of NatNet; None where no server answered.
    :ivar multicast: whether it sends to a group.
    :ivar group: that group.
    :ivar listened_s: for how long (s).
    :ivar frames: frames that were read.
    :ivar malformed: datagrams that could not be.
    :ivar bodies: names of rigid bodies.
    :ivar untracked: those that were not tracked at last.
    :ivar echoes: round trips.
    :ivar round_trip_ms: the shortest.
    :ivar processing_ms: from exposure to transmission (median), 0 where that is not sent.
    :ivar remarks: what the client reports.
    :ivar other_card: another network card on which frames arrive, '' for none.
    :ivar other_source: the address that they come from.
    """

    port: int
    name: str = ''
    version: Optional[tuple[int, int]] = None
    multicast: bool = False
    group: str = ''
    listened_s: float = 0.0
    frames: int = 0
    malformed: int = 0
    bodies: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    echoes: int = 0
    round_trip_ms: float = 0.0
    processing_ms: float = 0.0
    remarks: tuple[str, ...] = ()
    other_card: str = ''
    other_source: str = ''


@dataclass
class ProbeResults:
    """
    Everything that the probes found of one server and of the nodes that follow it.

    :ivar server: as the user gave it.
    :ivar port: its VRPN port.
    :ivar connection: 'auto', 'udp' or 'tcp', as the node's parameter.
    :ivar interface: as the user gave it, '' for none.
    :ivar advertise: what the server is asked to connect back to, as the user gave it, '' for the
        local address.
    :ivar expected_rate_hz: the cameras' rate where the user gave it, else 0.
    :ivar addresses: what the server's name stands for.
    :ivar name_error: why it stands for nothing.
    :ivar local: this machine's address on the way to the server.
    :ivar card: the network card that has it, '' where that is unknown.
    :ivar route_error: why there is no way.
    :ivar surroundings: what stands between this process and the network: 'container', 'wsl',
        'ufw'.
    :ivar udp: the request and the connect-back; None where not tried.
    :ivar tcp: the connection by ``tcp://``; None where not tried.
    :ivar address_unused: True if no machine of the local network answers for the address (ARP).
    :ivar unexpected_peers: what came from other addresses than the server's, by address.
    :ivar stream: the stream; None without a connection.
    :ivar tcp_poses: poses by TCP where none came by UDP; None where not tried.
    :ivar graph: the ROS graph; None where not looked at.
    :ivar protocol: 'vrpn', 'natnet' or 'auto', as the node's parameter.
    :ivar natnet: what was heard by NatNet; None where not looked at.
    """

    server: str
    port: int
    connection: str = 'auto'
    interface: str = ''
    advertise: str = ''
    expected_rate_hz: float = 0.0
    addresses: tuple[str, ...] = ()
    name_error: str = ''
    local: str = ''
    card: str = ''
    route_error: str = ''
    surroundings: tuple[str, ...] = ()
    udp: Optional[Attempt] = None
    tcp: Optional[Attempt] = None
    address_unused: bool = False
    unexpected_peers: dict[str, str] = field(default_factory=dict)
    stream: Optional[Stream] = None
    tcp_poses: Optional[int] = None
    graph: Optional[Graph] = None
    protocol: str = 'vrpn'
    natnet: Optional[NatNetResults] = None

    @property
    def address(self) -> str:
        """Return the server's address in use, or '' while unknown."""
        return self.addresses[0] if self.addresses else ''

    @property
    def loopback(self) -> bool:
        """Return whether the server's address is in this machine, where no firewall stands."""
        return self.address.startswith('127.') or self.address == '::1'
