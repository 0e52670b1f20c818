# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From names of hosts and network cards to IPv4 addresses (VRPN knows no others)."""

import socket
import struct
import threading
from typing import Callable, Optional

from optitrack_vrpn.errors import TransportError

#: Linux: ask a network card for its address (linux/sockios.h).
_SIOCGIFADDR = 0x8915


def is_ipv4(text: str) -> bool:
    """Tell whether a text is an IPv4 address in dotted form."""
    try:
        socket.inet_pton(socket.AF_INET, text)
    except OSError:
        return False
    return True


class Lookup:
    """
    One name resolution in a thread of its own, since the system's cannot be interrupted.

    :param host: name or address.
    :param done: called from that thread when there is an answer.
    """

    def __init__(self, host: str, done: Callable[[], None]) -> None:
        self.host = host
        self.finished = False
        self._addresses: list[str] = []
        self._error: Optional[OSError] = None
        self._done = done
        if is_ipv4(host):
            self._addresses = [host]
            self.finished = True
            done()
        else:
            threading.Thread(target=self._run, name='vrpn lookup', daemon=True).start()

    def _run(self) -> None:
        try:
            found = socket.getaddrinfo(self.host, None, socket.AF_INET, socket.SOCK_STREAM)
            self._addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        except (OSError, UnicodeError) as error:
            self._error = error if isinstance(error, OSError) else OSError(str(error))
        self.finished = True
        self._done()

    def address(self) -> str:
        """
        Take the answer.

        :returns: the first IPv4 address.
        :raises TransportError: if there is none.
        """
        if not self._addresses:
            raise TransportError(
                f'the name {self.host!r} has no IPv4 address ({self._error}): check server, '
                'or give the IP address of the Motive PC')
        return self._addresses[0]


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
            request = struct.pack('256s', name.encode()[:15])
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(answer[20:24])
    except (OSError, ImportError) as error:
        cards = ', '.join(card for _, card in socket.if_nameindex())
        raise TransportError(
            f'interface {name!r} is no network card with an IPv4 address ({error}); '
            f'this machine has {cards}') from None
