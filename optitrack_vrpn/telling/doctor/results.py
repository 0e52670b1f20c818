# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the probes found; settings of the running node where the user of the doctor states none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
import math
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.settings.parameters import parameters_of, sift
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Attempt
from optitrack_vrpn.drivers.frames import Vector
from optitrack_vrpn.drivers.probing import Place
from optitrack_vrpn.drivers.table import (
    DEFAULT, own_port, port_parameter, source_settings, SOURCES, title)
from optitrack_vrpn.node.graph.processes import DISCOVERY_VARIABLES, LocalProcess
from optitrack_vrpn.telling.facts import RateFacts, StreamFacts

#: Chosen: longest wait from the connection to the first pose (s), two frames of the slowest
#: supported sender (1 Hz).
FIRST_POSE_S = 2.0


class Lift(NamedTuple):
    """The largest displacement of one body while the user lifted it, in the sender's axes (m)."""

    body: str
    displacement: Vector

    @property
    def length(self) -> float:
        """Length of the displacement (m)."""
        return math.hypot(*self.displacement)

    @property
    def axis(self) -> str:
        """Return the axis of the largest displacement: 'x', 'y' or 'z'."""
        return max(zip(map(abs, self.displacement), 'xyz'))[1]

    @property
    def along(self) -> float:
        """Return the displacement along that axis (m)."""
        return self.displacement['xyz'.index(self.axis)]

    @property
    def short(self) -> bool:
        """Return whether it is no lift: above noise and accidental motion (chosen, m)."""
        return self.length < 0.1

    @property
    def oblique(self) -> bool:
        """Return whether it was not vertical: chosen, 27 degrees."""
        return sorted(map(abs, self.displacement))[1] > 0.5 * abs(self.along)


@dataclass
class WatchedStream(StreamFacts):
    """
    What the node's client and pipeline received.

    :ivar broken: whether the client ended for a fault of the peer: it does not speak the protocol.
    :ivar listened_s: time from the connection to the end (s); 0 without a connection.
    :ivar first_pose_s: time from the connection to the first pose (s), None without any.
    :ivar newest_sender_ns: the newest sender time (ns, epoch of the sender).
    :ivar ahead_s: that minus the host's time of its arrival (s).
    :ivar lifts: displacements of all bodies, if the user was asked to lift one.
    :ivar processing_s: time from exposure to transmission (s) of the newest frame.
    """

    broken: bool = False
    listened_s: float = 0.0
    first_pose_s: Optional[float] = None
    newest_sender_ns: int = 0
    ahead_s: float = math.nan
    lifts: Optional[tuple[Lift, ...]] = None
    processing_s: float = 0.0

    @property
    def timed(self) -> bool:
        """Return whether there is something to say about the clock of the sender."""
        clock = self.clock
        return clock is not None and bool(clock.samples or clock.withheld or clock.sender_fault)


