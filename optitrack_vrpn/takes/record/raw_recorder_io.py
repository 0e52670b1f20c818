# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Record the data of a VRPN server with the kernel's receive times; count lost datagrams.

The recorder is a separate client beside the node: capturing on the network card would need
privileges, and recording in the node would delay its poses. A server sends the same data to all
clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
import threading
import time
from typing import IO, Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient
from optitrack_vrpn.drivers.vrpn.codec import Event
from optitrack_vrpn.takes.record.pcap import ACK, file_header, Packet, packet_bytes, SYN, TCP, UDP
from optitrack_vrpn.takes.record.raw_session import NameRemover
from optitrack_vrpn.takes.record.spool_io import check_exists, Spool

#: Port of the server in the capture: that of VRPN. The data do not depend on it.
_SERVER_PORT = 3883
#: Chosen: the recorder's own ports in the capture: one for each conversation, above all usual
#: services. The data do not depend on them.
_FIRST_PORT = 40000
#: Addresses of a server and a client in documents (RFC 5737).
_NO_ADDRESSES = '192.0.2.1', '192.0.2.2'
#: Chosen: bytes per segment; it fits an IP packet of 64 kB.
_SEGMENT = 32768
#: Chosen: period (ns) of writes, which a killed recorder loses, and of reports (s).
_FLUSH_NS = 200_000_000
_REPORT_S = 1.0

#: Called with the state of a recording: seconds, packets, bytes, free bytes, dropped, lost, what.
Report = Callable[[float, int, int, int, int, int, str], None]


class PcapWriter:
    """
    Write packets to a file; not thread-safe.

    :raises ConfigurationError: if the file exists or cannot be created.
    :ivar remedy: for a file that could not be closed.
    """

    remedy = 'it can be read up to its last complete packet'

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = open(path, 'xb')
        except FileExistsError:
            raise ConfigurationError(f'{path} exists already: choose another name') from None
        except OSError as error:
            raise ConfigurationError(f'cannot create {path}: {error.strerror}') from None
        self.messages = 0
        self.size = self._file.write(file_header())
        self._flushed_ns = 0

    def write(self, packet: Packet, now_ns: int) -> None:
        """Write a packet."""
        self.size += self._file.write(packet_bytes(packet))
        self.messages += 1
        self.tick(now_ns)

    def tick(self, now_ns: int) -> None:
        """Write buffered data to the file."""
        if now_ns - self._flushed_ns >= _FLUSH_NS:
            self._flushed_ns = now_ns
            self._file.flush()

    def sync(self) -> None:
        """
        Check the file; flushed data survive the end of this process.

        :raises OSError: if the file was removed or renamed.
        """
        check_exists(self._file.fileno(), self._path)

    def close(self, notes: Optional[Mapping[str, str]] = None) -> None:
        """Close the file."""
        self._file.close()


class RawSink:
    """
    Convert the bytes from the client to packets.

    :param put: receives the packets.
    :param remover: removes names; then addresses are replaced by those of RFC 5737 too.
    """

    def __init__(
        self, put: Callable[[list[Packet]], None], remover: Optional[NameRemover] = None,
    ) -> None:
        self._put = put
        self._remover = remover
        self._session = 0
        self._seq = 0
        self.state = 'starting'

    def tap(
        self, kind: str, data: bytes, arrival_ns: int, host_minus_arrival_ns: int,
        server: str, local: str,
    ) -> None:
        """
        Process bytes from the server.

        :param kind: 'begin' for a new conversation, 'tcp' or 'udp'.
        """
        time_ns = arrival_ns + host_minus_arrival_ns
        if self._remover is not None:
            server, local = _NO_ADDRESSES
            if kind == 'begin':
                self._remover.begin()
            else:
                data = (self._remover.datagram if kind == 'udp' else self._remover.stream)(data)
        if kind == 'begin':
            self._session += 1
            self._seq = 1
            self._put([self._segment(time_ns, b'', SYN, 0, host_minus_arrival_ns, server, local)])
        elif kind == 'udp':
            self._put([Packet(time_ns, UDP, server, _SERVER_PORT, local, self._port, data, 0, 0,
                              host_minus_arrival_ns)])
        else:
            packets = []
            for at in range(0, len(data), _SEGMENT):
                piece = data[at:at + _SEGMENT]
                packets.append(self._segment(
                    time_ns, piece, ACK, self._seq, host_minus_arrival_ns, server, local))
                self._seq = (self._seq + len(piece)) & 0xFFFFFFFF
            self._put(packets)

    @property
    def _port(self) -> int:
        return _FIRST_PORT + self._session % 20000

    def _segment(
        self, time_ns: int, data: bytes, flags: int, seq: int, offset_ns: int, server: str,
        local: str,
    ) -> Packet:
        return Packet(time_ns, TCP, server, _SERVER_PORT, local, self._port, data, flags, seq,
                      offset_ns)

    def receive(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Ignore events, which are not recorded."""

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
    path: Path, host: str, port: int, seconds: float, report: Report, min_free: int,
    ended: Optional[threading.Event] = None, remover: Optional[NameRemover] = None,
) -> str:
    """
    Record until the interruption or the given time.

    :param path: path of the new file.
    :param seconds: duration of the recording (s), 0 for no limit.
    :param ended: event that ends the recording.
    :param remover: removes names and addresses.
    :returns: what went wrong, including losses and an empty file; '' if nothing did.
    :raises ConfigurationError: if the file cannot be created or the server is invalid.
    """
    ended = ended or threading.Event()
    config = ClientConfig(server=host, port=port)
    writer = PcapWriter(path)
    spool: Spool[Packet] = Spool(
        writer, path.parent, lambda packet: len(packet.payload) + 100, min_free=min_free)
    sink = RawSink(spool.put, remover)
    client = VrpnClient(config, sink)
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
        client.stop()
        problem = spool.stop()
    loss = (f'{counted(lost.total, "datagram")} lost before the recorder read them (receive '
            'buffer full)' if lost.total else '')
    nothing = '' if writer.messages else f'no server was recorded: {sink.state}'
    return '; '.join(filter(None, (problem, loss, nothing)))
