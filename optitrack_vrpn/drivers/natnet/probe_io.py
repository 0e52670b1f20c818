# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out, for the doctor, what a NatNet client cannot know: where else frames arrive."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import NamedTuple

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import LinkStatus
from optitrack_vrpn.drivers.natnet.codec import encode_hello
from optitrack_vrpn.drivers.natnet.messages import DATA_PORT, MULTICAST_GROUP, NEWEST
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.probing import Place
from optitrack_vrpn.drivers.sockets_io import card_address, multicast_socket, receive_into

#: Wait for frames on each other network card (s). Chosen: many frames even at 30 Hz.
_OTHER_CARD_S = 0.4
#: Chosen: wait for the refusal of a request (s).
_REFUSAL_S = 0.2


class NatNetSurroundings(NamedTuple):
    """
    What surrounds a NatNet server.

    :ivar refused: whether its computer answers that nothing listens on the command port.
    :ivar card: another network card on which frames arrive, and ``source``, the address that they
        come from; or ''.
    """

    refused: bool = False
    card: str = ''
    source: str = ''


def look(
    place: Place, config: ClientConfig, settings: NatNetConfig, status: LinkStatus,
) -> NatNetSurroundings:
    """Find out what a client cannot know; see ``drivers.probing``."""
    known, counters = status.known, status.counters
    if not known.stated_version:
        return NatNetSurroundings(_refuses(place.address, settings.port))
    if known.multicast is False or counters.get('messages') or counters.get('malformed'):
        return NatNetSurroundings()
    for _, card in socket.if_nameindex():
        with contextlib.suppress(TransportError):
            address = card_address(card)
            source = '' if address == place.local else _sender_on(
                known.group or MULTICAST_GROUP, known.data_port or DATA_PORT, address,
                place.address)
            if source:
                return NatNetSurroundings(False, card, source)
    return NatNetSurroundings()


def _refuses(address: str, port: int) -> bool:
    """Return whether a computer refuses requests; only a connected socket gets the refusal."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_REFUSAL_S)
        try:
            sock.connect((address, port))
            sock.send(encode_hello('optitrack_vrpn', NEWEST, discovery=True))
            sock.recv(65536)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass    # no answer
    return False


def _sender_on(group: str, port: int, local: str, server: str) -> str:
    """Listen on one network card; give the server's address if it sends, else another sender's."""
    buffer = memoryview(bytearray(65536))
    source = ''
    with multicast_socket(group, port, local) as sock:
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        end = time.monotonic() + _OTHER_CARD_S
        while source != server and (left := end - time.monotonic()) > 0.0:
            if poll.poll(left * 1e3) and (arrival := receive_into(sock, buffer)) is not None:
                _, source = arrival
    return source
