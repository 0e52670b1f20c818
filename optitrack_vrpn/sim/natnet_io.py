# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet side of the simulated Motive: a command socket, and frames to clients or to a group.

A silent unicast client is removed, as in Motive.
"""

from collections.abc import Callable
import contextlib
from dataclasses import dataclass
import functools
import logging
import selectors
import socket
import threading
from typing import Optional

from optitrack_vrpn.core.errors import (
    ConfigurationError, LocalProtocolError, RemoteProtocolError, TransportError)
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import MessageId, ServerInfo, Version
from optitrack_vrpn.drivers.sockets_io import broadcast_addresses
from optitrack_vrpn.sim.acceptor_io import cannot_listen, forget, raw_clock_ns
from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.natnet import FREQUENCY, NatNetWorld
from optitrack_vrpn.sim.natnet_models import SAMPLES
from optitrack_vrpn.sim.natnet_settings import MOST_MARKERS, NATNET_VERSIONS
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.world import SimCounters, SimFrame as WorldFrame, SimStream, Timers, World

_LOG = logging.getLogger(__name__)
#: Chosen: datagrams read in one turn.
_DATAGRAMS_AT_ONCE = 64
#: Chosen: send buffer (bytes): one second of 500 bodies.
_SEND_BUFFER = 4 << 20
#: Chosen: time from the boot of the Motive PC, at which its ticks begin, to the scenario (ns).
_BOOT_NS = 3_600 * NS_PER_S

Address = tuple[str, int]


@dataclass
class _Client:
    """A unicast client: time of its last request, its bitstream, and its simulated network."""

    address: Address
    heard_ns: int
    bitstream: Version
    link: ImpairedLink


class NatNetServer:
    """
    All NatNet clients of one simulated Motive; only the server's thread uses this class.

    :param scenario: the scenario.
    :param world: its bodies.
    :param stream: the numbering of frames, and the sender's clock.
    :param selector: registers the command socket, with a callable of the event mask as its data.
    :param counters: updated with each event.
    :param changed: notified when a client connects or disconnects.
    :param timers: the server's timers.
    :ivar port: port of commands, once open.
    :ivar data_port: port from which frames are sent, and to which those of the group are sent.
    :ivar commands: requests of clients, oldest first.
    :ivar takes: names of the recorded takes, oldest first.
    :raises ConfigurationError: if the bodies do not fit into one datagram.
    """

    def __init__(
        self, scenario: Scenario, world: World, stream: SimStream,
        selector: selectors.BaseSelector, counters: SimCounters, changed: threading.Condition,
        timers: Timers,
    ) -> None:
        self._timers = timers
        self._scenario = scenario
        self._settings = scenario.natnet
        self._stream = stream
        self._selector = selector
        self._counters = counters
        self._changed = changed
        self.world = NatNetWorld(scenario, world.names)
        self.port = scenario.natnet.port
        self.data_port = scenario.natnet.data_port
        self.commands: list[str] = []
        self.takes: list[str] = []
        self._take = 'Take'
        self._clients: dict[Address, _Client] = {}
        self._number = 0
        self._group_link = ImpairedLink(scenario.network, scenario.seed, -1, stream.time)
        self._command: Optional[socket.socket] = None
        self._data: Optional[socket.socket] = None
        #: Sockets for broadcasts, which one that is bound to one address does not receive.
        self._broadcast: list[socket.socket] = []
        self._check_sizes()

    def _check_sizes(self) -> None:
        """
        Encode a frame and the model definitions in the versions that clients can request.

        :raises ConfigurationError: if one of them does not fit into one datagram, or is more than
            clients of the closed library hold.
        """
        frame = self.world.frame(WorldFrame(0, [], 0), 0, 0)
        if len(frame.markers) > MOST_MARKERS:
            raise ConfigurationError(
                f'the scenario has {len(frame.markers)} labelled and unlabelled markers; programs '
                f'with the NatNet library hold {MOST_MARKERS}: use fewer')
        try:
            for version in {self.world.version, *filter(self._granted, NATNET_VERSIONS.values())}:
                encode_frame(frame, version)
                encode_definitions(self.world.definitions, version)
        except LocalProtocolError as error:
            raise ConfigurationError(
                f'the scenario has too many bodies for NatNet: {error}; use fewer bodies, '
                'shorter names, fewer natnet.markers or skeletons') from None

    # -- sockets -------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """Describe where it listens."""
        settings = self._settings
        return f'NatNet {settings.version} on {self._scenario.server.host}:{self.port}' + (
            f', frames to {settings.group}:{self.data_port}' if settings.multicast else '')

    @property
    def is_open(self) -> bool:
        """Return whether the command socket is open."""
        return self._command is not None

    @property
    def listeners(self) -> int:
        """Return the number of clients; with multicast the group counts as one."""
        if not self.is_open:
            return 0
        return max(len(self._clients), int(self._settings.multicast))

    @property
    def established(self) -> int:
        """Count the clients that connected."""
        return len(self._clients)

    @property
    def links(self) -> list[ImpairedLink]:
        """Return the simulated network of each client."""
        return [client.link for client in self._clients.values()]

    def open(self) -> None:
        """
        Listen for commands.

        :raises TransportError: if the port is not available.
        """
        try:
            self._command, self.port = self._bind(self.port)
            self._data, self.data_port = self._bind(self.data_port, shared=True)
        except TransportError:
            self.close('')
            raise
        self._selector.register(self._command, selectors.EVENT_READ, functools.partial(
            self._read, self._command))
        self._selector.register(self._data, selectors.EVENT_READ, self._drain)
        host = self._scenario.server.host
        for address in (
                *broadcast_addresses(host), '255.255.255.255') if host != '0.0.0.0' else ():
            with contextlib.suppress(TransportError):    # not on this system, or it is in use
                sock, _ = self._bind(self.port, shared=True, host=address)
                self._broadcast.append(sock)
                self._selector.register(
                    sock, selectors.EVENT_READ, functools.partial(self._read, sock))

    def _bind(
        self, port: int, shared: bool = False, host: str = '',
    ) -> tuple[socket.socket, int]:
        """
        Open a socket; return it and its port.

        :param shared: whether other programs may have the port: it only sends, or receives
            broadcasts. Clients of the closed library accept frames from the stated data port only.
        :param host: the address; '' for that of the scenario.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host = host or self._scenario.server.host
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            if shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._settings.multicast:
                if host == self._scenario.server.host != '0.0.0.0':
                    sock.setsockopt(
                        socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            raise cannot_listen(host, port, error) from None
        return sock, sock.getsockname()[1]

    def close(self, reason: str) -> None:
        """Stop listening and remove all clients, which detect it by their timeouts."""
        for sock in (self._command, self._data, *self._broadcast):
            if sock is not None:
                forget(self._selector, sock)
        self._command = self._data = None
        self._broadcast.clear()
        self._clients.clear()

    # -- time ----------------------------------------------------------------------------------

    def server_ns(self, raw_ns: int) -> int:
        """Return the server's time (ns since its boot) at a time of this machine's raw clock."""
        return _BOOT_NS + self._stream.server_ns(raw_ns)

    def _later(self, due_ns: int, action: Callable[[], object]) -> None:
        """Call an action later, unless the socket has been closed then."""
        command = self._command
        self._timers.at(due_ns, lambda: command is self._command and action())

    def check(self, now_ns: int) -> None:
        """Remove silent unicast clients."""
        limit_ns = round(self._settings.client_timeout * NS_PER_S)
        for client in list(self._clients.values()):
            if now_ns - client.heard_ns > limit_ns:
                self._send(codec.encode_message(MessageId.DISCONNECT_BY_TIMEOUT), client.address)
                self._forget(client.address, 'timeout')

    def _forget(self, address: Address, reason: str) -> None:
        if self._clients.pop(address, None) is not None:
            self._counters.dropped[reason] += 1
            _LOG.info('NatNet client %s:%d removed: %s', *address, reason)
            with self._changed:
                self._changed.notify_all()

    # -- frames --------------------------------------------------------------------------------

    def deliver(self, frame: WorldFrame, exposure_ns: Optional[int]) -> None:
        """
        Send a frame after the simulated processing time, as Motive does.

        :param exposure_ns: raw clock; None for a frame that is sent now.
        """
        if not self.listeners or not frame.copies:
            return
        now_ns = raw_clock_ns()
        processing_ns = self.world.processing_ns()
        if exposure_ns is None:
            exposed_ns = now_ns - processing_ns
            self._transmit(frame, exposed_ns)
            return
        exposed_ns = exposure_ns + self.world.exposure_jitter_ns()
        self._later(exposed_ns + processing_ns, lambda: self._transmit(frame, exposed_ns))

    def _transmit(self, frame: WorldFrame, exposed_ns: int) -> None:
        now_ns = raw_clock_ns()
        data = self.world.frame(frame, self.server_ns(exposed_ns), self.server_ns(now_ns))
        receivers = list(self._clients.values())
        if self._settings.multicast:
            receivers = [_Client((self._settings.group, self.data_port), now_ns,
                                 self.world.version, self._group_link)]
        packed: dict[Version, bytes] = {}
        try:
            for receiver in receivers:
                version = receiver.bitstream
                packed[version] = packed.get(version) or encode_frame(data, version)
                for _ in range(frame.copies):
                    self._through(receiver.link, packed[version], receiver.address, frame=True)
        except LocalProtocolError as error:
            _LOG.error('%s', error)

    def _through(
        self, link: ImpairedLink, datagram: bytes, address: Address, frame: bool = False,
    ) -> None:
        """Send through the simulated network."""
        self._counters.datagrams += 1
        if link.ideal:
            self._send(datagram, address, frame)
            return
        now_ns = raw_clock_ns()
        for due_ns in link.datagram(now_ns):
            self._later(due_ns, lambda: self._send(datagram, address, frame))

    def _send(self, datagram: bytes, address: Address, frame: bool = False) -> None:
        sock = self._data if frame else self._command
        if sock is None:
            return
        try:
            sock.sendto(datagram, address)
        except OSError:
            pass    # a full buffer or a closed port: UDP loses what it cannot deliver

    # -- commands ------------------------------------------------------------------------------

    def _read(self, sock: socket.socket, mask: int) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            if self._command is None:
                return
            try:
                datagram, address = sock.recvfrom(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue    # the answer to an earlier datagram: its port is closed
            now_ns = raw_clock_ns()
            link = self._link_of(address)
            if link.ideal:
                self._process(datagram, address)
                continue
            for due_ns in link.datagram(now_ns):
                self._later(due_ns, lambda data=datagram, where=address: (  # type: ignore[misc]
                    self._process(data, where)))

    def _drain(self, mask: int) -> None:
        """Read what clients send to the data port to open a NAT: nobody answers."""
        with contextlib.suppress(OSError):
            for _ in range(_DATAGRAMS_AT_ONCE):
                if self._data is not None:
                    self._data.recv(65536)

    def _link_of(self, address: Address) -> ImpairedLink:
        client = self._clients.get(address)
        return client.link if client is not None else self._group_link

    def _process(self, datagram: bytes, address: Address) -> None:
        try:
            message_id, payload = codec.decode_message(datagram)
            client = self._clients.get(address)
            if client is not None:
                client.heard_ns = raw_clock_ns()
            self.execute(message_id, payload, address)
        except RemoteProtocolError as error:
            self._counters.malformed_requests += 1
            _LOG.warning('from %s:%d: %s', *address, error)
        except LocalProtocolError as error:    # models that were added since the start
            _LOG.error('no answer to %s:%d: %s', *address, error)

    def execute(self, message_id: int, payload: bytes, address: Address) -> None:
        """Answer a request of a client."""
        if message_id == MessageId.CONNECT:
            hello = codec.decode_hello(payload)
            self._connect(address, hello.bitstream)
            self._answer(codec.encode_server_info(self._info()), address)
        elif message_id == MessageId.DISCOVERY:
            self._answer(codec.encode_server_info(self._info()), address)
        elif message_id == MessageId.ECHO_REQUEST:
            token = codec.decode_echo_request(payload)
            ticks = self.world.ticks(self.server_ns(raw_clock_ns()))
            self._answer(codec.encode_echo_response(token, ticks), address)
        elif message_id == MessageId.REQUEST_MODEL_DEFINITIONS:
            version = self._bitstream(address)
            self._answer(encode_definitions(self.world.definitions, version), address)
        elif message_id == MessageId.REQUEST:
            self._answer(self._command_answer(codec.decode_request(payload), address), address)
        elif message_id == MessageId.DISCONNECT:
            self._forget(address, 'closed by the client')
        elif message_id not in (MessageId.KEEP_ALIVE, MessageId.REQUEST_FRAME):
            self._answer(codec.encode_message(MessageId.UNRECOGNIZED_REQUEST), address)

    def _answer(self, datagram: bytes, address: Address) -> None:
        self._through(self._link_of(address), datagram, address)

    def _info(self) -> ServerInfo:
        settings = self._settings
        return ServerInfo(
            'Motive', (3, 1, 0, 0), self.world.version, FREQUENCY, self.data_port,
            settings.multicast, settings.group)

    def _bitstream(self, address: Address) -> Version:
        client = self._clients.get(address)
        return client.bitstream if client is not None else self.world.version

    def _connect(self, address: Address, wanted: Optional[Version]) -> None:
        bitstream = self._granted(wanted) or self.world.version
        client = self._clients.get(address)
        if client is not None:
            client.bitstream = bitstream
            return
        self._number += 1
        link = ImpairedLink(
            self._scenario.network, self._scenario.seed, -1 - self._number, self._stream.time)
        self._clients[address] = _Client(address, raw_clock_ns(), bitstream, link)
        self._counters.accepted += 1
        _LOG.info('NatNet client %s:%d connected', *address)
        with self._changed:
            self._changed.notify_all()

    def _granted(self, wanted: Optional[Version]) -> Optional[Version]:
        """Return the bitstream for a client's request; None if the version is fixed."""
        possible = wanted is not None and wanted in NATNET_VERSIONS.values() and (
            wanted <= self.world.version and self.world.version >= (4, 0))
        return wanted if possible and not self._settings.multicast else None

    def _command_answer(self, command: str, address: Address) -> bytes:
        """Execute a command and return the answer."""
        self.commands.append(command)
        name, _, value = command.partition(',')
        world = self.world
        settings: dict[str, float | int] = {
            'FrameRate': float(self._scenario.rate), 'UnitsToMillimeters': 1000.0, 'UpAxis': 1,
            'AnalogSamplesPerMocapFrame': SAMPLES if self._settings.plates else 0}
        if name in settings:
            return codec.encode_response(settings[name])
        if name == 'SetRecordTakeName' and value:
            self._take = value
            return codec.encode_response(0)
        if name in ('StartRecording', 'StopRecording'):
            if name == 'StartRecording' and not world.recording:
                self.takes.append(self._take)
            world.recording = name == 'StartRecording'
            return codec.encode_response(0)
        if command == 'Bitstream' and world.version >= (4, 0):
            major, minor = self._bitstream(address)
            return codec.encode_response(f'Bitstream,{major}.{minor}.0.0')
        if name == 'Disconnect':
            self._forget(address, 'closed by the client')
            return codec.encode_response(0)
        return codec.encode_message(MessageId.UNRECOGNIZED_REQUEST)
