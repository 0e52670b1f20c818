# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The client of any protocol: one thread that connects to a server, listens, and connects again.

Received data drives the thread; the only timeouts are those of the watchdog. Each change of state
is reported. A subclass supplies the protocol.
"""

from contextlib import AbstractContextManager
import logging
import os
import socket
import threading
from typing import Callable, Optional, Protocol

from optitrack_vrpn.core.errors import (
    OptitrackVrpnError, RemoteProtocolError, TransportError, VersionRefusedError)
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Attempt, LinkStatus, ServerFacts, Sink
from optitrack_vrpn.drivers.link import Link, LinkState
from optitrack_vrpn.drivers.sockets_io import local_address, Lookup, Waker, wrong_interface
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

_LOG = logging.getLogger(__name__)
#: Chosen: addresses of other hosts that are kept; all are counted.
_MOST_PEERS = 16
#: Chosen: time of a name resolution that is reported (ns), twice the timeout of glibc's resolver.
_LOOKUP_NS = 10 * NS_PER_S


def report_change(sink: Sink, change: Optional[Event]) -> None:
    """Pass a change to the sink, if there is one; log exceptions of the sink."""
    if change is None:
        return
    try:
        sink.link_changed(change)
    except Exception:
        _LOG.exception('bug: the sink raised an exception for the change %s', change)


class Stopped(Exception):
    """The client is being stopped; all waits end immediately."""


class Waiting:
    """
    Wait for sockets with a deadline, until the client is stopped.

    :param now_ns: reads the arrival clock.
    :param stopping: returns whether the client is being stopped.
    :param waker: ends the wait when ``stopping`` changes.
    :param unexpected_peer: called with the address and the kind of a connection from a host
        other than the server.
    """

    def __init__(
        self, now_ns: Callable[[], int], stopping: Callable[[], bool], waker: Waker,
        unexpected_peer: Callable[[str, str], None],
    ) -> None:
        self.now_ns = now_ns
        self.stopping = stopping
        self.waker = waker
        self.unexpected_peer = unexpected_peer

    def wait(
        self, deadline_ns: int, *sockets: tuple[socket.socket, int],
    ) -> dict[int, int]:
        """
        Wait for sockets until a deadline.

        :raises Stopped: if the client is being stopped.
        """
        ready = self.waker.wait((deadline_ns - self.now_ns()) / NS_PER_S, *sockets)
        if self.stopping():
            raise Stopped
        return ready


class Running(Protocol):
    """One conversation with a server, as the client uses it: see ``loop_io.Conversation``."""

    def run(self, waker: int, woken: Callable[[], None]) -> str:
        """Read until the conversation ends; return the reason."""

    def counters(self) -> dict[str, int]:
        """Return the counters of this conversation; safe from any thread."""

    def queue(self) -> dict[str, int]:
        """Return the lengths of the receive queues; safe from any thread."""

    @property
    def known(self) -> Optional[ServerFacts]:
        """Return what is known of the server; None before it speaks the protocol."""


class ReconnectingClient:
    """
    Stay connected to one server, across restarts and outages of the server.

    :param config: the server and the connection to it.
    :param port: the server's port.
    :param sink: receives all events, from this client's thread.
    :param clock: the host's clocks.
    """

    #: Name of the protocol, for logs and threads.
    protocol = ''

    def __init__(
        self, config: ClientConfig, port: int, sink: Sink, clock: Optional[HostClock] = None,
    ) -> None:
        self._config = config
        self._port = port
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
        self._bugs: Repetition[str] = Repetition()
        self._refused: dict[str, str] = {}
        self._unexpected_count = 0
        #: Summed counters of the finished conversations, and the current conversation.
        self._account: tuple[dict[str, int], Optional[Running]] = ({}, None)
        self._known = ServerFacts()    # of the last server
        self._attempts: dict[str, Attempt] = {}
        self._waiting = Waiting(
            self._clock.now_ns, lambda: self._stopping, self._waker, self._unexpected_peer)

    # -- supplied by the protocol --------------------------------------------------------------

    def _open(self) -> AbstractContextManager[Running]:
        """
        Find the server and connect; the context is the conversation.

        :raises OptitrackVrpnError: if the server cannot be reached.
        """
        raise NotImplementedError

    def _serve(self) -> None:
        """Do what other threads asked for, with a server that is connected or not yet."""

    def _finish(self) -> None:
        """Close what the protocol keeps between connections; at the end of the thread."""

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
            self._thread = threading.Thread(
                target=self._run, name=f'{self.protocol.lower()} client', daemon=True)
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
        if thread is not None and thread.is_alive():    # it is not if start() has failed
            thread.join()
        with self._lock:
            self._closed = True
            self._waker.close()

    def status(self) -> LinkStatus:
        """Return the state of the connection."""
        link = self._link
        totals, conversation = self._account
        known = conversation.known if conversation is not None else None
        return LinkStatus(
            link.state, link.reason, link.since_ns, link.transport,
            f'{self._server_ip or self._config.server}:{self._port}', self._local,
            link.sessions, link.failures, link.last_failure, self._unexpected_count,
            dict(self._refused), _sum(totals, conversation),
            conversation.queue() if conversation is not None else {},
            link.transport_reason, known or self._known, dict(self._attempts))

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        use_default_scheduling()
        clock = self._clock
        try:
            while True:
                pause_s = self._attempt()
                deadline = clock.now_ns() + int(pause_s * NS_PER_S)
                while clock.now_ns() < deadline:
                    self._waiting.wait(deadline)
        except Stopped:
            self._change(LinkState.STOPPED, 'stopped')
        finally:
            self._finish()
            self._waker.close()

    def _attempt(self) -> float:
        """
        Connect once, and read until the connection ends.

        :returns: pause before the next attempt (s).
        """
        link = self._link
        sessions = link.sessions
        state, severity = LinkState.LOST, WARN
        try:
            with self._open() as conversation:
                totals, _ = self._account
                self._account = (totals, conversation)
                try:
                    reason = self._listen(conversation)
                finally:
                    self._known = conversation.known or self._known
                    self._account = (_sum(totals, conversation), None)
        except VersionRefusedError as error:
            state, reason, severity = LinkState.REFUSED, str(error), ERROR
        except RemoteProtocolError as error:
            reason, severity = str(error), ERROR
        except OptitrackVrpnError as error:
            reason = str(error)
        except OSError as error:
            reason = f'the network failed: {error.strerror or error}'
        except Stopped:
            raise
        except Exception as error:
            # A bug must not end the thread silently, and data of a peer must not end the node.
            reason, severity = f'bug: {error!r}; reconnecting', ERROR
            if self._bugs.state('bug', reason):
                _LOG.exception(
                    'bug in the %s client or its sink; reconnecting', self.protocol)
        if link.sessions == sessions and self._server_ip:
            wrong = wrong_interface(self._server_ip, self._port, self._config.interface)
            reason = f'{wrong} ({reason})' if wrong else reason
        self._change(state, reason, severity)
        if link.sessions == sessions:
            return link.attempt_failed()
        return link.ended(self._clock.now_ns())

    def _resolve(self) -> tuple[str, int]:
        """Resolve the server's name and choose the local address; return address and port."""
        config = self._config
        self._change(LinkState.RESOLVING, f'looking up {config.server}')
        lookup = Lookup.of(config.server)
        late_ns = self._clock.now_ns() + _LOOKUP_NS
        while not lookup.finished:
            self._waiting.wait(self._clock.now_ns() + Lookup.CHECK_NS)
            if not lookup.finished and self._clock.now_ns() >= late_ns:
                self._change(LinkState.RESOLVING, (
                    f'the lookup of the name {config.server!r} has not finished: check the name '
                    'server, or set server to an IP address, which needs no lookup'), WARN)
        return self._use(lookup.address(self._link.failures))

    def _use(self, server_ip: str) -> tuple[str, int]:
        """Choose the local address for a server; return the server's address and port."""
        self._server_ip = server_ip
        self._local = local_address(server_ip, self._port, self._config.interface)
        return server_ip, self._port

    def _listen(self, conversation: Running) -> str:
        """
        Run one conversation until it ends.

        :returns: the reason of its end.
        """
        return conversation.run(self._waker.fileno(), self._woken)

    def _woken(self) -> None:
        """Do what other threads asked for."""
        self._waker.drain()
        self._serve()    # first: a command before the stop is sent with the farewell
        if self._stopping:
            raise Stopped

    # -- reporting -----------------------------------------------------------------------------

    def _change(self, state: LinkState, reason: str, severity: Severity = INFO) -> None:
        self._report(self._link.to(state, reason, self._clock.now_ns(), severity))

    def _report(self, change: Optional[Event]) -> None:
        report_change(self._sink, change)

    def _unexpected_peer(self, address: str, what: str) -> None:
        """Count a connection or datagram of another host."""
        self._unexpected_count += 1
        if len(self._refused) < _MOST_PEERS:
            self._refused[address] = what


