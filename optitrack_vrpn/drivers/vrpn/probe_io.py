# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out, for the doctor, what a VRPN client cannot know: who else has the port."""

from __future__ import annotations

import contextlib
import socket
from typing import NamedTuple

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import LinkStatus, Outcome
from optitrack_vrpn.drivers.probing import Place
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.drivers.vrpn.request_memory_io import remembered_request

#: Chosen: wait for the answer of another program on the port (s).
_ANSWER_S = 0.5


class VrpnSurroundings(NamedTuple):
    """
    What surrounds a VRPN server.

    :ivar remembered: what is remembered of an unanswered request, with the remedy; or ''.
    :ivar other_program: description of another program that uses the port; or ''.
    """

    remembered: str = ''
    other_program: str = ''


def look(
    place: Place, config: ClientConfig, settings: object, status: LinkStatus,
) -> VrpnSurroundings:
    """Find out what a client cannot know; see ``drivers.probing``."""
    tcp = status.attempts.get('tcp')
    mute = tcp is not None and tcp.outcome is Outcome.OPEN and not status.known.stated_version
    return VrpnSurroundings(
        remembered_request(place.local, place.address),
        _other_program(place.address, config.port) if mute else '')


def _other_program(address: str, port: int) -> str:
    """
    Describe the program on a port by what it answers; '' if it may be a VRPN server.

    Servers of other protocols usually answer when the sending side is closed.
    """
    connection = VrpnConnection()
    with contextlib.suppress(OSError), socket.create_connection(
            (address, port), _ANSWER_S) as sock:
        sock.settimeout(_ANSWER_S)
        sock.sendall(connection.data_to_send())
        sock.shutdown(socket.SHUT_WR)
        try:
            while not connection.established and (data := sock.recv(65536)):
                connection.receive_stream(data)
        except RemoteProtocolError as error:
            return str(error)
    return ''
