# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the recorded sessions in ``test/data``: classic libpcap files of Ethernet or loopback.

Layout of the file: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap (little or big
endian, microsecond or nanosecond stamps). IPv4 alone, without fragments: what the captures hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
import struct
from typing import NamedTuple

DATA = Path(__file__).parent / 'data'

TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_MAGIC = {
    b'\xd4\xc3\xb2\xa1': ('<', 1000), b'\xa1\xb2\xc3\xd4': ('>', 1000),
    b'\x4d\x3c\xb2\xa1': ('<', 1), b'\xa1\xb2\x3c\x4d': ('>', 1),
}


class Packet(NamedTuple):
    """One TCP segment or UDP datagram; ``time_ns`` counts from the Unix epoch."""

    time_ns: int
    proto: int
    src: str
    sport: int
    dst: str
    dport: int
    payload: bytes
    flags: int = 0
    seq: int = 0


class Chunk(NamedTuple):
    """Bytes of one direction of a TCP connection, in order and without repeats."""

    time_ns: int
    src: str
    sport: int
    dst: str
    dport: int
    data: bytes


def packets(path: str | Path) -> Iterator[Packet]:
    """
    Iterate over the TCP and UDP packets of a capture.

    :param path: a classic pcap file.
    :raises ValueError: if it is no such file, or its link layer is another.
    """
    raw = Path(path).read_bytes()
    if raw[:4] not in _MAGIC:
        raise ValueError(f'{path}: not a classic pcap file')
    order, unit_ns = _MAGIC[raw[:4]]
    (link,) = struct.unpack_from(order + 'I', raw, 20)
    skip = {1: 14, 0: 4, 113: 16}.get(link & 0x0FFFFFFF)
    if skip is None:
        raise ValueError(f'{path}: link layer {link} is not read here')
    at = 24
    while at + 16 <= len(raw):
        sec, frac, kept, whole = struct.unpack_from(order + 'IIII', raw, at)
        if kept < whole:
            raise ValueError(f'{path}: a packet was cut: capture with tcpdump -s 0')
        frame = raw[at + 16 + skip:at + 16 + kept]
        packet = _parse_ip(sec * 1_000_000_000 + frac * unit_ns, frame)
        at += 16 + kept
        if packet is not None:
            yield packet


def _parse_ip(time_ns: int, ip: bytes) -> Packet | None:
    if len(ip) < 20 or ip[0] >> 4 != 4:
        return None
    total, proto = struct.unpack_from('>H', ip, 2)[0], ip[9]
    src, dst = '.'.join(map(str, ip[12:16])), '.'.join(map(str, ip[16:20]))
    body = ip[(ip[0] & 15) * 4:total]
    if proto == UDP:
        sport, dport, length = struct.unpack_from('>HHH', body)
        return Packet(time_ns, proto, src, sport, dst, dport, body[8:length])
    if proto == TCP:
        sport, dport, seq, _, offset, flags = struct.unpack_from('>HHIIBB', body)
        return Packet(time_ns, proto, src, sport, dst, dport, body[(offset >> 4) * 4:], flags, seq)
    return None


def tcp_chunks(source: str | Path) -> Iterator[Chunk]:
    """
    Iterate over every TCP connection's bytes, each direction in order, repeats taken out.

    Segments that overtake others wait until the gap before them is filled; a segment is given at
    the time at which it became readable.
    """
    expected: dict[tuple[str, int, str, int], int] = {}
    waiting: dict[tuple[str, int, str, int], dict[int, bytes]] = defaultdict(dict)
    for packet in packets(source):
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
        waiting[flow][packet.seq] = packet.payload
        yield from _readable(packet.time_ns, flow, expected, waiting[flow])


def _readable(
    time_ns: int,
    flow: tuple[str, int, str, int],
    expected: dict[tuple[str, int, str, int], int],
    waiting: dict[int, bytes],
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
                yield Chunk(time_ns, *flow, data)
            break
