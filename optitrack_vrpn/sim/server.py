# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A VRPN server that streams a scenario as Motive would; one thread serves all its clients.

No client can stop it: sockets never block, everything that a client makes it keep is bounded,
and a client that stalls, floods or speaks nonsense is dropped with the reason. It connects back
and sends poses to addresses that asked for them, and to no others.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
import ipaddress
import logging
import queue
import selectors
import socket
import threading
import time
from types import TracebackType
from typing import Any, Optional, TypeVar

from optitrack_vrpn.errors import LocalProtocolError, RemoteProtocolError, TransportError
from optitrack_vrpn.sim.faults import frame_at, Restart
from optitrack_vrpn.sim.impairments import Link
from optitrack_vrpn.sim.peer import encode_report, Peer, PeerGone, tune
from optitrack_vrpn.sim.scenario import named_bodies, Scenario
from optitrack_vrpn.sim.world import Frame, Report, World
from optitrack_vrpn.vrpn.codec import decode_request, encode_message, encode_text
from optitrack_vrpn.vrpn.connection import Connection
from optitrack_vrpn.vrpn.constants import PONG_TYPE, TEXT_TYPE
from optitrack_vrpn.vrpn.messages import (
    Event, PeerHello, PingReport, PoseReport, SenderDescribed, TextReport, UdpDescribed)
from optitrack_vrpn.vrpn.names import LocalNames

_T = TypeVar('_T')
_LOG = logging.getLogger(__name__)

_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
#: What is this late is not worth sending: a machine that slept, not one that is slow.
_MAX_LATE_NS = 250 * _MILLISECOND
_HOUSEKEEPING_NS = 250 * _MILLISECOND
#: Pongs answer many pings at once, so that pinging costs the pinger more than the others.
_PONG_INTERVAL_NS = 20 * _MILLISECOND
#: A request that was already answered may still be on its way.
_REPEATED_REQUEST_NS = _SECOND
_MAX_CONNECTING = 8
#: Names that clients made up are echoed, as the library does, but no more than these.
_MAX_FOREIGN_NAMES = 100
_REQUESTS_AT_ONCE = 32

#: What a tracker of the VRPN library describes, in its order.
TRACKER_TYPES = (
    'vrpn_Tracker Pos_Quat', 'vrpn_Tracker Velocity', 'vrpn_Tracker Acceleration',
    'vrpn_Tracker To_Room', 'vrpn_Tracker Unit_To_Sensor', 'vrpn_Tracker Request_Tracker_To_Room',
    'vrpn_Tracker Request_Unit_To_Sensor', 'vrpn_Tracker Workspace',
    'vrpn_Tracker Request_Tracker_Workspace', 'vrpn_Tracker set_update_rate',
    'vrpn_Tracker Reset_Origin', 'vrpn_Base text_message', 'vrpn_Base ping_message',
    'vrpn_Base pong_message',
)


def raw_clock_ns() -> int:
    """Read the clock that nothing steps or slews."""
    return time.clock_gettime_ns(getattr(time, 'CLOCK_MONOTONIC_RAW', time.CLOCK_MONOTONIC))


@dataclass
class Counters:
    """
    What a server has done and seen since it was started.

    :ivar frames: frames sent, to however many clients.
    :ivar skipped_frames: frames that were due while the machine slept.
    :ivar datagrams: datagrams of poses made.
    :ivar accepted: clients whose cookie was accepted.
    :ivar requests: valid requests to connect back.
    :ivar malformed_requests: datagrams on the request port that are none.
    :ivar refused_requests: requests for another address than their own, or too many.
    :ivar refused_clients: connections beyond the number allowed.
    :ivar ignored_datagrams: datagrams to the port that the server describes; none are due.
    :ivar refused_names: names of clients that were not echoed.
    :ivar restarts: restarts.
    :ivar dropped: clients dropped, by the first word of the reason.
    """

    frames: int = 0
    skipped_frames: int = 0
    datagrams: int = 0
    accepted: int = 0
    requests: int = 0
    malformed_requests: int = 0
    refused_requests: int = 0
    refused_clients: int = 0
    ignored_datagrams: int = 0
    refused_names: int = 0
    restarts: int = 0
    dropped: 'Counter[str]' = field(default_factory=Counter)


