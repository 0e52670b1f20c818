# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Record the data of a VRPN server, with the kernel's receive times.

The recorder is a client of its own beside the node: a capture of the network card would need
privileges, and a tap in the node would cost it time. Servers send every client the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
import threading
import time
from typing import IO, Optional

from optitrack_vrpn.client.client_io import VrpnClient
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.recording.pcap import ACK, file_header, Packet, packet_bytes, SYN, TCP, UDP
from optitrack_vrpn.recording.spool_io import Spool
from optitrack_vrpn.vrpn.messages import Event

_SERVER_PORT = 3883
#: Chosen: the recorder's own ports in the capture: one for each conversation, above all usual
#: services. The data do not depend on them.
_FIRST_PORT = 40000
#: Chosen: bytes per segment; it fits an IP packet of 64 kB.
_SEGMENT = 32768
#: Chosen: period (ns) of writes, which a killed recorder loses, and of reports (s).
_FLUSH_NS = 200_000_000
_REPORT_S = 1.0

#: Called with how a recording stands: seconds, packets, bytes, free bytes, dropped, lost, what.
Report = Callable[[float, int, int, int, int, int, str], None]


class PcapWriter:
    """
    Write packets to a file; for one thread.

    :raises ConfigurationError: if the file exists or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = open(path, 'xb')
        except FileExistsError:
            raise ConfigurationError(f'{path} exists already: choose another name') from None
        except OSError as error:
            raise ConfigurationError(f'cannot make {path}: {error.strerror}') from None
        self.messages = 0
        self.size = self._file.write(file_header())
        self._flushed_ns = 0

    def write(self, packet: Packet, now_ns: int) -> None:
        """Write a packet."""
        self.size += self._file.write(packet_bytes(packet))
        self.messages += 1
        self.tick(now_ns)

    def tick(self, now_ns: int) -> None:
        """Hand to the system what has waited."""
        if now_ns - self._flushed_ns >= _FLUSH_NS:
            self._flushed_ns = now_ns
            self._file.flush()

    def sync(self) -> None:
        """Do nothing: what was flushed survives this process."""

    def close(self, notes: Optional[Mapping[str, str]] = None) -> None:
        """Close the file."""
        self._file.close()


class RawSink:
    """
    Turn what the client taps into packets.

    :param put: takes them.
    """

    def __init__(self, put: Callable[[list[Packet]], None]) -> None:
        self._put = put
        self._session = 0
        self._seq = 0
        self.state = 'starting'

    def tap(
        self, kind: str, data: bytes, arrival_ns: int, host_minus_arrival_ns: int,
        server: str, local: str,
    ) -> None:
        """
        Take bytes of the server.

        :param kind: 'begin' for a new conversation, 'tcp' or 'udp'.
        """
        time_ns = arrival_ns + host_minus_arrival_ns
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
        """Take events, which are not needed here."""

    def link_changed(self, change: UserEvent) -> None:
        """Remember the state."""
        self.state = change.text


class LostDatagrams:
    """
    Add up what the system dropped since a socket's buffer was full; each connection has its own.

    :ivar total: datagrams lost so far.
    """

    def __init__(self) -> None:
        self._before = self._now = 0

    def note(self, dropped: Optional[int]) -> None:
        """
        Take the count of the present socket.

        :param dropped: None while there is no socket; less than before for a new one.
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
    ended: Optional[threading.Event] = None,
) -> str:
    """
    Record until it is interrupted or the time is over.

    :param path: of the new file.
    :param seconds: after which to end, 0 for never.
    :param ended: set by others to end it.
    :returns: what went wrong, losses included; '' for nothing.
    :raises ConfigurationError: if the file or the server cannot be.
    """
    ended = ended or threading.Event()
    config = ClientConfig(server=host, port=port)
    writer = PcapWriter(path)
    spool: Spool[Packet] = Spool(
        writer, path.parent, lambda packet: len(packet.payload) + 100, min_free=min_free)
    sink = RawSink(spool.put)
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
    dropped = spool.status().dropped
    losses = [f'{count} {what}' for count, what in (
        (lost.total, 'datagrams were lost before the recorder read them (receive buffer full)'),
        (dropped, 'packets were dropped since the disk was too slow')) if count]
    return '; '.join(filter(None, (problem, *losses)))
