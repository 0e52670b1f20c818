# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Classic libpcap files of TCP and UDP over IPv4, read and written.

https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap: little or big endian, microseconds or
nanoseconds. What this package writes has nanoseconds and Ethernet frames, whose addresses, which
nobody needs here, hold the difference of host clock and arrival clock: the stamps computed from a
recording equal those of the live run only with both clocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
import struct
from typing import NamedTuple

from optitrack_vrpn.errors import ConfigurationError

TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_MAGIC = {
    b'\xd4\xc3\xb2\xa1': ('<', 1000), b'\xa1\xb2\xc3\xd4': ('>', 1000),
    b'\x4d\x3c\xb2\xa1': ('<', 1), b'\xa1\xb2\x3c\x4d': ('>', 1),
}
_PCAPNG = b'\x0a\x0d\x0d\x0a'
#: Bytes before the IP packet by link layer: Ethernet, loopback, raw IP, Linux cooked v1 and v2.
_LINK_HEADERS = {1: 14, 0: 4, 108: 4, 101: 0, 12: 0, 113: 16, 276: 20}
_ETHERNET = 1
#: First bytes of a destination address written here: locally administered, then 'ovr'.
_MARK = b'\x02ovr'
_LARGEST = 1 << 18
#: Segments that wait for one before them; more mean that it was never captured.
_MOST_WAITING = 1000


class Packet(NamedTuple):
    """
    One TCP segment or UDP datagram.

    :ivar time_ns: since the Unix epoch.
    :ivar host_minus_arrival_ns: host clock less arrival clock, where this package wrote it; 0
        where not.
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


class Chunk(NamedTuple):
    """Bytes of one direction of a TCP connection, in order and without repeats."""

    time_ns: int
    src: str
    sport: int
    dst: str
    dport: int
    data: bytes
    host_minus_arrival_ns: int = 0


# -- reading --------------------------------------------------------------------------------------

def read_packets(read: Callable[[int], bytes], source: str) -> Iterator[Packet]:
    """
    Read the TCP and UDP packets of a capture; one that is cut off at the end is left out.

    :param read: gives the next bytes, at most so many.
    :param source: the file's name, for messages.
    :raises ConfigurationError: if it is no classic pcap file or its link layer is not known.
    """
    head = read(24)
    if head[:4] == _PCAPNG:
        raise ConfigurationError(
            f'{source}: is a pcapng file; convert it: editcap -F pcap {source} converted.pcap')
    if head[:4] not in _MAGIC or len(head) < 24:
        raise ConfigurationError(f'{source}: is no pcap file')
    order, unit_ns = _MAGIC[head[:4]]
    link = struct.unpack_from(order + 'I', head, 20)[0] & 0x0FFFFFFF
    if link not in _LINK_HEADERS:
        raise ConfigurationError(f'{source}: link layer {link} cannot be read')
    record = struct.Struct(order + 'IIII')
    while True:
        head = read(16)
        if len(head) < 16:
            return
        sec, fraction, kept, _ = record.unpack(head)
        if kept > _LARGEST:
            return    # what follows a broken length is no packet
        frame = read(kept)
        if len(frame) < kept:
            return
        offset_ns = 0
        if link == _ETHERNET:
            if frame[12:14] == b'\x81\x00':    # a VLAN's tag
                frame = frame[4:]
            if frame[:4] == _MARK:
                (offset_ns,) = struct.unpack_from('>q', frame, 4)
        packet = _parse_ip(
            sec * 1_000_000_000 + fraction * unit_ns, frame[_LINK_HEADERS[link]:], offset_ns)
        if packet is not None:
            yield packet


def _parse_ip(time_ns: int, ip: bytes, offset_ns: int) -> Packet | None:
    if len(ip) < 20 or ip[0] >> 4 != 4:
        return None
    total, fragment, proto = struct.unpack_from('>HxxHxB', ip, 2)
    if fragment & 0x3FFF:    # a part of a packet
        return None
    src, dst = '.'.join(map(str, ip[12:16])), '.'.join(map(str, ip[16:20]))
    # Zero is what segmentation by the network card leaves.
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


def tcp_chunks(packets: Iterable[Packet]) -> Iterator[Chunk]:
    """
    Give every TCP connection's bytes, each direction in order, repeats taken out.

    Segments that overtake others wait until the gap before them is filled; a segment is given at
    the time at which it became readable.
    """
    expected: dict[tuple[str, int, str, int], int] = {}
    waiting: dict[tuple[str, int, str, int], dict[int, bytes]] = defaultdict(dict)
    for packet in packets:
        if packet.proto != TCP:
            continue
        flow = (packet.src, packet.sport, packet.dst, packet.dport)
        if packet.flags & SYN:
            expected[flow] = (packet.seq + 1) & 0xFFFFFFFF
            waiting.pop(flow, None)
            continue
        if not packet.payload:
            continue
        expected.setdefault(flow, packet.seq)
        if len(waiting[flow]) < _MOST_WAITING:
            waiting[flow][packet.seq] = packet.payload
        yield from _readable(packet, flow, expected, waiting[flow])


def _readable(
    packet: Packet, flow: tuple[str, int, str, int],
    expected: dict[tuple[str, int, str, int], int], waiting: dict[int, bytes],
) -> Iterator[Chunk]:
    progress = True
    while progress:
        progress = False
        for seq in sorted(waiting, key=lambda s: (s - expected[flow] + 2**31) % 2**32):
            known = (expected[flow] - seq) & 0xFFFFFFFF
            if known >= 2**31:
                break
            data = waiting.pop(seq)[known:]
            if data:
                expected[flow] = (expected[flow] + len(data)) & 0xFFFFFFFF
                progress = True
                yield Chunk(packet.time_ns, *flow, data, packet.host_minus_arrival_ns)
            break


# -- writing --------------------------------------------------------------------------------------

def file_header() -> bytes:
    """Write the beginning of a file: nanoseconds, Ethernet."""
    return struct.pack('<IHHiIII', 0xA1B23C4D, 2, 4, 0, 0, _LARGEST, _ETHERNET)


def packet_bytes(packet: Packet) -> bytes:
    """
    Write a packet.

    :param packet: with at most 65 000 bytes of payload.
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
