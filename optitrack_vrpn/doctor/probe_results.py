# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Results of the doctor's probes, the input of all checks.

Every field is optional: a probe that fails leaves the later ones without results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
import enum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.clock import ClockStatus
from optitrack_vrpn.findings import StreamSeen
from optitrack_vrpn.sources import Vector
from optitrack_vrpn.sources.vrpn import PeerHello


class Outcome(enum.Enum):
    """Outcome of an attempt to connect to the server."""

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
    One attempt to connect to the server.

    :ivar outcome: its outcome.
    :ivar detail: text of the error, or ''.
    :ivar took_s: duration (s).
    :ivar version: the peer's version of VRPN, (major, minor), once its cookie arrived.
    :ivar note: peculiarity of the version, or ''.
    :ivar fault: description of a peer that is not a VRPN server.
    :ivar other_program: True if it sent something else than this VRPN.
    """

    outcome: Outcome
    detail: str = ''
    took_s: float = 0.0
    version: Optional[tuple[int, int]] = None
    note: str = ''
    fault: str = ''
    other_program: bool = False

    def greeted(self, events: Iterable[object]) -> None:
        """Note the peer's greeting, if it is among these events."""
        for event in events:
            if isinstance(event, PeerHello):
                self.version, self.note = (event.major, event.minor), event.note


class Lift(NamedTuple):
    """The largest displacement of one body while the user lifted it, in the sender's axes (m)."""

    body: str
    displacement: Vector

    @property
    def length(self) -> float:
        """Length of the displacement (m)."""
        return math.hypot(*self.displacement)


@dataclass
class Stream(StreamSeen):
    """
    Data received in one conversation.

    :ivar transport: 'udp' or 'tcp'.
    :ivar attempt: the handshake.
    :ivar listened_s: time from the handshake to the end (s).
    :ivar first_pose_s: time from the handshake to the first pose (s), None without any.
    :ivar described: whether the server described any name; it describes the library's own first.
    :ivar senders: described names, without the library's own.
    :ivar answered: names that answered a ping.
    :ivar more_bodies: poses of bodies beyond the limit.
    :ivar clock: estimate of the sender's clock by the node's estimator.
    :ivar newest_sender_ns: the newest sender time (ns, epoch of the sender).
    :ivar ahead_s: that minus the host's time of its arrival (s).
    :ivar lifts: displacements of all bodies, if the user was asked to lift one.
    :ivar texts: text messages of the server.
    :ivar ended: why the conversation ended early, or ''.
    :ivar stalled_s: the longest time for which this computer did not run the probe (s).
    """

    transport: str = 'udp'
    attempt: Attempt = field(default_factory=lambda: Attempt(Outcome.OPEN))
    listened_s: float = 0.0
    first_pose_s: Optional[float] = None
    described: bool = True
    senders: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    more_bodies: int = 0
    clock: Optional[ClockStatus] = None
    newest_sender_ns: int = 0
    ahead_s: float = math.nan
    lifts: Optional[tuple[Lift, ...]] = None
    texts: tuple[str, ...] = ()
    ended: str = ''
    stalled_s: float = 0.0


