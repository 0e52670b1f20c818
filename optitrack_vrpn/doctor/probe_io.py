# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Try each kind of connection to a server once, and receive for some seconds.

The probe uses the functions of the client, and leaves no connection open without reading it: a
VRPN server can wait for one client and serve none meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import dataclasses
import os
import select
import socket
from typing import Optional

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.doctor.probe_results import Attempt, Outcome, ProbeResults, Stream
from optitrack_vrpn.doctor.stream import DATA_WITHIN_S
from optitrack_vrpn.doctor.watch import Watch
from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.sources import (
    AUTO, card_address, ClientConfig, Link, local_address, Lookup, Waiting, Waker)
from optitrack_vrpn.sources.natnet import find_server
from optitrack_vrpn.sources.vrpn import (
    Choice, connect_back, connect_out, Connection, find_transport, NoAnswerError,
    remembered_request, Request, RequestMemory, ServerAbsentError, Session)
from optitrack_vrpn.units import NS_PER_S

#: Chosen: timeout of the name resolution (s), the default of glibc's resolver for one server.
LOOKUP_S = 5.0
#: Chosen limits of stored addresses of the server and of other peers.
_MOST_ADDRESSES = 8
_MOST_PEERS = 8
#: Chosen: wait for the answer of another program on the port (s).
_AFTER_SHUTDOWN_S = 0.5
#: Chosen: period of the checks for the end of the reception (s).
_LOOK_S = 0.05
#: Chosen: period (ns) of the check for silent bodies, that of the node (``supervision.py``).
_TICK_NS = 100_000_000


