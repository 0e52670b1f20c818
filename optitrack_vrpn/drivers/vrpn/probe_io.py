# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Try each kind of connection to a VRPN server once, for the doctor.

The probe uses the functions of the client, and leaves no connection open without reading it: a
VRPN server can wait for one client and serve none meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
import select
import socket
import threading
from typing import Optional

from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.core.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import Waiting
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.frames import Item
from optitrack_vrpn.drivers.probing import Heard, Place
from optitrack_vrpn.drivers.sockets_io import is_unused, Waker
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.drivers.vrpn.handshake_io import (
    connect_back, connect_out, NoAnswerError, ServerAbsentError)
from optitrack_vrpn.drivers.vrpn.probe import (
    Attempt, check_connect_back, check_handshake, check_senders, check_tcp, check_udp,
    explain_silence, is_open, ProbeOutcome, VrpnProbeFacts)
from optitrack_vrpn.drivers.vrpn.request_memory_io import remembered_request, RequestMemory
from optitrack_vrpn.drivers.vrpn.transport import Remembered, Request
from optitrack_vrpn.drivers.vrpn.transport_io import find_firewall, find_transport, is_wsl
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

#: Chosen: limit of stored addresses of other peers.
_MOST_PEERS = 8
#: Chosen: wait for the answer of another program on the port, and for poses by TCP (s).
_AFTER_SHUTDOWN_S, _BY_TCP_S = 0.5, 2.0