@dataclass
class Mismatch:
    """
    A subscription that receives nothing from a publisher.

    :ivar topic: the topic.
    :ivar node: name of the subscribing node.
    :ivar reason: the mismatch, in the middleware's words.
    :ivar refused: publishers of the running node from which it receives nothing.
    :ivar publishers: all publishers of the running node: two nodes of one name have two.
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
    :ivar count: number of nodes of this name; with two, services are ambiguous.
    :ivar state: its lifecycle state, '' if it did not answer.
    :ivar settings: parameters that the doctor compares; unanswered ones are missing.
    :ivar topics: number of published topics.
    :ivar subscribers: subscriptions to these topics.
    :ivar mismatches: subscriptions whose quality of service does not match.
    :ivar bodies: names and patterns of bodies that have settings of their own.
    :ivar pose_topics: number of topics with poses.
    :ivar conflicting: pose topics on which other nodes publish too, with their full names.
    :ivar heard: messages with poses that arrived; None if the doctor did not listen.
    :ivar connection: its diagnostic of the connection; '' if none arrived.
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
    heard: Optional[int] = None
    connection: str = ''


class Orphan(NamedTuple):
    """
    A subscription to a topic without publishers that is named like a topic of a running node.

    :ivar topic: the topic.
    :ivar nodes: full names of the subscribers.
    :ivar similar: the published topic with the most similar name.
    """

    topic: str
    nodes: tuple[str, ...]
    similar: str


#: The environment variables that decide which nodes discover each other, with their defaults.
DISCOVERY_VARIABLES = {
    'ROS_DOMAIN_ID': '0', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET', 'ROS_LOCALHOST_ONLY': '0',
    'ROS_STATIC_PEERS': '', 'ROS_DISCOVERY_SERVER': '', 'RMW_IMPLEMENTATION': 'rmw_fastrtps_cpp'}


def discovery_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the discovery variables of an environment; an empty one counts as not set."""
    return {name: environment.get(name) or default
            for name, default in DISCOVERY_VARIABLES.items()}


class LocalProcess(NamedTuple):
    """
    A process of this machine that runs the node.

    :ivar pid: its process id.
    :ivar stopped: True if it is stopped, by SIGSTOP or a debugger.
    :ivar variables: its discovery variables; None if they are unknown.
    :ivar user: its user if that is another than the doctor's; else ''.
    """

    pid: int
    stopped: bool
    variables: Optional[Mapping[str, str]]
    user: str = ''


@dataclass
class Graph:
    """
    State of the ROS graph.

    :ivar absent: why there is no graph, or ''.
    :ivar broken: True if ROS 2 is installed and does not start.
    :ivar wanted: full name of the requested node, or ''.
    :ivar others: full names of the nodes of this package, if the requested one is missing.
    :ivar waited_s: time of the discovery (s).
    :ivar nodes: nodes of this package, or the requested one.
    :ivar variables: the discovery variables in use.
    :ivar given: those of the doctor's own environment, before those of the node replaced them.
    :ivar processes: processes of this machine that run the node, in any domain.
    :ivar orphans: subscriptions to topics that nobody publishes, similar to those of the nodes.
    """

    absent: str = ''
    broken: bool = False
    wanted: str = ''
    others: tuple[str, ...] = ()
    waited_s: float = 0.0
    nodes: tuple[RunningNode, ...] = ()
    variables: Mapping[str, str] = field(default_factory=DISCOVERY_VARIABLES.copy)
    given: Mapping[str, str] = field(default_factory=DISCOVERY_VARIABLES.copy)
    processes: tuple[LocalProcess, ...] = ()
    orphans: tuple[Orphan, ...] = ()


@dataclass
class NatNetResults:
    """
    Data received by NatNet.

    :ivar port: command port.
    :ivar name: name of the server's application.
    :ivar version: version of NatNet; None if no server answered.
    :ivar multicast: whether it sends to a multicast group; None if unknown.
    :ivar group: that group.
    :ivar listened_s: time of the reception (s).
    :ivar refused: whether its machine answered that nothing listens on the port.
    :ivar frames: decoded frames.
    :ivar lost: frames that are missing in the numbering.
    :ivar unread: datagrams that the receive buffer of this machine could not hold.
    :ivar unnamed: rigid bodies in frames, whose names did not arrive.
    :ivar malformed: datagrams that could not be decoded.
    :ivar bodies: names of rigid bodies.
    :ivar untracked: bodies that were not tracked at the end.
    :ivar echoes: number of round trips.
    :ivar round_trip_ms: the shortest round trip.
    :ivar processing_ms: time from exposure to transmission (median), 0 if it is not sent.
    :ivar messages: messages of the client.
    :ivar other_card: another network card on which frames arrive, '' for none.
    :ivar other_source: the address that they come from.
    :ivar held_by: data port, and the program of this machine that has it and does not share it.
    """

    port: int
    name: str = ''
    version: Optional[tuple[int, int]] = None
    multicast: Optional[bool] = None
    group: str = ''
    listened_s: float = 0.0
    refused: bool = False
    frames: int = 0
    lost: int = 0
    unread: int = 0
    unnamed: int = 0
    malformed: int = 0
    bodies: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    echoes: int = 0
    round_trip_ms: float = 0.0
    processing_ms: float = 0.0
    messages: tuple[str, ...] = ()
    other_card: str = ''
    other_source: str = ''
    held_by: str = ''


