# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The loop of every conversation: wait, read, decode, pass on, check for silence.

It owns the sockets, the times of arrival and the recorder of bytes; a driver decodes. With one
body the caches are cold after each wait, so that each Python function of the path costs several
microseconds: this file is compiled, and per datagram it calls nothing that is not.
"""

import select
import socket
from types import TracebackType
from typing import Any, Callable, Final, Optional, Sequence

from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.driver import (
    Action, Connected, Deliver, Finish, Join, ProtocolDriver, Send, SendTimed, ServerFacts, Sink,
    tap_of)
from optitrack_vrpn.drivers.frames import Frame, Item
from optitrack_vrpn.drivers.link import Link, LinkState
from optitrack_vrpn.drivers.link_rules import SilenceFacts
from optitrack_vrpn.drivers.sockets_io import (
    ANCILLARY_SIZE, arrival_time_ns, ask_for_stamps, multicast_socket, reset_on_close,
    unread)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

#: Bytes per read: the largest UDP datagram has 65507 bytes of payload, rounded up to a power of
#: two.
LARGEST_READ: Final = 65536
#: Chosen: datagrams read before other sockets and the watchdog are served again.
_MOST_DATAGRAMS: Final = 64
#: Chosen: a datagram read within this time of its arrival (ns) has rarely another one behind it,
#: which saves one system call per frame. Motive's frames are at least 1 ms apart.
_FRESH_NS: Final = 500_000
_FRAME: Final = Frame


class SocketChannel:
    """
    One socket of a conversation.

    :param name: kind of its bytes.
    :param stream: whether it is a TCP connection.
    :param full: a datagram of more bytes has no room for another body: one of the same frame
        follows.
    """

    def __init__(
        self, name: str, sock: socket.socket, stream: bool = False, full: int = LARGEST_READ,
    ) -> None:
        self.name = name
        self.sock = sock
        self.stream = stream
        self.full = full
        self.fd = sock.fileno()
        # Bound once: it is called with each datagram.
        self.receive_into: Callable[..., Any] = sock.recvmsg_into
        ask_for_stamps(sock)


class Conversation:
    """
    One conversation with a server over its sockets; as a context it closes them.

    :param driver: the protocol.
    :param channels: its sockets. What it sends leaves by the first one, and so does what a
        multicast socket would share with it.
    :param server: address and port of the server; data from other addresses is refused.
    :param local: the local address.
    :param link: receives handshakes and poses; decides about silence.
    :param clock: the host's clocks.
    :param sink: receives the items.
    :param report: called with changes of the connection.
    :param unexpected_peer: called with the address and the kind of a message from another host.
    """

    def __init__(
        self, driver: ProtocolDriver, channels: Sequence[SocketChannel],
        server: tuple[str, int], local: str, link: Link, clock: HostClock, sink: Sink,
        report: Callable[[Optional[UserEvent]], None],
        unexpected_peer: Callable[[str, str], None],
    ) -> None:
        self.driver = driver
        self._channels = list(channels)
        self._server = server
        self._server_ip = server[0]
        self._local = local
        self._link = link
        # Bound once: each is called several times per datagram.
        self._now_ns: Callable[[], int] = clock.now_ns
        self._host_minus_arrival_ns: Callable[[], int] = clock.host_minus_arrival_ns
        self._receive: Callable[[Sequence[Item], int, int], None] = sink.receive
        self._feed: Callable[[str, memoryview, int], Sequence[Item]] = driver.feed
        self._report = report
        self._unexpected_peer = unexpected_peer
        self._tap = tap_of(sink)
        self._poll = select.poll()
        self._by_fd: dict[int, SocketChannel] = {}
        self._buffer = memoryview(bytearray(LARGEST_READ))
        self._buffers = [self._buffer]
        self._out = bytearray()
        #: Largest number of datagrams read in one call since the last ``queue``; 64 means that
        #: more may have waited.
        self._most_waiting = 0
        # Common to all sockets: the first poses arrive by TCP, and datagrams that waited in the
        # kernel must not get earlier arrival times.
        self._last_arrival_ns = 0
        #: Time of the last read, or of the last wait without one (ns).
        self._read_ns = 0
        # Time of the last pose (ns) while poses arrive, which the link gets at the next check
        # only; None if it must get the next pose at once.
        self._pose_ns: Optional[int] = None
        #: What is known of the server, once it speaks the protocol.
        self.known: Optional[ServerFacts] = None
        self._woken: Callable[[], None] = lambda: None
        #: Time of the next check of timers and silence; an event can bring it forward (ns).
        self._next_check_ns = 0
        for channel in channels:
            self._register(channel)

    def __enter__(self) -> 'Conversation':
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            now_ns = self._now_ns()
            self.driver.end(now_ns)
            self._carry_out(now_ns)
        finally:
            for channel in self._channels:
                channel.sock.close()

    def _register(self, channel: SocketChannel) -> None:
        self._by_fd[channel.fd] = channel
        self._poll.register(channel.fd, select.POLLIN)

    def counters(self) -> dict[str, int]:
        """Return the counters of this conversation; safe from any thread."""
        return self.driver.counters()

    def queue(self) -> dict[str, int]:
        """
        Return the lengths of the receive queues; safe from any thread, without a lock.

        :returns: values by name; values that the system does not report are absent.
        """
        most, self._most_waiting = self._most_waiting, 0
        figures = {'most_datagrams_at_once': most}
        for channel in list(self._channels):
            found = unread(channel.sock, channel.stream)
            if found is None:
                continue
            if channel.stream:
                figures['unread_tcp_bytes'] = found[0]
            else:
                for name, value in zip(('unread_udp_bytes', 'dropped_unread'), found):
                    figures[name] = figures.get(name, 0) + value
        return figures

    def run(self, waker: int, woken: Callable[[], None]) -> str:
        """
        Read until the conversation ends.

        The sockets are read in their order: TCP carries the names that datagrams refer to.

        :param waker: descriptor that becomes readable when ``woken`` is to be called.
        :param woken: does what other threads asked for; also called once after the handshake.
        :returns: why the conversation has ended.
        :raises RemoteProtocolError: if the peer does not speak the protocol.
        :raises OSError: if the connection breaks.
        """
        self._woken = woken
        self._poll.register(waker, select.POLLIN)
        wait: Callable[[float], list[tuple[int, int]]] = self._poll.poll
        by_fd = self._by_fd
        driver = self.driver
        now_ns = self._read_ns = self._now_ns()
        if self._tap is not None:
            self._tap(f'{driver.protocol}/begin', b'', now_ns, self._host_minus_arrival_ns(),
                      self._server_ip, self._local)
        driver.begin(now_ns)
        reason = self._carry_out(now_ns)
        while reason is None:
            for fd, _ in wait(max((self._next_check_ns - now_ns) / 1e6, 1.0)):
                channel = by_fd.get(fd)
                if channel is None:
                    woken()
                    self._next_check_ns = 0
                    continue
                reason = self._read_stream(channel) if channel.stream else (
                    self._read_datagrams(channel))
                if reason is not None:
                    return reason
            # The clock is not read again after what was read has been processed.
            if self._read_ns == now_ns:
                self._read_ns = self._now_ns()
            now_ns, due_ns = self._read_ns, driver.next_due_ns
            # Poses only postpone the deadlines of silence: none can have passed.
            if due_ns < self._next_check_ns:
                self._next_check_ns = due_ns
            if now_ns >= self._next_check_ns or self._out:
                reason = self._check(now_ns)
        return reason

    def _check(self, now_ns: int) -> Optional[str]:
        """Do what is due, and check for silence; return the reason if the conversation ends."""
        driver, link = self.driver, self._link
        if self._out:
            self._flush()
        driver.due(now_ns)
        reason = self._carry_out(now_ns)
        if reason is not None:
            return reason
        self._next_check_ns = driver.next_due_ns
        if self.known is None:
            return None
        if self._pose_ns is not None:
            link.pose_received(self._pose_ns)
            self._pose_ns = None
        if not link.due(now_ns, self._unread):
            self._next_check_ns = 0
            return None
        self._report(link.check(now_ns, self._silence))
        self._next_check_ns = min(
            driver.next_due_ns, now_ns + int(link.next_check_s(now_ns) * NS_PER_S))
        reason = link.must_reconnect(now_ns, self._silence)
        return driver.give_up(reason) if reason is not None else None

    def _silence(self) -> SilenceFacts:
        """Return what is known of a connection without a pose."""
        counters, known = self.counters(), self.driver.known
        return SilenceFacts(
            0.0, False, self._server_ip, self._local, known.data_port, known.group,
            counters.get('messages', 0) + counters.get('malformed', 0) > 0)

    def _unread(self) -> bool:
        for channel in self._channels:
            found = unread(channel.sock, channel.stream)
            if found is not None and found[0]:
                return True
        return False

    # -- reading -------------------------------------------------------------------------------

    def _read_stream(self, channel: SocketChannel) -> Optional[str]:
        size: int
        try:
            size, ancillary, _, _ = channel.receive_into(self._buffers, ANCILLARY_SIZE)
        except (BlockingIOError, InterruptedError):
            return None
        except ConnectionResetError:
            size, ancillary = 0, []
        if not size:
            reset_on_close(channel.sock)
        self._read_ns = self._now_ns()
        return self._take(
            channel, size, ancillary, self._read_ns, self._host_minus_arrival_ns())

    def _read_datagrams(self, channel: SocketChannel) -> Optional[str]:
        receive, buffers = channel.receive_into, self._buffers
        # Declared for mypyc, which then unpacks without an iterator.
        received: tuple[Any, ...]
        size: int
        host_minus_arrival_ns = self._host_minus_arrival_ns()
        for number in range(_MOST_DATAGRAMS):
            try:
                received = receive(buffers, ANCILLARY_SIZE)
            except (BlockingIOError, InterruptedError):
                return None
            except ConnectionError:
                return None    # ICMP error for an earlier datagram: nothing listens there
            size, ancillary, _, address = received
            if number >= self._most_waiting:
                self._most_waiting = number + 1
            if address[0] != self._server_ip:
                self._unexpected_peer(address[0], 'a datagram')
                continue
            self._read_ns = now_ns = self._now_ns()
            reason = self._take(channel, size, ancillary, now_ns, host_minus_arrival_ns)
            if reason is not None:
                return reason
            if size <= channel.full and now_ns - self._last_arrival_ns < _FRESH_NS:
                return None    # rarely another one waits; if so, the next poll reports it
        return None

    def _take(
        self, channel: SocketChannel, size: int, ancillary: Any, now_ns: int,
        host_minus_arrival_ns: int,
    ) -> Optional[str]:
        """Process bytes; return the reason if the conversation has ended."""
        data = self._buffer[:size]
        arrival_ns = arrival_time_ns(ancillary, host_minus_arrival_ns, now_ns)
        if self._tap is not None and size:
            self._tap(channel.name, bytes(data), max(self._last_arrival_ns, arrival_ns),
                      host_minus_arrival_ns, self._server_ip, self._local)
        items = self._feed(channel.name, data, arrival_ns)
        if self.driver.actions:
            reason = self._carry_out(now_ns)
            if reason is not None:
                return reason
        # Arrival times rise, although the sockets are read one after the other.
        self._last_arrival_ns = max(self._last_arrival_ns, arrival_ns)
        if items:
            self._deliver(items, self._last_arrival_ns, host_minus_arrival_ns, now_ns)
        return None

    def _deliver(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int, now_ns: int,
    ) -> None:
        posed = False
        fields: tuple[Any, ...]    # declared for mypyc
        for item in items:
            if type(item) is _FRAME:
                fields = item
                if fields[1] or (fields[5] is not None and fields[5].skeletons):
                    posed = True
                    break
        if posed and self._pose_ns is None:
            # The change is reported before the frames: protocol auto chooses by it.
            change = self._link.pose_received(now_ns)
            if change is not None:
                self._next_check_ns = 0
                self._report(change)
        self._receive(items, arrival_ns, host_minus_arrival_ns)
        if posed:
            self._pose_ns = now_ns

    # -- actions -------------------------------------------------------------------------------

    def _carry_out(self, now_ns: int) -> Optional[str]:
        """Carry out the actions of the driver; return the reason if the conversation ends."""
        driver = self.driver
        while driver.actions:
            actions, driver.actions = driver.actions, []
            for action in actions:
                if isinstance(action, Finish):
                    return action.reason
                self._act(action, now_ns)
            self._next_check_ns = 0
        return None

    def _act(self, action: Action, now_ns: int) -> None:
        link = self._link
        if isinstance(action, Send):
            self._send(action.data, action.port)
        elif isinstance(action, SendTimed):
            self._send(action.make(self._now_ns()))
        elif isinstance(action, UserEvent):
            self._report(
                link.message(action.text, action.severity) if action.data is None else
                link.to(action.data, action.text, now_ns, action.severity))
        elif isinstance(action, Deliver):
            self._last_arrival_ns = max(self._last_arrival_ns, action.arrival_ns)
            self._deliver(
                action.items, self._last_arrival_ns, self._host_minus_arrival_ns(), now_ns)
        elif isinstance(action, Connected):
            self.known = self.driver.known
            link.established(now_ns)
            link.transport = action.transport or link.transport
            self._report(link.to(LinkState.CONNECTED, action.text, now_ns))
            self._woken()
        elif isinstance(action, Join):
            channel = SocketChannel(self._channels[0].name, multicast_socket(
                action.group, action.port, self._local))
            self._channels.append(channel)
            self._register(channel)

    def _send(self, data: bytes, port: int = 0) -> None:
        first = self._channels[0]
        if first.stream:
            self._out += data
            self._flush()
            return
        if self._tap is not None:
            self._tap(f'{self.driver.protocol}/sent', data, self._now_ns(),
                      self._host_minus_arrival_ns(), self._server_ip, self._local)
        try:
            first.sock.sendto(data, (self._server_ip, port or self._server[1]))
        except OSError:
            pass    # no route at present: important requests are repeated, silence is detected

    def _flush(self) -> None:
        """Send queued data; data that the stream does not accept stays queued."""
        try:
            sent = self._channels[0].sock.send(self._out)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            # The next read reports the reason, after the server's last data.
            sent = len(self._out)
        del self._out[:sent]
