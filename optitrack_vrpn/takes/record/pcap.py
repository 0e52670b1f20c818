# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read and write classic libpcap files of TCP and UDP over IPv4.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap: little or big endian, microseconds or
nanoseconds. Files of this package have nanoseconds and Ethernet frames. The Ethernet addresses,
which have no other use here, contain the difference of host clock and arrival clock: with both
clocks, the stamps from a recording equal those of the live run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import heapq
import struct
from typing import NamedTuple

from optitrack_vrpn.core.errors import ConfigurationError

TCP, UDP = 6, 17
SYN, ACK = 0x02, 0x10

_MAGIC = {
    b'\xd4\xc3\xb2\xa1': ('<', 1000), b'\xa1\xb2\xc3\xd4': ('>', 1000),
    b'\x4d\x3c\xb2\xa1': ('<', 1), b'\xa1\xb2\x3c\x4d': ('>', 1),
}
_PCAPNG = b'\x0a\x0d\x0d\x0a'
#: Bytes before the IP packet by link layer: Ethernet, loopback, raw IP, Linux cooked v1 and v2.
_LINK_HEADERS = {1: 14, 0: 4, 108: 4, 101: 0, 12: 0, 113: 16, 276: 20}
_ETHERNET = 1
#: First bytes of a destination address in files of this package: locally administered, then 'ovr'.
_MARK = b'\x02ovr'
#: Largest packet (bytes): the limit of libpcap, MAXIMUM_SNAPLEN.
_LARGEST = 1 << 18
#: Maximum number of segments that wait for an earlier one; more mean that it was not captured.
_MOST_WAITING = 1000
#: Packets of other programs' captures are sorted by time within this span (ns) and number. Chosen:
#: several interfaces or processors swap neighbours by less than a millisecond.
_DISORDER_NS = 200_000_000
_MOST_HELD = 20_000


Flow = tuple[str, int, str, int]


class Packet(NamedTuple):
    """
    One TCP segment or UDP datagram.

    :ivar time_ns: since the Unix epoch.
    :ivar host_minus_arrival_ns: host clock minus arrival clock in a file of this package; 0 in
        others.
    :ivar missing: bytes at its end that were not captured.
    """

    time_ns: int
    proto: int
    src: str
    sport: int
    dst: str
    dport: int
    payload: bytes
    flags: int = 0
    seq: int = 0
    host_minus_arrival_ns: int = 0
    missing: int = 0

    @property
    def flow(self) -> Flow:
        """Return source and destination."""
        return (self.src, self.sport, self.dst, self.dport)


# -- reading --------------------------------------------------------------------------------------

def read_packets(read: Callable[[int], bytes]) -> Iterator[Packet]:
    """
    Read the TCP and UDP packets of a capture; a truncated packet at the end is left out.

    :param read: returns the next bytes of the file, at most the given number.
    :raises ConfigurationError: if it is not a classic pcap file or its link layer is unknown.
    """
    head = read(24)
    if head[:4] == _PCAPNG:
        raise ConfigurationError('is a pcapng file; convert it with editcap -F pcap')
    if head[:4] not in _MAGIC or len(head) < 24:
        raise ConfigurationError('is not a pcap file')
    order, unit_ns = _MAGIC[head[:4]]
    link = struct.unpack_from(order + 'I', head, 20)[0] & 0x0FFFFFFF
    if link not in _LINK_HEADERS:
        raise ConfigurationError(f'link layer {link} is not supported')
    record, skip = struct.Struct(order + 'IIII'), _LINK_HEADERS[link]
    while True:
        head = read(16)
        if len(head) < 16:
            return
        sec, fraction, kept, size = record.unpack(head)
        if kept > _LARGEST:
            return    # bytes after an invalid length are not packets
        frame = read(kept)
        if len(frame) < kept:
            return
        offset_ns = 0
        if link == _ETHERNET:
            if frame[12:14] == b'\x81\x00':    # VLAN tag
                frame = frame[4:]
            if frame[:4] == _MARK:
                if len(frame) < 12:
                    continue
                (offset_ns,) = struct.unpack_from('>q', frame, 4)
        packet = _parse_ip(sec * 1_000_000_000 + fraction * unit_ns, frame[skip:], offset_ns)
        if packet is not None:
            yield packet if size <= kept else packet._replace(missing=size - kept)


def in_order(packets: Iterable[Packet]) -> Iterator[Packet]:
    """
    Sort the packets of a capture by time, within a limited span.

    Recordings of this package are in the order of arrival and stay so: the times of two packets
    that arrived together can be swapped, and the clock may have been set.
    """
    held: list[tuple[int, int, Packet]] = []
    newest_ns = 0
    for number, packet in enumerate(packets):
        if packet.host_minus_arrival_ns:
            yield packet
            continue
        heapq.heappush(held, (packet.time_ns, number, packet))
        newest_ns = max(newest_ns, packet.time_ns)
        while held and (held[0][0] < newest_ns - _DISORDER_NS or len(held) > _MOST_HELD):
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]