class Probe:
    """
    Probe one server; each method fills its part of the results and has a timeout.

    :param config: the server and the connection to it; ``link.attempt_s`` limits each wait.
    :param probed: the results, which the methods fill.
    """

    def __init__(self, config: ClientConfig, probed: ProbeResults) -> None:
        self._config = config
        self._probed = probed
        self._clock = HostClock()
        self._waker = Waker()
        self._waiting = Waiting(
            self._clock.now_ns, lambda: False, self._waker, self._note_peer)
        self._sock: Optional[socket.socket] = None

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sock is not None:
            self._sock.close()
        self._waker.close()

    # -- name, route, connections --------------------------------------------------------------

    def look_up(self, natnet_port: int) -> None:
        """
        Resolve the server's name, or search the server as the node does with ``server: auto``.

        :param natnet_port: command port of NatNet.
        """
        probed, wake = self._probed, self._waker.wake
        if not probed.server:
            return
        if probed.server == AUTO:
            try:
                if probed.protocol == 'vrpn':
                    raise TransportError(
                        'server auto searches by NatNet, and the protocol is vrpn')
                probed.addresses = (
                    find_server(self._waiting, natnet_port, self._config.interface),)
            except TransportError as error:
                probed.name_error = str(error)
            return
        lookup = Lookup(self._config.server, wake)
        deadline = self._clock.now_ns() + int(LOOKUP_S * NS_PER_S)
        while not lookup.finished and self._clock.now_ns() < deadline:
            self._waiting.wait(deadline)
        if not lookup.finished:
            lookup.abandon(wake)
            probed.name_error = (
                f'the name {self._config.server!r} is not resolved within {LOOKUP_S:g} s: the '
                'name server does not answer')
            return
        try:
            probed.addresses = tuple(dict.fromkeys(
                lookup.address(turn) for turn in range(_MOST_ADDRESSES)))
        except TransportError as error:
            probed.name_error = str(error).partition(': ')[0]

    def find_route(self) -> None:
        """Find the local address of the route to the server."""
        probed = self._probed
        probed.environment = environment()
        if not probed.address:
            return
        try:
            probed.local = local_address(
                probed.address, self._config.port, self._config.interface)
        except TransportError as error:
            probed.route_error = str(error)
            return
        probed.card = _card_of(probed.local)

    def try_connections(self) -> None:
        """
        Connect by TCP; request a connection by UDP if that is needed, and keep it.

        With ``auto`` the request is sent only where the node sends one, and remembered as the
        node does it: a server whose connect-back is dropped by a firewall blocks for all its
        clients until its connect() times out.
        """
        probed = self._probed
        if not probed.local:
            return
        link = self._config.link
        probed.tcp, sock = self._try(self._connect_out)
        if sock is not None:
            with sock:
                self._greet(sock, probed.tcp)
        probed.remembered = remembered_request(probed.local, probed.address)
        choice = self._choose()
        probed.transport_reason = choice.reason
        if choice.transport == 'udp' and (
                link.connection == 'udp' or sock is None or probed.tcp.version):
            probed.udp, self._sock = self._try(self._ask)
        if not any(one and one.outcome is Outcome.OPEN for one in (probed.tcp, probed.udp)):
            self.look_for_machine()

    def _choose(self) -> Choice:
        """Choose the transport as the node does."""
        probed, link = self._probed, self._config.link
        return find_transport(
            link.connection, probed.local, self._server, self._config.advertise,
            link.blocked_s, self._host_s())

    def _ask(self) -> socket.socket:
        """Send a request by UDP; one that is not answered is remembered."""
        probed, link = self._probed, self._config.link
        memory, sent_s = RequestMemory(probed.local, *self._server), self._host_s()
        memory.write(Request.PENDING, sent_s)
        result = Request.NONE
        try:
            return connect_back(
                self._waiting, self._server, probed.local, self._config.advertise, link,
                link.attempt_s)
        except NoAnswerError:
            result = Request.UNANSWERED
            raise
        finally:
            memory.write(result, sent_s)

    def _host_s(self) -> float:
        """Return the system time (s)."""
        return (self._clock.now_ns() + self._clock.host_minus_arrival_ns()) / NS_PER_S

    def look_for_machine(self) -> None:
        """Note whether no machine has the address, after an attempt that had no answer."""
        self._probed.address_unused = is_unused(self._probed.address)

    def _try(
        self, connect: Callable[[], socket.socket],
    ) -> tuple[Attempt, Optional[socket.socket]]:
        """Connect; return the result and the socket."""
        began_ns = self._clock.now_ns()
        sock, outcome, detail = None, Outcome.OPEN, ''
        try:
            sock = connect()
        except OSError as error:
            outcome = (
                Outcome.REFUSED if isinstance(error, ServerAbsentError) else
                Outcome.SILENT if isinstance(error, NoAnswerError) else Outcome.FAILED)
            detail = _text(error)
        return Attempt(outcome, detail, (self._clock.now_ns() - began_ns) / NS_PER_S), sock

    def _connect_out(self) -> socket.socket:
        return connect_out(
            self._waiting, self._server, self._probed.local, self._config.link.attempt_s)

    def _greet(self, sock: socket.socket, attempt: Attempt) -> None:
        """Exchange cookies, and identify a peer that is not a VRPN server."""
        connection = Connection(time_ns=self._clock.now_ns())
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

    def _read_after_shutdown(self, sock: socket.socket, connection: Connection) -> str:
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

    # -- listening -----------------------------------------------------------------------------

    def listen(self, seconds: float, lift_s: float, on_lift: Callable[[], None]) -> None:
        """
        Communicate with the server as the node does.

        :param seconds: time to receive after the first pose (s).
        :param lift_s: time after that in which the user lifts a body (s); 0 for none.
        :param on_lift: called when that time begins.
        """
        probed = self._probed
        sock, self._sock = self._sock, None
        transport = 'udp'
        if sock is None:
            transport = 'tcp'
            if self._config.link.connection == 'udp' or not (probed.tcp and probed.tcp.version):
                return
            try:
                sock = self._connect_out()
            except OSError as error:
                probed.stream = Stream(transport='tcp', attempt=Attempt(
                    Outcome.FAILED,
                    fault=f'the first connection worked, the second not ({error})'))
                return
        with sock:
            probed.stream = self._converse(sock, transport, seconds, lift_s, on_lift)
        stream = probed.stream
        if (transport == 'udp' and stream.attempt.version and not stream.poses and not stream.ended
                and probed.tcp and probed.tcp.version):
            probed.tcp_poses = self._count_by_tcp()

    def _count_by_tcp(self) -> Optional[int]:
        """Count poses that arrive by TCP, when none arrived by UDP."""
        try:
            sock = self._connect_out()
        except OSError:
            return None
        with sock:
            return self._converse(sock, 'tcp', 0.1, 0.0, lambda: None).poses

    def _converse(
        self, sock: socket.socket, transport: str, seconds: float, lift_s: float,
        on_lift: Callable[[], None],
    ) -> Stream:
        link_config = self._config.link
        config = dataclasses.replace(self._config, link=dataclasses.replace(
            link_config, blocked_s=link_config.attempt_s, silent_after_s=0.0,
            reconnect_after_s=0.0))
        now_ns = self._clock.now_ns()
        link = Link(config.link, now_ns)
        link.transport = transport
        attempt = Attempt(Outcome.OPEN)
        stream = Stream(transport=transport, attempt=attempt)
        watch = Watch(stream)
        greeted_ns: Optional[int] = None
        try:
            with Session(
                    sock, self._probed.address, self._probed.local, link, config, self._clock,
                    watch, lambda change: None, self._note_peer) as conversation:
                poll = select.poll()
                conversation.register(poll)
                lifting = False
                tick_ns = now_ns
                while not stream.ended:
                    wait_s = conversation.next_check_s()
                    if greeted_ns is not None:
                        wait_s = min(wait_s, _LOOK_S)
                    due_ns = self._clock.now_ns() + int(wait_s * NS_PER_S)
                    ready = poll.poll(wait_s * 1e3)
                    stream.stalled_s = max(
                        stream.stalled_s, (self._clock.now_ns() - due_ns) / NS_PER_S)
                    stream.ended = conversation.handle(ready) or ''
                    now_ns = self._clock.now_ns()
                    if now_ns >= tick_ns:
                        tick_ns = now_ns + _TICK_NS
                        watch.tick(now_ns)
                    if attempt.version is None:
                        continue
                    greeted_ns = greeted_ns or now_ns
                    first_ns = watch.first_pose_ns
                    if first_ns is None:
                        if now_ns - greeted_ns >= DATA_WITHIN_S * NS_PER_S:
                            break
                        continue
                    received_s = (now_ns - first_ns) / NS_PER_S
                    if received_s >= seconds and lift_s and not lifting:
                        lifting = True
                        watch.begin_lift()
                        on_lift()
                    if received_s >= seconds + lift_s:
                        break
                stream.counters = {**conversation.counters(), **conversation.queue()}
                stream.described = bool(conversation.connection.remote.senders)
        except RemoteProtocolError as error:
            stream.ended = str(error)
            attempt.other_program = True
        except OSError as error:
            stream.ended = _text(error)
        _sum_up(stream, watch, greeted_ns, self._clock.now_ns())
        return stream

    # -- helpers -------------------------------------------------------------------------------

    @property
    def _server(self) -> tuple[str, int]:
        return self._probed.address, self._config.port

    def _note_peer(self, address: str, what: str) -> None:
        unexpected_peers = self._probed.unexpected_peers
        if address in unexpected_peers or len(unexpected_peers) < _MOST_PEERS:
            unexpected_peers[address] = what


