# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find the VRPN conversations of a capture, and run them through the node's pipeline.

The packets are read once. What belongs to a conversation is stored by the caller, on disk, because
it can be long, and because the server is known only when the beginnings of all streams are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
from dataclasses import dataclass, field
from typing import NamedTuple, Optional, Protocol

from optitrack_vrpn.core.errors import ConfigurationError, RemoteProtocolError
from optitrack_vrpn.drivers.vrpn.codec import COOKIE_PREFIX, decode_request, DEFAULT_PORT, Event
from optitrack_vrpn.drivers.vrpn.connection import Connection
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import Sample
from optitrack_vrpn.takes.record.pcap import ACK, Flow, Packet, Reassembly, SYN, TCP
from optitrack_vrpn.takes.record.raw_session import (
    Action, described_udp_port, Session, StreamCutter)

#: Chosen: number of bytes at the beginning of a stream in which a client describes its UDP port;
#: clients do so within some hundred bytes.
_HEAD = 1 << 16

End = tuple[str, int]


class PacketLog(Protocol):
    """Packets on disk."""

    def add(self, packet: Packet) -> None: ...

    def __iter__(self) -> Iterator[Packet]: ...


@dataclass(eq=False)
class Conversation:
    """
    A TCP connection that was captured from its beginning.

    :ivar ends: addresses and ports; first the side that opened the connection.
    :ivar packets: pieces of its streams in order, and its datagrams.
    :ivar begin_ns: arrival of its first packet (ns).
    :ivar end_ns: arrival of its last packet, including datagrams (ns).
    :ivar heads: first bytes that each end sent.
    :ivar said: number of bytes that each end sent.
    :ivar requested_by: the end that sent a UDP request to be connected back to.
    :ivar holes: whether a part of the stream that each end sent was not captured, so that what
        follows cannot be read.
    """

    ends: tuple[End, End]
    packets: PacketLog
    begin_ns: int
    end_ns: int
    heads: dict[End, bytearray] = field(default_factory=dict)
    said: dict[End, int] = field(default_factory=dict)
    requested_by: Optional[End] = None
    holes: dict[End, bool] = field(default_factory=dict)

    def udp_port(self, end: End) -> Optional[int]:
        """Return the UDP port that an end described."""
        return described_udp_port(bytes(self.heads.get(end, b'')))

    def server(self) -> End:
        """
        Return which end is the server.

        The server is the end on VRPN's port; otherwise the end that no UDP request names;
        otherwise the end whose peer is the only one that described a UDP port; otherwise the end
        that sent more bytes.
        """
        on_port = [end for end in self.ends if end[1] == DEFAULT_PORT]
        if len(on_port) == 1:
            return on_port[0]
        first, second = self.ends
        if self.requested_by is not None:
            return first if second == self.requested_by else second
        ports = {end: self.udp_port(end) for end in self.ends}
        if (ports[first] is None) != (ports[second] is None):
            return second if ports[first] is not None else first
        return first if self.said.get(first, 0) >= self.said.get(second, 0) else second

    def session(self) -> Optional[Session]:
        """Return what its server sent; None if that is not VRPN."""
        server = self.server()
        if not self.heads.get(server, b'').startswith(COOKIE_PREFIX):
            return None
        first, second = self.ends
        client = second if server == first else first
        return Session(
            server[0], client, self.begin_ns, self.end_ns,
            lambda: read_actions(self.packets, server, client),
            'a part of its TCP stream was not captured: what follows by TCP is missing'
            if self.holes.get(server) else '')