def _parse_ip(time_ns: int, ip: bytes, offset_ns: int) -> Packet | None:
    if len(ip) < 20 or ip[0] >> 4 != 4:
        return None
    total, fragment, proto = struct.unpack_from('>HxxHxB', ip, 2)
    if fragment & 0x3FFF:    # a fragment
        return None
    src, dst = '.'.join(map(str, ip[12:16])), '.'.join(map(str, ip[16:20]))
    # The length is zero after segmentation by the network card.
    body = ip[(ip[0] & 15) * 4:total or len(ip)]
    try:
        if proto == UDP:
            sport, dport, length = struct.unpack_from('>HHH', body)
            return Packet(time_ns, proto, src, sport, dst, dport, body[8:length], 0, 0, offset_ns)
        if proto == TCP:
            sport, dport, seq, _, offset, flags = struct.unpack_from('>HHIIBB', body)
            return Packet(time_ns, proto, src, sport, dst, dport, body[(offset >> 4) * 4:], flags,
                          seq, offset_ns)
    except struct.error:
        pass
    return None


class Reassembly:
    """
    Put the bytes of each TCP connection in order, per direction, without repetition.

    Segments that overtake others wait until the gap before them is filled; a segment is returned
    at the time at which it became readable.
    """

    def __init__(self) -> None:
        self._expected: dict[Flow, int] = {}
        self._waiting: dict[Flow, dict[int, bytes]] = {}

    def push(self, packet: Packet) -> list[Packet]:
        """Process a packet; return it with the bytes that became readable, as one or several."""
        if packet.proto != TCP:
            return []
        flow = packet.flow
        if packet.flags & SYN:
            self._expected[flow] = (packet.seq + 1) & 0xFFFFFFFF
            self._waiting.pop(flow, None)
            return []
        if not packet.payload:
            return []
        expected = self._expected.setdefault(flow, packet.seq)
        waiting = self._waiting.get(flow)
        if packet.seq == expected and not waiting:    # the usual case
            self._expected[flow] = (expected + len(packet.payload)) & 0xFFFFFFFF
            return [packet]
        if waiting is None:
            waiting = self._waiting[flow] = {}
        if len(waiting) < _MOST_WAITING:
            waiting[packet.seq] = packet.payload
        return self._readable(packet, flow, waiting)

    def has_hole(self, flow: Flow) -> bool:
        """Return whether segments of a direction wait for an earlier one."""
        return bool(self._waiting.get(flow))

    def _readable(self, packet: Packet, flow: Flow, waiting: dict[int, bytes]) -> list[Packet]:
        found = []
        while waiting:
            expected = self._expected[flow]
            seq = min(waiting, key=lambda s: (s - expected + 2**31) % 2**32)
            known = (expected - seq) & 0xFFFFFFFF
            if known >= 2**31:
                break
            data = waiting.pop(seq)[known:]
            if data:
                self._expected[flow] = (expected + len(data)) & 0xFFFFFFFF
                found.append(packet._replace(payload=data))
        return found


# -- writing --------------------------------------------------------------------------------------

def file_header() -> bytes:
    """Encode the header of a file: nanoseconds, Ethernet."""
    return struct.pack('<IHHiIII', 0xA1B23C4D, 2, 4, 0, 0, _LARGEST, _ETHERNET)


def packet_bytes(packet: Packet) -> bytes:
    """
    Encode a packet.

    :param packet: packet with at most 65 000 bytes of payload.
    """
    if packet.proto == UDP:
        body = struct.pack('>HHHH', packet.sport, packet.dport, 8 + len(packet.payload), 0)
    else:
        body = struct.pack('>HHIIBBHHH', packet.sport, packet.dport, packet.seq & 0xFFFFFFFF, 0,
                           5 << 4, packet.flags, 0xFFFF, 0, 0)
    body += packet.payload
    ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(body), 0, 0x4000, 64, packet.proto, 0,
                     _address(packet.src), _address(packet.dst))
    ip = ip[:10] + struct.pack('>H', _checksum(ip)) + ip[12:]
    frame = _MARK + struct.pack('>q', packet.host_minus_arrival_ns) + b'\x08\x00' + ip + body
    sec, nanosec = divmod(packet.time_ns, 1_000_000_000)
    return struct.pack('<IIII', sec, nanosec, len(frame), len(frame)) + frame


def _address(text: str) -> bytes:
    return bytes(int(part) for part in text.split('.'))


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
