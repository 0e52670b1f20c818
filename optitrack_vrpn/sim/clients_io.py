# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All clients of the simulated Motive: their messages, messages to all, and disconnections."""

from collections.abc import Callable, Sequence
import logging
import selectors
import socket
import threading
import time
from typing import Any, Optional, TypeVar

from optitrack_vrpn.errors import LocalProtocolError
from optitrack_vrpn.sim.acceptor_io import Acceptor, forget, raw_clock_ns
from optitrack_vrpn.sim.counters_io import Counters, Throttle
from optitrack_vrpn.sim.impairments import Link
from optitrack_vrpn.sim.peer_io import Peer, PeerGone, tune
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.timers import Timers
from optitrack_vrpn.sim.world import Report
from optitrack_vrpn.vrpn.connection import Connection
from optitrack_vrpn.vrpn.constants import PONG_TYPE
from optitrack_vrpn.vrpn.messages import (
    Event, PeerHello, PingReport, SenderDescribed, TextReport, UdpDescribed)
from optitrack_vrpn.vrpn.names import LocalNames

_T = TypeVar('_T')
_LOG = logging.getLogger(__name__)

#: Chosen: one pong answers all pings of this period (ns), so that pings cannot load other clients.
#: Doubled, a pong is up to 40 ms late; halved, twice as many pongs during a flood.
_PONG_INTERVAL_NS = 20_000_000
#: Chosen: time (ns) in which a repeated request of a connected client may still arrive. Halved, a
#: late repetition opens a second connection; doubled, a client that reconnects waits longer.
_REPEATED_REQUEST_NS = 1_000_000_000
#: Chosen: largest number of names of clients that are echoed; the library echoes all. Halved or
#: doubled, so is the traffic that a flood of names causes.
_MAX_FOREIGN_NAMES = 100

#: Types that a tracker of the VRPN library describes, in its order.
TRACKER_TYPES = (
    'vrpn_Tracker Pos_Quat', 'vrpn_Tracker Velocity', 'vrpn_Tracker Acceleration',
    'vrpn_Tracker To_Room', 'vrpn_Tracker Unit_To_Sensor', 'vrpn_Tracker Request_Tracker_To_Room',
    'vrpn_Tracker Request_Unit_To_Sensor', 'vrpn_Tracker Workspace',
    'vrpn_Tracker Request_Tracker_Workspace', 'vrpn_Tracker set_update_rate',
    'vrpn_Tracker Reset_Origin', 'vrpn_Base text_message', 'vrpn_Base ping_message',
    'vrpn_Base pong_message',
)