@dataclass(frozen=True)
class Tried:
    """
    What was found out of one protocol.

    :ivar wanted: whether the node uses it; else it was tried because no other one answered.
    :ivar config: the configuration of its client; ``settings``: those of the protocol, or None.
    :ivar stream: what its client received.
    :ivar by_tcp: the same of a second client, by TCP, if the first one did not use TCP.
    :ivar around: what its client cannot know, see ``drivers.probing``; None without a probe.
    """

    wanted: bool
    config: ClientConfig
    settings: Any
    stream: WatchedStream
    by_tcp: Optional[WatchedStream] = None
    around: Any = None

    @property
    def answered(self) -> bool:
        """Return whether the server speaks the protocol."""
        return self.stream.listened_s > 0.0

    @property
    def attempts(self) -> dict[str, Attempt]:
        """Return the ways that were tried."""
        return {**(self.by_tcp.link.attempts if self.by_tcp is not None else {}),
                **self.stream.link.attempts}


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
    :ivar dead_servers: Discovery Servers in use on whose port nothing listens.
    :ivar announced: full names of lifecycle nodes whose services are known and whose data does not
        arrive, as their names.
    :ivar parents: parents of TF frames that have two, by frame.
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
    dead_servers: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    parents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    :ivar unused: whether no computer of the local network answers for the address (ARP).
    :ivar tried: what was found out of each protocol.
    :ivar stream: the stream; None without a route to the server.
    :ivar by: the protocol of the stream.
    :ivar graph: the ROS graph; None if not checked.
    :ivar taken_from: the node whose settings were used where the user gave none; '' for none.
    :ivar stated_up: the up axis that the server states; '' if it states none.
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
    stream: Optional[WatchedStream] = None
    by: str = ''
    graph: Optional[Graph] = None
    taken_from: str = ''
    stated_up: str = ''
    unused: bool = False
    tried: dict[str, Tried] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Return where the server is."""
        return Place(self.addresses[0] if self.addresses else '', self.local, self.card)

    @property
    def answering(self) -> list[str]:
        """Return the protocols that the server speaks."""
        return [name for name, one in self.tried.items() if one.answered]

    @property
    def also(self) -> dict[str, WatchedStream]:
        """Return the streams of other protocols that answer beside that of the stream."""
        return {name: self.tried[name].stream for name in self.answering if (
            name != self.by and self.stream is not None and self.stream.poses)}

    @property
    def seen(self) -> WatchedStream:
        """Return the stream with the rates that the user expects; an empty one without any."""
        stream = self.stream or WatchedStream()
        return replace(stream, loopback=self.place.loopback, rate=RateFacts(
            stream.rates, self.expected_rate_hz, unsent=stream.unsent_share))

    @property
    def lift(self) -> Optional[Lift]:
        """Return the largest displacement; None without any."""
        lifts = self.stream.lifts if self.stream is not None else None
        return max(lifts, key=lambda one: one.length) if lifts else None

    @property
    def lifted_up(self) -> str:
        """Return the axis that a lifted body showed to be up; '' without one."""
        lift = self.lift
        good = lift is not None and not lift.short and not lift.oblique and (
            lift.axis != 'x' and lift.along > 0.0)
        return lift.axis if lift is not None and good else ''

    @property
    def nodes(self) -> tuple[RunningNode, ...]:
        """Return the nodes of the graph; none without a graph."""
        return self.graph.nodes if self.graph is not None else ()

    @property
    def received(self) -> str:
        """Return the name of the protocol by which good poses arrived; '' for none."""
        good = self.stream is not None and any(body.status.good for body in self.stream.bodies)
        return title(self.by) if good and self.by else ''


#: Parameters of the client that the doctor uses, beside those of each protocol.
_CLIENT = ('server', 'port', 'connection', 'interface')


def target_parameters() -> dict[str, Any]:
    """Return the parameters that decide how a server is reached, by name, without protocol."""
    client = {one.name: one for one in parameters_of(ClientConfig) if one.name in _CLIENT}
    return {**client, **{one.name: one for one in parameters_of(type(source_settings()))}}


def ports() -> dict[str, str]:
    """Return the parameter of the port of each protocol that has its own."""
    return {name: port_parameter(name) for name in SOURCES if own_port(name)}


@dataclass
class Target:
    """
    What the doctor probes.

    :ivar server: the server; '' if none is named.
    :ivar protocol: the parameter of that name.
    :ivar values: other parameters, by name; missing ones have their defaults.
    :ivar taken: names of the values that are those of the running node.
    :ivar node: full name of that node; '' without one.
    """

    server: str
    protocol: str
    values: Mapping[str, Any]
    taken: tuple[str, ...] = ()
    node: str = ''

    def config(self, timeout_s: float) -> tuple[ClientConfig, Any]:
        """
        Return the configuration of the client, and the settings of all protocols.

        :param timeout_s: timeout of each wait (s).
        :raises ConfigurationError: for a wrong value.
        """
        config, wrong = sift(ClientConfig, {'server': self.server or 'localhost', **self.values})
        settings, more = sift(type(source_settings()), self.values)
        if wrong or more:
            raise ConfigurationError('\n'.join([*wrong, *more]))
        return replace(config, link=replace(
            config.link, attempt_s=timeout_s, silent_after_s=0.0, reconnect_after_s=0.0)), settings


def choose_target(
    given: Mapping[str, Any], nodes: Sequence[RunningNode], here: bool,
) -> Target:
    """
    Complete the options of the user by the settings of a running node.

    :param given: options by the names of parameters; None where the user gives none.
    :param nodes: running nodes with their settings.
    :param here: whether they run on this computer; else their interface is one of another.
    :raises ConfigurationError: if no option names the server, and the nodes use different ones.
    """
    values = {name: value for name, value in given.items() if value is not None}
    server = values.get('server', '')
    settings = {node.name: _usable(node) for node in nodes if node.settings.get('server')}
    if not server:
        servers = {str(one.get('server')): name for name, one in settings.items()}
        if len(servers) > 1:
            listed = ', '.join(f'{printable(name, 60)} uses {printable(server, 60)}'
                               for server, name in list(servers.items())[:4])
            raise ConfigurationError(
                f'{listed}: name one of the nodes (--node), or the server (--server)')
    settings = {name: one for name, one in settings.items()
                if one.get('server') == server} or settings
    taken: dict[str, Any] = {}
    node = ''
    # Of nodes that use one server by different ports or protocols, the first one is checked.
    if len({one.get('server') for one in settings.values()}) == 1:
        node, one = next(iter(settings.items()))
        taken = {name: value for name, value in one.items()
                 if name not in values and (here or name != 'interface')}
    values = {**taken, **values}
    return Target(values.pop('server', ''), values.pop('protocol', DEFAULT), values,
                  tuple(taken), node)


def _usable(node: RunningNode) -> dict[str, Any]:
    """Return those values of a node that are valid; a node of another package has any."""
    usable = {}
    for name, parameter in target_parameters().items():
        if name in node.settings:
            try:
                usable[name] = parameter.check(node.settings[name])
            except ConfigurationError:
                pass
    if node.settings.get('protocol') in SOURCES:
        usable['protocol'] = node.settings['protocol']
    return usable
