# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded conversation; for VRPN the server's messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import struct
from typing import NamedTuple, Optional

from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.vrpn.codec import (
    COOKIE_PREFIX, COOKIE_SIZE, HEADER, HEADER_SIZE, padded, TYPE_DESCRIPTION, UDP_DESCRIPTION)

#: Chosen: limit of a message (bytes), above VRPN's 64 kB; it bounds the memory for broken
#: captures.
_MAX_MESSAGE = 1 << 20


class Action(NamedTuple):
    """
    Bytes of a conversation.

    :ivar time_ns: arrival (ns since the Unix epoch).
    :ivar kind: 'tcp' or 'udp' from the server, 'sent' by the recorder.
    :ivar data: the bytes: for TCP complete messages, or only the cookie.
    :ivar host_minus_arrival_ns: host clock minus the monotonic clock of arrivals: with both
        clocks, the stamps from a recording equal those of the live run.
    """

    time_ns: int
    kind: str
    data: bytes
    host_minus_arrival_ns: int = 0

    @property
    def arrival_ns(self) -> int:
        """Return the time on the clock of arrivals."""
        return self.time_ns - self.host_minus_arrival_ns


class RawSession(NamedTuple):
    """
    One conversation.

    :ivar protocol: 'vrpn' or 'natnet'.
    :ivar server: address of the server.
    :ivar local: address of the recorder.
    :ivar begin_ns: arrival of its first bytes (ns).
    :ivar end_ns: arrival of its last bytes (ns).
    :ivar read: returns an iterator of its actions, from the beginning.
    :ivar cut: what is missing, and why; '' for a complete one.
    """

    protocol: str
    server: str
    local: str
    begin_ns: int
    end_ns: int
    read: Callable[[], Iterator[Action]]
    cut: str = ''


class StreamCutter:
    """Split a server's stream at message boundaries; messages completed together stay together."""

    def __init__(self) -> None:
        self._rest = b''
        self._spoken = False

    def push(self, action: Action) -> list[Action]:
        """Process the next bytes; return the cookie separately, then complete messages."""
        found = []
        rest = self._rest + action.data
        end = 0
        if not self._spoken and len(rest) >= COOKIE_SIZE:
            self._spoken, end = True, COOKIE_SIZE
            found.append(action._replace(data=rest[:COOKIE_SIZE]))
        begin = end
        while self._spoken:
            size = message_size(rest, end)
            if size is None or end + size > len(rest):
                break
            end += size
        if end > begin:
            found.append(action._replace(data=rest[begin:end]))
        self._rest = rest[end:]
        return found


def message_size(data: bytes, at: int) -> Optional[int]:
    """Return the size of the message at this offset, with padding; None if it is truncated."""
    if at + HEADER_SIZE > len(data):
        return None
    size = int.from_bytes(data[at:at + 4], 'big')
    if not HEADER_SIZE <= size <= _MAX_MESSAGE:
        return len(data) - at    # not a message: return the rest unchanged
    return padded(size)


def messages(data: bytes) -> list[bytes]:
    """Split bytes into messages; the last message may have no padding."""
    found, at = [], 0
    while at < len(data):
        size = message_size(data, at) or len(data) - at
        found.append(data[at:at + size])
        at += size
    return found


def described_udp_port(stream: bytes) -> Optional[int]:
    """Return the UDP port that a client's stream describes."""
    return next((sender or None for sender, kind in _described(stream)
                 if kind == UDP_DESCRIPTION), None)


def described_all(stream: bytes) -> bool:
    """Return whether a client has begun to describe types, its last descriptions."""
    return any(kind == TYPE_DESCRIPTION for _, kind in _described(stream))


def _described(stream: bytes) -> Iterator[tuple[int, int]]:
    """Return number and kind of each message that follows the cookie in a client's stream."""
    at = COOKIE_SIZE
    while len(stream) - at >= HEADER_SIZE:
        size, _, _, sender, kind, _ = HEADER.unpack_from(stream, at)
        yield sender, kind
        if size < HEADER_SIZE:
            return
        at += padded(size)


def descriptions(data: bytes) -> bytes:
    """Return only the messages that describe names and types."""
    return b''.join(message for message in messages(data) if len(message) >= HEADER_SIZE
                    and HEADER.unpack_from(message)[4] < 0)


def scale_times(data: bytes, origin_ns: int, rate: float) -> bytes:
    """
    Scale the intervals between sender times, as if the sender's clock ran faster.

    :param origin_ns: sender time that does not change (ns).
    :param rate: 2 halves all intervals.
    """
    scaled = bytearray()
    for message in messages(data):
        if len(message) < HEADER_SIZE:
            scaled += message
            continue
        _, sec, usec, _, kind, _ = HEADER.unpack_from(message)
        if kind >= 0 and (sec or usec):
            time_ns = sec * NS_PER_S + usec * 1000
            moved_us = (origin_ns + round((time_ns - origin_ns) / rate)) // 1000
            message = message[:4] + struct.pack('>II', *divmod(moved_us, 1_000_000)) + message[12:]
        scaled += message
    return bytes(scaled)


def first_sender_time_ns(actions: Iterable[Action]) -> int:
    """Return the time of the first report (ns); 0 if there is none."""
    for action in actions:
        for message in messages(action.data):
            if len(message) >= HEADER_SIZE and not message.startswith(COOKIE_PREFIX):
                _, sec, usec, _, kind, _ = HEADER.unpack_from(message)
                if kind >= 0 and (sec or usec):
                    return int(sec) * NS_PER_S + int(usec) * 1000
    return 0


def clip(session: RawSession, start_ns: int, end_ns: Optional[int]) -> Iterator[Action]:
    """
    Select a part of a session that a client can decode.

    :param start_ns: begin of the part after the begin of the session (ns); earlier descriptions of
        names are kept.
    :param end_ns: end of the part after the begin of the session (ns); None for no limit.
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
