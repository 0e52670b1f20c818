# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A protocol as the loop sees it, and the receiver of what it decodes.

A driver is one conversation without sockets and without a clock. ``loop_io`` passes the bytes of
each socket to ``feed``, calls ``due`` when ``next_due_ns`` has come, and carries out the
``actions`` that the driver has collected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
import enum
import math
from typing import NamedTuple, Optional, Protocol, runtime_checkable, Union

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.drivers.frames import Item
from optitrack_vrpn.drivers.link import LinkState

#: Takes bytes of a conversation: kind, bytes, arrival and host clock minus arrival clock (ns),
#: addresses of the server and of this host.
Tap = Callable[[str, bytes, int, int, str, str], None]
#: Later than any time (ns).
NEVER_NS = 1 << 62


class Sink(Protocol):
    """Receiver of what a client decodes; the client's thread calls it."""

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """
        Process what one datagram or one read from the stream contained.

        The client logs an exception as a bug, closes the connection and connects again.

        :param arrival_ns: arrival time on the arrival clock (ns). The kernel stamps it where
            supported, so that data that waited in the socket keeps its true arrival time. The
            age of an item is the difference to the present time, not to the time of this call.
        :param host_minus_arrival_ns: system time minus arrival clock, read at the same time (ns).
        """

    def link_changed(self, change: Event) -> None:
        """Process a change of the connection's state, or a message about it: see link_event()."""


@runtime_checkable
class TappedSink(Protocol):
    """A sink that takes the bytes too: see ``takes.record.raw_recorder_io``."""

    @property
    def tap(self) -> Optional[Tap]:
        """Return the function that takes bytes; None if they are not needed."""


def tap_of(sink: Sink) -> Optional[Tap]:
    """Return the function of a sink that takes bytes; None if it has none."""
    return sink.tap if isinstance(sink, TappedSink) else None


class Outcome(enum.Enum):
    """How an attempt to reach a server ended."""

    OPEN = 'open'
    """Connected."""
    REFUSED = 'refused'
    """The server's computer answered that nothing listens there."""
    SILENT = 'silent'
    """No answer in time."""
    FAILED = 'failed'
    """The network or this computer's operating system refused."""


class Attempt(NamedTuple):
    """
    The last attempt to reach a server in one way.

    :ivar outcome: its outcome.
    :ivar error: the error with its remedy, or ''.
    :ivar took_s: its duration (s).
    """

    outcome: Outcome
    error: str = ''
    took_s: float = 0.0


@dataclass
class ServerFacts:
    """
    What a driver knows of its server, beside the frames.

    :ivar senders: names that it described, and whether each has answered a ping.
    :ivar name: the name of its program.
    :ivar stated_version: the version of the protocol that it states; '' before an answer.
    :ivar remark: peculiarity of the version, or ''.
    :ivar multicast: whether frames come by multicast; None before it is known.
    :ivar group: the group of multicast frames; '' for unicast.
    :ivar data_port: the port from or to which frames are sent, where they have one of their own.
    :ivar up_axis: the up axis that it states; '' for none.
    :ivar round_trip_s: the shortest round trip (s); NaN without one.
    :ivar unit_mm: its unit of length (mm).
    :ivar played: how poses of a take that it plays are treated: 'withheld' or 'published'; '' if
        it does not play one.
    :ivar live_again: whether it sends live poses after it played a take.
    :ivar bodies: names of what it describes, without those that cannot be distinguished.
    :ivar no_body: whether it describes no body at all.
    :ivar shared_ids: names of bodies by the id that they share.
    :ivar shared_names: names that several bodies share.
    :ivar unread: number of descriptions that cannot be read; ``unread_types`` unknown ones.
    :ivar unnamed: ids in the last frames that no description contains.
    :ivar unconfirmed_s: for how long poses have been withheld because their names are not
        confirmed (s).
    :ivar local_bones: a skeleton whose bones seem to be relative to their parents; '' for none.
    :ivar undecodable: why the last frames, many in succession, cannot be decoded; '' if they can.
    :ivar version: the version of the protocol in which it sends.
    :ivar last_error: why the last malformed datagram was rejected; 'none' without one.
    :ivar contradicted: settings, their values, and what it states instead.
    """

    senders: dict[str, bool] = field(default_factory=dict)
    name: str = ''
    stated_version: str = ''
    remark: str = ''
    multicast: Optional[bool] = None
    group: str = ''
    data_port: int = 0
    up_axis: str = ''
    round_trip_s: float = math.nan
    unit_mm: float = 1000.0
    played: str = ''
    live_again: bool = False
    bodies: tuple[str, ...] = ()
    no_body: bool = False
    shared_ids: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    shared_names: tuple[str, ...] = ()
    unread: int = 0
    unread_types: tuple[int, ...] = ()
    unnamed: frozenset[int] = frozenset()
    unconfirmed_s: float = 0.0
    local_bones: str = ''
    undecodable: str = ''
    version: str = ''
    last_error: str = 'none'
    contradicted: tuple[tuple[str, str, str], ...] = ()


