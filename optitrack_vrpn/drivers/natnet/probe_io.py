# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Ask a NatNet server once, and find out why its frames do not arrive, for the doctor."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
import select
import socket
import time
from typing import Optional

from optitrack_vrpn.core.checks import CheckResult
from optitrack_vrpn.core.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.drivers.client_io import Waiting
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import Sink, Source
from optitrack_vrpn.drivers.natnet.client_io import find_server, NatNetClient
from optitrack_vrpn.drivers.natnet.codec import (
    decode_message, decode_server_info, encode_hello)
from optitrack_vrpn.drivers.natnet.messages import (
    DATA_PORT, MessageId, MULTICAST_GROUP, NEWEST, OLDEST)
from optitrack_vrpn.drivers.natnet.probe import (
    check_echoes, check_port, explain_silence, NatNetProbeFacts)
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.probing import Heard, Place
from optitrack_vrpn.drivers.sockets_io import (
    card_address, is_unused, multicast_socket, receive_into)

#: Wait for frames on each other network card (s). Chosen: many frames even at 30 Hz.
_OTHER_CARD_S = 0.4
#: Chosen: discoveries of which one is answered, since a datagram can be lost.
_ASKED = 3


class NatNetProbe:
    """The probe of NatNet; see ``drivers.probing.Probe``."""

    checks = ('natnet', 'natnet-clock')

    def __init__(self, config: ClientConfig, settings: NatNetConfig, place: Place) -> None:
        self._config = config
        self._settings = settings
        self.facts = NatNetProbeFacts(place, settings.port)

    @staticmethod
    def search(waiting: Waiting, settings: NatNetConfig, interface: str) -> str:
        """
        Return the address of the one server in the networks of this computer.

        :raises TransportError: if none or several answered.
        """
        return find_server(waiting, settings.port, interface)

    def connect(self) -> None:
        """Ask the server for its version, and look whether its data port is free here."""
        facts = self.facts
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(self._config.link.attempt_s / _ASKED)
            for _ in range(_ASKED):
                try:
                    sock.connect((facts.place.address, facts.port))
                    sock.send(encode_hello('optitrack_vrpn', NEWEST, discovery=True))
                    message, payload = decode_message(sock.recv(65536))
                    if message == MessageId.SERVER_INFO:
                        facts.info = decode_server_info(payload)
                        break
                    facts.fault = 'it is no answer of NatNet'
                except RemoteProtocolError as error:
                    facts.fault = str(error)
                except ConnectionRefusedError:
                    facts.refused = True
                    break
                except OSError:
                    pass    # no answer
        info = facts.info
        if info is None:
            facts.unused = is_unused(facts.place.address)
        elif info.version < OLDEST:
            facts.fault = 'its version of NatNet is {}.{}'.format(*info.version)
        if info is None or info.multicast is not False:
            group = info.group if info and info.group else MULTICAST_GROUP
            facts.held_port = info.data_port if info and info.data_port else DATA_PORT
            facts.held_by = '' if facts.refused else _holder(group, facts.held_port)

    @property
    def answered(self) -> bool:
        """Return whether the server answered, and its frames can be received."""
        facts = self.facts
        return facts.info is not None and not facts.fault and not facts.held_by

    def source(self, sink: Sink) -> Source:
        """Make the client."""
        return NatNetClient(self._config, self._settings, sink)

    def results(self, heard: Optional[Heard]) -> list[CheckResult]:
        """Return the results of the checks."""
        return [check_port(self.facts), check_echoes(self.facts, heard)]

    def silence(self, heard: Heard) -> CheckResult:
        """Explain why no pose arrived."""
        facts = self.facts
        if facts.info is not None and facts.info.multicast is not False and not (
                heard.counters.get('messages') or heard.counters.get('malformed')):
            self._look_on_other_cards()
        return explain_silence(facts, heard)

    def _look_on_other_cards(self) -> None:
        """Find a network card on which frames arrive."""
        facts = self.facts
        group = (facts.info and facts.info.group) or MULTICAST_GROUP
        for _, name in socket.if_nameindex():
            with contextlib.suppress(TransportError):
                address = card_address(name)
                source = '' if address == facts.place.local else _sender_on(
                    group, facts.held_port or DATA_PORT, address, facts.place.address)
                if source:
                    facts.other_card, facts.other_source = name, source
                    return


def _holder(group: str, port: int) -> str:
    """Name the program that has the data port and does not share it; '' without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((group, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return program_on_udp_port(port) or 'another program'
    return ''


def program_on_udp_port(port: int, proc: str = '/proc') -> str:
    """
    Name the program that has a UDP port; '' if none is found or it is another user's.

    :param proc: the process file system, see proc(5).
    """
    inodes = set()
    for table in ('udp', 'udp6'):
        with contextlib.suppress(OSError):
            rows = [line.split() for line in
                    (Path(proc, 'net', table)).read_text().splitlines()[1:]]
            inodes |= {f'socket:[{row[9]}]' for row in rows
                       if int(row[1].rpartition(':')[2], 16) == port}
    for link in Path(proc).glob('[0-9]*/fd/*') if inodes else ():
        with contextlib.suppress(OSError):    # it has ended, or it is another user's
            if os.readlink(link) in inodes:
                name = (link.parents[1] / 'comm').read_text(errors='replace').strip()
                return f'{name} (process {link.parents[1].name})'
    return ''


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
