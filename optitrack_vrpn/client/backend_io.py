# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The small interface that every source of VRPN events has.

A backend runs a thread of its own and calls its sink from there, and from nowhere else.
"""

from dataclasses import dataclass, field
import logging
from typing import Optional, Protocol, Sequence

from optitrack_vrpn.client.addresses_io import is_ipv4
from optitrack_vrpn.client.link import LinkChange, LinkConfig, LinkState
from optitrack_vrpn.errors import ConfigurationError, LocalProtocolError
from optitrack_vrpn.settings import checked, section, setting
from optitrack_vrpn.vrpn.codec import encode_request
from optitrack_vrpn.vrpn.constants import DEFAULT_PORT
from optitrack_vrpn.vrpn.messages import Event

_LOG = logging.getLogger(__name__)

BACKENDS = ('builtin', 'python_vrpn')


@checked
@dataclass(frozen=True)
class ClientConfig:
    """Which server, and how to reach it."""

    server: str = setting('localhost', doc='host name or IPv4 address of the Motive PC')
    port: int = setting(DEFAULT_PORT, low=1, high=65535, doc='its VRPN port, UDP and TCP')
    link: LinkConfig = section(LinkConfig(), name='')
    interface: str = setting('', doc=(
        'local IPv4 address or network card to use; empty for the one of the route to the server'))
    advertise: str = setting('', doc=(
        'address that the server is asked to connect back to, as HOST or HOST:PORT, where that is '
        'not the local one; with PORT this computer listens on that TCP port and takes poses on '
        'the UDP port of the same number'))
    backend: str = setting('builtin', choices=BACKENDS, doc=(
        'the VRPN client: built in, or the module vrpn of the VRPN library'))
    trackers: tuple[str, ...] = setting((), doc=(
        'names of trackers, for the backend that cannot list them (python_vrpn)'))

    def check(self) -> None:
        """
        Check what goes beyond single fields.

        :raises ConfigurationError: naming what is wrong and what is allowed.
        """
        if not self.server or any(c.isspace() or not c.isprintable() for c in self.server):
            raise ConfigurationError(
                f'server is {self.server!r}; give the host name or IPv4 address of the machine '
                'that Motive runs on')
        if ':' in self.server:
            host, _, port = self.server.partition(':')
            raise ConfigurationError(
                f'server is {self.server!r}; ' + (
                    f'give {host!r} alone: the port is the parameter port'
                    if host and port.isdigit() else
                    'give the host name or IPv4 address alone (VRPN knows no IPv6; the port is '
                    'the parameter port, the way the parameter connection)'))
        numbers = self.server.split('.')
        if len(numbers) >= 4 and all(map(str.isdecimal, numbers)) and not is_ipv4(self.server):
            raise ConfigurationError(
                f'server is {self.server!r}, which is no valid IPv4 address: give four numbers '
                'from 0 to 255, as in 192.168.1.20')
        if self.backend == 'python_vrpn' and not any(self.trackers):
            raise ConfigurationError(
                'backend python_vrpn cannot list trackers: name them in the parameter trackers')
        if self.advertise:
            host, colon, port = self.advertise.partition(':')
            try:
                # What no server would take is refused here; 1024 stands in for no port.
                encode_request(host, int(port) if colon else 1024)
            except (LocalProtocolError, ValueError):
                raise ConfigurationError(
                    f'advertise is {self.advertise!r}; HOST or HOST:PORT is allowed, with '
                    'letters, digits and dots in HOST and PORT from 1024 to 65535') from None


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
    :ivar strangers: connect-backs and datagrams from other addresses, all refused.
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
    strangers: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)


def tell(sink: Sink, change: Optional[LinkChange]) -> None:
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


def make_backend(config: ClientConfig, sink: Sink) -> Backend:
    """
    Make the backend that the configuration asks for.

    :raises BackendUnavailableError: if its module is not installed.
    """
    if config.backend == 'python_vrpn':
        from optitrack_vrpn.client.python_vrpn_io import PythonVrpnBackend
        return PythonVrpnBackend(config, sink)
    from optitrack_vrpn.client.client_io import VrpnClient
    return VrpnClient(config, sink)
