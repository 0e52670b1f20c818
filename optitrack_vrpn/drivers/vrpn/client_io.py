# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The VRPN client: how the loop of ``drivers.client_io`` reaches a VRPN server."""

from collections.abc import Iterator
from contextlib import contextmanager, ExitStack
import math
import socket
from typing import Optional

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import ReconnectingClient, Stopped
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Attempt, Outcome, Sink, Source
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.loop_io import Conversation, SocketChannel
from optitrack_vrpn.drivers.sockets_io import datagram_socket, listening_socket
from optitrack_vrpn.drivers.table import SourceOptions
from optitrack_vrpn.drivers.vrpn.driver import LAST_OF_A_FRAME, TCP, UDP, VrpnDriver
from optitrack_vrpn.drivers.vrpn.handshake_io import (
    accept_server, connect_back, connect_out, NoAnswerError, ServerAbsentError, UnreachableError,
    waiting_for_earlier_request)
from optitrack_vrpn.drivers.vrpn.request_memory_io import RequestMemory
from optitrack_vrpn.drivers.vrpn.transport import (
    remember, Remembered, Request, Seen, TransportChoice)
from optitrack_vrpn.drivers.vrpn.transport_io import find_transport
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

#: Chosen: period (s) at which a client checks whether the request of another client was answered.
_REQUEST_CHECK_S = 0.1


