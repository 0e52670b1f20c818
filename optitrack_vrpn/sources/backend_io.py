# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The interface of every source of VRPN events.

A backend has its own thread and calls its sink from that thread only.
"""

from dataclasses import dataclass, field
import logging
from typing import Any, Optional, Protocol, Sequence

from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.sources.link import LinkState

_LOG = logging.getLogger(__name__)


class Sink(Protocol):
    """Receiver of a backend's events; the backend's thread calls it."""

    def receive(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """
        Process what one datagram or one read from the stream contained.

        The client logs an exception as a bug, closes the connection and connects again.

        :param events: items of ``optitrack_vrpn.sources``; the VRPN clients pass events of VRPN,
            which ``vrpn.frames`` converts.
        :param arrival_ns: arrival time on the arrival clock (ns). The kernel stamps it where
            supported, so that data that waited in the socket keeps its true arrival time. The
            age of an event is the difference to the present time, not to the time of this call.
        :param host_minus_arrival_ns: system time minus arrival clock, read at the same time (ns).
        """

    def link_changed(self, change: UserEvent) -> None:
        """Process a change of the connection's state, or a message about it: see link_event()."""


@dataclass
class LinkStatus:
    """
    State of the connection, for diagnostics.

    :ivar state: link state.
    :ivar reason: reason of the state.
    :ivar since_ns: time of the last change of state, on the arrival clock (ns).
    :ivar transport: 'udp', 'tcp' or the name of the backend.
    :ivar server: the server's address once resolved, before that its name.
    :ivar local: the local address in use.
    :ivar sessions: number of conversations so far.
    :ivar failures: number of failed attempts since the last conversation.
    :ivar last_failure: reason of the last failure since the last conversation, or ''.
    :ivar unexpected_peers: number of connections and datagrams from addresses other than the
        server's; all are refused.
    :ivar counters: counters of the protocol, summed over all conversations.
    :ivar queue: receive queues of the current conversation: ``unread_udp_bytes`` (kernel memory
        used by unread datagrams), ``unread_tcp_bytes``, ``dropped_unread`` (datagrams that the
        kernel dropped because its buffer was full) and ``most_datagrams_at_once`` (largest number
        read in one call since the last status). Values that the system does not report are absent.
    :ivar transport_reason: why this transport was chosen.
    """

    state: LinkState = LinkState.STOPPED
    reason: str = 'not started'
    since_ns: int = 0
    transport: str = ''
    server: str = ''
    local: str = ''
    sessions: int = 0
    failures: int = 0
    last_failure: str = ''
    unexpected_peers: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)
    transport_reason: str = ''


def report_change(sink: Sink, change: Optional[UserEvent]) -> None:
    """Pass a change to the sink, if there is one; log exceptions of the sink."""
    if change is None:
        return
    try:
        sink.link_changed(change)
    except Exception:
        _LOG.exception('bug: the sink raised an exception for the change %s', change)


class Backend(Protocol):
    """A source of VRPN events."""

    def start(self) -> None:
        """
        Start the backend's thread; return immediately.

        :raises TransportError: if it was started or stopped before.
        :raises RuntimeError: if the system has no room for another thread.
        """

    def stop(self) -> None:
        """Stop the thread and wait for its end. All sockets are then closed. Idempotent."""

    def status(self) -> LinkStatus:
        """Return the state of the connection; safe from any thread."""
