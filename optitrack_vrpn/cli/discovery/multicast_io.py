# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Probe multicast: listen to announcements of DDS, and to a group of this package's own."""

from collections.abc import Iterable
import contextlib
import errno
import socket
import struct
import time

from optitrack_vrpn.cli.discovery.judge import Unicast
from optitrack_vrpn.cli.discovery.server_io import cards

#: Group and ports of announcements: RTPS specification (OMG formal/2022-04-01), 9.6.2.
_GROUP, _FIRST_PORT, _DOMAIN_GAIN = '239.255.0.1', 7400, 250
_UNICAST_OFFSET, _PARTICIPANT_GAIN, _PARTICIPANTS = 10, 2, 5
#: Of the own probe, which does not leave this computer (TTL 0); in the range for private use.
_OWN_GROUP = '239.255.79.86'
#: Chosen: wait (s) for the own probe and for answers in a local network.
_ANSWER_S = 0.3
_IP_PKTINFO = 8


class Announcements:
    """Collect from where announcements of a ROS domain arrive by multicast, from now on."""

    def __init__(self, domain: int) -> None:
        self._heard: dict[str, str] = {}
        self._sock = sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            # Every program of the domain has this port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            sock.setblocking(False)
            sock.bind((_GROUP, _FIRST_PORT + _DOMAIN_GAIN * domain))
            for address in cards().values():
                with contextlib.suppress(OSError):    # a card without multicast
                    sock.setsockopt(
                        socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                        socket.inet_aton(_GROUP) + socket.inet_aton(address))
        except OSError:
            sock.close()
            raise

    def heard(self) -> dict[str, str]:
        """Return the addresses of other computers so far, with the card that was first."""
        while True:
            try:
                data, ancillary, _, (address, *_) = self._sock.recvmsg(2048, 256)
            except BlockingIOError:
                return dict(self._heard)
            if not data.startswith(b'RTPS') or address in self._heard or _is_own(address):
                continue
            for level, kind, value in ancillary:
                if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
                    index = struct.unpack_from('i', value)[0]
                    with contextlib.suppress(OSError):
                        self._heard[address] = socket.if_indextoname(index)

    def close(self) -> None:
        """Stop listening."""
        self._sock.close()


def _is_own(address: str) -> bool:
    """Return whether an address is of this computer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((address, 0))
        except OSError:
            return False
        return True


def silent_cards() -> dict[str, str]:
    """Return the cards on which this computer does not receive its own multicast."""
    return {name: address for name, address in cards().items() if not _returns(address)}


def _returns(address: str) -> bool:
    """Send a datagram to a group on one card, not beyond this computer, and wait for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            receiver.bind((_OWN_GROUP, 0))
            card = socket.inet_aton(address)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                                socket.inet_aton(_OWN_GROUP) + card)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, card)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            receiver.settimeout(_ANSWER_S)
            sender.sendto(b'optitrack_vrpn', receiver.getsockname())
            return receiver.recv(64) == b'optitrack_vrpn'
        except OSError:
            return False


def ask(robots: Iterable[str], domain: int) -> dict[str, Unicast]:
    """Ask computers which UDP ports of a domain are open; empty datagrams, which DDS ignores."""
    first = _FIRST_PORT + _DOMAIN_GAIN * domain
    # No program uses the last port of a domain: a computer that is on refuses it.
    ports = [first + _UNICAST_OFFSET + _PARTICIPANT_GAIN * i for i in range(_PARTICIPANTS)] + [
        first + _DOMAIN_GAIN - 1]
    with contextlib.ExitStack() as stack:
        sockets = {
            (robot, port): stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for robot in robots for port in ports}
        for place, sock in sockets.items():
            with contextlib.suppress(OSError):
                sock.connect(place)
                sock.send(b'')
        time.sleep(_ANSWER_S)
        answers: dict[str, list[bool]] = {robot: [] for robot in robots}
        for (robot, _), sock in sockets.items():
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            answers[robot].append(error == errno.ECONNREFUSED)
    return {robot: Unicast.OWN if _is_own(robot) else Unicast.SILENT if not any(refused) else
            Unicast.CLOSED if all(refused) else Unicast.OPEN
            for robot, refused in answers.items()}
