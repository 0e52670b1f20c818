# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The UDP socket that sends datagrams to one controller without blocking."""

import socket

from optitrack_vrpn.errors import TransportError


class UdpSender:
    """
    Send datagrams to one address without blocking.

    :param host: IPv4 address or name of the controller.
    :param port: its UDP port.
    :raises TransportError: if the name does not resolve.
    :ivar sent: number of datagrams that the kernel accepted.
    :ivar failed: number of datagrams that it rejected (no route, no listener, buffer full).
    """

    def __init__(self, host: str, port: int) -> None:
        try:
            found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:    # UnicodeError: not a name, as 10.0.0..5
            raise TransportError(
                f'udp_host {host!r} cannot be resolved '
                f'({getattr(error, "strerror", error)}): give an IPv4 address or a name that '
                'this machine knows') from None
        self._address = found[0][4]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.sent = 0
        self.failed = 0

    def send(self, data: bytes) -> bool:
        """
        Send one datagram.

        :returns: False if the kernel rejected it.
        """
        try:
            self._socket.sendto(data, self._address)
        except OSError:
            self.failed += 1
            return False
        self.sent += 1
        return True

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._socket.close()
