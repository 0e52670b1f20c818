# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A server that streams a scenario like Motive, by one protocol or several, in one thread."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
import logging
import selectors
import socket
import threading
import time
from types import TracebackType
from typing import Any, Optional, Protocol, TypeVar

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.drivers.table import load, SOURCES
from optitrack_vrpn.sim.acceptor_io import forget, raw_clock_ns
from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.scenario_io import named_bodies, Network, Scenario
from optitrack_vrpn.sim.world import (
    LiveMotion, Report, SimCounters, SimFrame, SimStream, Timers, World)

_T = TypeVar('_T')
_LOG = logging.getLogger(__name__)


class Served(Protocol):
    """
    The server of one protocol, whose methods the simulator's thread calls.

    It is made of a scenario, its world, the stream of frames, a selector, which calls the data of
    a key with the event mask, counters, a condition to be notified of changes, and timers.
    """

    port: int
    where: str
    is_open: bool
    established: int
    listeners: int
    links: list[ImpairedLink]

    def open(self) -> None:
        """Listen for clients."""

    def close(self, reason: str) -> None:
        """End every connection, and stop listening."""

    def check(self, now_ns: int) -> None:
        """Check for timeouts; called a few times a second."""

    def deliver(self, frame: SimFrame, exposure_ns: Optional[int]) -> None:
        """Send a frame, exposed at this time of the raw clock; None: now."""


