# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the doctor finds out beside the facts of a client: only what a client cannot know.

The function that a row of ``drivers.table`` names as its ``probe`` takes the place of the server,
the configuration of the client, the protocol's own settings (or None) and the state of the client
after it ran, and returns facts for the rows of its protocol.
"""

from __future__ import annotations

from typing import NamedTuple


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
    def local_host(self) -> bool:
        """Return whether the address is one of 127.0.0.0/8."""
        return self.address.startswith('127.')

    @property
    def loopback(self) -> bool:
        """Return whether the server runs on this computer, without a firewall between."""
        return self.local_host or self.address in ('::1', self.local)
