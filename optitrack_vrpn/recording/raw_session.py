# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded VRPN conversation: the server's messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import struct
from typing import NamedTuple, Optional

from optitrack_vrpn.recording.pcap import Chunk

COOKIE = b'vrpn: ver.'
_COOKIE_SIZE = 24
_HEADER = struct.Struct('>IIIii')
_HEADER_SIZE = 24
#: Types of messages that describe, and not report: negative. This one describes a UDP port.
_UDP_PORT = -3
_US = 1000
_NS = 1_000_000_000
#: Chosen: limit of a message (bytes), above VRPN's 64 kB; it bounds the memory for broken
#: captures. Halved or doubled, only these are read differently.
_MAX_MESSAGE = 1 << 20


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

    @property
    def arrival_ns(self) -> int:
        """Return the time on a clock that nobody sets, where the recording knows it."""
        return self.time_ns - self.host_minus_arrival_ns


class Session(NamedTuple):
    """
    One conversation.

    :ivar server: its address.
    :ivar client: its address and TCP port.
    :ivar begin_ns: arrival of its first packet.
    :ivar end_ns: arrival of its last one.
    :ivar read: gives what the server sent, in order; each call restarts.
    """

    server: str
    client: tuple[str, int]
    begin_ns: int
    end_ns: int
    read: Callable[[], Iterator[Action]]


class StreamCutter:
    """Cut a server's stream at the ends of messages; those complete at one time stay together."""

    def __init__(self) -> None:
        self._rest = b''
        self._spoken = False

    def push(self, chunk: Chunk) -> list[Action]:
        """Take the next bytes; give the cookie by itself, then whole messages."""
        found = []
        rest = self._rest + chunk.data
        end = 0
        if not self._spoken and len(rest) >= _COOKIE_SIZE:
            self._spoken, end = True, _COOKIE_SIZE
            found.append(Action(
                chunk.time_ns, 'tcp', rest[:_COOKIE_SIZE], chunk.host_minus_arrival_ns))
        begin = end
        while self._spoken:
            size = message_size(rest, end)
            if size is None or end + size > len(rest):
                break
            end += size
        if end > begin:
            found.append(Action(
                chunk.time_ns, 'tcp', rest[begin:end], chunk.host_minus_arrival_ns))
        self._rest = rest[end:]
        return found


def message_size(data: bytes, at: int) -> Optional[int]:
    """Return the size of the message that begins here, padding included; None if it is cut off."""
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
    """Return whether a client has begun to describe types, the last thing that it describes."""
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
            if len(message) >= _HEADER_SIZE and not message.startswith(COOKIE):
                _, sec, usec, _, kind = _HEADER.unpack_from(message)
                if kind >= 0 and (sec or usec):
                    return int(sec) * _NS + int(usec) * _US
    return 0


def clip(session: Session, start_ns: int, end_ns: Optional[int]) -> Iterator[Action]:
    """
    Choose a part of a session that a client can still follow.

    :param start_ns: begin so long after the session's; what describes names before that is kept.
    :param end_ns: end so long after the session's begin; None for all of it.
    """
    begin_ns = -1
    for action in session.read():
        first = begin_ns < 0
        if first:
            begin_ns = action.arrival_ns
        after = action.arrival_ns - begin_ns
        if end_ns is not None and after > end_ns:
            return
        if after < start_ns:
            if not first:
                if action.kind != 'tcp':
                    continue
                action = action._replace(data=descriptions(action.data))
                if not action.data:
                    continue
            action = action._replace(time_ns=action.time_ns + start_ns - after)
        yield action
