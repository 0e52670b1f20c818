# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet client: it finds a NatNet server and reads it in the loop of ``drivers.loop_io``.

Several clients can run on one machine: each has its own command port, and they share the port of
multicast data.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
import select
import socket
from typing import Optional

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError, TransportError
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import ReconnectingClient, Waiting
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.loop_io import Conversation, SocketChannel
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.driver import NatNetDriver, UDP
from optitrack_vrpn.drivers.natnet.messages import (
    MessageId, NEWEST, ServerInfo, START, STOP, TAKE_NAME)
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.sockets_io import (
    broadcast_addresses, datagram_socket, local_address, receive_into)
from optitrack_vrpn.drivers.table import AUTO, own_settings, SourceOptions
from optitrack_vrpn.stream.clock.hostclock_io import HostClock


def without_ended_recordings(commands: Sequence[str]) -> list[str]:
    """
    Remove recordings that ended before Motive received their start.

    Otherwise a server that returns would record a take of some milliseconds, long after the
    session.

    :param commands: waiting commands, oldest first.
    """
    kept = list(commands)
    begun = next((i for i, command in enumerate(kept) if not command.startswith(STOP)), len(kept))
    ended = max((i for i, command in enumerate(kept) if command == STOP), default=-1)
    if begun < ended:
        del kept[begun:ended + 1]
    return kept


#: Chosen: maximum number of servers in one search, as a limit for floods of forged answers.
MOST_SERVERS = 32
#: Chosen: duration of a search and period of its requests (s). Servers answer within milliseconds.
_SEARCH_S = 1.0
_SEARCH_AGAIN_S = 0.4


def command_socket(local: str) -> socket.socket:
    """
    Open the socket for commands and unicast data.

    :raises TransportError: if the address is not available.
    """
    sock = datagram_socket(local)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return sock


def send_discovery(sock: socket.socket, port: int, local: str) -> None:
    """
    Send a discovery to all servers that this machine can reach, including its own.

    :param local: address of the only network card to search; '' for all.
    :raises TransportError: if nothing could be sent.
    """
    datagram = codec.encode_hello('optitrack_vrpn', NEWEST, discovery=True)
    failure = None
    sent = 0
    for address in (*broadcast_addresses(local), '255.255.255.255', '127.0.0.1'):
        try:
            sock.sendto(datagram, (address, port))
            sent += 1
        except OSError as error:
            failure = error
    if not sent:
        raise TransportError(f'cannot search for Motive ({failure}): is a network card up?')


def discovered(
    datagram: bytes, address: str, found: dict[str, ServerInfo],
) -> None:
    """Store the answer of a server under its address."""
    try:
        message_id, payload = codec.decode_message(datagram)
        if message_id == MessageId.SERVER_INFO and len(found) < MOST_SERVERS:
            found[address] = codec.decode_server_info(payload)
    except RemoteProtocolError:
        pass    # another service uses that port


def find_server(waiting: Waiting, port: int, interface: str) -> str:
    """
    Search the networks of this computer for the one NatNet server.

    :param port: its command port.
    :param interface: network card to search; '' for all.
    :returns: its address.
    :raises TransportError: if none or several answered, or the card cannot be used.
    """
    found: dict[str, ServerInfo] = {}
    local = local_address('127.0.0.1', port, interface) if interface else ''
    buffer = memoryview(bytearray(65536))
    with command_socket(local or '0.0.0.0') as sock:
        now_ns = waiting.now_ns()
        end_ns = now_ns + int(_SEARCH_S * NS_PER_S)
        again_ns = now_ns
        while now_ns < end_ns:
            if now_ns >= again_ns:
                send_discovery(sock, port, local)
                again_ns = now_ns + int(_SEARCH_AGAIN_S * NS_PER_S)
            waiting.wait(min(end_ns, again_ns), (sock, select.POLLIN))
            while (arrival := receive_into(sock, buffer)) is not None:
                discovered(bytes(buffer[:arrival[0]]), arrival[1], found)
                if waiting.now_ns() >= end_ns:
                    break    # a flood of answers must not prolong the search
            now_ns = waiting.now_ns()
    return choose_server(found)