@dataclass
class LinkStatus:
    """
    State of the connection, for diagnostics.

    :ivar state: link state.
    :ivar reason: reason of the state.
    :ivar since_ns: time of the last change of state, on the arrival clock (ns).
    :ivar transport: 'udp', 'tcp' or the name of the backend.
    :ivar server: the server's address once resolved, before that its name.
    :ivar local: the local address in use.
    :ivar sessions: number of conversations so far.
    :ivar failures: number of failed attempts since the last conversation.
    :ivar last_failure: reason of the last failure since the last conversation, or ''.
    :ivar unexpected_peers: number of connections and datagrams from addresses other than the
        server's; all are refused.
    :ivar refused: some of these addresses, and what came from each.
    :ivar counters: counters of the protocol, summed over all conversations.
    :ivar queue: receive queues of the current conversation: ``unread_udp_bytes`` (kernel memory
        used by unread datagrams), ``unread_tcp_bytes``, ``dropped_unread`` (datagrams that the
        kernel dropped because its buffer was full) and ``most_datagrams_at_once`` (largest number
        read in one call since the last status). Values that the system does not report are absent.
    :ivar transport_reason: why this transport was chosen.
    :ivar known: what is known of the server of the last conversation.
    :ivar attempts: the last attempt in each way, by transport.
    """

    state: LinkState = LinkState.STOPPED
    reason: str = 'not started'
    since_ns: int = 0
    transport: str = ''
    server: str = ''
    local: str = ''
    sessions: int = 0
    failures: int = 0
    last_failure: str = ''
    unexpected_peers: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)
    transport_reason: str = ''
    known: ServerFacts = field(default_factory=ServerFacts)
    attempts: dict[str, Attempt] = field(default_factory=dict)


class Source(Protocol):
    """A client of any protocol, as its user sees it."""

    def start(self) -> None:
        """
        Start the backend's thread; return immediately.

        :raises TransportError: if it was started or stopped before.
        :raises RuntimeError: if the system has no room for another thread.
        """

    def stop(self) -> None:
        """Stop the thread and wait for its end. All sockets are then closed. Idempotent."""

    def status(self) -> LinkStatus:
        """Return the state of the connection; safe from any thread."""


class Send(NamedTuple):
    """
    Send bytes to the server: by the stream if there is one, else as a datagram.

    :ivar port: port of the server; 0 for that of the conversation.
    """

    data: bytes
    port: int = 0


class SendTimed(NamedTuple):
    """Send what the function makes of the time immediately before (arrival clock, ns)."""

    make: Callable[[int], bytes]


class Join(NamedTuple):
    """Receive multicast data of the server too."""

    group: str
    port: int


class Connected(NamedTuple):
    """
    The server speaks the protocol.

    :ivar transport: how its frames come; '' if the client has stated it.
    """

    text: str
    transport: str = ''


class Deliver(NamedTuple):
    """Pass items to the sink that arrived earlier (ns) than the last datagram."""

    items: Sequence[Item]
    arrival_ns: int


class Finish(NamedTuple):
    """The conversation has ended, for this reason."""

    reason: str


Action = Union[Send, SendTimed, Join, Connected, Event, Deliver, Finish]


class ProtocolDriver(Protocol):
    """
    One conversation with one server.

    :ivar protocol: its row in ``table``, which begins the kinds of bytes for a ``Tap``.
    :ivar actions: what to do before the items of the last ``feed`` are passed on; the loop takes
        the list and leaves an empty one.
    :ivar next_due_ns: when ``due`` is to be called (ns).
    :ivar known: what it knows of the server.
    """

    protocol: str
    actions: list[Action]
    next_due_ns: int
    known: ServerFacts

    def begin(self, now_ns: int) -> None:
        """Begin: the sockets are open."""

    def feed(
        self, channel: str, data: Union[bytes, memoryview], arrival_ns: int,
    ) -> Sequence[Item]:
        """
        Process a datagram, or bytes of the stream.

        :param channel: the socket, as a kind of bytes.
        :param data: the bytes, valid during the call; none if the server has closed the stream.
        :returns: what they contained for the sink.
        """

    def due(self, now_ns: int) -> None:
        """
        Do what is due by now.

        :raises RemoteProtocolError: if the peer does not speak the protocol, after the items
            before the fault have been passed on.
        """

    def give_up(self, reason: str) -> str:
        """Take note that the loop connects again, since no pose comes; return the reason."""

    def end(self, now_ns: int) -> None:
        """End the conversation; the sockets are still open."""

    def counters(self) -> dict[str, int]:
        """Return the counters; safe from any thread."""
