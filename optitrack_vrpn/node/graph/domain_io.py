# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find a ROS domain that no program on this computer uses, and reserve it.

A command that starts a simulator together with a node uses such a domain, so that simulated
poses do not reach a running system.
"""

import os
import socket
from typing import Iterable, MutableMapping, NamedTuple

from optitrack_vrpn.core.errors import TransportError

#: Higher domains need ports that Linux gives to other programs (from 32768 on).
DOMAINS = range(1, 101)
#: UDP ports of a domain, as the RTPS specification (OMG formal/2022-04-01, 9.6.2) assigns them.
_PORT_BASE, _DOMAIN_GAIN = 7400, 250
#: Other ways by which DDS finds systems beyond this computer.
_FOREIGN = ('ROS_STATIC_PEERS', 'ROS_DISCOVERY_SERVER', 'ROS_SUPER_CLIENT', 'CYCLONEDDS_URI')


class DomainClaim(NamedTuple):
    """A domain that is reserved until ``close`` or until the process ends."""

    domain: int
    holder: socket.socket

    def close(self) -> None:
        """Release the domain."""
        self.holder.close()

    def __enter__(self) -> 'DomainClaim':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def in_use(domain: int) -> bool:
    """Return whether a UDP port of a domain is open here; False without /proc/net."""
    first = _PORT_BASE + _DOMAIN_GAIN * domain
    ports = range(first, first + _DOMAIN_GAIN)
    for table in ('/proc/net/udp', '/proc/net/udp6'):
        try:
            with open(table) as stream:
                next(stream)
                if any(int(line.split()[1].rpartition(':')[2], 16) in ports for line in stream):
                    return True
        except (OSError, StopIteration):
            pass
    return False


def claim_domain(avoid: Iterable[int] = (), start: int = -1) -> DomainClaim:
    """
    Reserve a domain that no program uses and that no other process has reserved.

    The reservation is the name of an abstract Unix socket (unix(7)): the kernel assigns a name to
    one process at a time, in the same network namespace as the ports of DDS, and releases it when
    the process ends. On systems other than Linux only the ports are checked.

    :param avoid: domains that are excluded.
    :param start: index in ``DOMAINS`` where the search begins; it runs downwards from there.
    :raises TransportError: if every domain is in use.
    """
    skipped = set(avoid)
    for step in range(len(DOMAINS)):
        domain = DOMAINS[(start - step) % len(DOMAINS)]
        if domain in skipped:
            continue
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f'\0optitrack_vrpn/domain/{domain}')
        except OSError:    # reserved by another process, or not Linux
            if os.uname().sysname == 'Linux':
                holder.close()
                continue
        if not in_use(domain):
            return DomainClaim(domain, holder)
        holder.close()
    raise TransportError(
        f'every ROS domain from {DOMAINS[0]} to {DOMAINS[-1]} is in use on this computer')


def isolate(variables: MutableMapping[str, str], domain: int) -> None:
    """Change environment variables so that ROS stays in a domain and on this computer."""
    for name in _FOREIGN:
        variables.pop(name, None)
    variables['ROS_DOMAIN_ID'] = str(domain)
    variables['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    # Humble's variable with the same effect; later releases warn about it.
    if variables.get('ROS_DISTRO') == 'humble':
        variables['ROS_LOCALHOST_ONLY'] = '1'
    else:
        variables.pop('ROS_LOCALHOST_ONLY', None)


def own_domain() -> int:
    """Return the domain of the environment; 0 unless set."""
    text = os.environ.get('ROS_DOMAIN_ID', '')
    return int(text) if text.isascii() and text.isdigit() else 0
