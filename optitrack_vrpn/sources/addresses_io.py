# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Resolve names of hosts and network interfaces to IPv4 addresses (VRPN supports IPv4 only)."""

import fcntl
import ipaddress
import os
import socket
import struct
import threading
from typing import Callable

from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.sources.config import is_ipv4

#: ioctl numbers that read the address and the netmask of a network interface (linux/sockios.h).
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891b


class _Query:
    """One query to the system's resolver, with the callbacks that wait for its answer."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.addresses: list[str] = []
        self.error = ''
        self.finished = False


class Lookup:
    """
    One name resolution in a separate thread, because the system call cannot be interrupted.

    Lookups of the same name share one thread. The number of threads therefore stays bounded when
    the resolver hangs and the client is started and stopped repeatedly.

    :param host: name or address.
    :param done: called once when the lookup has finished, from its thread or immediately.
    """

    _lock = threading.Lock()
    _queries: dict[str, _Query] = {}

    def __init__(self, host: str, done: Callable[[], None]) -> None:
        self.host = host
        if is_ipv4(host):
            self._query = _Query()
            self._query.addresses = [host]
            self._query.finished = True
            done()
            return
        with self._lock:
            query = self._queries.get(host)
            if query is None:
                query = _Query()
                threading.Thread(
                    target=self._run, args=(host, query), name='vrpn lookup',
                    daemon=True).start()
                self._queries[host] = query
            query.waiting.append(done)
        self._query = query

    @property
    def finished(self) -> bool:
        """Return whether ``address`` can be called."""
        return self._query.finished

    def abandon(self, done: Callable[[], None]) -> None:
        """Remove the callback; the thread ends when the system's resolver returns."""
        with self._lock:
            if done in self._query.waiting:
                self._query.waiting.remove(done)

    @classmethod
    def _run(cls, host: str, query: _Query) -> None:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
            query.addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        except OSError as error:
            query.error = f' ({error.strerror or error})'
        except Exception:    # UnicodeError
            query.error = ' (it is not a valid host name)'
        with cls._lock:
            del cls._queries[host]
            query.finished = True
            waiting, query.waiting = query.waiting, []
        for done in waiting:
            done()

    def address(self, turn: int = 0) -> str:
        """
        Return one address of the result.

        :param turn: number of the attempt. Successive attempts use successive addresses of a
            computer that has several network interfaces.
        :returns: an IPv4 address.
        :raises TransportError: if the name has no IPv4 address.
        """
        addresses = self._query.addresses
        if not addresses:
            raise TransportError(
                f'the name {self.host!r} has no IPv4 address{self._query.error}: check server, or '
                'give the IP address of the Motive PC')
        return addresses[turn % len(addresses)]


def local_address(server: str, port: int, interface: str) -> str:
    """
    Choose the local address for the communication with a server.

    :param server: its IPv4 address.
    :param interface: an IPv4 address of this computer, the name of a network interface, or ''
        for the address that the system's route to the server uses.
    :raises TransportError: if there is no route, no such interface or no such address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface:
            address = interface if is_ipv4(interface) else card_address(interface)
            try:
                probe.bind((address, 0))
            except OSError as error:
                raise TransportError(
                    f'interface {interface!r}: {address} is not an address of this computer '
                    f'({error.strerror})') from None
            return address
        try:
            probe.connect((server, port))
        except PermissionError:
            raise TransportError(
                f'{server} is a broadcast address, or a routing rule of this computer prohibits '
                'it: set server to the address of the Motive PC, or look at ip rule') from None
        except OSError as error:
            raise TransportError(
                f'no route to {server} ({error.strerror}): check that the network interface is '
                "up and in the server's network") from None
        return str(probe.getsockname()[0])


def broadcast_addresses(local: str = '') -> list[str]:
    """
    List the broadcast addresses of this computer's networks.

    The limited broadcast address reaches only the network of the system's default route.

    :param local: IPv4 address of the only network interface to list; '' for all.
    """
    found = []
    for _, name in socket.if_nameindex():
        try:
            address = _card_value(name, _SIOCGIFADDR)
            network = ipaddress.IPv4Interface(
                f'{address}/{_card_value(name, _SIOCGIFNETMASK)}').network
        except OSError:
            continue    # an interface without an IPv4 address
        if local in ('', address) and network.prefixlen < 31 and not network.is_loopback:
            found.append(str(network.broadcast_address))
    return list(dict.fromkeys(found))


def card_address(name: str) -> str:
    """
    Return the IPv4 address of a network interface.

    :raises TransportError: if there is no such interface, or if it has no IPv4 address.
    """
    try:
        return _card_value(name, _SIOCGIFADDR)
    except OSError as error:
        cards = ', '.join(card for _, card in socket.if_nameindex())
        raise TransportError(
            f'{name!r} is not a network interface with an IPv4 address ({error}): '
            f'set interface to one of {cards}') from None


def _card_value(name: str, request: int) -> str:
    """Read an address of a network interface from the system."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(
            probe.fileno(), request, struct.pack('256s', os.fsencode(name)[:15]))
    return socket.inet_ntoa(answer[20:24])
