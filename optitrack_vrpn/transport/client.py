# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The built-in VRPN client: one thread that finds the server, listens, and never gives up quietly.

Everything is driven by what arrives; the only timeouts are those of the watchdog.
"""

import dataclasses
import select
import socket
import threading
from typing import Optional

from optitrack_vrpn.core.link import Link, LinkState
from optitrack_vrpn.errors import (
    OptitrackVrpnError, RemoteProtocolError, TransportError, VersionRefusedError)
from optitrack_vrpn.transport.addresses import local_address, Lookup
from optitrack_vrpn.transport.backend import ClientConfig, LinkStatus, Sink
from optitrack_vrpn.transport.conversation import Conversation
from optitrack_vrpn.transport.hostclock import HostClock
from optitrack_vrpn.transport.sockets import Waker
from optitrack_vrpn.transport.ways_in import (
    connect_back, connect_out, ServerAbsentError, Stopped, Waiting)

_NS = 1_000_000_000
_MOST_STRANGERS_NAMED = 16
#: How long a server that can be reached by TCP is given to connect back, before TCP is kept.
_SECOND_CHANCE_S = 1.5


class VrpnClient:
    """
    Follow one VRPN server for ever, through its restarts and absences.

    :param config: which server and how.
    :param sink: told everything, from this client's thread.
    :param clock: the host's clocks.
    """

    def __init__(
        self, config: ClientConfig, sink: Sink, clock: Optional[HostClock] = None,
    ) -> None:
        self._config = config
        self._sink = sink
        self._clock = clock or HostClock()
        self._link = Link(config.link, self._clock.now_ns())
        self._waker = Waker()
        self._stopping = False
        self._thread: Optional[threading.Thread] = None
        self._closed = False
        self._server_ip = ''
        self._local = ''
        self._strangers: dict[str, int] = {}
        self._stranger_count = 0
        self._totals: dict[str, int] = {}
        self._conversation: Optional[Conversation] = None
        self._waiting = Waiting(
            self._clock.now_ns, lambda: self._stopping, self._waker, self._stranger)

    # -- the backend's interface ---------------------------------------------------------------

    def start(self) -> None:
        """Begin to look for the server; returns at once."""
        if self._thread is not None or self._closed:
            raise TransportError('a client can be started once')
        self._thread = threading.Thread(target=self._run, name='vrpn client', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close every socket; idempotent."""
        self._stopping = True
        self._waker.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if not self._closed:
            self._closed = True
            self._waker.close()

    def status(self) -> LinkStatus:
        """Tell how the connection stands."""
        link = self._link
        counters = dict(self._totals)
        conversation = self._conversation
        if conversation is not None:
            _add(counters, conversation)
        return LinkStatus(
            link.state, link.reason, link.since_ns, link.way,
            f'{self._server_ip or self._config.server}:{self._config.port}', self._local,
            link.sessions, link.failures, self._stranger_count, counters)

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                pause_s = self._round()
                reason = self._link.gives_up(self._clock.now_ns())
                if reason is not None:
                    self._change(LinkState.STOPPED, reason, 'error')
                    return
                deadline = self._clock.now_ns() + int(pause_s * _NS)
                while self._clock.now_ns() < deadline:
                    self._waiting.wait(deadline)
        except Stopped:
            self._change(LinkState.STOPPED, 'stopped')

    def _round(self) -> float:
        """
        Try once to get to the server, and stay with it as long as it lasts.

        :returns: the pause before the next round in seconds.
        """
        link = self._link
        try:
            sock = self._attempt()
        except ServerAbsentError as error:
            self._change(LinkState.LOST, str(error), 'warn')
            return link.attempt_failed(server_absent=True)
        except OptitrackVrpnError as error:
            self._change(LinkState.LOST, str(error), 'warn')
            return link.attempt_failed()
        except OSError as error:
            self._change(LinkState.LOST, f'no connection: {error}', 'warn')
            return link.attempt_failed()
        sessions = link.sessions
        with sock:
            state, reason, severity = self._converse(sock)
        self._change(state, reason, severity)
        if link.sessions == sessions:
            return link.attempt_failed(server_absent=state is LinkState.REFUSED)
        return link.ended(self._clock.now_ns())

    def _attempt(self) -> socket.socket:
        """Resolve the name and go one way in; gives a connected TCP socket."""
        config, link = self._config, self._link
        self._change(LinkState.RESOLVING, f'looking up {config.server}')
        lookup = Lookup(config.server, self._waker.wake)
        while not lookup.finished:
            self._waiting.wait(self._clock.now_ns() + _NS)
        self._server_ip = lookup.address()
        server = (self._server_ip, config.port)
        self._local = local_address(*server, config.interface)
        if link.way == 'udp':
            return self._request(server, config.link.attempt_s)
        self._change(
            LinkState.CONNECTING,
            f'connecting to {self._server_ip} port {config.port} by TCP, from {self._local}')
        sock = connect_out(self._waiting, server, self._local, config.link.attempt_s)
        if config.link.connection == 'tcp':
            return sock
        # The server is there now, perhaps only since a moment: the default way in comes first.
        sock.close()
        try:
            sock = self._request(server, _SECOND_CHANCE_S)
            link.way = 'udp'
            return sock
        except TransportError as error:
            self._change(
                LinkState.CONNECTING,
                f'falling back to tcp://, which carries poses by TCP: {error}', 'warn')
            return connect_out(self._waiting, server, self._local, config.link.attempt_s)

    def _request(self, server: tuple[str, int], attempt_s: float) -> socket.socket:
        config = self._config
        self._change(
            LinkState.REQUESTING,
            f'asking {server[0]} port {server[1]} by UDP to connect back to '
            f'{config.advertise or self._local}')
        return connect_back(
            self._waiting, server, self._local, config.advertise,
            config.link.request_interval_s, attempt_s)

    def _converse(self, sock: socket.socket) -> tuple[LinkState, str, str]:
        """
        Talk until it ends.

        :returns: state, reason and severity after it.
        """
        self._change(LinkState.HANDSHAKING, f'connected to {self._server_ip}; waiting for VRPN')
        conversation = Conversation(
            sock, self._server_ip, self._local, self._link, self._config, self._clock,
            self._sink, self._stranger)
        self._conversation = conversation
        try:
            with conversation:
                return self._listen(conversation)
        except VersionRefusedError as error:
            return LinkState.REFUSED, str(error), 'error'
        except RemoteProtocolError as error:
            return LinkState.LOST, str(error), 'error'
        except OSError as error:
            return LinkState.LOST, f'the connection broke: {error}', 'warn'
        finally:
            self._conversation = None
            _add(self._totals, conversation)

    def _listen(self, conversation: Conversation) -> tuple[LinkState, str, str]:
        poll = select.poll()
        waker = self._waker.fileno()
        poll.register(waker, select.POLLIN)
        conversation.register(poll)
        while True:
            timeout_ms = conversation.next_check_s() * 1000.0
            ready = poll.poll(timeout_ms)
            if ready and ready[0][0] == waker:
                self._waker.drain()
            if self._stopping:
                raise Stopped
            reason = conversation.handle(ready)
            if reason is not None:
                return LinkState.LOST, reason, 'warn'

    # -- telling -------------------------------------------------------------------------------

    def _change(self, state: LinkState, reason: str, severity: str = 'info') -> None:
        change = self._link.to(state, reason, self._clock.now_ns(), severity)
        if change is not None:
            self._sink.link_changed(change)

    def _stranger(self, address: str, what: str) -> None:
        """Count somebody else who knocked, and name each one once."""
        self._stranger_count += 1
        known = self._strangers.get(address)
        if known is not None:
            self._strangers[address] = known + 1
        elif len(self._strangers) < _MOST_STRANGERS_NAMED:
            self._strangers[address] = 1
            link = self._link
            change = link.to(
                link.state, f'{what} from {address} was refused, since the server is '
                f'{self._server_ip}; if that is its other network card, set server: {address}',
                self._clock.now_ns(), 'warn')
            if change is not None:
                self._sink.link_changed(change)


def _add(totals: dict[str, int], conversation: Conversation) -> None:
    counters = dataclasses.asdict(conversation.connection.counters)
    counters['names_refused'] = conversation.connection.remote.refused
    for name, value in counters.items():
        totals[name] = totals.get(name, 0) + value
