# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Record the bytes of a server with the kernel's receive times; count lost datagrams.

The recorder is a separate client beside the node: capturing on the network card would need
privileges, and recording in the node would delay its poses. A server sends the same data to all
clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
import json
from pathlib import Path
import threading
import time
from typing import Any, Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.table import make_source, source_settings
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic
from optitrack_vrpn.takes.record.bag_metadata import TopicMetadata
from optitrack_vrpn.takes.record.raw_names import NameRemover
from optitrack_vrpn.takes.record.raw_read_io import RAW
from optitrack_vrpn.takes.record.spool_io import Spool

#: Addresses of a server and a client in documents (RFC 5737).
_NO_ADDRESSES = '192.0.2.1', '192.0.2.2'
#: Period (s) of reports.
_REPORT_S = 1.0
#: Kinds of bytes, each a channel.
KINDS = ('vrpn/begin', 'vrpn/tcp', 'vrpn/udp', 'natnet/begin', 'natnet/udp', 'natnet/sent')

#: Called with the state of a recording: seconds, packets, bytes, free bytes, dropped, lost, what.
Report = Callable[[float, int, int, int, int, int, str], None]


class RawSink:
    """
    Convert the bytes from a client to messages of channels.

    :param put: receives the messages.
    :param remover: removes names; then addresses are replaced by those of RFC 5737 too.
    """

    def __init__(
        self, put: Callable[[list[Any]], None], remover: Optional[NameRemover] = None,
    ) -> None:
        self._put = put
        self._remover = remover
        self._lock = threading.Lock()    # two protocols have two threads
        self._numbers = dict.fromkeys(KINDS, 0)
        self.state = 'starting'
        put([NewTopic(number, TopicMetadata(RAW + kind, '', ()), '', '', kind.partition('/')[0])
             for number, kind in enumerate(KINDS, 1)])

    def tap(
        self, kind: str, data: bytes, arrival_ns: int, host_minus_arrival_ns: int,
        server: str, local: str,
    ) -> None:
        """
        Process bytes of a conversation.

        :param kind: one of ``KINDS``.
        """
        with self._lock:
            if self._remover is not None:
                server, local = _NO_ADDRESSES
                data = self._remover.clean(kind, data)
            if kind.endswith('begin'):
                data = json.dumps({'server': server, 'local': local}).encode()
            self._numbers[kind] += 1
            self._put([Message(
                KINDS.index(kind) + 1, self._numbers[kind], arrival_ns + host_minus_arrival_ns,
                arrival_ns, data)])

    @property
    def received(self) -> bool:
        """Return whether a server sent anything."""
        return any(number for kind, number in self._numbers.items()
                   if kind.endswith(('tcp', 'udp')))

    def receive(
        self, items: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Ignore what was decoded, which is not recorded."""

    def link_changed(self, change: UserEvent) -> None:
        """Store the state of the connection."""
        self.state = change.text


class LostDatagrams:
    """
    Sum the datagrams that the system dropped with a full socket buffer, over all connections.

    :ivar total: number of lost datagrams.
    """

    def __init__(self) -> None:
        self._before = self._now = 0

    def note(self, dropped: Optional[int]) -> None:
        """
        Process the counter of the present socket.

        :param dropped: None without a socket; a smaller number than before for a new one.
        """
        if dropped is not None:
            if dropped < self._now:
                self._before += self._now
            self._now = dropped

    @property
    def total(self) -> int:
        """Return the sum."""
        return self._before + self._now


def record_raw(
    path: Path, protocol: str, host: str, port: int, seconds: float, report: Report,
    min_free: int, ended: Optional[threading.Event] = None,
    remover: Optional[NameRemover] = None, compression: str = 'zstd',
) -> str:
    """
    Record until the interruption or the given time.

    :param path: path of the new file, which ends with .mcap.
    :param protocol: a row of ``drivers.table.SOURCES``.
    :param port: port of the server; 0 for the usual one.
    :param seconds: duration of the recording (s), 0 for no limit.
    :param ended: event that ends the recording.
    :param remover: removes names and addresses.
    :param compression: see ``BagWriter``.
    :returns: what went wrong, including losses and a silent server, of which no file remains; ''
        if nothing did.
    :raises ConfigurationError: if the file cannot be created or the server is invalid.
    """
    if path.suffix != '.mcap':
        raise ConfigurationError(f'{path}: a raw recording is one file; end its name with .mcap')
    ended = ended or threading.Event()
    config, settings = ClientConfig(server=host), source_settings()
    if port and protocol == 'natnet':
        settings = replace(settings, natnet=replace(settings.natnet, port=port))
    elif port:
        config = replace(config, port=port)
    writer = BagWriter(path, compression)
    spool = Spool(writer, path.parent, min_free=min_free)
    sink = RawSink(spool.put, remover)
    client = make_source(protocol, config, settings, sink)
    spool.start()
    lost = LostDatagrams()
    began = time.monotonic()
    try:
        client.start()
        while not ended.wait(min(_REPORT_S, seconds) if seconds else _REPORT_S):
            status, elapsed_s = spool.status(), time.monotonic() - began
            lost.note(client.status().queue.get('dropped_unread'))
            report(elapsed_s, status.messages, status.size, status.free, status.dropped,
                   lost.total, sink.state)
            if status.stopped or 0 < seconds <= elapsed_s:
                break
    except KeyboardInterrupt:
        pass
    finally:
        lost.note(client.status().queue.get('dropped_unread'))
        state = sink.state
        client.stop()
        problem = spool.stop()
    loss = (f'{counted(lost.total, "datagram")} lost before the recorder read them (receive '
            'buffer full)' if lost.total else '')
    nothing = '' if sink.received else f'no server was recorded: {state}'
    if nothing and not problem:    # the file is closed and still at its place
        path.unlink(missing_ok=True)
    return '; '.join(filter(None, (problem, loss, nothing)))
