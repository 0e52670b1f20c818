# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The VRPN side of the simulated Motive.

As the VRPN library does, the server serves nobody while a connect-back is under way. The library
also waits for a client on TCP that does not read; here such a client misses frames.
"""

from collections.abc import Callable
import functools
import logging
import selectors
import socket
import threading
import time
from typing import Optional

from optitrack_vrpn.core.errors import ConfigurationError, LocalProtocolError
from optitrack_vrpn.drivers.vrpn.codec import (
    CONTROL_SENDER, encode_name, Event, LocalNames, PeerHello, PingReport, PONG_TYPE,
    SenderDescribed, TextReport, UdpDescribed)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.sim.acceptor_io import Acceptor, ClientGone, forget, raw_clock_ns, SimClient
from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.world import Report, SimCounters, SimFrame, SimStream, Timers, World

_LOG = logging.getLogger(__name__)
#: Types that a tracker of the VRPN library describes, in its order.
TRACKER_TYPES = (
    'vrpn_Tracker Pos_Quat', 'vrpn_Tracker Velocity', 'vrpn_Tracker Acceleration',
    'vrpn_Tracker To_Room', 'vrpn_Tracker Unit_To_Sensor', 'vrpn_Tracker Request_Tracker_To_Room',
    'vrpn_Tracker Request_Unit_To_Sensor', 'vrpn_Tracker Workspace',
    'vrpn_Tracker Request_Tracker_Workspace', 'vrpn_Tracker set_update_rate',
    'vrpn_Tracker Reset_Origin', 'vrpn_Base text_message', 'vrpn_Base ping_message',
    'vrpn_Base pong_message',
)


def _check_name(name: str, where: str) -> None:
    """
    Check the name of a body.

    :raises ConfigurationError: if it is not valid in VRPN.
    """
    try:
        encode_name(name)
    except LocalProtocolError as error:
        raise ConfigurationError(f'{where}{error}') from None
    if name == CONTROL_SENDER:
        raise ConfigurationError(f"{where}{name!r} is the VRPN library's own sender")


class VrpnServer:
    """
    All VRPN clients of one simulated Motive; only the server's thread uses this class.

    :param scenario: network, server and seed are used.
    :param world: its bodies.
    :param stream: converts times of the server's clock to those of the scenario.
    :param selector: registers every socket, with a callable of the event mask as its data.
    :param counters: updated with each event.
    :param changed: notified when a client connects or disconnects.
    :param timers: the server's timers.
    :ivar established: number of clients that finished their handshake.
    :raises ConfigurationError: if a name of a body is not valid in VRPN.
    """

    def __init__(
        self, scenario: Scenario, world: World, stream: SimStream,
        selector: selectors.BaseSelector, counters: SimCounters, changed: threading.Condition,
        timers: Timers,
    ) -> None:
        for i, name in enumerate(world.names):
            _check_name(name, f'bodies[{i}].name: ')
        self._timers = timers
        self._bodies = world.names
        self._seconds = stream.time
        self._scenario = scenario
        self._selector = selector
        self._counters = counters
        self._changed = changed
        self._clients: dict[SimClient, None] = {}
        self._number = 0
        self._names = LocalNames()
        self._own: set[str] = set()
        self._waits = False     # for a connect-back
        server = scenario.server
        self._acceptor = Acceptor(
            server.host, server.port, selector, counters, self._add,
            lambda address: any(client.address == address for client in self._clients),
            server.connect_timeout, server.firewall, self._wait_for_connection)
        self.established = 0

    # -- sockets -------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """Return the port, TCP and UDP; the one chosen by the system once open."""
        return self._acceptor.port

    @property
    def where(self) -> str:
        """Describe where it listens."""
        return f'listening on {self._scenario.server.host}:{self.port}'

    @property
    def listeners(self) -> int:
        """Return the number of clients that get frames."""
        return self.established

    @property
    def is_open(self) -> bool:
        """Return whether clients can connect."""
        return self._acceptor.is_open

    def open(self) -> None:
        """
        Listen for clients.

        :raises TransportError: if the address or port is not available.
        """
        # After a restart the same bodies have different numbers.
        names = self._bodies[::-1] if self._counters.restarts % 2 else self._bodies
        self._names, self._own = LocalNames(), set()
        for name in names:
            self.register(name)
        for name in TRACKER_TYPES:
            self._names.type_id(name)
        self._acceptor.open()

    def close(self, reason: str) -> None:
        """Close every connection, and stop listening."""
        for client in list(self._clients):
            self._drop(client, reason)
        self._acceptor.close()
        self._waits = False

    def _wait_for_connection(self, waits: bool) -> None:
        """Serve nobody while a connect-back is under way, as the library does."""
        self._waits = waits
        (self._acceptor.pause if waits else self._acceptor.resume)()
        for client in self._clients:
            if waits:
                self._selector.unregister(client.sock)
            else:
                self._register(client)

    def _register(self, client: SimClient) -> None:
        self._selector.register(
            client.sock, selectors.EVENT_READ, lambda mask: self._serve(client, mask))

    def _watch(self, client: SimClient) -> None:
        """Wait until the rest of a message fits into the buffer of a client."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.is_full else 0)
        key = self._selector.get_map().get(client.sock)
        if key is not None and key.events != events:
            self._selector.modify(client.sock, events, key.data)

    # -- names ---------------------------------------------------------------------------------

    @property
    def links(self) -> list[ImpairedLink]:
        """Return the simulated network of each client."""
        return [client.link for client in self._clients]

    def register(self, name: str) -> None:
        """
        Register a body.

        :raises LocalProtocolError: if the name is invalid or the table is full.
        """
        self._names.sender_id(name)
        self._own.add(name)

    def _echo(self, name: str) -> None:
        """Describe a client's name to all clients, as the library does with unknown names."""
        try:
            self._names.sender_id(name)
        except LocalProtocolError as error:
            _LOG.warning('a name of a client is ignored: %s', error)
            return
        for client in list(self._clients):
            client.connection.describe(time.time_ns())
            self._act(client, client.flush)

    # -- connections ---------------------------------------------------------------------------

    def _add(self, sock: socket.socket, connected_back: bool) -> None:
        try:
            # Clients that connected by TCP get no description of the port for datagrams.
            udp_address = (
                sock.getsockname()[0], self._acceptor.udp_port) if connected_back else None
            connection = VrpnConnection(self._names, udp_address, time.time_ns())
            self._number += 1
            link = ImpairedLink(self._scenario.network, self._scenario.seed, self._number,
                                self._seconds)
            client = SimClient(
                sock, connection, link,
                lambda due_ns, action: self._timers.at(
                    due_ns, lambda: self._act(client, action)))
        except OSError:
            sock.close()  # the client has disconnected
            return
        self._clients[client] = None
        if not self._waits:
            self._register(client)
        self._act(client, client.flush)

    def _drop(self, client: SimClient, reason: str) -> None:
        if client not in self._clients:
            return
        del self._clients[client]
        forget(self._selector, client.sock)
        client.close()
        self._counters.dropped[reason.split(':')[0]] += 1
        self._count()
        _LOG.info('client %s dropped: %s', client, reason)

    def _count(self) -> None:
        with self._changed:
            self.established = sum(client.connection.established for client in self._clients)
            self._changed.notify_all()

    # -- receiving -----------------------------------------------------------------------------

    def _serve(self, client: SimClient, mask: int) -> None:
        events: list[Event] = []
        self._act(client, lambda: events.extend(
            client.receive() if mask & selectors.EVENT_READ else ()))
        for event in events:
            if client in self._clients:
                self._act(client, functools.partial(self._handle, client, event))

    def _handle(self, client: SimClient, event: Event) -> None:
        if isinstance(event, PeerHello):
            self._counters.accepted += 1
            self._count()
            _LOG.info('client %s connected%s', client, f' ({event.note})' if event.note else '')
        elif isinstance(event, UdpDescribed):
            client.use_udp(event.port)
        elif isinstance(event, PingReport):
            if event.sender in self._own:
                self.send_message(event.sender, PONG_TYPE, b'', time.time_ns())
        elif isinstance(event, SenderDescribed):
            self._echo(event.sender)
        elif isinstance(event, TextReport):
            _LOG.debug('text of client %s: %.200r', client, event.text)

    # -- sending -------------------------------------------------------------------------------

    def deliver(self, frame: SimFrame, exposure_ns: Optional[int]) -> None:
        """Send a frame to all, but not while a connect-back is under way."""
        for report in frame.reports:
            if report.name not in self._own:
                self.register(report.name)
        for _ in range(frame.copies):
            self.send_reports(frame.reports)

    def send_reports(self, reports: list[Report]) -> None:
        """Send reports together to all."""
        if self._waits:
            return
        time_ns, now_ns = time.time_ns(), raw_clock_ns()

        def send(client: SimClient) -> None:
            self._counters.datagrams += client.deliver(reports, now_ns, time_ns)
        for client in list(self._clients):
            self._act(client, functools.partial(send, client))

    def send_message(self, sender: str, type_name: str, payload: bytes, time_ns: int) -> None:
        """Send a message to all, by TCP."""
        def send(client: SimClient) -> None:
            client.connection.send(sender, type_name, payload, time_ns)
            client.flush()
        for client in list(self._clients):
            self._act(client, functools.partial(send, client))

    def check(self, now_ns: int) -> None:
        """End connect-backs that take too long."""
        self._acceptor.check(now_ns)

    def _act(self, client: SimClient, action: Callable[[], object]) -> None:
        """Act for a client; drop it if its connection is lost."""
        if client not in self._clients:
            return
        try:
            action()
            client.flush()
        except ClientGone as gone:
            self._drop(client, str(gone))
        else:
            if client in self._clients:
                self._watch(client)
