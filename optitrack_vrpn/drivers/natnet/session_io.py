# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One NatNet conversation over its sockets: read, keep alive, measure the clocks."""

from collections.abc import Callable, Sequence
import dataclasses
import select
import socket
from types import TracebackType
from typing import Optional

from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import Sink
from optitrack_vrpn.drivers.link import Link, LinkState
from optitrack_vrpn.drivers.natnet.connection import FIRST_ECHOES, KEEP_ALIVE, NatNetConnection
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.messages import (
    CERTAIN, DATA_PORT, Definitions, Disconnected, Echo, Event, Held, MULTICAST_GROUP, NatNetFrame,
    NEWEST, Response, ServerInfo, Unanswered, Unrecognized, Untimed)
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.sockets_io import (
    arrival_time_ns, ask_for_stamps, datagram_socket, multicast_socket, receive_into,
    unread_datagrams)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

#: More than the largest payload of UDP over IPv4 (65 507 bytes).
_LARGEST_DATAGRAM = 65536
#: Chosen: maximum number of datagrams read before other sockets and timers.
_MOST_DATAGRAMS = 64
#: Chosen: if a frame is read within this time (ns) of its arrival, another datagram is rarely
#: waiting; not checking saves one system call per frame. Motive's frames are at least 1 ms apart.
_FRESH_NS = 500_000
#: Chosen: maximum time (ns) that frames wait for the first round trips, whose base delay their
#: stamps need: twice the duration of the first echoes.
_CLOCK_WAIT_NS = 600_000_000
#: Chosen: number of consecutive undecodable frames before a report.
_FAILING = 50
#: Chosen: interval (ns) between requests for definitions because of unknown bodies.
_ASK_AGAIN_NS = NS_PER_S


def command_socket(local: str) -> socket.socket:
    """
    Open the socket for commands and unicast data.

    :raises TransportError: if the address is not available.
    """
    sock = datagram_socket(local)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    ask_for_stamps(sock)
    return sock