class VrpnProbe:
    """The probe of VRPN; see ``drivers.probing.Probe``."""

    checks = ('udp', 'connect-back', 'tcp', 'handshake', 'senders')

    def __init__(self, config: ClientConfig, settings: object, place: Place) -> None:
        self._config = config
        self._clock = HostClock()
        self._waiting: Waiting
        self._server = place.address, config.port
        self.facts = VrpnProbeFacts(place, config.port, config.link.connection, tuple(
            filter(None, ('WSL' if is_wsl() else '', find_firewall()))))

    def connect(self) -> None:
        """
        Connect by TCP; request a connection by UDP if that is needed.

        With ``auto`` the request is sent only where the node sends one, and remembered as the
        node does it: a server whose connect-back is dropped by a firewall blocks for all its
        clients until its connect() times out.
        """
        facts, link = self.facts, self._config.link
        waker = Waker()
        self._waiting = Waiting(self._clock.now_ns, lambda: False, waker, self._note_peer)
        try:
            facts.tcp = self._try(lambda: connect_out(
                self._waiting, self._server, facts.place.local, link.attempt_s))
            facts.remembered = remembered_request(facts.place.local, facts.place.address)
            choice = find_transport(
                link.connection, facts.place.local, self._server, link.blocked_s, self._host_s())
            facts.transport_reason = choice.reason
            if choice.transport == 'udp' and (
                    link.connection == 'udp' or not is_open(facts.tcp) or facts.tcp.version):
                facts.udp = self._try(self._ask)
        finally:
            waker.close()
        if not is_open(facts.tcp) and not is_open(facts.udp):
            facts.unused = is_unused(facts.place.address)

    @property
    def answered(self) -> bool:
        """Return whether the server greeted."""
        return bool(self.facts.transport)

    def source(self, sink: Sink) -> Source:
        """Make the client, with the transport that was tried."""
        return VrpnClient(self._by(self.facts.transport), sink)

    def results(self, heard: Optional[Heard]) -> list[CheckResult]:
        """Return the results of the checks."""
        facts = self.facts
        return [check_udp(facts), check_connect_back(facts), check_tcp(facts),
                check_handshake(facts, heard), check_senders(heard)]

    def silence(self, heard: Heard) -> CheckResult:
        """Explain why no pose arrived."""
        facts = self.facts
        if facts.transport == 'udp' and facts.tcp and facts.tcp.version and not heard.ended:
            facts.tcp_poses = self._count_by_tcp()
        return explain_silence(facts, heard)

    def _by(self, transport: str) -> ClientConfig:
        link = self._config.link
        return replace(self._config, link=replace(
            link, connection=transport, blocked_s=link.attempt_s))

    def _count_by_tcp(self) -> int:
        """Count poses that arrive by TCP."""
        counter = _Counter()
        client = VrpnClient(self._by('tcp'), counter)
        client.start()
        counter.arrived.wait(_BY_TCP_S)
        client.stop()
        return counter.poses

    def _ask(self) -> socket.socket:
        """Send a request by UDP; one that is not answered is remembered."""
        link, local = self._config.link, self.facts.place.local
        memory, sent_s = RequestMemory(local, *self._server), self._host_s()
        memory.write(Remembered(Request.PENDING, sent_s))
        result = Request.NONE
        try:
            return connect_back(
                self._waiting, self._server, local, link, link.attempt_s)
        except NoAnswerError:
            result = Request.UNANSWERED
            raise
        finally:
            memory.write(Remembered(result, sent_s))

    def _host_s(self) -> float:
        """Return the system time (s)."""
        return (self._clock.now_ns() + self._clock.host_minus_arrival_ns()) / NS_PER_S

    def _try(self, connect: Callable[[], socket.socket]) -> Attempt:
        """Connect, exchange greetings, and close."""
        began_ns = self._clock.now_ns()
        try:
            sock = connect()
        except OSError as error:
            outcome = (
                ProbeOutcome.REFUSED if isinstance(error, ServerAbsentError) else
                ProbeOutcome.SILENT if isinstance(error, NoAnswerError) else ProbeOutcome.FAILED)
            return Attempt(
                outcome, str(error) if isinstance(error, TransportError) else
                f'the network failed ({error.strerror or error})', self._seconds_since(began_ns))
        attempt = Attempt(ProbeOutcome.OPEN, took_s=self._seconds_since(began_ns))
        with sock:
            self._greet(sock, attempt)
        return attempt

    def _seconds_since(self, time_ns: int) -> float:
        return (self._clock.now_ns() - time_ns) / NS_PER_S

    def _greet(self, sock: socket.socket, attempt: Attempt) -> None:
        """Exchange cookies, and identify a peer that is not a VRPN server."""
        connection = VrpnConnection(time_ns=self._clock.now_ns())
        deadline = self._clock.now_ns() + int(self._config.link.attempt_s * NS_PER_S)
        try:
            sock.send(connection.data_to_send())
            while not connection.established:
                if not self._waiting.wait(deadline, (sock, select.POLLIN)):
                    if self._clock.now_ns() < deadline:
                        continue
                    attempt.fault = self._read_after_shutdown(sock, connection)
                    break
                data = sock.recv(65536)
                if not data:
                    attempt.fault = 'it closed the connection without a VRPN greeting'
                    break
                attempt.greeted(connection.receive_stream(data))
        except RemoteProtocolError as error:
            attempt.fault = str(error)
            attempt.other_program = True
        except OSError as error:
            attempt.fault = f'the connection failed ({error.strerror or error})'

    def _read_after_shutdown(self, sock: socket.socket, connection: VrpnConnection) -> str:
        """
        Close the sending side, after which servers of other protocols usually answer.

        :raises RemoteProtocolError: with the answer of the peer, if it is not VRPN.
        """
        silent = (
            f'it accepts connections but sent nothing within {self._config.link.attempt_s:g} s')
        sock.shutdown(socket.SHUT_WR)
        deadline = self._clock.now_ns() + int(_AFTER_SHUTDOWN_S * NS_PER_S)
        while self._waiting.wait(deadline, (sock, select.POLLIN)):
            data = sock.recv(65536)
            if not data:
                break
            connection.receive_stream(data)
            if connection.established:
                return f'{silent}, and its greeting only after this side had closed'
        return silent

    def _note_peer(self, address: str, what: str) -> None:
        if len(self.facts.peers) < _MOST_PEERS:
            self.facts.peers.add(address)


class _Counter:
    """Count poses."""

    def __init__(self) -> None:
        self.poses = 0
        self.arrived = threading.Event()

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        self.poses += sum(len(getattr(item, 'bodies', ())) for item in items)
        if self.poses:
            self.arrived.set()

    def link_changed(self, change: object) -> None:
        pass