class Clients:
    """
    The clients of one server; only the server's thread uses this class.

    :param scenario: network, limits and seed are used.
    :param selector: registers every socket, with a callable of the event mask as its data.
    :param counters: updated with each event.
    :param changed: notified when a client connects or disconnects.
    :param timers: the server's timers.
    :param seconds: converts a time of the server's clock (ns) to seconds of the scenario.
    :ivar established: number of clients that finished their handshake.
    """

    def __init__(
        self, scenario: Scenario, selector: selectors.BaseSelector, counters: Counters,
        changed: threading.Condition, timers: Timers, seconds: Callable[[int], float],
    ) -> None:
        self._timers = timers
        self._seconds = seconds
        self._scenario = scenario
        self._limits = scenario.server
        self._selector = selector
        self._counters = counters
        self._changed = changed
        self._peers: set[Peer] = set()
        self._number = 0
        self._names = LocalNames()
        self._own: set[str] = set()
        self._foreign = 0
        self._pongs: dict[str, None] = {}
        self._pongs_sent_ns = 0
        self._log = Throttle(_LOG)
        self._acceptor = Acceptor(
            scenario.server, selector, counters, self._add, self.__len__, self._is_connected)
        self.established = 0

    def __len__(self) -> int:
        return len(self._peers)

    # -- sockets -------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Return the port, TCP and UDP; the one chosen by the system once open."""
        return self._acceptor.port

    @property
    def is_open(self) -> bool:
        """Return whether clients can connect."""
        return self._acceptor.is_open

    def open(self) -> None:
        """
        Listen for clients.

        :raises TransportError: if the address or port is not available.
        """
        self._acceptor.open()

    def close(self, reason: str) -> None:
        """Close every connection, and stop listening."""
        for peer in list(self._peers):
            self._drop(peer, reason)
        self._acceptor.close()

    # -- names ---------------------------------------------------------------------------------

    @property
    def links(self) -> list[Link]:
        """Return the simulated network of each client."""
        return [peer.link for peer in self._peers]

    def begin(self, names: Sequence[str]) -> None:
        """Assign new numbers to the bodies, in this order; there must be no client."""
        self._names, self._own, self._foreign = LocalNames(), set(), 0
        self._pongs.clear()
        for name in names:
            self.register(name)
        for name in TRACKER_TYPES:
            self._names.type_id(name)

    def register(self, name: str) -> None:
        """
        Register a body.

        :raises LocalProtocolError: if the name is invalid or the table is full.
        """
        if name not in self._own:
            self._names.sender_id(name)
            self._own.add(name)

    def _echo(self, name: str) -> None:
        """Describe a client's name to all clients, as the library does with unknown names."""
        if name in self._names.senders:
            return
        try:
            if self._foreign >= _MAX_FOREIGN_NAMES:
                raise LocalProtocolError('too many names')
            self._names.sender_id(name)
        except LocalProtocolError:
            self._counters.refused_names += 1
            return
        self._foreign += 1
        for peer in list(self._peers):
            peer.connection.describe(time.time_ns())
            self._guard(peer, peer.flush, raw_clock_ns())

    # -- connections ---------------------------------------------------------------------------

    def _add(self, sock: socket.socket, connected_back: bool) -> None:
        now_ns = raw_clock_ns()
        if len(self._peers) >= self._limits.max_clients:
            self._counters.refused_clients += 1
            self._log.log(
                now_ns, logging.WARNING, 'a client was refused: there are %d already',
                len(self._peers))
            sock.close()
            return
        try:
            tune(sock)
            # Clients that connected by TCP get no description of the port for datagrams.
            udp_address = (
                sock.getsockname()[0], self._acceptor.udp_port) if connected_back else None
            connection = Connection(self._names, udp_address, time.time_ns())
            self._number += 1
            link = Link(
                self._scenario.network, self._scenario.seed, self._number, self._seconds)
            peer = Peer(
                sock, connection, link, self._limits, now_ns,
                lambda due_ns, action: self._timers.at(due_ns, lambda: (
                    peer in self._peers and self._guard(peer, action))))
        except OSError:
            sock.close()  # the client has disconnected
            return
        self._peers.add(peer)
        self._selector.register(
            sock, selectors.EVENT_READ, lambda mask: self._serve(peer, mask))
        self._guard(peer, peer.flush, now_ns)

    def _is_connected(self, address: tuple[str, int], now_ns: int) -> bool:
        return any(peer.address == address and now_ns - peer.since_ns < _REPEATED_REQUEST_NS
                   for peer in self._peers)

    def _drop(self, peer: Peer, reason: str) -> None:
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        forget(self._selector, peer.sock)
        peer.close()
        self._counters.dropped[reason.split(':')[0]] += 1
        self._count()
        self._log.log(raw_clock_ns(), logging.INFO, 'client %s dropped: %s', peer, reason)

    def _count(self) -> None:
        with self._changed:
            self.established = sum(peer.connection.established for peer in self._peers)
            self._changed.notify_all()

    # -- receiving -----------------------------------------------------------------------------

    def _serve(self, peer: Peer, mask: int) -> None:
        now_ns = raw_clock_ns()
        if mask & selectors.EVENT_READ:
            for event in self._guard(peer, peer.receive, now_ns) or ():
                if peer in self._peers:
                    self._guard(peer, self._handle, peer, event, now_ns)
        if peer in self._peers:
            self._guard(peer, peer.flush, now_ns)

    def _handle(self, peer: Peer, event: Event, now_ns: int) -> None:
        if isinstance(event, PeerHello):
            self._counters.accepted += 1
            self._count()
            self._log.log(now_ns, logging.INFO, 'client %s connected%s', peer,
                          f' ({event.note})' if event.note else '')
        elif isinstance(event, UdpDescribed):
            peer.use_udp(event.port)
        elif isinstance(event, PingReport):
            if event.sender in self._own:
                if not self._pongs:
                    self._timers.at(self._pongs_sent_ns + _PONG_INTERVAL_NS, self._send_pongs)
                self._pongs[event.sender] = None
        elif isinstance(event, SenderDescribed):
            self._echo(event.sender)
        elif isinstance(event, TextReport):
            _LOG.debug('text of client %s: %.200r', peer, event.text)

    # -- sending -------------------------------------------------------------------------------

    def deliver(self, reports: list[Report], now_ns: int) -> None:
        """Send the reports of one frame to all."""
        time_ns = time.time_ns()
        for peer in list(self._peers):
            datagrams = self._guard(peer, peer.deliver, reports, now_ns, time_ns)
            self._counters.datagrams += datagrams or 0

    def send_message(self, sender: str, type_name: str, payload: bytes, time_ns: int) -> None:
        """Send a message to all, by TCP."""
        for peer in list(self._peers):
            peer.connection.send(sender, type_name, payload, time_ns)
            self._guard(peer, peer.flush, raw_clock_ns())

    def _send_pongs(self) -> None:
        names, self._pongs = self._pongs, {}
        self._pongs_sent_ns = raw_clock_ns()
        for name in names:
            self.send_message(name, PONG_TYPE, b'', time.time_ns())

    def check(self, now_ns: int) -> None:
        """Drop clients that take too long."""
        self._acceptor.check(now_ns)
        for peer in list(self._peers):
            self._guard(peer, peer.check, now_ns)

    def _guard(self, peer: Peer, action: Callable[..., _T], *values: Any) -> Optional[_T]:
        """Call an action for a client; drop the client if its connection is lost."""
        try:
            result = action(*values)
        except PeerGone as gone:
            self._drop(peer, str(gone))
            return None
        if peer in self._peers:
            key = self._selector.get_key(peer.sock)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.wants_write else 0)
            if key.events != wanted:
                self._selector.modify(peer.sock, wanted, key.data)
        return result
