# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet client: one thread that finds Motive, listens, and tries again until it is stopped.

It is a backend like the VRPN client. Several run on one machine: the command socket has a port of
its own, and the port of multicast data is shared.
"""

from collections import deque
import logging
import select
import threading
from typing import Optional

from optitrack_vrpn.client.addresses_io import local_address, Lookup
from optitrack_vrpn.client.backend_io import LinkStatus, report_change, Sink
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.client.handshake_io import Stopped, Waiting
from optitrack_vrpn.client.link import Link, LinkChange, LinkState
from optitrack_vrpn.client.scheduling_io import use_default_scheduling
from optitrack_vrpn.client.sockets_io import Waker
from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import (
    LocalProtocolError, OptitrackVrpnError, RemoteProtocolError, TransportError)
from optitrack_vrpn.natnet.messages import ServerInfo
from optitrack_vrpn.natnet.recording import START, STOP, TAKE_NAME, without_ended_recordings
from optitrack_vrpn.natnet.session_io import Session
from optitrack_vrpn.natnet.settings import AUTO, NatNetConfig
from optitrack_vrpn.natnet.sockets_io import (
    choose_server, command_socket, discovered, receive_into, send_discovery)

_NS = 1_000_000_000
_LOG = logging.getLogger(__name__)
_MOST_STRANGERS_NAMED = 16
#: Servers answer a search within milliseconds; the request is repeated once in between.
_SEARCH_S = 1.0
_SEARCH_AGAIN_S = 0.4


class NatNetClient:
    """
    Follow one NatNet server through its restarts and absences.

    :param config: which server, network card, retries and watchdog; 'auto' searches the server.
    :param natnet: what belongs to NatNet alone.
    :param sink: gets everything, from this client's thread.
    :param clock: the host's clocks.
    :param up_axis: the axis that the user takes for up, for comparison; '' for none.
    """

    def __init__(
        self, config: ClientConfig, natnet: NatNetConfig, sink: Sink,
        clock: Optional[HostClock] = None, up_axis: str = '',
    ) -> None:
        self._config = config
        self._natnet = natnet
        self._up_axis = up_axis
        self._sink = sink
        self._clock = clock or HostClock()
        self._link = Link(config.link, self._clock.now_ns())
        self._waker = Waker()
        self._stopping = False
        self._closed = False
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._server_ip = ''
        self._local = ''
        self._last_bug = ''
        self._commands: deque[str] = deque(maxlen=32)
        self._strangers: set[str] = set()
        self._stranger_count = 0
        #: Counters of the conversations that are over, and the present one.
        self._account: tuple[dict[str, int], Optional[Session]] = ({}, None)
        self._way = 'natnet'
        self._waiting = Waiting(
            self._clock.now_ns, lambda: self._stopping, self._waker, self._stranger)

    # -- the backend's interface ---------------------------------------------------------------

    def start(self) -> None:
        """
        Begin to look for the server; returns at once.

        :raises TransportError: if it was started or stopped before.
        """
        with self._lock:
            if self._thread is not None or self._closed:
                raise TransportError('a client can be started once')
            self._thread = threading.Thread(target=self._run, name='natnet client', daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """
        End the thread and close every socket; idempotent.

        The sink may be called until this returns. From the sink itself it returns at once.
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
        """Tell how the connection stands; safe from any thread."""
        link = self._link
        totals, session = self._account
        return LinkStatus(
            link.state, link.reason, link.since_ns, self._way,
            f'{self._server_ip or self._config.server}:{self._natnet.port}', self._local,
            link.sessions, link.failures, self._stranger_count, _sum(totals, session),
            session.queue() if session is not None else {})

    @property
    def server_info(self) -> Optional[ServerInfo]:
        """Give who the server is; None without a conversation."""
        session = self._account[1]
        return session.connection.info if session is not None else None

    def record(self, take: str) -> None:
        """
        Start a recording in Motive, under this name; what comes of it is reported as a remark.

        :param take: commas become underscores, since they separate a command's arguments.
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

    def _run(self) -> None:
        use_default_scheduling()
        link, clock = self._link, self._clock
        link.begin(clock.now_ns())
        try:
            while True:
                pause_s = self._round()
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

    def _round(self) -> float:
        """
        Try once to reach the server, and stay with it as long as it lasts.

        :returns: the pause before the next round in seconds.
        """
        link = self._link
        sessions = link.sessions
        severity = 'warn'
        try:
            server = self._find()
            self._change(
                LinkState.HANDSHAKING,
                f'asking {server[0]} port {server[1]} by NatNet, from {self._local}')
            with Session(
                    server, self._local, link, self._natnet, self._clock, self._sink,
                    self._tell, self._stranger, self._up_axis) as session:
                totals, _ = self._account
                self._account = (totals, session)
                try:
                    reason = self._listen(session)
                finally:
                    self._account = (_sum(totals, session), None)
        except RemoteProtocolError as error:
            reason, severity = str(error), 'error'
        except OptitrackVrpnError as error:
            reason = str(error)
        except OSError as error:
            reason = f'the network failed: {error.strerror or error}'
        except Stopped:
            raise
        except Exception as error:
            # A bug must not end the thread without a word, nor what a peer sends end the node.
            reason, severity = f'a bug: {error!r}; connecting anew', 'error'
            if reason != self._last_bug:
                self._last_bug = reason
                _LOG.exception('a bug in the NatNet client or its user; connecting anew')
        self._change(LinkState.LOST, reason, severity)
        if link.sessions == sessions:
            return link.attempt_failed()
        return link.ended(self._clock.now_ns())

    def _find(self) -> tuple[str, int]:
        """Resolve or search the server, and choose the local address."""
        config = self._config
        port = self._natnet.port
        if config.server == AUTO:
            self._server_ip = self._search(port)
        else:
            self._server_ip = self._resolve(config.server)
        self._local = local_address(self._server_ip, port, config.interface)
        return self._server_ip, port

    def _resolve(self, host: str) -> str:
        self._change(LinkState.RESOLVING, f'looking up {host}')
        wake = self._waker.wake
        lookup = Lookup(host, wake)
        try:
            while not lookup.finished:
                left_s = self._seconds(1.0)
                if not left_s:
                    raise TransportError(
                        f'the name {host!r} is still being looked up: is the name server there? '
                        'An IP address in server needs none')
                self._waiting.wait(self._clock.now_ns() + int(left_s * _NS))
        finally:
            lookup.abandon(wake)
        return lookup.address(self._link.failures)

    def _search(self, port: int) -> str:
        """Find the one server that answers a discovery."""
        interface = self._config.interface
        self._change(
            LinkState.RESOLVING, 'searching Motive by NatNet discovery on ' + (
                interface or 'all network cards'))
        found: dict[str, ServerInfo] = {}
        local = local_address('127.0.0.1', port, interface) if interface else '0.0.0.0'
        buffer = memoryview(bytearray(65536))
        with command_socket(local) as sock:
            now_ns = self._clock.now_ns()
            end_ns = now_ns + int(_SEARCH_S * _NS)
            again_ns = now_ns
            while now_ns < end_ns:
                if now_ns >= again_ns:
                    send_discovery(sock, port, 'optitrack_vrpn')
                    again_ns = now_ns + int(_SEARCH_AGAIN_S * _NS)
                self._waiting.wait(min(end_ns, again_ns), (sock, select.POLLIN))
                while (arrival := receive_into(sock, buffer)) is not None:
                    discovered(bytes(buffer[:arrival.size]), arrival.address, found)
                    if self._clock.now_ns() >= end_ns:
                        break    # a flood ends with the search
                now_ns = self._clock.now_ns()
        return choose_server(found)

    def _seconds(self, attempt_s: float) -> float:
        """Shorten a wait to what the search may still take."""
        return max(0.0, min(attempt_s, self._link.time_left_s(self._clock.now_ns())))

    def _listen(self, session: Session) -> str:
        poll = select.poll()
        waker = self._waker.fileno()
        poll.register(waker, select.POLLIN)
        session.register(poll)
        attempt_s = self._seconds(self._config.link.attempt_s)
        while True:
            ready = poll.poll(session.next_check_s() * 1000.0)
            for fd, _ in ready:
                if fd == waker:
                    self._waker.drain()
            if self._stopping:
                raise Stopped
            self._send_commands(session)
            reason = session.handle(ready, attempt_s)
            if session.way != self._way and session.connection.established:
                self._way = session.way
            if reason is not None:
                return reason

    def _send_commands(self, session: Session) -> None:
        """Hand over what other threads asked for; without a server it waits."""
        if not (self._commands and session.connection.established):
            return
        waiting = [self._commands.popleft() for _ in range(len(self._commands))]
        commands = without_ended_recordings(waiting)
        if len(commands) < len(waiting):
            self._tell(self._link.message(
                'a recording in Motive was started and stopped before the command could be sent: '
                'Motive has recorded nothing of it', self._clock.now_ns(), 'warn'))
        for command in commands:
            try:
                session.request(command)
            except LocalProtocolError as error:
                self._tell(self._link.message(str(error), self._clock.now_ns(), 'error'))

    # -- telling -------------------------------------------------------------------------------

    def _change(self, state: LinkState, reason: str, severity: str = 'info') -> None:
        self._tell(self._link.to(state, reason, self._clock.now_ns(), severity))

    def _tell(self, change: Optional[LinkChange]) -> None:
        report_change(self._sink, change)

    def _stranger(self, address: str, what: str) -> None:
        """Count a datagram from another host, and name each host once."""
        self._stranger_count += 1
        if address in self._strangers or len(self._strangers) >= _MOST_STRANGERS_NAMED:
            return
        self._strangers.add(address)
        self._tell(self._link.message(
            f'{what} from {address} was refused, since the server is {self._server_ip}; if that '
            f'is its other network card, set server: {address}', self._clock.now_ns(), 'warn'))


def _sum(totals: dict[str, int], session: Optional[Session]) -> dict[str, int]:
    """Add one conversation's counters to those of the earlier ones."""
    result = dict(totals)
    if session is not None:
        for name, value in session.counters().items():
            result[name] = result.get(name, 0) + value
    return result