class NatNetSession:
    """
    Read one server until the conversation ends.

    :param server: its address and command port.
    :param local: the local address.
    :param link: link state machine; receives hellos and poses, and detects silence.
    :param config: settings of NatNet.
    :param clock: the host's clocks.
    :param sink: receives the reports.
    :param report: called with changes of the connection.
    :param unexpected_peer: called with the address and the kind of a message from another host.
    :param attempt_s: maximum time until the server's first answer (s).
    :param up_axis: up axis in the settings, compared with Motive's; '' for none.
    :param miscounting: a server whose counter is not used, because its frequency is wrong.
    :ivar miscounting: the same, and this session's server after that was found.
    """

    def __init__(
        self, server: tuple[str, int], local: str, link: Link, config: NatNetConfig,
        clock: HostClock, sink: Sink, report: Callable[[Optional[UserEvent]], None],
        unexpected_peer: Callable[[str, str], None], attempt_s: float, up_axis: str = '',
        miscounting: Optional[ServerInfo] = None,
    ) -> None:
        self._server = server
        self._local = local
        self._link = link
        self._config = config
        self._clock = clock
        # A recorder of the bytes themselves: see optitrack_vrpn.takes.record.raw_recorder_io.
        self._tap = getattr(sink, 'tap', None)
        self._sink = sink
        self._report = report
        self._unexpected_peer = unexpected_peer
        self._attempt_s = attempt_s
        self.miscounting = miscounting
        now_ns = clock.now_ns()
        self.connection = NatNetConnection(
            now_ns, bitstream=config.version(), wanted=config.wanted, miscounting=miscounting)
        self._command = command_socket(local)
        self._data: Optional[socket.socket] = None
        self._data_port = DATA_PORT
        self._buffer = memoryview(bytearray(_LARGEST_DATAGRAM))
        self._last_arrival_ns = 0
        self._translator = Translator(0)
        self._local_reported: set[str] = set()
        self._models_revision = -1
        self._watch = ServerWatch(up_axis, config.playback)
        self._started_ns = now_ns
        self._ready_ns = now_ns
        self._asked_ns = now_ns - _ASK_AGAIN_NS
        self._poll: Optional[select.poll] = None
        self._failing_reported = False
        #: Time of the next check of timers and of silence; an event can make it earlier.
        self._next_check_ns = 0
        self.most_waiting = 0

    def __enter__(self) -> 'NatNetSession':
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for datagram in self.connection.farewell():
            self._send(datagram)
        self._take_overdue(self._clock.now_ns())
        self._command.close()
        if self._data is not None:
            self._data.close()

    def queue(self) -> dict[str, int]:
        """Return the amount of data that waits in the sockets; safe from any thread."""
        most, self.most_waiting = self.most_waiting, 0
        figures = {'most_datagrams_at_once': most}
        unread = dropped = 0
        for sock in (self._command, self._data):
            try:
                found = unread_datagrams(sock) if sock is not None else None
            except (OSError, ValueError):
                found = None    # it has just been closed
            if found is not None:
                unread += found[0]
                dropped += found[1]
        return {**figures, 'unread_udp_bytes': unread, 'dropped_unread': dropped}

    def counters(self) -> dict[str, int]:
        """Return the counters of this conversation; safe from any thread."""
        return {**dataclasses.asdict(self.connection.counters),
                'unnamed': self._translator.unnamed,
                'odd_times': self._translator.odd_times}

    def register(self, poll: 'select.poll') -> None:
        """Register the sockets for reading, and start to connect."""
        self._poll = poll
        poll.register(self._command.fileno(), select.POLLIN)
        if self._tap is not None:
            self._tap('natnet/begin', b'', self._clock.now_ns(),
                      self._clock.host_minus_arrival_ns(), self._server[0], self._local)
        self._send_due(self._clock.now_ns())

    def next_check_s(self) -> float:
        """Return the longest time (s) to wait before the next call of ``handle``."""
        return max((self._next_check_ns - self._clock.now_ns()) / NS_PER_S, 0.001)

    def request(self, command: str) -> None:
        """
        Queue a command; on the client's thread.

        :raises LocalProtocolError: if the text is not a valid command, or too many commands wait.
        """
        self._next_check_ns = 0
        self.connection.request(command)

    def handle(self, ready: Sequence[tuple[int, int]]) -> Optional[str]:
        """
        Read the ready sockets, then send the datagrams that are due.

        :param ready: the result of ``poll``.
        :returns: the reason if the conversation has ended, else None.
        """
        data, command = self._data, self._command
        for fd, _ in ready:
            sock = command if fd == command.fileno() else (
                data if data is not None and fd == data.fileno() else None)
            if sock is not None:
                reason = self._read(sock)
                if reason is not None:
                    return reason
        now_ns = self._clock.now_ns()
        connection = self.connection
        if now_ns < self._next_check_ns and not connection.request_waiting:
            return None  # frames only postpone deadlines, so no deadline can have passed
        self._send_due(now_ns)
        self._next_check_ns = min(
            connection.next_due_ns(), now_ns + int(self._link.next_check_s(now_ns) * NS_PER_S))
        if not connection.established:
            if now_ns - self._started_ns > self._attempt_s * NS_PER_S:
                where = f'NatNet command port {self._server[1]}'
                if connection.last_error:
                    return (f'{self._server[0]} answered on {where}, but it cannot be used: '
                            f'{connection.last_error}')
                return (
                    f'{self._server[0]} did not answer on {where} '
                    f'within {self._attempt_s:g} s: is NatNet streaming on in Motive, is its '
                    'Local Interface in this network, or does a firewall block UDP?')
            return None
        if not self._link.due(now_ns, self._unread):
            self._next_check_ns = 0
            return None
        silent = self._link.check(now_ns)
        counters = connection.counters
        if silent is not None and not counters.messages + counters.malformed:
            silent = self._link.to(LinkState.SILENT, self._no_frames(), now_ns, WARN)
        self._report(silent)
        return self._link.must_reconnect(now_ns)

    def _no_frames(self) -> str:
        """Describe a server that answers and sends no frames."""
        server = self._server[0]
        if self._data is not None:
            group, port = self._data.getsockname()
            return (f'{server} answers, but no frame arrives by multicast {group} port {port} on '
                    f'{self._local}: set interface to the network card that Motive streams to '
                    '(its Local Interface), and check that streaming is on and that the switch '
                    'passes multicast')
        return (f'{server} answers, but no frame arrives by unicast at {self._local}: check that '
                'streaming is on in Motive, and that no firewall or NAT (Docker, WSL2) here drops '
                f'UDP from port {self._data_port} of {server}')

    # -- reading -------------------------------------------------------------------------------

    def _unread(self) -> bool:
        queues = [unread_datagrams(sock) for sock in (self._command, self._data) if sock]
        return any(queue and queue[0] for queue in queues)

    def _read(self, sock: socket.socket) -> Optional[str]:
        clock = self._clock
        host_minus_arrival_ns = clock.host_minus_arrival_ns()
        server_ip = self._server[0]
        buffer = self._buffer
        for number in range(_MOST_DATAGRAMS):
            arrival = receive_into(sock, buffer)
            if arrival is None:
                return None
            if number >= self.most_waiting:
                self.most_waiting = number + 1
            if arrival.address[0] != server_ip:
                self._unexpected_peer(arrival.address[0], 'a datagram')
                continue
            now_ns = clock.now_ns()
            arrived_ns = arrival_time_ns(arrival.kernel_ns, host_minus_arrival_ns, now_ns)
            if self._tap is not None:
                self._tap('natnet/udp', bytes(buffer[:arrival.size]), arrived_ns,
                          host_minus_arrival_ns, server_ip, self._local)
            last = False
            for event in self.connection.receive(buffer[:arrival.size], arrived_ns):
                if event.__class__ is NatNetFrame:
                    self._take_frame(event, arrived_ns, host_minus_arrival_ns, now_ns)
                    last = now_ns - arrived_ns < _FRESH_NS
                    continue
                reason = self._take(event, arrived_ns, host_minus_arrival_ns, now_ns)
                if reason is not None:
                    return reason
            if self.connection.failing >= _FAILING and not self._failing_reported:
                self._failing_reported = True
                major, minor = version = self.connection.version
                self._message(ERROR, (
                    f'frames cannot be decoded as NatNet {major}.{minor}: '
                    f'{self.connection.last_error}; ' + (
                        f'with unicast, set natnet.bitstream to {CERTAIN[0]}.{CERTAIN[1]}'
                        if version > CERTAIN else 'Motive is asked for its version again')))
            if last:
                return None  # another datagram rarely waits; if so, the next poll reports it
        return None

    def _take_frame(
        self, frame: NatNetFrame, arrived_ns: int, host_minus_arrival_ns: int, now_ns: int,
    ) -> None:
        models = self.connection.models
        if self._models_revision != models.revision:
            self._models_revision = models.revision
            self._translator.names = models.names
        self._publish(frame, arrived_ns, host_minus_arrival_ns, now_ns)

    def _publish(
        self, frame: NatNetFrame, arrived_ns: int, host_minus_arrival_ns: int, now_ns: int,
    ) -> None:
        # Arrival times must rise, although the two sockets are read one after the other.
        arrived_ns = self._last_arrival_ns = max(self._last_arrival_ns, arrived_ns)
        translator = self._translator
        if now_ns < self._ready_ns and self.connection.counters.echoes < FIRST_ECHOES:
            return
        named = translator.frame(frame, self._config.playback)
        if translator.unknown:
            self._ask_for_names(now_ns)
        if named is None:
            return
        if named.bodies or (named.extras is not None and named.extras.skeletons):
            change = self._link.pose_received(now_ns)
            if change is not None:
                self._next_check_ns = 0
                self._report(change)
        self._sink.receive([named], arrived_ns, host_minus_arrival_ns)
        if translator.looks_local and translator.looks_local not in self._local_reported:
            self._local_reported.add(translator.looks_local)
            self._message(ERROR, (
                f'the bones of {translator.looks_local!r} seem to be relative to their parents '
                '(Local Rigid Bodies in Motive): they are withheld; switch that off in Motive, or '
                'set natnet.local_bones'))
        for found in self._watch.frame(frame):
            self._message(found.severity, found.text)

    def _ask_for_names(self, now_ns: int) -> None:
        unknown, self._translator.unknown = self._translator.unknown, ()
        models = self.connection.models
        if models.uncertain:
            if models.overdue(now_ns):
                error = self.connection.last_error
                self._message(WARN, (
                    'Motive has not described its present list of bodies: poses are withheld '
                    'because their names are not confirmed' + (
                        f'; last malformed datagram: {error}' if error else '')))
            return
        if now_ns - self._asked_ns < _ASK_AGAIN_NS:
            return
        self._asked_ns = now_ns
        models.ask(now_ns)
        for found in self._watch.unknown(unknown):
            self._message(found.severity, found.text)

    def _take(
        self, event: Event, arrived_ns: int, host_minus_arrival_ns: int, now_ns: int,
    ) -> Optional[str]:
        """Process an event other than a frame; return the reason if the conversation has ended."""
        self._next_check_ns = 0
        if isinstance(event, Held):
            self._models_revision = -1
            self._translator.names = event.names
            self._publish(event.frame, event.arrival_ns, host_minus_arrival_ns, now_ns)
        elif isinstance(event, Echo):
            if not self._translator.frequency:
                return None    # requested before the frames turned out to have no times
            report = self._translator.echo(*event)
            fault = self._watch.echo(report)
            if fault is not None:
                self.miscounting = self.connection.info
                return fault
            self._sink.receive([report], arrived_ns, host_minus_arrival_ns)
        elif isinstance(event, ServerInfo):
            self._greet(event, now_ns)
        elif isinstance(event, Definitions):
            for found in self._watch.definitions(event, name_table(event)):
                self._message(found.severity, found.text)
        elif isinstance(event, (Response, Unrecognized, Unanswered)):
            if self._watch.ask_again(event):
                self.connection.request(event.command, first=True)
            for found in self._watch.answer(event):
                self._message(found.severity, found.text)
        elif isinstance(event, Untimed):
            self._translator.frequency = 0
            self._ready_ns = now_ns
            self._message(WARN, (
                'the frames of Motive have no times of its clock (all ticks are 0): poses are '
                'stamped by their arrival, less stamps.latency_ms'))
        elif isinstance(event, Disconnected):
            return event.reason
        return None

    def _greet(self, info: ServerInfo, now_ns: int) -> None:
        config = self._config
        multicast = config.transport == 'multicast' or (
            config.transport == 'auto' and info.multicast is not False)
        # Before 3.0 a server does not state how it sends: both ways are possible.
        self.connection.keep_alive = not multicast or info.version < (3, 0)
        group = config.group or info.group or MULTICAST_GROUP
        port = self._data_port = config.data_port or info.data_port or DATA_PORT
        if multicast:
            self._data = multicast_socket(group, port, self._local)
            if self._poll is not None:
                self._poll.register(self._data.fileno(), select.POLLIN)
        self._translator = Translator(info.frequency, config.local_bones)
        self._ready_ns = now_ns + (_CLOCK_WAIT_NS if info.frequency else 0)
        for command in ServerWatch.QUESTIONS:
            self.connection.request(command)
        self._link.established(now_ns)
        self._link.transport = f'natnet {"multicast" if multicast else "unicast"}'
        major, minor = info.version
        how = f'{group} port {port} on {self._local}' if multicast else 'unicast'
        self._report(self._link.to(
            LinkState.CONNECTED,
            f'connected to {info.name!r} {".".join(map(str, info.app_version[:2]))} at '
            f'{self._server[0]}, NatNet {major}.{minor}, frames by {how}; no bodies yet', now_ns))
        for found in self._watch.overridden(config, info):
            self._message(found.severity, found.text)
        if info.version > NEWEST:
            self._message(INFO, (
                f'NatNet {major}.{minor} is newer than {NEWEST[0]}.{NEWEST[1]}: what it adds is '
                'skipped'))

    def _message(self, severity: Severity, text: str) -> None:
        self._report(self._link.message(text, severity))

    # -- writing -------------------------------------------------------------------------------

    def _send_due(self, now_ns: int) -> None:
        for datagram in self.connection.due(now_ns):
            self._send(datagram)
            if datagram == KEEP_ALIVE:
                # A NAT admits frames only from a port to which this socket has sent.
                self._send(datagram, self._data_port)
        self._take_overdue(now_ns)
        if self.connection.echo_due(now_ns):
            # Read the clock as late as possible before the request is sent.
            self._send(self.connection.echo_request(self._clock.now_ns()))

    def _take_overdue(self, now_ns: int) -> None:
        for event in self.connection.overdue():
            self._take(event, now_ns, self._clock.host_minus_arrival_ns(), now_ns)

    def _send(self, datagram: bytes, port: int = 0) -> None:
        if self._tap is not None:
            self._tap('natnet/sent', datagram, self._clock.now_ns(),
                      self._clock.host_minus_arrival_ns(), self._server[0], self._local)
        try:
            self._command.sendto(datagram, (self._server[0], port or self._server[1]))
        except OSError:
            pass    # no route at present: important requests are repeated, silence is detected
