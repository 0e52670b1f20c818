# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a client: server and port, network interface, backend, trackers, retries."""

from dataclasses import dataclass
import ipaddress

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, section, setting
from optitrack_vrpn.drivers.vrpn.codec import DEFAULT_PORT

CONNECTIONS = ('auto', 'udp', 'tcp')
#: Timeout of connect() where a firewall drops the packets: 127 s with tcp_syn_retries = 6 on
#: Linux, 21 s with 2 retransmissions on Windows (their defaults). The VRPN library calls connect()
#: in the thread that serves all clients. The value is the longer timeout plus 3 s; a shorter one
#: sends requests that block the server again.
BLOCKED_S = 130.0
BACKENDS = ('builtin', 'python_vrpn')


def is_ipv4(text: str) -> bool:
    """Check whether a text is an IPv4 address in dotted form."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _of_one_computer(address: ipaddress.IPv4Address) -> bool:
    return not (address.is_multicast or address.is_unspecified
                or address == ipaddress.IPv4Address('255.255.255.255'))


@checked
@dataclass(frozen=True)
class LinkConfig:
    """
    When to retry, fall back to TCP, and report silence.

    :ivar tcp_allowed: False beside another protocol that the server answers by UDP: a client by
        TCP that stops reading stops a server for all.
    :ivar attempt_s: timeout of a TCP connection (s). A handshake or connect-back that takes longer
        is reported, and the client waits for it up to ``blocked_s``. Chosen: a LAN answers within
        milliseconds, and TCP retransmits a lost SYN after 1 s and 3 s.
    :ivar connect_back_s: with 'auto', time from a UDP request to the use of TCP (s). The server's
        SYN is retransmitted after 1 s.
    :ivar blocked_s: longest time for which a client that does not answer the connect-back blocks
        a server (s). Within this time the client sends no second request and does not abandon a
        handshake.
    :ivar retry_min_s: pause after the first failed attempt (s); it doubles up to ``retry_max_s``.
        Chosen.
    :ivar silent_after_s: time without a pose (s) that is reported as silence; 0 for never. Chosen.
    :ivar reconnect_after_s: time without a pose (s) after which the client connects again,
        doubling up to 60 s while that does not help; 0 for never. Chosen.
    """

    connection: str = setting('auto', choices=CONNECTIONS, doc=(
        'connection to the server: tcp (outbound, passes NAT and firewalls), udp (a UDP request, '
        'the server connects back), or auto (udp where the server can be expected to connect '
        'back, else tcp)'))
    tcp_allowed: bool = True
    attempt_s: float = 3.0
    connect_back_s: float = 2.0
    blocked_s: float = BLOCKED_S
    retry_min_s: float = 0.25
    retry_max_s: float = setting(
        2.0, unit='s', low=0.01, high=600.0, name='connect.retry_max_s',
        doc='longest pause between attempts to connect')
    silent_after_s: float = 1.0
    reconnect_after_s: float = 10.0


@checked
@dataclass(frozen=True)
class ClientConfig:
    """The server and the connection to it."""

    server: str = setting('localhost', doc='host name or IPv4 address of the Motive PC')
    port: int = setting(DEFAULT_PORT, low=1, high=65535, doc='its VRPN port, UDP and TCP')
    link: LinkConfig = section(LinkConfig(), name='')
    interface: str = setting('', doc=(
        'local IPv4 address or network card to use; empty for the one of the route to the server'))
    backend: str = setting('builtin', choices=BACKENDS, doc=(
        'the VRPN client: built in, or the module vrpn of the VRPN library'))
    trackers: tuple[str, ...] = setting((), doc=(
        'names of trackers, for the backend that cannot list them (python_vrpn)'))

    def check(self) -> None:
        """
        Check conditions that a single field's range cannot express.

        :raises ConfigurationError: names the wrong value and the allowed values.
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
                    'give the host name or IPv4 address alone (VRPN does not support IPv6; set '
                    'the port in the parameter port, the transport in the parameter connection)'))
        numbers = self.server.split('.')
        if len(numbers) >= 4 and all(map(str.isdecimal, numbers)) and not is_ipv4(self.server):
            raise ConfigurationError(
                f'server is {self.server!r}, which is not a valid IPv4 address: give four '
                'numbers from 0 to 255, as in 192.168.1.20')
        if is_ipv4(self.server) and not _of_one_computer(ipaddress.IPv4Address(self.server)):
            raise ConfigurationError(
                f'server is {self.server!r}, which is not the address of one computer: give that '
                'of the Motive PC, as in 192.168.1.20')
        if self.backend == 'python_vrpn' and not any(self.trackers):
            raise ConfigurationError(
                'backend python_vrpn cannot list trackers: name them in the parameter trackers')