def find_sessions(
    packets: Iterable[Packet], new_log: Callable[[], PacketLog],
) -> list[Session]:
    """
    Find the VRPN conversations that were captured from their beginning.

    :param packets: packets in order, see ``pcap.in_order``.
    :param new_log: makes an empty log for the packets of a conversation.
    :raises ConfigurationError: if packets of a conversation are truncated.
    """
    found: list[Conversation] = []
    flows: dict[Flow, Conversation] = {}
    requests: set[End] = set()
    described: dict[End, Conversation] = {}    # by address and port for datagrams
    reassembly = Reassembly()
    for packet in packets:
        if packet.proto != TCP:
            with contextlib.suppress(RemoteProtocolError):
                requests.add((packet.src, decode_request(packet.payload)[1]))
            # Recordings of this package have datagrams with the ports of the TCP connection.
            owner = described.get((packet.dst, packet.dport)) or flows.get(packet.flow)
            if owner is not None:
                _check_whole(packet)
                owner.end_ns = _arrival_ns(packet)
                owner.packets.add(packet)
            continue
        flow = packet.flow
        if packet.flags & (SYN | ACK) == SYN:
            ends = ((packet.src, packet.sport), (packet.dst, packet.dport))
            made = Conversation(ends, new_log(), _arrival_ns(packet), _arrival_ns(packet))
            if ends[1] in requests:
                made.requested_by = ends[1]
            found.append(made)
            flows[flow] = made
            flows[ends[1] + ends[0]] = made
        conversation = flows.get(flow)
        if conversation is None:
            continue
        end = (packet.src, packet.sport)
        head = conversation.heads.setdefault(end, bytearray())
        _check_whole(packet)
        for chunk in reassembly.push(packet):
            if len(head) < _HEAD:
                head += chunk.payload
                port = conversation.udp_port(end)
                if port is not None:
                    described[end[0], port] = conversation
            if head.startswith(COOKIE_PREFIX[:len(head)]):    # other streams are not stored
                conversation.packets.add(chunk)
        if packet.payload:
            conversation.said[end] = conversation.said.get(end, 0) + len(packet.payload)
            conversation.end_ns = _arrival_ns(packet)
            conversation.holes[end] = reassembly.has_hole(flow)
    return [session for session in (each.session() for each in found) if session is not None]


def read_actions(packets: Iterable[Packet], server: End, client: End) -> Iterator[Action]:
    """Read what the server of a conversation sent."""
    cutter = StreamCutter()
    for packet in packets:
        if packet.proto == TCP:
            if (packet.src, packet.sport) == server:
                yield from cutter.push(packet)
        elif packet.dst == client[0]:
            yield Action(packet.time_ns, 'udp', packet.payload, packet.host_minus_arrival_ns)


def _check_whole(packet: Packet) -> None:
    if packet.missing:
        raise ConfigurationError(
            f'{packet.missing} bytes of a packet were not captured: capture with tcpdump -s 0')


def _arrival_ns(packet: Packet) -> int:
    return packet.time_ns - packet.host_minus_arrival_ns


class Arrival(NamedTuple):
    """
    Events that arrived together.

    :ivar arrival_ns: arrival on the arrival clock if the recording contains it, else on the host's
        clock (ns).
    :ivar host_minus_arrival_ns: host clock minus arrival clock (ns).
    """

    events: Sequence[Event]
    arrival_ns: int
    host_minus_arrival_ns: int


def arrivals(session: Session) -> Iterator[Arrival]:
    """Return the events of a conversation; bytes that are not VRPN end it."""
    connection = Connection()
    for action in session.read():
        try:
            if action.kind == 'tcp':
                events = connection.receive_stream(action.data)
            else:
                events = connection.receive_datagram(memoryview(action.data))
        except RemoteProtocolError:
            return
        if events:
            yield Arrival(tuple(events), action.arrival_ns, action.host_minus_arrival_ns)


def stamped(sessions: Iterable[Session], pipeline: Pipeline) -> Iterator[tuple[Sample, int]]:
    """
    Return the poses that the node would publish, and their arrival on the host's clock (ns).

    :param pipeline: a new pipeline; afterwards it has the final states of its channels.
    """
    for session in sessions:
        pipeline.reconnected()
        for events, arrival_ns, offset_ns in arrivals(session):
            for sample in pipeline.process(to_frames(events), arrival_ns, offset_ns):
                yield sample, arrival_ns + offset_ns
            pipeline.tick(arrival_ns)