class _Connecting:
    """A connect-back on its way."""

    def __init__(self, sock: socket.socket, address: tuple[str, int], now_ns: int) -> None:
        self.sock = sock
        self.address = address
        self.since_ns = now_ns


class _Throttle:
    """Let some log lines through each second, so that a hostile client can't fill a disk."""

    def __init__(self, per_second: int = 5) -> None:
        self._per_second = per_second
        self._window_ns = 0
        self._count = 0

    def log(self, now_ns: int, level: int, text: str, *values: object) -> None:
        if now_ns - self._window_ns > _SECOND:
            if self._count > self._per_second:
                _LOG.info('%d more lines of this kind', self._count - self._per_second)
            self._window_ns, self._count = now_ns, 0
        self._count += 1
        if self._count <= self._per_second:
            _LOG.log(level, text, *values)


class MotiveSimServer:
    """
    A simulated Motive on real sockets.

    Use as a context manager, or call ``start`` and ``stop``. All other methods may be called
    from any thread once it is started.

    :param scenario: what to stream; three bodies by default.
    :param host: local address instead of the scenario's.
    :param port: port instead of the scenario's; 0 takes any free one, see ``port``.
    :param paced: send frames by the clock; otherwise only ``send_frame`` and ``send`` do.
    """

    def __init__(
        self, scenario: Optional[Scenario] = None, host: Optional[str] = None,
        port: Optional[int] = None, paced: bool = True,
    ) -> None:
        scenario = scenario or Scenario(bodies=named_bodies(3))
        server = scenario.server
        if host is not None:
            server = replace(server, host=host)
        if port is not None:
            server = replace(server, port=port)
        self.scenario = replace(scenario, server=server)
        self.world = World(self.scenario)
        self.counters = Counters()
        #: Set when the scenario's duration is over or the server has stopped.
        self.finished = threading.Event()
        #: What ended the thread, if anything but ``stop`` did.
        self.failure: Optional[BaseException] = None
        self._limits = server
        self._paced = paced
        self._running = False
        self._paused = False
        self._thread: Optional[threading.Thread] = None
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._selector: selectors.BaseSelector
        self._wake: tuple[socket.socket, socket.socket]
        self._listeners: list[socket.socket] = []
        self._udp_in: socket.socket
        self._listening = False
        self._port = server.port
        self._names = LocalNames()
        self._own: set[str] = set()
        self._foreign = 0
        self._peers: set[Peer] = set()
        self._connecting: set[_Connecting] = set()
        self._client_number = 0
        self._established = 0
        self._changed = threading.Condition()
        self._pongs: dict[str, None] = {}
        self._pongs_sent_ns = 0
        self._back_at_ns: Optional[int] = None
        self._origin_ns = 0
        self._base_ns = 0
        self._next_frame = 0
        self._checked_ns = 0
        self._refusals = _Throttle()
        self._visits = _Throttle()

    # -- from any thread -----------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The local address."""
        return self._limits.host

    @property
    def port(self) -> int:
        """The port, TCP and UDP, once started."""
        return self._port

    @property
    def base_ns(self) -> int:
        """Stamp of frame 0; a stamp less this is a time of the scenario."""
        return self._base_ns

    @property
    def clients(self) -> int:
        """Number of clients that finished their handshake."""
        return self._established

    def start(self) -> 'MotiveSimServer':
        """
        Open the sockets and start serving.

        :raises TransportError: if the address or port cannot be had.
        """
        if self._thread is not None:
            raise TransportError('the simulated Motive is already started')
        self._selector = selectors.DefaultSelector()
        self._wake = socket.socketpair()
        for end in self._wake:
            end.setblocking(False)
        try:
            self._open()
        except BaseException:
            self._close_all()
            raise
        self._selector.register(self._wake[0], selectors.EVENT_READ, self._read_wake)
        clock = self.scenario.clock
        self._origin_ns = raw_clock_ns()
        self._base_ns = time.time_ns() if clock.base == 'epoch' else round(clock.start * 1e9)
        self._next_frame = 0
        self._running = True
        self.finished.clear()
        self._thread = threading.Thread(target=self._run, name='motive_sim', daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close every connection and socket and end the thread; may be called again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._running = False
        self._poke()
        thread.join()

    def __enter__(self) -> 'MotiveSimServer':
        return self.start()

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def wait_for_clients(self, count: int = 1, timeout: float = 10.0) -> bool:
        """
        Wait until so many clients have finished their handshake.

        :returns: False if they did not in time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._established >= count, timeout)

    def send_frame(self) -> Frame:
        """Send the scenario's next frame now, whatever its time, and say what it was."""
        return self._call(self._send_next_frame)

    def send(self, reports: list[Report]) -> None:
        """
        Send these reports to every client, as one frame.

        Names that are new are described first. It returns when the kernel or the simulated
        network has them.

        :raises LocalProtocolError: if a name, a stamp or the number of names does not fit the
            wire.
        """
        for report in reports:
            encode_message(0, 0, encode_report(report)[1], report.sender_time_ns, 0)

        def act() -> None:
            for report in reports:
                if report.sender not in self._own:
                    self._names.sender_id(report.sender)
                    self._own.add(report.sender)
            self._deliver(reports, (raw_clock_ns() - self._origin_ns) / 1e9)
        self._call(act)

    def send_poses(self, poses: list[PoseReport]) -> None:
        """Send these poses to every client, as one frame; see ``send``."""
        self.send(list(poses))

    def send_text(self, sender: str, text: str, severity: int = 0, level: int = 0) -> None:
        """
        Send a text message to every client, by TCP as ever.

        :param severity: 0 normal, 1 warning, 2 error.
        """
        payload = encode_text(text, severity, level)
        self._call(lambda: self._send_all(sender, TEXT_TYPE, payload))

    def pause(self) -> None:
        """Fall silent, connections kept; time goes on."""
        self._paused = True

    def resume(self) -> None:
        """Send frames again after ``pause``."""
        self._paused = False

    def drop_clients(self) -> None:
        """Close every connection; clients may come again."""
        self._call(lambda: self._drop_all('told to'))

    def restart(self, downtime: float = 0.0) -> None:
        """
        Do as Motive does when it is closed and opened: same port, new clock, other ids.

        It returns when the server listens again.

        :param downtime: seconds without server.
        """
        self._call(lambda: self._go_down(downtime))
        with self._changed:
            self._changed.wait_for(
                lambda: self._listening or not self._running, downtime + 10.0)

    # -- sockets -------------------------------------------------------------------------------

    def _open(self) -> None:
        """Bind the listener and the request port to one number, and describe the bodies."""
        host, wanted = self._limits.host, self._port
        attempts = 20 if wanted == 0 else 1
        for attempt in range(attempts):
            opened: list[socket.socket] = []
            try:
                listener = self._bind(opened, socket.SOCK_STREAM, wanted)
                listener.listen(16)
                port = listener.getsockname()[1]
                requests = self._bind(opened, socket.SOCK_DGRAM, port)
                udp_in = self._bind(opened, socket.SOCK_DGRAM, 0)
                break
            except OSError as error:
                for sock in opened:
                    sock.close()
                if attempt + 1 == attempts:
                    raise TransportError(
                        f'cannot listen on {host}:{wanted}: {error.strerror or error}; '
                        'is another server running, and is the address one of this machine? '
                        'Choose another --port or --host') from None
        self._port = port
        self._udp_in = udp_in
        self._listeners = opened
        for sock, handler in (
                (listener, self._accept), (requests, self._read_requests),
                (udp_in, self._ignore_datagrams)):
            self._selector.register(sock, selectors.EVENT_READ, handler)
        self._names, self._foreign = LocalNames(), 0
        # After a restart the same bodies have other numbers.
        order = reversed(self.world.names) if self.counters.restarts % 2 else self.world.names
        self._own = set()
        for name in order:
            self._names.sender_id(name)
            self._own.add(name)
        for name in TRACKER_TYPES:
            self._names.type_id(name)
        self._set_listening(True)

    def _bind(self, opened: list[socket.socket], kind: int, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        opened.append(sock)
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            # For a port that closed connections still linger on; two servers it does not allow.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._limits.host, port))
        return sock

    def _close_listeners(self) -> None:
        for sock in self._listeners:
            self._forget(sock)
        self._listeners = []
        for connecting in list(self._connecting):
            self._give_up(connecting)
        self._set_listening(False)

    def _close_all(self) -> None:
        self._drop_all('the server stops')
        self._close_listeners()
        for end in self._wake:
            self._forget(end)
        self._selector.close()

    def _forget(self, sock: socket.socket) -> None:
        try:
            self._selector.unregister(sock)
        except (KeyError, ValueError):
            pass
        sock.close()

    def _set_listening(self, listening: bool) -> None:
        with self._changed:
            self._listening = listening
            self._changed.notify_all()

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._running:
                self._turn()
        except BaseException as error:  # a bug; say so instead of dying unseen
            self.failure = error
            _LOG.exception('the simulated Motive failed')
        finally:
            self._running = False
            self._close_all()
            self._run_commands()
            self.finished.set()

    def _turn(self) -> None:
        """Wait for whatever is next, and do it."""
        rest = self._next_due_ns() - raw_clock_ns()
        # Selectors count in milliseconds; the last one is slept to the microsecond.
        whole = max(rest // _MILLISECOND, 0)
        events = self._selector.select(whole * 1e-3)
        for key, mask in events:
            if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                key.data(mask)
        self._run_commands()
        rest = self._next_due_ns() - raw_clock_ns()
        if not events and 0 < rest < _MILLISECOND:
            time.sleep(rest * 1e-9)
        self._send_due_frames()
        now_ns = raw_clock_ns()
        for peer in list(self._peers):
            due_ns = peer.next_due_ns
            if due_ns is not None and due_ns <= now_ns:
                self._guard(peer, peer.send_due, now_ns)
        if self._pongs and now_ns - self._pongs_sent_ns >= _PONG_INTERVAL_NS:
            self._send_pongs(now_ns)
        if now_ns - self._checked_ns >= _HOUSEKEEPING_NS:
            self._check(now_ns)
        if self._back_at_ns is not None and now_ns >= self._back_at_ns:
            self._come_back(now_ns)

    def _next_due_ns(self) -> int:
        due = [self._checked_ns + _HOUSEKEEPING_NS]
        if self._streaming():
            due.append(self._frame_due_ns(self._next_frame))
        if self._pongs:
            due.append(self._pongs_sent_ns + _PONG_INTERVAL_NS)
        if self._back_at_ns is not None:
            due.append(self._back_at_ns)
        due.extend(peer.next_due_ns for peer in self._peers if peer.next_due_ns is not None)
        return min(due)

    def _call(self, action: Callable[[], _T]) -> _T:
        """Run something on the server's thread and wait for its result."""
        if threading.current_thread() is self._thread:
            return action()
        future: Future[_T] = Future()

        def run() -> None:
            try:
                if not self._running:
                    raise TransportError('the simulated Motive is not running')
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

        if not self._running:
            raise TransportError('the simulated Motive is not running')
        self._commands.put(run)
        self._poke()
        return future.result(timeout=30.0)

    def _run_commands(self) -> None:
        while not self._commands.empty():
            self._commands.get()()

    def _poke(self) -> None:
        try:
            self._wake[1].send(b'\0')
        except OSError:
            pass  # full: it wakes anyway; closed: it is over

    def _read_wake(self, mask: int) -> None:
        try:
            self._wake[0].recv(4096)
        except BlockingIOError:
            pass

    # -- frames --------------------------------------------------------------------------------

    def _streaming(self) -> bool:
        return self._paced and not self.finished.is_set()

    def _frame_due_ns(self, number: int) -> int:
        """Turn a frame's time on the sender's clock into this machine's."""
        skew = self.scenario.clock.skew_ppm
        return self._origin_ns + round(self.world.time_ns(number) / (1 + skew * 1e-6))

    def _send_due_frames(self) -> None:
        while self._streaming():
            late_ns = raw_clock_ns() - self._frame_due_ns(self._next_frame)
            if late_ns < 0:
                break
            if late_ns > _MAX_LATE_NS:
                missed = int(late_ns * 1e-9 * self.scenario.rate)
                self.counters.skipped_frames += missed
                self._next_frame += missed
            self._send_next_frame()
            duration = self.scenario.duration
            if duration is not None and self._next_frame >= frame_at(
                    duration, self.scenario.rate):
                self.finished.set()

    def _send_next_frame(self) -> Frame:
        number = self._next_frame
        self._next_frame += 1
        for fault in self.scenario.faults:
            if isinstance(fault, Restart) and self._strikes(fault, number):
                self._go_down(fault.downtime)
        if self._paced and (self._paused or not self._established):
            return Frame(number, [], 0)
        frame = self.world.frame(number, self._base_ns)
        self.counters.frames += 1
        for _ in range(frame.copies):
            self._deliver(frame.reports, number / self.scenario.rate)
        return frame

    def _strikes(self, fault: Restart, number: int) -> bool:
        rate = self.scenario.rate
        ahead = number - frame_at(fault.at, rate)
        return ahead == 0 or (
            ahead > 0 and fault.every > 0 and ahead % max(1, round(fault.every * rate)) == 0)

    def _deliver(self, reports: list[Report], scenario_time: float) -> None:
        if self.scenario.stamp_in_pose:
            now = time.monotonic_ns()
            reports = [
                report._replace(position=(
                    float(now // _SECOND), float(now % _SECOND), report.position[2]))
                if isinstance(report, PoseReport) else report for report in reports]
        now_ns, time_ns = raw_clock_ns(), time.time_ns()
        for peer in list(self._peers):
            datagrams = self._guard(
                peer, peer.deliver, reports, now_ns, scenario_time, time_ns)
            self.counters.datagrams += datagrams or 0

    # -- clients -------------------------------------------------------------------------------

    def _accept(self, mask: int) -> None:
        listener = self._listeners[0]
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors: look again later instead of spinning.
            self._refusals.log(raw_clock_ns(), logging.WARNING,
                               'cannot accept a client: %s', error.strerror)
            self._selector.unregister(listener)
            return
        self._add_peer(sock, connected_back=False)

    def _add_peer(self, sock: socket.socket, connected_back: bool) -> None:
        now_ns = raw_clock_ns()
        if len(self._peers) >= self._limits.max_clients:
            self.counters.refused_clients += 1
            self._refusals.log(
                now_ns, logging.WARNING, 'a client was refused: there are %d already',
                len(self._peers))
            sock.close()
            return
        try:
            tune(sock)
            udp_address = None
            if connected_back:
                udp_address = sock.getsockname()[0], self._udp_in.getsockname()[1]
            connection = Connection(self._names, udp_address, time.time_ns())
            self._client_number += 1
            link = Link(self.scenario.network, self.scenario.seed, self._client_number)
            peer = Peer(sock, connection, link, self._limits, now_ns)
        except OSError:
            sock.close()  # it left before it was looked at
            return
        self._peers.add(peer)
        self._selector.register(
            sock, selectors.EVENT_READ, lambda mask: self._serve(peer, mask))
        self._guard(peer, peer.flush, now_ns)

    def _serve(self, peer: Peer, mask: int) -> None:
        now_ns = raw_clock_ns()
        if mask & selectors.EVENT_READ:
            events = self._guard(peer, peer.receive, now_ns)
            for event in events or ():
                if peer in self._peers:
                    self._guard(peer, self._handle, peer, event, now_ns)
        if peer in self._peers:
            self._guard(peer, peer.flush, now_ns)

    def _handle(self, peer: Peer, event: Event, now_ns: int) -> None:
        if isinstance(event, PeerHello):
            self.counters.accepted += 1
            self._count_established()
            self._visits.log(now_ns, logging.INFO, 'client %s connected%s', peer,
                             f' ({event.note})' if event.note else '')
        elif isinstance(event, UdpDescribed):
            peer.use_udp(event.port)
        elif isinstance(event, PingReport):
            if event.sender in self._own:
                self._pongs[event.sender] = None
        elif isinstance(event, SenderDescribed):
            self._echo_name(event.sender)
        elif isinstance(event, TextReport):
            _LOG.debug('client %s says %.200r', peer, event.text)

    def _echo_name(self, name: str) -> None:
        """Describe a client's name to all, as the library does with names it doesn't know."""
        if name in self._names.senders:
            return
        try:
            if self._foreign >= _MAX_FOREIGN_NAMES:
                raise LocalProtocolError('too many names')
            self._names.sender_id(name)
        except LocalProtocolError:
            self.counters.refused_names += 1
            return
        self._foreign += 1
        for peer in list(self._peers):
            peer.connection.describe(time.time_ns())
            self._guard(peer, peer.flush, raw_clock_ns())

    def _send_pongs(self, now_ns: int) -> None:
        names, self._pongs = self._pongs, {}
        self._pongs_sent_ns = now_ns
        for name in names:
            self._send_all(name, PONG_TYPE, b'')

    def _send_all(self, sender: str, type_name: str, payload: bytes) -> None:
        """Send a message to every client by TCP."""
        for peer in list(self._peers):
            peer.connection.send(sender, type_name, payload, time.time_ns())
            self._guard(peer, peer.flush, raw_clock_ns())

    def _guard(self, peer: Peer, action: Callable[..., _T], *values: Any) -> Optional[_T]:
        """Do something for a client; if it is gone, drop it and nobody else."""
        result = None
        try:
            result = action(*values)
        except PeerGone as gone:
            self._drop(peer, str(gone))
            return None
        if peer in self._peers:
            key = self._selector.get_key(peer.sock)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.wants_write else 0)
            if key.events != wanted:
                self._selector.modify(peer.sock, wanted, key.data)
        return result

    def _drop(self, peer: Peer, reason: str) -> None:
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        try:
            self._selector.unregister(peer.sock)
        except (KeyError, ValueError):
            pass
        peer.close()
        self.counters.dropped[reason.split(':')[0]] += 1
        self._count_established()
        self._visits.log(raw_clock_ns(), logging.INFO, 'client %s dropped: %s', peer, reason)

    def _drop_all(self, reason: str) -> None:
        for peer in list(self._peers):
            self._drop(peer, reason)

    def _count_established(self) -> None:
        with self._changed:
            self._established = sum(peer.connection.established for peer in self._peers)
            self._changed.notify_all()

    def _check(self, now_ns: int) -> None:
        """Look after everything that only takes time."""
        self._checked_ns = now_ns
        for peer in list(self._peers):
            self._guard(peer, peer.check, now_ns)
        timeout_ns = round(self._limits.client_timeout * _SECOND)
        for connecting in list(self._connecting):
            if now_ns - connecting.since_ns > timeout_ns:
                self._give_up(connecting)
        if self._listening and self._listeners[0] not in self._selector.get_map():
            self._selector.register(self._listeners[0], selectors.EVENT_READ, self._accept)

    # -- connecting back -----------------------------------------------------------------------

    def _read_requests(self, mask: int) -> None:
        for _ in range(_REQUESTS_AT_ONCE):
            try:
                data, source = self._listeners[1].recvfrom(2048)
            except OSError:
                return
            now_ns = raw_clock_ns()
            try:
                host, port = decode_request(data)
            except RemoteProtocolError as error:
                self.counters.malformed_requests += 1
                self._refusals.log(now_ns, logging.WARNING, '%s from %s', error, source[0])
                continue
            self._answer_request(host, port, source[0], now_ns)

    def _answer_request(self, host: str, port: int, source: str, now_ns: int) -> None:
        reason = ''
        if not _is_address(host):
            reason = 'names are not looked up'
        elif host != source and not self._limits.connect_back_anywhere:
            reason = 'it asks for another address than its own (--connect-back-anywhere allows it)'
        elif self._is_known((host, port), now_ns):
            return
        elif len(self._connecting) >= _MAX_CONNECTING:
            reason = 'too many at once'
        elif len(self._peers) + len(self._connecting) >= self._limits.max_clients:
            reason = f'there are {self._limits.max_clients} clients already'
        if reason:
            self.counters.refused_requests += 1
            self._refusals.log(
                now_ns, logging.WARNING, 'a request from %s for %s port %d was refused: %s',
                source, host, port, reason)
            return
        self.counters.requests += 1
        self._connect_back((host, port), now_ns)

    def _is_known(self, address: tuple[str, int], now_ns: int) -> bool:
        """Tell a repeated request, already answered, from a client that comes again."""
        return any(item.address == address for item in self._connecting) or any(
            peer.address == address and now_ns - peer.since_ns < _REPEATED_REQUEST_NS
            for peer in self._peers)

    def _connect_back(self, address: tuple[str, int], now_ns: int) -> None:
        sock = None
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setblocking(False)
            if self._limits.host != '0.0.0.0':  # noqa: S104
                sock.bind((self._limits.host, 0))
            sock.connect(address)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if sock is not None:
                sock.close()
            self._refusals.log(now_ns, logging.WARNING, 'cannot connect back to %s:%d: %s',
                               *address, error.strerror)
            return
        connecting = _Connecting(sock, address, now_ns)
        self._connecting.add(connecting)
        self._selector.register(
            sock, selectors.EVENT_WRITE, lambda mask: self._connected(connecting))

    def _connected(self, connecting: _Connecting) -> None:
        sock = connecting.sock
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._refusals.log(raw_clock_ns(), logging.WARNING,
                               'cannot connect back to %s:%d: error %d', *connecting.address, code)
            self._give_up(connecting)
            return
        self._connecting.discard(connecting)
        self._selector.unregister(sock)
        self._add_peer(sock, connected_back=True)

    def _give_up(self, connecting: _Connecting) -> None:
        self._connecting.discard(connecting)
        self._forget(connecting.sock)

    def _ignore_datagrams(self, mask: int) -> None:
        """Clients may send reports by UDP, but a Motive has no use for any."""
        for _ in range(_REQUESTS_AT_ONCE):
            try:
                self._udp_in.recv(2048)
            except OSError:
                return
            self.counters.ignored_datagrams += 1

    # -- going away and coming back ------------------------------------------------------------

    def _go_down(self, downtime: float) -> None:
        if not self._listening:
            return
        _LOG.info('restarting; gone for %.1f s', downtime)
        self._drop_all('the server restarts')
        self._close_listeners()
        self._pongs.clear()
        self._back_at_ns = raw_clock_ns() + round(downtime * _SECOND)

    def _come_back(self, now_ns: int) -> None:
        self.counters.restarts += 1
        try:
            self._open()
        except TransportError as error:
            self.counters.restarts -= 1
            self._refusals.log(now_ns, logging.ERROR, '%s', error)
            self._back_at_ns = now_ns + _SECOND
            return
        self._back_at_ns = None
        clock = self.scenario.clock
        if clock.base == 'motive':
            self._base_ns = round(clock.start * 1e9) - self.world.time_ns(self._next_frame)


def _is_address(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