class MotiveSimServer:
    """
    A simulated Motive on real sockets.

    Use it as a context manager, or call ``start`` and ``stop``. The sending methods may be called
    from any thread after the start.

    :param scenario: what to stream; three bodies by default.
    :param host: local address instead of the scenario's.
    :param port: port instead of the scenario's; 0 for any free port, see ``port``.
    :param paced: send frames by the clock; otherwise only ``send_frame`` and ``send`` do.
    :param live: motions of bodies that are defined at the present time only; see ``World``.
    :ivar world: the streamed bodies and their true motion.
    :ivar stream: when each frame is due, and its stamp.
    :ivar counters: counters of events.
    :ivar finished: set when the scenario's duration has passed or the server has stopped.
    :ivar failure: the bug that ended the thread, if one did.
    """

    def __init__(
        self, scenario: Optional[Scenario] = None, host: Optional[str] = None,
        port: Optional[int] = None, paced: bool = True,
        live: Optional[Mapping[str, LiveMotion]] = None,
    ) -> None:
        scenario = scenario or Scenario(bodies=named_bodies(3))
        server = scenario.server
        self.scenario = replace(scenario, server=replace(
            server, host=server.host if host is None else host,
            port=server.port if port is None else port))
        self.world = World(self.scenario, live)
        self.counters = SimCounters()
        self.finished = threading.Event()
        self.failure: Optional[Exception] = None
        self.stream = SimStream(self.scenario)
        self._paced = paced
        self._paused = False
        self._worker: Optional[Worker[None]] = None
        self._changed = threading.Condition()
        self._selector: selectors.BaseSelector
        self._wake: tuple[socket.socket, socket.socket]
        #: The servers of the scenario's protocols.
        self._servers: dict[str, Served] = {}
        self._timers = Timers()

    # -- from any thread -----------------------------------------------------------------------

    @property
    def host(self) -> str:
        """Return the local address."""
        return self.scenario.server.host

    @property
    def port(self) -> int:
        """Return the port of the first protocol, see ``port_of``; before the start, VRPN's."""
        return self.port_of(self.scenario.protocols[0]) or self.scenario.server.port

    def port_of(self, protocol: str) -> int:
        """Return the port of a protocol's server, also one chosen by the system; 0 without it."""
        return self._servers[protocol].port if protocol in self._servers else 0

    @property
    def addresses(self) -> list[str]:
        """Describe where each protocol is served."""
        return [server.where for server in self._servers.values()]

    def serving(self, protocol: str) -> Any:
        """
        Return the server of a protocol.

        :raises TransportError: if it was not started, or does not use the protocol.
        """
        if protocol not in self._servers:
            raise TransportError(f'the simulated Motive does not use {protocol} now')
        return self._servers[protocol]

    @property
    def base_ns(self) -> int:
        """Return the stamp of frame 0; a stamp minus this is a time of the scenario."""
        return self.stream.base_ns

    @property
    def _runs(self) -> bool:
        return self._worker is not None and self._worker.running

    def time_at(self, raw_ns: int) -> float:
        """
        Return the time of the scenario (s), which ``World.truth`` takes.

        :param raw_ns: a time of this computer's raw monotonic clock, as ``raw_clock_ns`` gives it.
        """
        return self.stream.time(raw_ns)

    @property
    def clients(self) -> int:
        """Return the number of clients that finished their handshake."""
        return sum(server.established for server in self._servers.values())

    def start(self) -> 'MotiveSimServer':
        """
        Open the sockets and start serving.

        :raises TransportError: if the address or port is not available.
        :raises ConfigurationError: if a protocol cannot carry the bodies.
        """
        if self._worker is not None:
            raise TransportError('the simulated Motive is already started')
        self._selector = selectors.DefaultSelector()
        self._wake = socket.socketpair()
        for end in self._wake:
            end.setblocking(False)
        self._selector.register(self._wake[0], selectors.EVENT_READ, self._read_wake)
        self._timers = Timers()
        self._servers = {}
        try:
            for name in self.scenario.protocols:
                self._servers[name] = load(SOURCES[name].server)(
                    self.scenario, self.world, self.stream, self._selector, self.counters,
                    self._changed, self._timers)
            self._open()
        except BaseException:
            self._close()
            raise
        self.stream.start(raw_clock_ns(), time.time_ns())
        self._check()
        self.finished.clear()
        self._worker = Worker('motive_sim', self._failed, turn=self._act, end=self._leave,
                              wait=self._wait, wake=self._poke)
        self._worker.start()
        return self

    def stop(self) -> None:
        """Close all sockets and stop the thread; idempotent."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def __enter__(self) -> 'MotiveSimServer':
        return self.start()

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def wait_for_clients(self, count: int = 1, timeout: float = 10.0) -> bool:
        """
        Wait until a number of clients have finished their handshake.

        :param timeout: seconds.
        :returns: False if they did not in time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self.clients >= count, timeout)

    def send_frame(self) -> SimFrame:
        """Send the scenario's next frame now, independent of its time, and return it."""
        return self.call(self._send_next_frame)

    def send(self, reports: Sequence[Report]) -> None:
        """
        Send these reports to every client, as one frame.

        The method returns when the kernel or the simulated network has the data.

        :raises LocalProtocolError: if a name, a stamp or the number of names does not fit the
            wire.
        """
        frame = SimFrame(self.stream.number, list(reports), 1)

        def act() -> None:
            for server in self._servers.values():
                server.deliver(frame, None)
        self.call(act)

    def pause(self) -> None:
        """Stop sending frames; connections stay and time continues."""
        self._paused = True

    def resume(self) -> None:
        """Send frames again after ``pause``."""
        self._paused = False

    def restart(self, downtime: float = 0.0) -> None:
        """
        Simulate a restart of Motive: same port, new clock, different ids.

        The method returns when the server listens again.

        :param downtime: time without a server (s).
        :raises TransportError: if another program has opened the port meanwhile.
        """
        before = self.counters.restarts
        self.call(lambda: self._go_down(downtime))
        with self._changed:
            if not self._changed.wait_for(
                    lambda: self.counters.restarts > before or not self._runs,
                    downtime + 10.0):
                raise TransportError(f'cannot listen again: {self.addresses}')

    def call(self, action: Callable[[], _T]) -> _T:
        """Run something on the server's thread and wait for its result."""
        worker = self._worker
        try:
            if worker is not None:
                return worker.call(action).result(timeout=30.0)
        except CancelledError:
            pass
        raise TransportError('the simulated Motive is not running')

    def set_network(self, network: Network) -> None:
        """Change the simulated network of the clients that are connected."""
        def change() -> None:
            for server in self._servers.values():
                for link in server.links:
                    link.set_network(network)
        self.call(change)

    # -- the thread ----------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for the next deadline, and process events."""
        rest_ns = self._next_due_ns() - raw_clock_ns()
        # Selectors count in milliseconds; the rest is a sleep with microsecond resolution.
        events = self._selector.select(max(rest_ns // NS_PER_MS, 0) * 1e-3)
        for key, mask in events:
            # One event may have closed the socket of the next.
            if key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                key.data(mask)
        rest_ns = self._next_due_ns() - raw_clock_ns()
        if not events and 0 < rest_ns < NS_PER_MS:
            time.sleep(rest_ns * 1e-9)

    def _act(self) -> None:
        self._send_due_frames()
        self._timers.run(raw_clock_ns())

    def _failed(self, error: Exception) -> bool:
        self.failure = error    # a bug
        _LOG.exception('the simulated Motive failed')
        return False

    def _leave(self) -> None:
        self._close()
        self.finished.set()

    def _check(self) -> None:
        now_ns = raw_clock_ns()
        for server in self._servers.values():
            server.check(now_ns)
        # Chosen: period of the checks for timeouts (ns).
        self._timers.at(now_ns + 250 * NS_PER_MS, self._check)

    def _next_due_ns(self) -> int:
        due_ns = self._timers.next_ns
        assert due_ns is not None    # that of the next check
        return min(due_ns, self.stream.due_ns) if self._streaming else due_ns

    def _poke(self) -> None:
        try:
            self._wake[1].send(b'\0')
        except OSError:
            pass  # full: a wake is pending; closed: the server has stopped

    def _read_wake(self, mask: int) -> None:
        self._wake[0].recv(4096)

    # -- frames --------------------------------------------------------------------------------

    @property
    def _streaming(self) -> bool:
        return self._paced and not self.stream.over

    def _send_due_frames(self) -> None:
        while self._streaming and self.stream.due_ns <= raw_clock_ns():
            self._send_next_frame()
        if self.stream.over:
            self.finished.set()

    def _send_next_frame(self) -> SimFrame:
        stream = self.stream
        if self._paced:
            number, missed = stream.take(raw_clock_ns())
            self.counters.skipped_frames += missed
        else:
            number, stream.number = stream.number, stream.number + 1
        restart = stream.restart_at(number)
        if restart is not None:
            self._go_down(restart.downtime)
        listeners = sum(server.listeners for server in self._servers.values())
        if self._paced and (self._paused or not listeners):
            return SimFrame(number, [], 0)
        frame = self.world.frame(number, stream.base_ns)
        self.counters.frames += 1
        for server in self._servers.values():
            server.deliver(frame, stream.exposure_ns(number) if self._paced else None)
        return frame

    # -- opening, closing, restarting ----------------------------------------------------------

    def _open(self) -> None:
        for server in self._servers.values():
            server.open()

    def _close(self) -> None:
        for server in self._servers.values():
            server.close('the server stops')
        for end in self._wake:
            forget(self._selector, end)
        self._selector.close()
        with self._changed:
            self._changed.notify_all()

    def _go_down(self, downtime: float) -> None:
        if not any(server.is_open for server in self._servers.values()):
            return
        _LOG.info('restart: no server for %.1f s', downtime)
        for server in self._servers.values():
            server.close('the server restarts')
        self._timers.at(raw_clock_ns() + round(downtime * NS_PER_S), self._come_back)

    def _come_back(self) -> None:
        self.counters.restarts += 1
        try:
            self._open()
        except TransportError as error:
            self.counters.restarts -= 1
            _LOG.error('%s', error)
            self._timers.at(raw_clock_ns() + NS_PER_S, self._come_back)
            return
        self.stream.restart()
        with self._changed:
            self._changed.notify_all()
