# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Results of the doctor's probes, the input of all checks.

Every field is optional: a probe that fails leaves the later ones without results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.checks import CheckResult
from optitrack_vrpn.clock import ClockStatus
from optitrack_vrpn.findings import StreamSeen
from optitrack_vrpn.sources import DEFAULT, Heard, Place, title, Vector


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
    What the node's client and pipeline received.

    :ivar transport: 'udp', 'tcp' or the name of the protocol.
    :ivar listened_s: time from the connection to the end (s); 0 without a connection.
    :ivar first_pose_s: time from the connection to the first pose (s), None without any.
    :ivar more_bodies: poses of bodies beyond the limit.
    :ivar clock: estimate of the sender's clock by the node's estimator.
    :ivar newest_sender_ns: the newest sender time (ns, epoch of the sender).
    :ivar ahead_s: that minus the host's time of its arrival (s).
    :ivar lifts: displacements of all bodies, if the user was asked to lift one.
    :ivar texts: text messages of the server.
    :ivar messages: warnings of the client.
    :ivar ended: why the connection failed or ended early, or ''.
    :ivar stalled_s: the longest time for which this computer did not run the doctor (s).
    :ivar silence: why no pose arrived; None if some did.
    """

    transport: str = ''
    listened_s: float = 0.0
    first_pose_s: Optional[float] = None
    more_bodies: int = 0
    clock: Optional[ClockStatus] = None
    newest_sender_ns: int = 0
    ahead_s: float = math.nan
    lifts: Optional[tuple[Lift, ...]] = None
    texts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    ended: str = ''
    stalled_s: float = 0.0
    silence: Optional[CheckResult] = None

    def heard(self) -> Heard:
        """Return what the probe of the protocol needs of it."""
        return Heard(self.poses, [body.name for body in self.bodies], self.listened_s,
                     self.counters, self.texts, self.ended)


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
class ProbeResults:
    """
    All results of the probes of one server and of the nodes that use it: the input of the checks.

    :ivar server: the server, as given by the user.
    :ivar port: the parameter ``port``.
    :ivar protocol: the parameter ``protocol``.
    :ivar expected_rate_hz: the cameras' rate (Hz) if the user gave it, else 0.
    :ivar addresses: addresses of the server's name.
    :ivar name_error: why the name has no address.
    :ivar local: this machine's address on the route to the server.
    :ivar card: the network card with that address, '' if unknown.
    :ivar route_error: why there is no route.
    :ivar stream: the stream; None without a connection.
    :ivar by: the protocol of the stream.
    :ivar graph: the ROS graph; None if not checked.
    :ivar taken_from: the node whose settings were used where the user gave none; '' for none.
    """

    server: str
    port: int
    protocol: str = DEFAULT
    expected_rate_hz: float = 0.0
    addresses: tuple[str, ...] = ()
    name_error: str = ''
    local: str = ''
    card: str = ''
    route_error: str = ''
    stream: Optional[Stream] = None
    by: str = ''
    graph: Optional[Graph] = None
    taken_from: str = ''

    @property
    def place(self) -> Place:
        """Return where the server is."""
        return Place(self.addresses[0] if self.addresses else '', self.local, self.card)

    @property
    def established(self) -> Optional[Stream]:
        """Return the stream if there was a connection."""
        return self.stream if self.stream is not None and self.stream.listened_s else None

    @property
    def received(self) -> str:
        """Return the name of the protocol by which good poses arrived; '' for none."""
        good = self.stream is not None and any(body.status.good for body in self.stream.bodies)
        return title(self.by) if good and self.by else ''
