# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find VRPN conversations in captured packets, and read one of them.

A capture is read twice, one packet at a time: once to find the conversations, their servers and
their datagrams, and once for each conversation that is played. Only the beginnings of the streams
are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import contextlib
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.errors import ConfigurationError, RemoteProtocolError
from optitrack_vrpn.recording.pcap import ACK, Flow, Packet, Reassembly, SYN, TCP
from optitrack_vrpn.recording.raw_session import (
    Action, described_udp_port, StreamCutter)
from optitrack_vrpn.vrpn.codec import decode_request
from optitrack_vrpn.vrpn.constants import COOKIE_PREFIX, DEFAULT_PORT

#: Chosen: number of bytes at the beginning of a stream in which a client describes its UDP port;
#: clients do so within some hundred bytes. Halved or doubled, so is the memory per stream.
_HEAD = 1 << 16

End = tuple[str, int]


@dataclass(eq=False)
class Conversation:
    """
    A TCP connection that was captured from its beginning.

    :ivar ends: addresses and ports; first the side that opened the connection.
    :ivar offset: offset in the file, at or before its first packet.
    :ivar begin_ns: arrival of its first packet (ns).
    :ivar end_ns: arrival of its last packet, including datagrams (ns).
    :ivar heads: first bytes that each end sent.
    :ivar said: number of bytes that each end sent.
    :ivar requested_by: the end that sent a UDP request to be connected back to.
    :ivar holes: whether a part of the stream that each end sent was not captured, so that what
        follows cannot be read.
    """

    ends: tuple[End, End]
    offset: int
    begin_ns: int
    end_ns: int
    heads: dict[End, bytearray] = field(default_factory=dict)
    said: dict[End, int] = field(default_factory=dict)
    requested_by: Optional[End] = None
    holes: dict[End, bool] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Return whether one end sent nothing, as in this package's own recordings."""
        return not all(map(self.said.get, self.ends))

    def udp_port(self, end: End) -> Optional[int]:
        """Return the UDP port that an end described."""
        return described_udp_port(bytes(self.heads.get(end, b'')))

    def server(self) -> Optional[End]:
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
        found = first if self.said.get(first, 0) >= self.said.get(second, 0) else second
        return found if self.heads.get(found, b'').startswith(COOKIE_PREFIX) else None


class _Owners:
    """
    Assign datagrams to conversations.

    A datagram belongs to the latest conversation whose client described the port; otherwise to the
    latest conversation between these addresses of which one end was not captured.
    """

    def __init__(self) -> None:
        self._described: dict[End, Conversation] = {}
        self._silent: dict[frozenset[str], Conversation] = {}

    def begin(self, conversation: Conversation) -> None:
        """Add a conversation that begins."""
        if conversation.silent:
            self._silent[frozenset(end[0] for end in conversation.ends)] = conversation
        for end in conversation.ends:
            self.describe(conversation, end)

    def describe(self, conversation: Conversation, end: End) -> None:
        """Check whether an end has described its port."""
        port = conversation.udp_port(end)
        if port is not None:
            self._described[end[0], port] = conversation

    def find(self, packet: Packet) -> Optional[Conversation]:
        """Return the conversation of a datagram."""
        return self._described.get((packet.dst, packet.dport)) or self._silent.get(
            frozenset((packet.src, packet.dst)))


def find_conversations(located: Iterable[tuple[int, Packet]]) -> list[Conversation]:
    """
    Find the TCP connections that were captured from their beginning.

    :param located: packets in order, with offsets; see ``pcap.in_order``.
    :raises ConfigurationError: if packets of a conversation are truncated.
    """
    found: list[Conversation] = []
    flows: dict[Flow, Conversation] = {}
    requests: set[End] = set()
    owners, reassembly = _Owners(), Reassembly()
    for offset, packet in located:
        if packet.proto != TCP:
            with contextlib.suppress(RemoteProtocolError):
                requests.add((packet.src, decode_request(packet.payload)[1]))
            owner = owners.find(packet)
            if owner is not None:
                _check_whole(packet)
                owner.end_ns = _arrival_ns(packet)
            continue
        flow = packet.flow
        if packet.flags & (SYN | ACK) == SYN:
            ends = ((packet.src, packet.sport), (packet.dst, packet.dport))
            made = Conversation(ends, offset, _arrival_ns(packet), _arrival_ns(packet))
            if ends[1] in requests:
                made.requested_by = ends[1]
            found.append(made)
            owners.begin(made)
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
                owners.describe(conversation, end)
        if packet.payload:
            conversation.said[end] = conversation.said.get(end, 0) + len(packet.payload)
            conversation.end_ns = _arrival_ns(packet)
            conversation.holes[end] = reassembly.has_hole(flow)
    return [conversation for conversation in found
            if conversation.said and conversation.server() is not None]


def read_actions(
    conversation: Conversation, every: Iterable[Conversation], packets: Iterable[Packet],
) -> Iterator[Action]:
    """
    Read what the server of a conversation sent.

    :param every: all conversations of the capture, in the order of their beginnings.
    :param packets: packets in order, from ``conversation.offset`` on.
    """
    server = conversation.server()
    if server is None:
        return
    first, second = conversation.ends
    client = second if server == first else first
    flow = server + client
    owners = _Owners()
    waiting: dict[tuple[tuple[End, End], int], Conversation] = {}
    for other in every:
        if other is conversation or waiting:
            waiting[other.ends, other.begin_ns] = other
        else:
            owners.begin(other)
    reassembly, cutter = Reassembly(), StreamCutter()
    begun = False
    for packet in packets:
        if packet.proto != TCP:
            if begun and packet.dst == client[0] and owners.find(packet) is conversation:
                yield Action(
                    packet.time_ns, 'udp', packet.payload, packet.host_minus_arrival_ns)
            continue
        if packet.flags & (SYN | ACK) == SYN:
            ends = ((packet.src, packet.sport), (packet.dst, packet.dport))
            if begun and set(ends) == {first, second}:
                return    # another connection uses the same ports
            other_one = waiting.pop((ends, _arrival_ns(packet)), None)
            if other_one is not None:
                owners.begin(other_one)
                begun = begun or other_one is conversation
        if begun and packet.flow == flow:
            for chunk in reassembly.push(packet):
                yield from cutter.push(chunk)


def _check_whole(packet: Packet) -> None:
    if packet.missing:
        raise ConfigurationError(
            f'{packet.missing} bytes of a packet were not captured: capture with tcpdump -s 0')


def _arrival_ns(packet: Packet) -> int:
    return packet.time_ns - packet.host_minus_arrival_ns