def _sum_up(stream: Stream, watch: Watch, greeted_ns: Optional[int], now_ns: int) -> None:
    """Store the results of the reception."""
    if stream.attempt.version is None:
        stream.attempt.fault = stream.ended
    if greeted_ns is not None:
        stream.listened_s = (now_ns - greeted_ns) / NS_PER_S
        if watch.first_pose_ns is not None:
            stream.first_pose_s = max(0.0, (watch.first_pose_ns - greeted_ns) / NS_PER_S)
            stream.quiet_s = (now_ns - watch.last_pose_ns) / NS_PER_S
    watch.fill(now_ns)


def _text(error: OSError) -> str:
    return str(error) if isinstance(error, TransportError) else (
        f'the network failed ({error.strerror or error})')


def _card_of(address: str) -> str:
    """Return the network card that has an address; '' if none is found."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(TransportError):
            if card_address(name) == address:
                return name
    return ''


def environment(root: str = '/') -> tuple[str, ...]:
    """
    Detect a container, WSL and a firewall between this process and the network.

    :param root: root of the file system.
    :returns: some of 'container', 'wsl' and 'ufw'.
    """
    found = []
    if any(os.path.exists(os.path.join(root, path))
           for path in ('.dockerenv', 'run/.containerenv')):
        found.append('container')
    if 'microsoft' in _read(os.path.join(root, 'proc/sys/kernel/osrelease')).lower():
        found.append('wsl')
    lines = _read(os.path.join(root, 'etc/ufw/ufw.conf')).lower().splitlines()
    if any(line.replace(' ', '') == 'enabled=yes' for line in lines):
        found.append('ufw')
    return tuple(found)


def is_unused(address: str, table: str = '/proc/net/arp') -> bool:
    """
    Return whether ARP requests for an IPv4 address in the local network have no answer.

    :param table: the neighbour table of Linux: the third column is 0x0 before an answer.
    """
    rows = [line.split() for line in _read(table).splitlines()[1:]]
    flags = [row[2] for row in rows if len(row) > 2 and row[0] == address]
    return bool(flags) and set(flags) == {'0x0'}


def _read(path: str) -> str:
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read(65536)
    except OSError:
        return ''
