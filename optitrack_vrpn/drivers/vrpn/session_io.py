# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One conversation with a server over its sockets: read, answer, check for silence.

``handle`` is the loop of a connection that streams. With one body the caches are cold after each
wait, so that each Python function of the path costs several microseconds: this file is compiled,
and per datagram it calls nothing that is not.
"""

import dataclasses
import select
import socket
from types import TracebackType
from typing import Any, Callable, Final, Optional, Sequence

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import Sink
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.link import Link, LinkState
from optitrack_vrpn.drivers.sockets_io import (
    ANCILLARY_SIZE, arrival_time_ns, ask_for_stamps, datagram_socket, kernel_time_ns,
    reset_on_close, unread_datagrams, unread_stream_bytes)
from optitrack_vrpn.drivers.vrpn.codec import (
    CONTROL_SENDER, Event, MAX_DATAGRAM_SIZE, PeerHello, PongReport, POSE_MESSAGE, PoseReport,
    SenderDescribed)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

#: Bytes per read: the largest UDP datagram has 65507 bytes of payload, rounded up to a power of
#: two.
_LARGEST_READ = 65536
#: Chosen: datagrams read before TCP and the watchdog are served again.
_MOST_DATAGRAMS: Final = 64
#: Servers fill a datagram before they begin another one of the same frame: a datagram with room
#: for another pose is the last one of its frame.
_LAST_OF_A_FRAME: Final = MAX_DATAGRAM_SIZE - POSE_MESSAGE.size
#: Chosen: a datagram read within this time of its arrival (ns) has rarely another one behind it,
#: which saves one system call per frame. Motive's frames are at least 1 ms apart.
_FRESH_NS: Final = 500_000
#: Chosen: pings per tracker, one a second.
_MOST_PINGS = 5
#: Chosen, the limit of ``bodies``: further names are not pinged, which bounds the data that waits
#: for a peer that does not read.
_MOST_ASKED = 500


class VrpnSession:
    """
    Read the messages of one server until the connection ends.

    :param sock: the connected TCP socket; the caller closes it.
    :param server_ip: datagrams from other addresses are refused.
    :param local: the local address that receives datagrams.
    :param link: receives handshakes and poses; decides about silence.
    :param config: the client's configuration.
    :param clock: the host's clocks.
    :param sink: receives the events.
    :param report: called with changes of the connection.
    :param unexpected_peer: called with the address and the kind of a message from another host.
    :ivar most_waiting: largest number of datagrams read in one call since the last ``queue``;
        64 means that more may have waited.
    """

    def __init__(
        self, sock: socket.socket, server_ip: str, local: str, link: Link,
        config: ClientConfig, clock: HostClock, sink: Sink,
        report: Callable[[Optional[UserEvent]], None],
        unexpected_peer: Callable[[str, str], None],
    ) -> None:
        self._tcp = sock
        self._server_ip = server_ip
        self._link = link
        # Bound once: each is called several times per datagram.
        self._now_ns: Callable[[], int] = clock.now_ns
        self._host_minus_arrival_ns: Callable[[], int] = clock.host_minus_arrival_ns
        self._receive: Callable[[Sequence[Event], int, int], None] = sink.receive
        self._report = report
        self._unexpected_peer = unexpected_peer
        self.most_waiting = 0
        self._udp: Optional[socket.socket] = None
        self._udp_stamped = False
        udp_address = None
        if link.transport == 'udp' and link.takes_datagrams:
            self._udp = datagram_socket(local)
            self._udp_stamped = ask_for_stamps(self._udp)
            udp_address = (local, self._udp.getsockname()[1])
        self._tcp_stamped = ask_for_stamps(sock)
        # A recorder of the bytes themselves: see optitrack_vrpn.takes.record.raw_recorder_io.
        self._tap = getattr(sink, 'tap', None)
        self._local = local
        self._tcp_fd = sock.fileno()
        self._udp_fd = self._udp.fileno() if self._udp else -1
        self._receive_into: Callable[..., Any] = (self._udp or sock).recvmsg_into
        self.connection = VrpnConnection(udp_address=udp_address, time_ns=self._host_ns())
        self._out = bytearray(self.connection.data_to_send())
        self._buffer = memoryview(bytearray(_LARGEST_READ))
        self._buffers = [self._buffer]
        self._wait: Optional[Callable[[float], list[tuple[int, int]]]] = None
        # Common to both sockets: the first poses arrive by TCP, and datagrams that waited in the
        # kernel must not get earlier arrival times.
        self._last_arrival_ns = 0
        self._started_ns = self._now_ns()
        # Time of the last pose (ns) while poses arrive, which the link gets at the next check
        # only; None if it must get the next pose at once.
        self._pose_ns: Optional[int] = None
        self._mute_s = config.link.attempt_s, config.link.blocked_s
        self._asked: set[str] = set()
        self._unanswered: dict[str, int] = {}
        self._next_ping_ns = 0
        #: Time of the next check of pings and silence; an event can bring it forward (ns).
        self._next_check_ns = 0

    def __enter__(self) -> 'VrpnSession':
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._udp is not None:
            self._udp.close()

    def counters(self) -> dict[str, int]:
        """Return the counters of this conversation; safe from any thread."""
        connection = self.connection
        return {**dataclasses.asdict(connection.counters),
                'names_refused': connection.remote.refused}

    def queue(self) -> dict[str, int]:
        """
        Return the lengths of the receive queues; safe from any thread, without a lock.

        :returns: values by name; values that the system does not report are absent.
        """
        most, self.most_waiting = self.most_waiting, 0
        figures = {'most_datagrams_at_once': most}
        unread = unread_stream_bytes(self._tcp)
        if unread is not None:
            figures['unread_tcp_bytes'] = unread
        datagrams = unread_datagrams(self._udp) if self._udp is not None else None
        if datagrams is not None:
            figures['unread_udp_bytes'], figures['dropped_unread'] = datagrams
        return figures

    def register(self, poll: 'select.poll') -> None:
        """Register the sockets for reading, and send this side's cookie."""
        self._wait = poll.poll
        poll.register(self._tcp_fd, select.POLLIN)
        if self._udp is not None:
            poll.register(self._udp_fd, select.POLLIN)
        if self._tap is not None:
            self._tap('vrpn/begin', b'', self._now_ns(), self._host_minus_arrival_ns(),
                      self._server_ip, self._local)
        self._flush()

    def next_check_s(self) -> float:
        """Return the longest wait before the next call of ``handle`` (s)."""
        return max((self._next_check_ns - self._now_ns()) / NS_PER_S, 0.001)

    def handle(self, ready: list[tuple[int, int]]) -> Optional[str]:
        """
        Read the sockets that are ready, and wait for more; then check pings and silence.

        It returns after a check, or, without reading, when a descriptor of the caller is ready.
        TCP is read first, because it carries the names that datagrams refer to.

        :param ready: result of ``poll``.
        :returns: the reason if the conversation has ended, else None.
        :raises RemoteProtocolError: if the peer does not speak VRPN.
        :raises OSError: if the connection breaks.
        """
        wait = self._wait
        assert wait is not None, 'register was not called'
        while True:
            tcp = udp = False
            for fd, _ in ready:
                if fd == self._udp_fd:
                    udp = True
                elif fd == self._tcp_fd:
                    tcp = True
                else:
                    return None
            if tcp:
                reason = self._read_stream()
                if reason is not None:
                    return reason
            if udp:
                self._read_datagrams()
            now_ns = self._now_ns()
            if now_ns >= self._next_check_ns or self._out:
                return self._check(now_ns)
            # Poses only postpone deadlines: none can have passed.
            ready = wait(max((self._next_check_ns - now_ns) / 1e6, 1.0))

    def _check(self, now_ns: int) -> Optional[str]:
        """Check pings and silence; return the reason if the conversation has ended."""
        if not self.connection.established:
            return self._check_handshake(now_ns)
        if self._pose_ns is not None:
            self._link.pose_received(self._pose_ns)
            self._pose_ns = None
        if not self._link.due(now_ns, self._unread):
            self._next_check_ns = 0
            return None
        self._report(self._link.check(now_ns))
        if now_ns >= self._next_ping_ns:
            self._ping(now_ns)
        if self._out:
            self._flush()
        self._next_check_ns = now_ns + int(self._link.next_check_s(now_ns) * NS_PER_S)
        return self._link.must_reconnect(now_ns, self.connection.counters.datagrams)

    def _check_handshake(self, now_ns: int) -> Optional[str]:
        """
        Report a server that sends nothing, and disconnect after the longest possible block.

        The connection stays open until then: a server that is no longer blocked answers on it
        immediately, whereas repeated connections would fill its accept queue.
        """
        late_s, until_s = self._mute_s
        mute_s = (now_ns - self._started_ns) / NS_PER_S
        if mute_s >= until_s:
            return silent_handshake(self._server_ip, until_s, until_s)
        if mute_s >= late_s:
            self._report(self._link.to(
                LinkState.HANDSHAKING, silent_handshake(self._server_ip, late_s, until_s), now_ns,
                WARN))
            late_s = until_s
        self._next_check_ns = self._started_ns + int(min(late_s, until_s) * NS_PER_S)
        return None

    # -- reading -------------------------------------------------------------------------------

    def _unread(self) -> bool:
        udp = unread_datagrams(self._udp) if self._udp is not None else None
        return bool(unread_stream_bytes(self._tcp) or (udp and udp[0]))

    def _read_stream(self) -> Optional[str]:
        try:
            size, ancillary, _, _ = self._tcp.recvmsg_into(self._buffers, ANCILLARY_SIZE)
        except (BlockingIOError, InterruptedError):
            return None
        except ConnectionResetError:
            size, ancillary = 0, []
        if not size:
            reset_on_close(self._tcp)
            return ('the server closed the connection' if self.connection.established else
                    'the server closed the connection before the VRPN handshake')
        data = self._buffer[:size]
        try:
            events = self.connection.receive_stream(data)
        except RemoteProtocolError:
            # The events before the fault are valid, however the stream was split.
            self._take_stream(self.connection.events_before_fault, ancillary, data)
            raise
        self._take_stream(events, ancillary, data)
        self._out += self.connection.data_to_send()
        return None

    def _take_stream(
        self, events: Sequence[Event], ancillary: list[tuple[int, int, bytes]],
        data: memoryview,
    ) -> None:
        if not events and self._tap is None:
            return
        now_ns = self._now_ns()
        host_minus_arrival_ns = self._host_minus_arrival_ns()
        arrival_ns = now_ns
        if self._tcp_stamped:
            arrival_ns = max(self._last_arrival_ns, arrival_time_ns(
                kernel_time_ns(ancillary), host_minus_arrival_ns, now_ns))
        self._last_arrival_ns = arrival_ns
        if self._tap is not None:
            self._tap('vrpn/tcp', bytes(data), arrival_ns, host_minus_arrival_ns, self._server_ip,
                      self._local)
            if not events:
                return
        self._note(events, now_ns)
        self._deliver(events, arrival_ns, host_minus_arrival_ns, now_ns)

    def _read_datagrams(self) -> None:
        receive = self._receive_into
        buffers = self._buffers
        # Declared for mypyc, which then unpacks without an iterator.
        received: tuple[Any, ...]
        size: int
        host_minus_arrival_ns = self._host_minus_arrival_ns()
        for number in range(_MOST_DATAGRAMS):
            try:
                received = receive(buffers, ANCILLARY_SIZE)
            except (BlockingIOError, InterruptedError):
                return
            size, ancillary, _, address = received
            if number >= self.most_waiting:
                self.most_waiting = number + 1
            if address[0] != self._server_ip:
                self._unexpected_peer(address[0], 'a datagram')
                continue
            events = self.connection.receive_datagram(self._buffer[:size])
            if not events:
                continue
            now_ns = self._now_ns()
            arrival_ns = now_ns
            if self._udp_stamped:
                arrival_ns = max(self._last_arrival_ns, arrival_time_ns(
                    kernel_time_ns(ancillary), host_minus_arrival_ns, now_ns))
            self._last_arrival_ns = arrival_ns
            if self._tap is not None:
                self._tap('vrpn/udp', bytes(self._buffer[:size]), arrival_ns,
                          host_minus_arrival_ns, self._server_ip, self._local)
            self._deliver(events, arrival_ns, host_minus_arrival_ns, now_ns)
            if size <= _LAST_OF_A_FRAME and now_ns - arrival_ns < _FRESH_NS:
                return  # rarely another one waits; if so, the next poll reports it

    def _deliver(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int, now_ns: int,
    ) -> None:
        posed = type(events[-1]) is PoseReport or any(
            type(event) is PoseReport for event in events)
        if posed and self._pose_ns is None:
            # The sink learns first that a conversation begins: its frames may come out of a
            # buffer.
            change = self._link.pose_received(now_ns)
            if change is not None:
                self._next_check_ns = 0
                self._report(change)
        self._receive(events, arrival_ns, host_minus_arrival_ns)
        if posed:
            self._pose_ns = now_ns

    def _note(self, events: Sequence[Event], now_ns: int) -> None:
        """Process the events that concern the conversation itself."""
        for event in events:
            kind = event.__class__
            if kind is PoseReport:
                continue
            self._next_check_ns = 0
            if isinstance(event, PeerHello):
                self._link.established(now_ns)
                transport = 'poses by UDP' if self._udp else 'poses by TCP'
                note = f' ({event.note})' if event.note else ''
                self._report(self._link.to(
                    LinkState.CONNECTED,
                    f'connected to {self._server_ip}, VRPN {event.major:02d}.'
                    f'{event.minor:02d}{note}, {transport}; no bodies yet', now_ns))
            elif isinstance(event, SenderDescribed):
                name = event.sender
                if (name != CONTROL_SENDER and name not in self._asked
                        and len(self._asked) < _MOST_ASKED):
                    self._asked.add(name)
                    self._unanswered[name] = 0
                    self._next_ping_ns = 0
            elif isinstance(event, PongReport):
                self._unanswered.pop(event.sender, None)

    # -- writing -------------------------------------------------------------------------------

    def _ping(self, now_ns: int) -> None:
        """
        Ping each tracker that has not answered, once a second and five times at most.

        The library's client does the same; the pong proves that a tracker of that name exists.
        """
        self._next_ping_ns = now_ns + NS_PER_S
        for sender, count in list(self._unanswered.items()):
            if count >= _MOST_PINGS:
                del self._unanswered[sender]
                continue
            self._unanswered[sender] = count + 1
            try:
                self.connection.ping(sender, self._host_ns())
            except LocalProtocolError:
                del self._unanswered[sender]  # the peer sent a name that VRPN does not allow
        self._out += self.connection.data_to_send()

    def _flush(self) -> None:
        """Send queued data; data that the socket does not accept stays queued."""
        if not self._out:
            return
        try:
            sent = self._tcp.send(self._out)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            # The next read reports the reason, after the server's last data.
            sent = len(self._out)
        del self._out[:sent]

    def _host_ns(self) -> int:
        return self._now_ns() + self._host_minus_arrival_ns()


def silent_handshake(server: str, waited_s: float, until_s: float) -> str:
    """
    Describe a server that accepted the TCP connection and then sent nothing.

    :param server: its address.
    :param waited_s: time without data so far (s).
    :param until_s: timeout (s).
    """
    return (
        f'{server} accepted the connection but sent no VRPN greeting within {waited_s:g} s: its '
        'VRPN server is probably blocked, by a client whose firewall drops the connection to it '
        '(Windows 21 s, Linux 127 s), or suspended; or another program uses the port' + (
            f'. Waiting for up to {until_s:g} s' if waited_s < until_s else ''))
