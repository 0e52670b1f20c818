# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From names of hosts and network cards to IPv4 addresses (VRPN knows no others)."""

import os
import socket
import struct
import threading
from typing import Callable, Optional

from optitrack_vrpn.client.config import is_ipv4
from optitrack_vrpn.errors import TransportError

#: Linux: ask a network card for its address (linux/sockios.h).
_SIOCGIFADDR = 0x8915


class _Search:
    """One question to the system's resolver, and everybody who waits for the answer."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.addresses: list[str] = []
        self.error: Optional[Exception] = None
        self.finished = False


class Lookup:
    """
    One name resolution in a thread of its own, since the system's cannot be interrupted.

    Where the resolver hangs, those who ask again for the same name meanwhile share the thread
    that is at it already, so that no number of starts and stops piles threads up.

    :param host: name or address.
    :param done: called once when there is an answer, from that thread or at once.
    """

    _lock = threading.Lock()
    _searches: dict[str, _Search] = {}

    def __init__(self, host: str, done: Callable[[], None]) -> None:
        self.host = host
        if is_ipv4(host):
            self._search = _Search()
            self._search.addresses = [host]
            self._search.finished = True
            done()
            return
        with self._lock:
            search = self._searches.get(host)
            if search is None:
                search = _Search()
                threading.Thread(
                    target=self._run, args=(host, search), name='vrpn lookup',
                    daemon=True).start()
                self._searches[host] = search
            search.waiting.append(done)
        self._search = search

    @property
    def finished(self) -> bool:
        """Tell whether ``address`` can be called."""
        return self._search.finished

    def abandon(self, done: Callable[[], None]) -> None:
        """Wait no longer; the thread ends when the system's resolver lets it."""
        with self._lock:
            if done in self._search.waiting:
                self._search.waiting.remove(done)

    @classmethod
    def _run(cls, host: str, search: _Search) -> None:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
            search.addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        except Exception as error:  # UnicodeError for what is no name at all, and OSError
            search.error = error
        with cls._lock:
            del cls._searches[host]
            search.finished = True
            waiting, search.waiting = search.waiting, []
        for done in waiting:
            done()

    def address(self, turn: int = 0) -> str:
        """
        Take the answer.

        :param turn: a machine with several network cards has several addresses; counting this
            up goes through them.
        :returns: an IPv4 address.
        :raises TransportError: if there is none.
        """
        addresses = self._search.addresses
        if not addresses:
            why = f' ({self._search.error})' if self._search.error else ''
            raise TransportError(
                f'the name {self.host!r} has no IPv4 address{why}: check server, or give the IP '
                'address of the Motive PC')
        return addresses[turn % len(addresses)]


def local_address(server: str, port: int, interface: str) -> str:
    """
    Choose the local address to talk to a server from.

    :param server: its IPv4 address.
    :param interface: an IPv4 address of this machine, the name of a network card, or '' for
        the address that the system's route to the server uses.
    :raises TransportError: if there is no route, or no such card or address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface:
            address = interface if is_ipv4(interface) else card_address(interface)
            try:
                probe.bind((address, 0))
            except OSError as error:
                raise TransportError(
                    f'interface {interface!r}: {address} is no address of this machine '
                    f'({error.strerror})') from None
            return address
        try:
            probe.connect((server, port))
        except OSError as error:
            raise TransportError(
                f'no route to {server} ({error.strerror}): is the network card up and in the '
                "server's network?") from None
        return str(probe.getsockname()[0])


def card_address(name: str) -> str:
    """
    Look up the IPv4 address of a network card.

    :raises TransportError: if there is no such card, or it has none.
    """
    try:
        import fcntl
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            request = struct.pack('256s', os.fsencode(name)[:15])
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(answer[20:24])
    except (OSError, ImportError) as error:
        cards = ', '.join(card for _, card in socket.if_nameindex())
        raise TransportError(
            f'interface {name!r} is no network card with an IPv4 address ({error}); '
            f'this machine has {cards}') from None
