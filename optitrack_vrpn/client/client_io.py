# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The built-in VRPN client: one thread that connects to the server, reads and reconnects.

Received data drives the thread; the only timeouts are those of the watchdog. The client reports
each change of state, including the end of its attempts.
"""

import dataclasses
import logging
import select
import socket
import threading
from typing import Optional

from optitrack_vrpn.client.addresses_io import local_address, Lookup
from optitrack_vrpn.client.backend_io import LinkStatus, report_change, Sink
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.client.handshake_io import (
    connect_back, connect_out, NoAnswerError, ServerAbsentError, Stopped, Waiting)
from optitrack_vrpn.client.link import Link, LinkChange, LinkState
from optitrack_vrpn.client.scheduling_io import use_default_scheduling
from optitrack_vrpn.client.session_io import Conversation
from optitrack_vrpn.client.sockets_io import Waker
from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import (
    OptitrackVrpnError, RemoteProtocolError, TransportError, VersionRefusedError)

_NS = 1_000_000_000
_LOG = logging.getLogger(__name__)
#: Chosen: addresses reported by name; all are counted. More would let a flood from forged
#: addresses fill the log.
_MAX_PEERS_REPORTED = 16


class VrpnClient:
    """
    Stay connected to one VRPN server, across restarts and outages of the server.

    :param config: the server and the connection to it.
    :param sink: receives all events, from this client's thread.
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
        self._lock = threading.Lock()
        self._server_ip = ''
        self._local = ''
        self._last_bug = ''
        self._unexpected_peers: dict[str, int] = {}
        self._unexpected_count = 0
        #: Summed counters of the finished conversations, and the current conversation.
        self._account: tuple[dict[str, int], Optional[Conversation]] = ({}, None)
        self._waiting = Waiting(
            self._clock.now_ns, lambda: self._stopping, self._waker, self._unexpected_peer)

    # -- the backend's interface ---------------------------------------------------------------

    def start(self) -> None:
        """
        Start to connect; return immediately.

        :raises TransportError: if the client was started or stopped before.
        """
        with self._lock:
            if self._thread is not None or self._closed:
                raise TransportError('a client can be started only once; create a new one')
            # Set before the thread runs: the sink may call ``stop`` from its first call.
            self._thread = threading.Thread(target=self._run, name='vrpn client', daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """
        Stop the thread and close all sockets; idempotent.

        The thread may call the sink until this method returns: do not call it while holding a
        lock that the sink acquires. Called from the sink, it returns immediately, and the client
        stops after the sink has returned.
        """
        self._stopping = True
        self._waker.wake()
        thread = self._thread
        if thread is threading.current_thread():
            return
        if thread is not None:
            thread.join()
        with self._lock:
            self._closed = True
            self._waker.close()

    def status(self) -> LinkStatus:
        """Return the state of the connection."""
        link = self._link
        totals, conversation = self._account
        return LinkStatus(
            link.state, link.reason, link.since_ns, link.way,
            f'{self._server_ip or self._config.server}:{self._config.port}', self._local,
            link.sessions, link.failures, self._unexpected_count, _sum(totals, conversation),
            conversation.queue() if conversation is not None else {})

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        use_default_scheduling()
        link, clock = self._link, self._clock
        link.begin(clock.now_ns())
        try:
            while True:
                pause_s = self._attempt()
                reason = link.give_up_reason(clock.now_ns())
                if reason is not None:
                    self._change(LinkState.STOPPED, reason, 'error')
                    return
                pause_s = max(0.0, min(pause_s, link.time_left_s(clock.now_ns())))
                deadline = clock.now_ns() + int(pause_s * _NS)
                while clock.now_ns() < deadline:
                    self._waiting.wait(deadline)
        except Stopped:
            self._change(LinkState.STOPPED, 'stopped')
        finally:
            self._waker.close()

    def _attempt(self) -> float:
        """
        Connect once, and read until the connection ends.

        :returns: pause before the next attempt (s).
        """
        link = self._link
        sessions = link.sessions
        state, severity = LinkState.LOST, 'warn'
        try:
            server = self._resolve()
            with self._connect(server) as sock:
                self._change(
                    LinkState.HANDSHAKING,
                    f'connected to {server[0]} port {server[1]}; waiting for VRPN')
                reason = self._converse(sock)
        except VersionRefusedError as error:
            state, reason, severity = LinkState.REFUSED, str(error), 'error'
        except RemoteProtocolError as error:
            reason, severity = str(error), 'error'
        except OptitrackVrpnError as error:
            reason = str(error)
        except OSError as error:
            reason = f'the network failed: {error.strerror or error}'
        except Stopped:
            raise
        except Exception as error:
            # A bug must not end the thread silently, and data of a peer must not end the node.
            reason, severity = f'bug: {error!r}; reconnecting', 'error'
            if reason != self._last_bug:
                self._last_bug = reason
                _LOG.exception('bug in the VRPN client or its sink; reconnecting')
        self._change(state, reason, severity)
        if link.sessions == sessions:
            return link.attempt_failed()
        return link.ended(self._clock.now_ns())

    def _resolve(self) -> tuple[str, int]:
        """Resolve the server's name and choose the local address; return address and port."""
        config, link = self._config, self._link
        self._change(LinkState.RESOLVING, f'looking up {config.server}')
        wake = self._waker.wake
        lookup = Lookup(config.server, wake)
        try:
            while not lookup.finished:
                left_s = self._seconds(1.0)
                if not left_s:
                    raise TransportError(
                        f'the lookup of the name {config.server!r} has not finished: check the '
                        'name server, or set server to an IP address, which needs no lookup')
                self._waiting.wait(self._clock.now_ns() + int(left_s * _NS))
        finally:
            lookup.abandon(wake)
        self._server_ip = lookup.address(link.failures)
        server = (self._server_ip, config.port)
        self._local = local_address(*server, config.interface)
        return server

    def _connect(self, server: tuple[str, int]) -> socket.socket:
        """
        Connect as ``connection`` says; return a connected TCP socket.

        With 'auto' the client sends a UDP request only to a server that refuses TCP connections:
        a VRPN library without a TCP port, or a port that is forwarded for UDP only. A server that
        another client's request has blocked still has its TCP port: the operating system accepts
        the connection.
        """
        config, link = self._config.link, self._link
        if config.connection == 'udp':
            return self._request(server, config.blocked_s)
        link.way = 'tcp'
        self._change(
            LinkState.CONNECTING,
            f'connecting to {server[0]} port {server[1]} by TCP, from {self._local}')
        try:
            return connect_out(
                self._waiting, server, self._local, self._seconds(config.attempt_s))
        except ServerAbsentError as error:
            if config.connection == 'tcp' or not link.may_request(self._clock.now_ns()):
                raise
            no_tcp = error
        link.way = 'udp'
        try:
            return self._request(server, config.attempt_s)
        except ServerAbsentError:
            raise no_tcp from None    # nothing listens on either port

    def _request(self, server: tuple[str, int], until_s: float) -> socket.socket:
        config = self._config
        self._change(
            LinkState.REQUESTING,
            f'asking {server[0]} port {server[1]} by UDP to connect back to '
            f'{config.advertise or self._local}')
        sent_ns = self._clock.now_ns()
        try:
            return connect_back(
                self._waiting, server, self._local, config.advertise, config.link.attempt_s,
                self._seconds(until_s),
                lambda text: self._change(LinkState.REQUESTING, text, 'warn'))
        except NoAnswerError:
            self._link.request_unanswered(sent_ns)
            raise

    def _seconds(self, attempt_s: float) -> float:
        """Limit a wait (s) to the time left before the client gives up."""
        return max(0.0, min(attempt_s, self._link.time_left_s(self._clock.now_ns())))

    def _converse(self, sock: socket.socket) -> str:
        """
        Run one conversation until it ends.

        :returns: the reason of its end.
        """
        with Conversation(
                sock, self._server_ip, self._local, self._link, self._config, self._clock,
                self._sink, self._report, self._unexpected_peer) as conversation:
            totals, _ = self._account
            self._account = (totals, conversation)
            try:
                return self._listen(conversation)
            finally:
                self._account = (_sum(totals, conversation), None)

    def _listen(self, conversation: Conversation) -> str:
        poll = select.poll()
        waker = self._waker.fileno()
        poll.register(waker, select.POLLIN)
        conversation.register(poll)
        while True:
            ready = poll.poll(conversation.next_check_s() * 1000.0)
            for fd, _ in ready:
                if fd == waker:
                    self._waker.drain()
            if self._stopping:
                raise Stopped
            reason = conversation.handle(ready)
            if reason is not None:
                return reason

    # -- reporting -----------------------------------------------------------------------------

    def _change(self, state: LinkState, reason: str, severity: str = 'info') -> None:
        self._report(self._link.to(state, reason, self._clock.now_ns(), severity))

    def _report(self, change: Optional[LinkChange]) -> None:
        report_change(self._sink, change)

    def _unexpected_peer(self, address: str, what: str) -> None:
        """Count a connection or datagram of another host; report each host once."""
        self._unexpected_count += 1
        known = self._unexpected_peers.get(address)
        if known is not None:
            self._unexpected_peers[address] = known + 1
        elif len(self._unexpected_peers) < _MAX_PEERS_REPORTED:
            self._unexpected_peers[address] = 1
            self._report(self._link.message(
                f'{what} from {address} was refused: the server is {self._server_ip}; if '
                f'{address} is another address of the server, set server: {address}',
                self._clock.now_ns(), 'warn'))


def _sum(totals: dict[str, int], conversation: Optional[Conversation]) -> dict[str, int]:
    """Add one conversation's counters to those of the earlier ones."""
    result = dict(totals)
    if conversation is not None:
        counters = dataclasses.asdict(conversation.connection.counters)
        counters['names_refused'] = conversation.connection.remote.refused
        for name, value in counters.items():
            result[name] = result.get(name, 0) + value
    return result
