# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide who may read the page and who may send commands.

A page of another site that is open in the same browser can send requests to this server too. The
``Origin`` header, which scripts cannot change, shows such requests. With DNS rebinding the other
site's name resolves to this server; the list of names in ``Host`` refuses that.
"""

from __future__ import annotations

from dataclasses import dataclass
import enum
import hashlib
import hmac
import ipaddress

#: Names of this computer in its own browsers.
_LOOPBACK = ('localhost', '127.0.0.1', '::1')
WILDCARDS = ('0.0.0.0', '::')


class Right(enum.IntEnum):
    """What a client may do."""

    NONE = 0
    READ = 1
    CONTROL = 2


def host_name(header: str) -> str:
    """Return the name in a ``Host`` header, in lower case, without port and brackets."""
    name, colon, port = header.strip().lower().rpartition(':')
    if not colon or not (port == '' or port.isdigit()) or header.endswith(']'):
        name = header.strip().lower()
    return name.removeprefix('[').removesuffix(']').rstrip('.')


def is_loopback(host: str) -> bool:
    """Return whether only this computer reaches an address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == 'localhost'


@dataclass(frozen=True)
class Access:
    """
    Access rules of one server.

    :ivar host: the address that the server is bound to.
    :ivar names: further names under which browsers reach it.
    :ivar token: secret of the clients that may send commands; '' if none is needed.
    :ivar read_only: whether a client without the token may read. Without a token in force nobody
        may then send commands.
    """

    host: str
    names: tuple[str, ...] = ()
    token: str = ''
    read_only: bool = False

    @property
    def cookie(self) -> str:
        """Return the value of the cookie that replaces the token; it does not disclose it."""
        return hmac.new(self.token.encode(), b'optitrack_vrpn dashboard',
                        hashlib.sha256).hexdigest()

    def allows_host(self, header: str, local: str) -> bool:
        """
        Check the ``Host`` header of a request.

        :param local: address of this computer at which the connection arrived.
        """
        name = host_name(header)
        return name in (*_LOOPBACK, self.host.lower(), local.lower(), *self.names) and (
            name not in WILDCARDS)

    def allows_origin(self, origin: str, host_header: str) -> bool:
        """Check the ``Origin`` header of a WebSocket: it must be this page's."""
        return bool(host_header) and origin.lower() in (
            f'http://{host_header}'.lower(), f'https://{host_header}'.lower())

    def right(self, token: str = '', cookie: str = '') -> Right:
        """Return what a client may do, by its token or its cookie."""
        if not self.token:
            return Right.READ if self.read_only else Right.CONTROL
        if hmac.compare_digest(token.encode(), self.token.encode()) or hmac.compare_digest(
                cookie.encode(), self.cookie.encode()):
            return Right.CONTROL
        return Right.READ if self.read_only else Right.NONE
