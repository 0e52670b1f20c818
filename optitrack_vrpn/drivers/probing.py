# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor asks of a protocol: try the connection, lend its client, explain silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.frames import Item


class Place(NamedTuple):
    """
    Where a server is, seen from this computer.

    :ivar address: the server's address.
    :ivar local: this computer's address on the route to it.
    :ivar card: the network card with that address, '' if unknown.
    """

    address: str
    local: str
    card: str = ''

    @property
    def loopback(self) -> bool:
        """Return whether the server runs on this computer, without a firewall between."""
        return self.address.startswith('127.') or self.address in ('::1', self.local)

    def nobody(self) -> tuple[str, str]:
        """Describe an address for which no machine of the local network answers."""
        return (f'no machine in the network of {self.card or self.local} has the address '
                f'{self.address}',
                'is the Motive PC on, is its cable in, and is this its address?')


class Heard(NamedTuple):
    """
    What the client of a protocol received for some seconds.

    :ivar poses: number of poses.
    :ivar names: names of the bodies that sent them.
    :ivar seconds: time from the connection to the end (s); 0 without a connection.
    :ivar counters: counters of the protocol, and values of the kernel for the sockets.
    :ivar said: text messages of the server.
    :ivar ended: why the connection failed or ended early, or ''.
    """

    poses: int = 0
    names: Sequence[str] = ()
    seconds: float = 0.0
    counters: Mapping[str, int] = {}
    said: Sequence[str] = ()
    ended: str = ''


class Probe(Protocol):
    """
    The probe of one protocol, which a row of ``SOURCES`` names.

    It is made of the configuration of the client, the protocol's own settings (or None), and the
    place of the server. ``config.link.attempt_s`` limits each of its waits.

    :ivar checks: names of its checks, in the order of ``results``.
    """

    checks: tuple[str, ...]

    def connect(self) -> None:
        """Try each kind of connection once, and leave none open."""

    @property
    def answered(self) -> bool:
        """Return whether the server speaks the protocol, so that ``source`` can be used."""

    def source(self, sink: Sink) -> Source:
        """Make the node's own client, a ``Source``, for a ``Sink``."""

    def results(self, heard: Heard | None) -> list[CheckResult]:
        """
        Return the results of its checks.

        :param heard: what the client received; None if it was not started.
        """

    def silence(self, heard: Heard) -> CheckResult:
        """Explain, as the check ``data``, why a connected server sent no pose."""


class Tap:
    """
    Pass on what a client reports, after a function has read it.

    :param sink: the receiver.
    :param note: called with the items of each call of ``receive``.
    """

    def __init__(self, sink: Sink, note: Callable[[Sequence[Item]], None]) -> None:
        self._sink = sink
        self._note = note

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Pass items on; see ``Sink``."""
        self._note(items)
        self._sink.receive(items, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change: Event) -> None:
        """Pass a change on."""
        self._sink.link_changed(change)
