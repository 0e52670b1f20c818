# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Look up the server and the route to it; run the node's client and pipeline for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import threading
from typing import Any, Optional

from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import Waiting
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.sockets_io import card_of, local_address, Lookup, Waker
from optitrack_vrpn.drivers.table import (
    AUTO, check_server, load, own_settings, protocols_of, SOURCES)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.telling.doctor.results import FIRST_POSE_S, ProbeResults, WatchedStream
from optitrack_vrpn.telling.doctor.watch import Watch

#: Chosen: limits of stored addresses of the server, and of warnings of the client.
_MOST_ADDRESSES, _MOST_MESSAGES = 8, 5
#: Chosen: period (s) of the checks for silent bodies and for the end, half that of the node.
_TICK_S = 0.05
#: Waits of a client until it reports a failure: for a connect-back, for TCP, for the greeting.
_MOST_ATTEMPTS = 3


def look_up(
    probed: ProbeResults, config: ClientConfig, settings: Any, timeout_s: float,
) -> None:
    """
    Resolve the server's name, or search the server as the node does with ``server: auto``.

    :param timeout_s: timeout of the name resolution (s).
    """
    if not probed.server:
        return
    clock, waker = HostClock(), Waker()
    waiting = Waiting(clock.now_ns, lambda: False, waker, lambda address, what: None)
    try:
        if probed.server == AUTO:
            check_server(probed.protocol, AUTO)
            searching = next(name for name in protocols_of(probed.protocol, config, settings)
                             if SOURCES[name].searches)
            probed.addresses = (load(SOURCES[searching].searches)(
                waiting, own_settings(settings, searching).port, config.interface),)
            return
        lookup = Lookup.of(config.server)
        deadline = clock.now_ns() + int(timeout_s * NS_PER_S)
        while not lookup.finished and clock.now_ns() < deadline:
            waiting.wait(min(deadline, clock.now_ns() + Lookup.CHECK_NS))
        if not lookup.finished:
            probed.name_error = (
                f'the name {config.server!r} is not resolved within {timeout_s:g} s: the '
                'name server does not answer')
            return
        probed.addresses = tuple(dict.fromkeys(
            lookup.address(turn) for turn in range(_MOST_ADDRESSES)))
    except (TransportError, ConfigurationError) as error:
        probed.name_error = str(error) if probed.server == AUTO else str(error).partition(': ')[0]
    finally:
        waker.close()


def find_route(probed: ProbeResults, config: ClientConfig) -> None:
    """Find the local address of the route to the server."""
    if probed.addresses:
        try:
            probed.local = local_address(probed.addresses[0], config.port, config.interface)
            probed.card = card_of(probed.local)
        except TransportError as error:
            probed.route_error = str(error)


class _Listener:
    """The sink of the client: passes frames to the pipeline, and notes changes."""

    def __init__(self, stream: WatchedStream, now_ns: Callable[[], int]) -> None:
        self.changed = threading.Condition()
        self.watch = Watch(stream)
        self.connected_ns: Optional[int] = None
        self.over = False
        self._stream = stream
        self._now_ns = now_ns

    def receive(
        self, items: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        with self.changed:
            self.connected_ns = self.connected_ns or arrival_ns
            self.watch.receive(items, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change: Event) -> None:
        stream, state = self._stream, change.data
        with self.changed:
            if self.over:
                return    # the doctor stops the client
            if state in (LinkState.LOST, LinkState.REFUSED, LinkState.STOPPED):
                if not stream.ended:
                    stream.ended, stream.broken = change.text, change.severity is ERROR
                self.changed.notify_all()
            elif state in (LinkState.CONNECTED, LinkState.STREAMING, LinkState.SILENT):
                self.connected_ns = self.connected_ns or self._now_ns()
                if change.severity != INFO and len(stream.messages) < _MOST_MESSAGES:
                    stream.messages += (change.text,)


def listen(
    make_client: Callable[[Sink], Source], seconds: float, timeout_s: float,
    lift_s: float = 0.0, on_lift: Callable[[], None] = lambda: None,
) -> WatchedStream:
    """
    Receive with the node's client and pipeline.

    :param seconds: time to receive after the first pose that is not withheld (s).
    :param timeout_s: timeout of the connection (s).
    :param lift_s: time after that in which the user lifts a body (s); 0 for none.
    :param on_lift: called when that time begins.
    """
    clock, stream = HostClock(), WatchedStream()
    listener = _Listener(stream, clock.now_ns)
    watch = listener.watch
    client = make_client(listener)
    began_ns = now_ns = clock.now_ns()
    client.start()
    try:
        while not stream.ended:
            with listener.changed:
                listener.changed.wait_for(lambda: stream.ended, _TICK_S)
                before_ns, now_ns = now_ns, clock.now_ns()
                stream.stalled_s = max(
                    stream.stalled_s, (now_ns - before_ns) / NS_PER_S - _TICK_S)
                watch.tick(now_ns)
                # Poses that the server queued before the connection are withheld at first. That
                # time is not counted. Chosen: 2 s at most.
                received_s = max(
                    _seconds(watch.taken_ns, now_ns), _seconds(watch.first_pose_ns, now_ns) - 2.0)
                if received_s >= seconds and lift_s and not watch.lifting:
                    watch.begin_lift()
                    on_lift()
                # Chosen: 1 s for a client to report a failed attempt.
                waiting_for = (
                    seconds + lift_s - received_s if watch.first_pose_ns is not None else
                    FIRST_POSE_S - _seconds(listener.connected_ns, now_ns)
                    if listener.connected_ns is not None else
                    _MOST_ATTEMPTS * timeout_s + 1.0 - _seconds(began_ns, now_ns))
                if waiting_for <= 0.0:
                    break
        status = client.status()
    finally:
        listener.over = True
        client.stop()
    stream.link, stream.counters = status, {**status.counters, **status.queue}
    stream.listened_s = max(0.0, _seconds(listener.connected_ns, now_ns))
    if watch.first_pose_ns is not None and listener.connected_ns is not None:
        stream.first_pose_s = max(
            0.0, (watch.first_pose_ns - listener.connected_ns) / NS_PER_S)
        stream.quiet_s = _seconds(watch.last_pose_ns, now_ns)
    watch.fill(now_ns)
    return stream


def _seconds(since_ns: Optional[int], now_ns: int) -> float:
    """Return the time since then (s); -1 if there is none."""
    return -1.0 if since_ns is None else (now_ns - since_ns) / NS_PER_S
