# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The built-in VRPN client: how the loop of ``reconnecting_io`` reaches a VRPN server."""

from collections.abc import Iterator
from contextlib import contextmanager
import math
import socket
from typing import Optional

from optitrack_vrpn.client.backend_io import Sink
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.client.handshake_io import (
    connect_back, connect_out, NoAnswerError, ServerAbsentError, Stopped)
from optitrack_vrpn.client.link import LinkState, waiting_for_earlier_request
from optitrack_vrpn.client.reconnecting_io import ReconnectingClient
from optitrack_vrpn.client.requests import UnansweredRequests
from optitrack_vrpn.client.session_io import Conversation
from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.events import Event
from optitrack_vrpn.units import NS_PER_S

#: Chosen: period (s) at which a client checks whether the request of another client was answered.
#: Halved, twice the checks; doubled, its own request is sent up to 0.2 s later.
_REQUEST_CHECK_S = 0.1
#: Shared by all clients of this process: a new client must not block a server again.
_UNANSWERED = UnansweredRequests()


class VrpnClient(ReconnectingClient[Conversation]):
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

    @contextmanager
    def _open(self) -> Iterator[Conversation]:
        server = self._resolve()
        with self._connect(server) as sock:
            self._change(
                LinkState.HANDSHAKING,
                f'connected to {server[0]} port {server[1]}; waiting for VRPN')
            with Conversation(
                    sock, self._server_ip, self._local, self._link, self._config, self._clock,
                    self._sink, self._report, self._unexpected_peer) as conversation:
                yield conversation

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
        link.transport = 'tcp'
        self._change(
            LinkState.CONNECTING,
            f'connecting to {server[0]} port {server[1]} by TCP, from {self._local}')
        try:
            return connect_out(
                self._waiting, server, self._local, self._seconds(config.attempt_s))
        except ServerAbsentError as error:
            if config.connection == 'tcp' or self._blocked_s(server):
                raise
            no_tcp = error
        link.transport = 'udp'
        try:
            return self._request(server, config.attempt_s)
        except ServerAbsentError:
            raise no_tcp from None    # nothing listens on either port

    def _request(self, server: tuple[str, int], until_s: float) -> socket.socket:
        config = self._config
        self._wait_for_earlier_request(server)
        self._change(
            LinkState.REQUESTING,
            f'asking {server[0]} port {server[1]} by UDP to connect back to '
            f'{config.advertise or self._local}')
        _UNANSWERED.sent(server, self._clock.now_ns())
        try:
            sock = connect_back(
                self._waiting, server, self._local, config.advertise, config.link,
                self._seconds(until_s),
                lambda text: self._change(LinkState.REQUESTING, text, 'warn'))
        except (NoAnswerError, Stopped):
            raise
        except BaseException:
            _UNANSWERED.answered(server)
            raise
        _UNANSWERED.answered(server)
        return sock

    def _wait_for_earlier_request(self, server: tuple[str, int]) -> None:
        """
        Wait while an unanswered request, also of an earlier client, may block the server.

        :raises NoAnswerError: if the client gives up before.
        """
        report_at_ns: float = self._clock.now_ns() + self._config.link.attempt_s * NS_PER_S
        while left_s := self._blocked_s(server):
            if not self._seconds(left_s):
                raise NoAnswerError(waiting_for_earlier_request(server[0], left_s))
            now_ns = self._clock.now_ns()
            if now_ns >= report_at_ns:
                report_at_ns = math.inf
                self._change(LinkState.REQUESTING,
                             waiting_for_earlier_request(server[0], left_s), 'warn')
            self._waiting.wait(now_ns + int(min(left_s, _REQUEST_CHECK_S) * NS_PER_S))

    def _blocked_s(self, server: tuple[str, int]) -> float:
        """Return how long an unanswered request may still block the server (s)."""
        return _UNANSWERED.left_s(server, self._config.link.blocked_s, self._clock.now_ns())

    def _report(self, change: Optional[Event]) -> None:
        if change is not None and change.data is LinkState.CONNECTED:
            _UNANSWERED.answered((self._server_ip, self._port))    # the server has greeted
        super()._report(change)
