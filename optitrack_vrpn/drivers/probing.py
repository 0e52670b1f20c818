# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the doctor asks of a protocol: try the connection, lend its client, explain silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.drivers.driver import ServerFacts, Sink, Source


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

    @property
    def local_host(self) -> bool:
        """Return whether the address is one of 127.0.0.0/8."""
        return self.address.startswith('127.')

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
    :ivar known: what the driver knows of the server.
    :ivar processing_s: time from exposure to transmission (s); 0 if it is not sent.
    """

    poses: int = 0
    names: Sequence[str] = ()
    seconds: float = 0.0
    counters: Mapping[str, int] = {}
    said: Sequence[str] = ()
    ended: str = ''
    known: ServerFacts = ServerFacts()
    processing_s: float = 0.0


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