@dataclass
class ProbeResults:
    """
    All results of the probes of one server and of the nodes that use it.

    :ivar server: the server, as given by the user.
    :ivar port: its VRPN port.
    :ivar connection: 'auto', 'udp' or 'tcp', like the node's parameter.
    :ivar advertise: address that the server is asked to connect back to, as given by the user, ''
        for the local address.
    :ivar expected_rate_hz: the cameras' rate (Hz) if the user gave it, else 0.
    :ivar addresses: addresses of the server's name.
    :ivar name_error: why the name has no address.
    :ivar local: this machine's address on the route to the server.
    :ivar card: the network card with that address, '' if unknown.
    :ivar route_error: why there is no route.
    :ivar environment: some of 'container', 'wsl' and 'ufw'.
    :ivar transport_reason: why the node uses UDP or TCP.
    :ivar remembered: what the client remembers of an unanswered request, or ''.
    :ivar udp: the request and the connect-back; None if not tried.
    :ivar tcp: the connection by ``tcp://``; None if not tried.
    :ivar address_unused: True if no machine of the local network answers for the address (ARP).
    :ivar unexpected_peers: kind of message from other addresses than the server's, by address.
    :ivar stream: the stream; None without a connection.
    :ivar tcp_poses: poses by TCP when none arrived by UDP; None if not tried.
    :ivar graph: the ROS graph; None if not checked.
    :ivar protocol: 'vrpn', 'natnet' or 'auto', like the node's parameter.
    :ivar natnet: data received by NatNet; None if not checked.
    :ivar taken_from: the node whose settings were used where the user gave none; '' for none.
    """

    server: str
    port: int
    connection: str = 'auto'
    advertise: str = ''
    expected_rate_hz: float = 0.0
    addresses: tuple[str, ...] = ()
    name_error: str = ''
    local: str = ''
    card: str = ''
    route_error: str = ''
    environment: tuple[str, ...] = ()
    transport_reason: str = ''
    remembered: str = ''
    udp: Optional[Attempt] = None
    tcp: Optional[Attempt] = None
    address_unused: bool = False
    unexpected_peers: dict[str, str] = field(default_factory=dict)
    stream: Optional[Stream] = None
    tcp_poses: Optional[int] = None
    graph: Optional[Graph] = None
    protocol: str = 'vrpn'
    natnet: Optional[NatNetResults] = None
    taken_from: str = ''

    @property
    def address(self) -> str:
        """Return the server's address in use, or '' while unknown."""
        return self.addresses[0] if self.addresses else ''

    @property
    def established(self) -> Optional[Stream]:
        """Return the stream if the handshake succeeded."""
        stream = self.stream
        return stream if stream is not None and stream.attempt.version is not None else None

    @property
    def by_natnet(self) -> bool:
        """Return whether poses reach a node with protocol auto without VRPN."""
        return self.protocol == 'auto' and self.natnet is not None and bool(self.natnet.bodies)

    @property
    def received(self) -> str:
        """Return the protocols by which poses arrived, as in 'VRPN'; '' for none."""
        natnet = self.natnet
        by_natnet = natnet is not None and len(natnet.untracked) < len(natnet.bodies)
        return ' and '.join(name for name, arrived in (
            ('VRPN', self.stream is not None and self.stream.poses > 0),
            ('NatNet', by_natnet)) if arrived)

    @property
    def loopback(self) -> bool:
        """Return whether the server runs on this machine, without a firewall between."""
        return self.address.startswith('127.') or self.address in ('::1', self.local)
