# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""VRPN conversations cut out of captured packets: what the server sent, message by message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
import re
import struct
from typing import NamedTuple, Optional

from optitrack_vrpn.recording.pcap import ACK, Chunk, Packet, SYN, TCP, tcp_chunks
from optitrack_vrpn.vrpn.constants import DEFAULT_PORT

_COOKIE = b'vrpn: ver.'
_COOKIE_SIZE = 24
_HEADER = struct.Struct('>IIIii')
_HEADER_SIZE = 24
#: Types of messages that describe, and not report: negative. This one describes a UDP port.
_UDP_PORT = -3
_US = 1000
_NS = 1_000_000_000
_MAX_MESSAGE = 1 << 20
#: What a client sends by UDP to be connected back to: its address and TCP port.
_REQUEST = re.compile(rb'[A-Za-z0-9.]+ (\d{1,5})\0?')


class Action(NamedTuple):
    """
    One thing that the server did.

    :ivar time_ns: when it arrived, since the Unix epoch.
    :ivar kind: 'tcp' or 'udp'.
    :ivar data: the bytes: for TCP whole messages, the cookie by itself.
    :ivar host_minus_arrival_ns: see ``Packet``.
    """

    time_ns: int
    kind: str
    data: bytes
    host_minus_arrival_ns: int = 0


@dataclass
class Session:
    """
    One conversation.

    :ivar server: its address.
    :ivar client: its address and TCP port.
    :ivar actions: what the server sent, in order.
    """

    server: str
    client: tuple[str, int]
    actions: list[Action] = field(default_factory=list)

    @property
    def begin_ns(self) -> int:
        """Return when it began."""
        return self.actions[0].time_ns

    @property
    def end_ns(self) -> int:
        """Return when the last thing was sent."""
        return self.actions[-1].time_ns


class _Connection:
    """A TCP connection: what each end said."""

    def __init__(self, first: tuple[str, int], second: tuple[str, int], begin_ns: int) -> None:
        self.ends = (first, second)
        self.begin_ns = begin_ns
        self.chunks: dict[tuple[str, int], list[Chunk]] = {first: [], second: []}
        self.datagrams: list[Packet] = []
        self.requested_by: Optional[tuple[str, int]] = None

    def server(self) -> Optional[tuple[str, int]]:
        """
        Tell which end is the server.

        It is the end on VRPN's port, or else the one that a request by UDP did not name, or else
        the one whose peer alone has described a UDP port, or else the one that says more.
        """
        on_port = [end for end in self.ends if end[1] == DEFAULT_PORT]
        if len(on_port) == 1:
            return on_port[0]
        if self.requested_by is not None:
            return self.ends[0] if self.ends[1] == self.requested_by else self.ends[1]
        said = {end: sum(len(chunk.data) for chunk in chunks)
                for end, chunks in self.chunks.items()}
        ports = {end: described_udp_port(b''.join(chunk.data for chunk in chunks))
                 for end, chunks in self.chunks.items()}
        first, second = self.ends
        if (ports[first] is None) != (ports[second] is None):
            return second if ports[first] is not None else first
        found = first if said[first] >= said[second] else second
        spoken = b''.join(chunk.data for chunk in self.chunks[found][:3])
        return found if spoken.startswith(_COOKIE) else None


def cut_sessions(packets: Iterable[Packet]) -> list[Session]:
    """
    Cut a capture into conversations.

    Connections that do not begin with VRPN's cookie, of which the beginning was not captured, are
    left out.
    """
    listed = sorted(packets, key=lambda packet: packet.time_ns)
    connections: list[_Connection] = []
    flows: dict[tuple[str, int, str, int], list[_Connection]] = {}
    requests: set[tuple[str, int]] = set()
    for packet in listed:
        if packet.proto != TCP:
            match = _REQUEST.fullmatch(packet.payload)
            if match is not None:
                requests.add((packet.src, int(match[1])))
        if packet.proto == TCP and packet.flags & (SYN | ACK) == SYN:
            ends = ((packet.src, packet.sport), (packet.dst, packet.dport))
            made = _Connection(*ends, packet.time_ns)
            if ends[1] in requests:
                made.requested_by = ends[1]
            connections.append(made)
            for first, second in (ends, ends[::-1]):
                flows.setdefault((*first, *second), []).append(made)
    for chunk in tcp_chunks(listed):
        # The latest connection of these ends that had begun by then.
        known = [c for c in flows.get((chunk.src, chunk.sport, chunk.dst, chunk.dport), ())
                 if c.begin_ns <= chunk.time_ns]
        if known:
            known[-1].chunks[chunk.src, chunk.sport].append(chunk)
    _give_datagrams([packet for packet in listed if packet.proto != TCP], connections)
    return [session for session in map(_session, connections) if session is not None]


def _give_datagrams(datagrams: list[Packet], connections: list[_Connection]) -> None:
    described: dict[tuple[str, int], list[_Connection]] = {}
    silent = []
    for connection in connections:
        ports = [(end[0], described_udp_port(b''.join(c.data for c in chunks)))
                 for end, chunks in connection.chunks.items()]
        for address, port in ports:
            if port is not None:
                described.setdefault((address, port), []).append(connection)
        # This package's own recordings hold nothing of what the client says.
        if not all(connection.chunks.values()):
            silent.append(connection)
    for packet in datagrams:
        fitting = [c for c in described.get((packet.dst, packet.dport), ())
                   if c.begin_ns <= packet.time_ns]
        if not fitting:
            fitting = [c for c in silent if c.begin_ns <= packet.time_ns
                       and {packet.src, packet.dst} == {end[0] for end in c.ends}]
        if fitting:
            fitting[-1].datagrams.append(packet)


