# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Connect to a server by NatNet with the node's client, receive for some seconds, disconnect."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
import contextlib
import dataclasses
import errno
import select
import socket
import statistics
import threading
import time
from typing import Any, Optional

from optitrack_vrpn.doctor.probe_results import NatNetResults
from optitrack_vrpn.doctor.processes_io import program_on_udp_port
from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.events import Event
from optitrack_vrpn.sources import (
    card_address, ClientConfig, Frame, multicast_socket, receive_into, RoundTrip)
from optitrack_vrpn.sources.natnet import (
    DATA_PORT, discovered, encode_hello, MULTICAST_GROUP, NatNetClient, NatNetConfig, NEWEST,
    ServerInfo)

#: Chosen: limit of the stored messages.
_MOST_MESSAGES = 5
#: Chosen: time (s) for the client to report a failed attempt after its timeout.
_REPORT_S = 0.5
#: Chosen: wait for an ICMP message (s).
_REFUSAL_S = 0.3
#: Wait for frames on each other network card (s). Chosen: many frames even at 30 Hz.
_OTHER_CARD_S = 0.4


class _Listener:
    """Write what arrives into the results."""

    def __init__(self, results: NatNetResults) -> None:
        self.changed = threading.Condition()
        self.results = results
        self._processing_ns: deque[int] = deque(maxlen=1000)
        self._tracked: dict[str, bool] = {}

    def receive(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        results = self.results
        with self.changed:
            for event in events:
                if isinstance(event, Frame):
                    results.frames += 1
                    self._processing_ns.append(event.processing_ns)
                    for body in event.bodies:
                        if body.name in self._tracked or len(self._tracked) < 500:
                            self._tracked[body.name] = body.valid
                elif isinstance(event, RoundTrip):
                    trip_ms = (event.received_ns - event.sent_ns) / 1e6
                    results.round_trip_ms = min(results.round_trip_ms or trip_ms, trip_ms)
                    results.echoes += 1
            self.changed.notify_all()

    def link_changed(self, change: Event) -> None:
        with self.changed:
            if change.severity != 'info' and len(self.results.messages) < _MOST_MESSAGES:
                self.results.messages += (change.text,)
            self.changed.notify_all()

    def end(self) -> None:
        """Write the results of all frames together."""
        results = self.results
        results.bodies = tuple(self._tracked)
        results.untracked = tuple(name for name, valid in self._tracked.items() if not valid)
        if self._processing_ns:
            results.processing_ms = statistics.median(self._processing_ns) / 1e6


def probe_natnet(
    config: ClientConfig, address: str, port: int, seconds: float, timeout_s: float,
) -> NatNetResults:
    """
    Connect, receive and disconnect.

    :param config: network card and retries.
    :param address: address of the server.
    :param port: its command port.
    :param seconds: time to receive after the first frame (s).
    :param timeout_s: timeout of the answer, and of the first frame (s).
    """
    refused, stated = _ask(address, port)
    probed = NatNetResults(port, refused=refused)
    if refused:
        return probed
    listener = _Listener(probed)
    client = NatNetClient(
        dataclasses.replace(config, server=address, link=dataclasses.replace(
            config.link, attempt_s=timeout_s, silent_after_s=0.0, reconnect_after_s=0.0)),
        NatNetConfig(port=port), listener)
    client.start()
    try:
        with listener.changed:
            listener.changed.wait_for(
                lambda: client.server_info is not None or bool(probed.messages),
                timeout_s + _REPORT_S)
            info = client.server_info
            if info is not None:
                probed.messages = ()
                listener.changed.wait_for(lambda: probed.frames > 0, timeout_s)
                if probed.frames:
                    listener.changed.wait_for(lambda: False, seconds)
        status = client.status()
    finally:
        client.stop()
    probed.malformed = status.counters.get('malformed', 0)
    stated = info or stated
    if not probed.frames and (stated is None or stated.multicast is not False):
        probed.held_by = _holder(
            stated.group if stated and stated.group else MULTICAST_GROUP,
            stated.data_port if stated and stated.data_port else DATA_PORT)
    if info is None or probed.held_by:
        return probed
    listener.end()
    probed.name, probed.version = info.name, info.version
    probed.multicast, probed.group = info.multicast, info.group
    probed.listened_s = seconds if probed.frames else timeout_s
    probed.lost, probed.unnamed = (
        status.counters.get(name, 0) for name in ('udp_lost', 'unnamed'))
    probed.unread = status.queue.get('dropped_unread', 0)
    if info.multicast is not False and not probed.frames and not probed.malformed:
        probed.other_card, probed.other_source = _other_card(info, address, status.local)
    return probed


def _holder(group: str, port: int) -> str:
    """Name the program that has the data port and does not share it; '' without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((group, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f'{port} ' + (program_on_udp_port(port) or 'another program')
    return ''


def _ask(address: str, port: int) -> tuple[bool, Optional[ServerInfo]]:
    """
    Send one discovery.

    :returns: whether the machine answers that nothing listens on the port; the server's answer.
    """
    found: dict[str, ServerInfo] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_REFUSAL_S)
        try:
            sock.connect((address, port))
            sock.send(encode_hello('optitrack_vrpn', NEWEST, discovery=True))
            discovered(sock.recv(65536), (address, port), found)
        except ConnectionRefusedError:
            return True, None
        except OSError:
            pass    # no answer
    return False, found.get(address)


def _other_card(info: ServerInfo, server: str, local: str) -> tuple[str, str]:
    """
    Find a network card on which frames arrive; ('', '') for none.

    :returns: its name, and the address that sends them.
    """
    for _, name in socket.if_nameindex():
        with contextlib.suppress(TransportError):
            address = card_address(name)
            if address == local:
                continue
            source = _sender_on(
                info.group or MULTICAST_GROUP, info.data_port or DATA_PORT, address, server)
            if source:
                return name, source
    return '', ''


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
                source = arrival.address[0]
    return source