def _sum(totals: dict[str, int], conversation: Optional[Running]) -> dict[str, int]:
    """Add one conversation's counters to those of the earlier ones."""
    result = dict(totals)
    if conversation is not None:
        for name, value in conversation.counters().items():
            result[name] = result.get(name, 0) + value
    return result


def use_batch_scheduling() -> None:
    """
    Set SCHED_BATCH for this thread and the threads that it starts afterwards.

    For each message published reliably, DDS wakes one of its threads, and Linux lets a woken
    thread preempt the running one: the thread that publishes. On a computer with few processors
    that causes two context switches per pose, which cost more than the pose. A thread with the
    policy ``SCHED_BATCH`` gets the same share of the processor but does not preempt when it wakes
    (sched(7)). New threads inherit the policy.

    Call it before the middleware starts. Policies other than the default (real time, idle) stay.
    """
    _change('SCHED_OTHER', 'SCHED_BATCH')


def use_default_scheduling() -> None:
    """Set Linux's default policy for this thread only, which then runs as soon as it wakes."""
    _change('SCHED_BATCH', 'SCHED_OTHER')


def _change(before: str, after: str) -> None:
    """Change the policy of this thread if the system supports and permits it."""
    try:
        if os.sched_getscheduler(0) == getattr(os, before):
            os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except (AttributeError, OSError):
        pass    # not Linux, or a sandbox: the policy stays