def _session(connection: _Connection) -> Optional[Session]:
    server = connection.server()
    if server is None:
        return None
    client = connection.ends[1] if server == connection.ends[0] else connection.ends[0]
    actions = split_stream(connection.chunks[server])
    actions += [Action(p.time_ns, 'udp', p.payload, p.host_minus_arrival_ns)
                for p in connection.datagrams if p.dst == client[0]]
    actions.sort(key=lambda action: action.time_ns)
    return Session(server[0], client, actions) if actions else None


def split_stream(chunks: Iterable[Chunk]) -> list[Action]:
    """Cut a server's stream at the ends of messages; those complete at one time stay together."""
    actions = []
    rest, spoken = b'', False
    for chunk in chunks:
        rest += chunk.data
        end = 0
        if not spoken and len(rest) >= _COOKIE_SIZE:
            spoken, end = True, _COOKIE_SIZE
            actions.append(Action(
                chunk.time_ns, 'tcp', rest[:_COOKIE_SIZE], chunk.host_minus_arrival_ns))
        begin = end
        while spoken:
            size = message_size(rest, end)
            if size is None or end + size > len(rest):
                break
            end += size
        if end > begin:
            actions.append(Action(
                chunk.time_ns, 'tcp', rest[begin:end], chunk.host_minus_arrival_ns))
        rest = rest[end:]
    return actions


def message_size(data: bytes, at: int) -> Optional[int]:
    """Give the size of the message that begins here, padding included; None if it is cut off."""
    if at + _HEADER_SIZE > len(data):
        return None
    size = int.from_bytes(data[at:at + 4], 'big')
    if not _HEADER_SIZE <= size <= _MAX_MESSAGE:
        return len(data) - at    # no message: hand it on as it is
    return (size + 7) // 8 * 8


def messages(data: bytes) -> list[bytes]:
    """Cut bytes into messages; the last may be without padding."""
    found, at = [], 0
    while at < len(data):
        size = message_size(data, at) or len(data) - at
        found.append(data[at:at + size])
        at += size
    return found


def described_udp_port(stream: bytes) -> Optional[int]:
    """Find the UDP port that a client's stream describes."""
    at = _COOKIE_SIZE
    while len(stream) - at >= _HEADER_SIZE:
        size, _, _, sender, kind = _HEADER.unpack_from(stream, at)
        if kind == _UDP_PORT:
            return int(sender) or None
        if size < _HEADER_SIZE:
            return None
        at += (size + 7) // 8 * 8
    return None


def described_all(stream: bytes) -> bool:
    """Tell whether a client has begun to describe types, the last thing that it describes."""
    at = _COOKIE_SIZE
    while len(stream) - at >= _HEADER_SIZE:
        size, _, _, _, kind = _HEADER.unpack_from(stream, at)
        if kind == -2:
            return True
        if size < _HEADER_SIZE:
            return False
        at += (size + 7) // 8 * 8
    return False


def descriptions(data: bytes) -> bytes:
    """Keep the messages that describe names and types; all others are left out."""
    return b''.join(message for message in messages(data) if len(message) >= _HEADER_SIZE
                    and _HEADER.unpack_from(message)[4] < 0)


def scale_times(data: bytes, origin_ns: int, rate: float) -> bytes:
    """
    Let the sender's times run at another rate, as those of a sender that lives faster.

    :param origin_ns: the sender's time that stays as it is.
    :param rate: 2 halves all intervals.
    """
    scaled = bytearray()
    for message in messages(data):
        if len(message) < _HEADER_SIZE:
            scaled += message
            continue
        _, sec, usec, _, kind = _HEADER.unpack_from(message)
        if kind >= 0 and (sec or usec):
            time_ns = sec * _NS + usec * _US
            moved_us = (origin_ns + round((time_ns - origin_ns) / rate)) // _US
            message = message[:4] + struct.pack('>II', *divmod(moved_us, 1_000_000)) + message[12:]
        scaled += message
    return bytes(scaled)


def first_sender_time_ns(actions: Iterable[Action]) -> int:
    """Find the time of the first report; 0 if there is none."""
    for action in actions:
        for message in messages(action.data):
            if len(message) >= _HEADER_SIZE and not message.startswith(_COOKIE):
                _, sec, usec, _, kind = _HEADER.unpack_from(message)
                if kind >= 0 and (sec or usec):
                    return int(sec) * _NS + int(usec) * _US
    return 0


def clip(session: Session, start_ns: int, end_ns: Optional[int]) -> list[Action]:
    """
    Choose a part of a session that a client can still follow.

    :param start_ns: begin so long after the session's; what describes names before that is kept.
    :param end_ns: end so long after the session's begin; None for all of it.
    """
    begin, kept = session.begin_ns, []
    for number, action in enumerate(session.actions):
        after = action.time_ns - begin
        if end_ns is not None and after > end_ns:
            break
        if number and after < start_ns:
            if action.kind != 'tcp':
                continue
            action = action._replace(data=descriptions(action.data))
            if not action.data:
                continue
        kept.append(action._replace(time_ns=max(action.time_ns, begin + start_ns)))
    return kept