def choose_server(found: dict[str, ServerInfo]) -> str:
    """
    Return the address of the one server that answered.

    :raises TransportError: if none or several answered.
    """
    # A server on this machine answers from both addresses.
    others = [address for address in found if not address.startswith('127.')]
    addresses = others or list(found)
    if len(addresses) == 1:
        return addresses[0]
    if not addresses:
        raise TransportError(
            'no Motive answered a NatNet discovery: is NatNet streaming on in Motive, does a '
            'firewall block UDP port 1510, is the network card (interface) correct? Or set server '
            'to the address of the Motive PC')
    listed = ', '.join(f'{address} ({found[address].name!r})' for address in addresses[:8])
    raise TransportError(
        f'{len(addresses)} servers answered a NatNet discovery: {listed}; set server to one of '
        'them, or interface to the network card of one')


class NatNetClient(ReconnectingClient):
    """
    Receive the stream of one NatNet server, across its restarts and absences.

    :param config: server, network card, retries and watchdog; server 'auto' searches for it.
    :param natnet: settings of NatNet only.
    :param sink: receives all events, on this client's thread.
    :param clock: the host's clocks.
    """

    protocol = 'NatNet'

    def __init__(
        self, config: ClientConfig, natnet: NatNetConfig, sink: Sink,
        clock: Optional[HostClock] = None,
    ) -> None:
        super().__init__(config, natnet.port, sink, clock)
        self._natnet = natnet
        self._commands: deque[str] = deque(maxlen=32)
        self._miscounting: Optional[ServerInfo] = None
        self._driver: Optional[NatNetDriver] = None
        self._link.transport = 'natnet'

    def record(self, take: str) -> None:
        """
        Start a recording in Motive under this name; its result is reported as an event.

        :param take: name of the take; commas become underscores, since they separate arguments.
        """
        name = take.replace(',', '_').replace('\0', '').strip()
        if name:
            self._commands.append(f'{TAKE_NAME},{name[:200]}')
        self._commands.append(START)
        self._waker.wake()

    def stop_recording(self) -> None:
        """Stop the recording in Motive."""
        self._commands.append(STOP)
        self._waker.wake()

    # -- the thread ----------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[Conversation]:
        server = (self._use(self._search()) if self._config.server == AUTO else
                  self._resolve())
        self._change(
            LinkState.HANDSHAKING,
            f'asking {server[0]} port {server[1]} by NatNet, from {self._local}')
        driver = self._driver = NatNetDriver(
            self._natnet, self._clock.now_ns(), server, self._local,
            self._config.link.attempt_s, self._miscounting)
        with Conversation(
                driver, [SocketChannel(UDP, command_socket(self._local))], server, self._local,
                self._link, self._clock, self._sink, self._report,
                self._unexpected_peer) as conversation:
            yield conversation
        self._miscounting = driver.miscounting

    def _search(self) -> str:
        """Return the address of the one server that answers a discovery."""
        interface = self._config.interface
        self._change(
            LinkState.RESOLVING, 'searching for Motive by NatNet discovery on ' + (
                interface or 'all network cards'))
        return find_server(self._waiting, self._port, interface)

    def _serve(self) -> None:
        """Send the commands of other threads, which wait until a server is connected."""
        driver = self._driver
        if driver is None or not (self._commands and driver.info is not None):
            return
        waiting = [self._commands.popleft() for _ in range(len(self._commands))]
        commands = without_ended_recordings(waiting)
        if len(commands) < len(waiting):
            self._report(self._link.message(
                'a recording in Motive was started and stopped before the command could be sent: '
                'Motive has recorded none of it', WARN))
        for command in commands:
            try:
                driver.request(command)
            except LocalProtocolError as error:
                self._report(self._link.message(str(error), ERROR))


def make_source(
    config: ClientConfig, settings: object, sink: Sink, options: SourceOptions,
) -> Source:
    """Create the client of NatNet; see ``drivers.table.SourceKind``."""
    own = replace(own_settings(settings, 'natnet'), wanted=options.wanted)
    return NatNetClient(config, own, sink)
