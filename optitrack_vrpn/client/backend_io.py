# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The interface of every source of VRPN events.

A backend has its own thread and calls its sink from that thread only.
"""

from dataclasses import dataclass, field
import logging
from typing import Optional, Protocol, Sequence

from optitrack_vrpn.client.link import LinkChange, LinkState
from optitrack_vrpn.vrpn.messages import Event

_LOG = logging.getLogger(__name__)


class Sink(Protocol):
    """What a backend tells, from its own thread."""

    def receive(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """
        Take the events of one datagram or one piece of the stream.

        What it raises is logged as a bug and ends the conversation; another one begins.

        :param arrival_ns: when it arrived, on the arrival clock. Stamped by the kernel where it
            can, so that a process which stood still gets what waited with old arrivals: how old
            an event is now is for the present to say.
        :param host_minus_arrival_ns: system time less arrival clock, read at the same time.
        """

    def link_changed(self, change: LinkChange) -> None:
        """Take a change of the connection's state, or a remark with the same state."""


@dataclass
class LinkStatus:
    """
    What is known of the connection, for diagnostics.

    :ivar state: where it stands.
    :ivar reason: why.
    :ivar since_ns: since when, on the arrival clock.
    :ivar way: 'udp' or 'tcp', or the backend's name.
    :ivar server: the server's address, once resolved.
    :ivar local: the local address in use.
    :ivar sessions: conversations so far.
    :ivar failures: failed attempts since the last conversation.
    :ivar unexpected_peers: connect-backs and datagrams from other addresses, all refused.
    :ivar counters: the protocol's counters, summed over all conversations.
    :ivar queue: what waits to be read in the present conversation: ``unread_udp_bytes`` (memory
        that the kernel keeps datagrams in), ``unread_tcp_bytes``, ``dropped_unread`` (datagrams
        that the kernel had no room for) and ``most_datagrams_at_once`` (read in one go, since the
        last status). What the system does not tell is missing.
    """

    state: LinkState = LinkState.STOPPED
    reason: str = 'not started'
    since_ns: int = 0
    way: str = ''
    server: str = ''
    local: str = ''
    sessions: int = 0
    failures: int = 0
    unexpected_peers: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)


def report_change(sink: Sink, change: Optional[LinkChange]) -> None:
    """Tell of a change, if there is one; a bug where it is told is not the backend's."""
    if change is None:
        return
    try:
        sink.link_changed(change)
    except Exception:
        _LOG.exception('a bug where a change of the connection was told: %s', change)


class Backend(Protocol):
    """A source of VRPN events."""

    def start(self) -> None:
        """
        Begin; returns at once, everything else happens in the backend's thread.

        :raises OptitrackVrpnError: if it cannot begin at all.
        """

    def stop(self) -> None:
        """End, waiting for the thread; every socket is closed when it returns. Idempotent."""

    def status(self) -> LinkStatus:
        """Tell how the connection stands; safe from any thread."""