class VrpnClient(ReconnectingClient):
    """
    Stay connected to one VRPN server, across restarts and outages of the server.

    :param config: the server and the connection to it.
    :param sink: receives all events, from this client's thread.
    :param clock: the host's clocks.
    """

    protocol = 'VRPN'

    def __init__(
        self, config: ClientConfig, sink: Sink, clock: Optional[HostClock] = None,
    ) -> None:
        super().__init__(config, config.port, sink, clock)
        self._link.transport = 'udp' if config.link.connection == 'udp' else 'tcp'
        #: Whether a server that connects back is asked to send poses by UDP.
        self._takes_datagrams = True
        #: Listens while the result of a UDP request is awaited.
        self._listener: Optional[socket.socket] = None
        self._sent_s = 0.0
        #: Whether the server has connected back to this client.
        self._answered = False
        #: What was remembered before the request of ``connection: udp``.
        self._before = Remembered()
        self._connected_ns = 0

    @contextmanager
    def _open(self) -> Iterator[Conversation]:
        server, local, clock = self._resolve(), self._local, self._clock
        tcp = self._connect(server)
        with ExitStack() as opened:
            opened.enter_context(tcp)
            self._change(
                LinkState.HANDSHAKING,
                f'connected to {server[0]} port {server[1]}; waiting for VRPN')
            channels, address = [SocketChannel(TCP, tcp, stream=True)], None
            if self._link.transport == 'udp' and not self._takes_datagrams:
                self._use_transport(TransportChoice('tcp', 'auto: no datagram arrived before'))
            elif self._link.transport == 'udp':
                udp = opened.enter_context(datagram_socket(local))
                channels.append(SocketChannel(UDP, udp, full=LAST_OF_A_FRAME))
                address = local, udp.getsockname()[1]
            driver = VrpnDriver(
                server[0], self._config.link, address, clock.host_minus_arrival_ns(),
                self._config.link.connection == 'auto')
            with Conversation(
                    driver, channels, server, local, self._link, clock, self._sink, self._report,
                    self._unexpected_peer) as conversation:
                yield conversation
            if driver.datagrams_next is not None:
                self._takes_datagrams = driver.datagrams_next

    def _connect(self, server: tuple[str, int]) -> socket.socket:
        """
        Connect as ``connection`` says; return a connected TCP socket.

        See ``drivers.vrpn.transport`` for the rules. If no program takes UDP requests, a
        forwarded TCP port may still lead to the server.
        """
        config = self._config.link
        choice = self._choose()
        if choice.transport == 'udp':
            try:
                return self._request(server, choice)
            except ServerAbsentError as error:
                if config.connection == 'udp':
                    raise
                absent = error
                choice = TransportChoice('tcp', 'auto: nothing takes requests by UDP')
            except NoAnswerError:
                if config.connection == 'udp':
                    self._memory().write(Remembered(Request.UNANSWERED, self._sent_s))
                    raise
                absent = None
                choice = TransportChoice('tcp', 'auto: the server did not connect back within '
                                         f'{config.connect_back_s:g} s after a UDP request')
        else:
            absent = None
        if not config.tcp_allowed:
            raise TransportError(
                f'VRPN is not connected by TCP ({choice.reason}) beside a protocol that the '
                'server answers by UDP: set protocol: vrpn to use it anyway')
        self._use_transport(choice)
        self._change(
            LinkState.CONNECTING,
            f'connecting to {server[0]} port {server[1]} by TCP, from {self._local} '
            f'({choice.reason})')
        try:
            with self._attempting('tcp'):
                sock = connect_out(self._waiting, server, self._local, config.attempt_s)
        except UnreachableError:
            self._judge(Seen.UNREACHABLE)
            raise
        except ServerAbsentError as error:
            # The program that got the request has ended, or it has no TCP port: none is sent again
            # while it may be blocked.
            self._listen_for(None)
            raise error if absent is None else absent from None
        self._connected_ns = self._clock.now_ns()
        return sock

    @contextmanager
    def _attempting(self, way: str) -> Iterator[None]:
        """Note the outcome of an attempt."""
        began_ns = self._clock.now_ns()

        def note(outcome: Outcome, text: str = '') -> None:
            self._attempts[way] = Attempt(
                outcome, text, (self._clock.now_ns() - began_ns) / NS_PER_S)
        try:
            yield
        except OSError as error:
            note(Outcome.REFUSED if isinstance(error, ServerAbsentError) else
                 Outcome.SILENT if isinstance(error, NoAnswerError) else Outcome.FAILED,
                 str(error))
            raise
        note(Outcome.OPEN)    # not after another exception, such as that of a stop

    def _choose(self) -> TransportChoice:
        """Choose the transport; a request whose result is awaited is not repeated."""
        config = self._config
        own = self._listener is not None
        if config.link.connection == 'auto' and not own:
            self._wait_for_earlier_request(config.link.connect_back_s)
        choice = find_transport(
            config.link.connection, self._local, (self._server_ip, self._port),
            math.inf if own else config.link.blocked_s, self._host_s())
        if choice.transport == 'udp' and config.link.connection == 'auto':
            # Written before the request is sent: a client that is killed counts as well.
            self._sent_s = self._host_s()
            unsaved = self._memory().write(Remembered(Request.PENDING, self._sent_s))
            if unsaved:
                return TransportChoice('tcp',
                                       f'auto: a UDP request could not be remembered: {unsaved}')
        return choice

    def _request(self, server: tuple[str, int], choice: TransportChoice) -> socket.socket:
        config = self._config
        asked = config.link.connection == 'udp'
        if asked:
            self._wait_for_earlier_request(config.link.blocked_s, config.link.attempt_s)
            self._before = self._memory().read()
            self._sent_s = self._host_s()
            self._memory().write(Remembered(Request.PENDING, self._sent_s))
        self._use_transport(choice)
        self._change(
            LinkState.REQUESTING,
            f'asking {server[0]} port {server[1]} by UDP to connect back to {self._local} '
            f'({choice.reason})')
        listener = listening_socket(self._local)
        self._listen_for(listener)
        try:
            with self._attempting('udp'):
                sock = connect_back(
                    self._waiting, server, self._local, config.link,
                    config.link.blocked_s if asked else config.link.connect_back_s,
                    lambda text: self._change(LinkState.REQUESTING, text, WARN), listener,
                    asked and self._answered)
        except (NoAnswerError, Stopped):
            raise
        except BaseException:
            self._judge(Seen.REFUSAL)
            raise
        self._answered = True
        self._judge(Seen.CONNECT_BACK)
        return sock

    def _wait_for_earlier_request(self, limit_s: float, late_s: float = math.inf) -> None:
        """
        Wait while the last request, of any client of this host, may still be answered.

        :param limit_s: longest time from a request to its answer (s).
        :param late_s: time (s) after which the wait is reported.
        """
        began_ns = self._clock.now_ns()
        while left_s := self._memory().read().left_s(limit_s, self._host_s()):
            now_ns = self._clock.now_ns()
            if now_ns - began_ns >= late_s * NS_PER_S:
                late_s = math.inf
                self._change(LinkState.REQUESTING,
                             waiting_for_earlier_request(self._server_ip, left_s), WARN)
            self._waiting.wait(now_ns + int(min(left_s, _REQUEST_CHECK_S) * NS_PER_S))

    def _report(self, change: Optional[Event]) -> None:
        super()._report(change)
        if change is None or change.data is not LinkState.CONNECTED:
            return
        if self._link.transport == 'tcp':
            late = self._listener is not None and accept_server(
                self._listener, self._server_ip, self._waiting)
            if late:
                late.close()
            self._judge(Seen.CONNECT_BACK if late else Seen.GREETING)

    def _judge(self, seen: Seen) -> None:
        """Update what is remembered of the last request; its result is no longer awaited."""
        memory, sent_s = self._memory(), self._sent_s if self._listener is not None else None
        self._listen_for(None)
        stored = memory.read()
        found = remember(stored, seen, sent_s, self._before,
                         (self._clock.now_ns() - self._connected_ns) / NS_PER_S)
        if found == stored:
            return
        memory.write(found)
        if found.request is Request.UNANSWERED and seen is Seen.GREETING:
            super()._report(self._link.message(memory.describe(), WARN))

    def _listen_for(self, listener: Optional[socket.socket]) -> None:
        """Keep a socket for a connection back, also a late one; close the one before."""
        if self._listener is not None:
            self._listener.close()
        self._listener = listener

    def _use_transport(self, choice: TransportChoice) -> None:
        self._link.transport, self._link.transport_reason = choice.transport, choice.reason

    def _memory(self) -> RequestMemory:
        return RequestMemory(self._local, self._server_ip, self._port)

    def _host_s(self) -> float:
        """Return the system time (s)."""
        return (self._clock.now_ns() + self._clock.host_minus_arrival_ns()) / NS_PER_S

    def _finish(self) -> None:
        self._listen_for(None)


def make_backend(config: ClientConfig, sink: Sink) -> Source:
    """
    Create the backend that ``config.backend`` names.

    :raises BackendUnavailableError: if the backend's Python module is not installed.
    """
    if config.backend == 'python_vrpn':
        from optitrack_vrpn.drivers.vrpn.python_vrpn_io import PythonVrpnClient
        return PythonVrpnClient(config, sink)
    return VrpnClient(config, sink)


def make_source(
    config: ClientConfig, settings: object, sink: Sink, options: SourceOptions,
) -> Source:
    """Create the source of VRPN's frames; see ``drivers.table.SourceKind``."""
    return make_backend(config, sink)
