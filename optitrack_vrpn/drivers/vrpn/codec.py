# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The VRPN wire protocol: numbers and layouts, events as named tuples, encoders, decoders, names.

Source: recorded sessions of VRPN 07.38 (``test/data``). Times are readings of the sender's clock
in integer nanoseconds (the protocol carries microseconds); positions are in metres, quaternions in
the order x, y, z, w, both in the sender's axes. Encoders raise ``LocalProtocolError`` for values
that the protocol cannot carry; for invalid bytes decoders raise ``RemoteProtocolError`` only.
"""

import re
import struct
from typing import Final, NamedTuple, Optional, Union

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError, VersionRefusedError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import Body as PoseReport, Motion, Quaternion, Vector

#: The port that VRPN servers, Motive among them, listen on for UDP requests and for TCP.
DEFAULT_PORT = 3883

#: Beginning of every cookie, before the major version.
COOKIE_PREFIX = b'vrpn: ver. '
MAJOR_VERSION = 7
MINOR_VERSION = 38
COOKIE_SIZE = 24

#: Length, seconds, microseconds, sender, type, sequence; big-endian.
HEADER = struct.Struct('>IIIiiI')
HEADER_SIZE = HEADER.size
#: Messages are padded to a multiple of this number of bytes.
ALIGNMENT = 8

#: System messages have negative types.
SENDER_DESCRIPTION = -1
TYPE_DESCRIPTION = -2
UDP_DESCRIPTION = -3
LOG_DESCRIPTION = -4
DISCONNECT = -5

#: Sender of the VRPN library's own messages; not a tracker.
CONTROL_SENDER = 'VRPN Control'

#: The types that every peer describes first, under the ids 0 to 3.
GOT_FIRST_CONNECTION = 'VRPN_Connection_Got_First_Connection'
GOT_CONNECTION = 'VRPN_Connection_Got_Connection'
DROPPED_CONNECTION = 'VRPN_Connection_Dropped_Connection'
DROPPED_LAST_CONNECTION = 'VRPN_Connection_Dropped_Last_Connection'
CONNECTION_TYPES = (
    GOT_FIRST_CONNECTION, GOT_CONNECTION, DROPPED_CONNECTION, DROPPED_LAST_CONNECTION)

POSE_TYPE = 'vrpn_Tracker Pos_Quat'
VELOCITY_TYPE = 'vrpn_Tracker Velocity'
ACCELERATION_TYPE = 'vrpn_Tracker Acceleration'
TEXT_TYPE = 'vrpn_Base text_message'
PING_TYPE = 'vrpn_Base ping_message'
PONG_TYPE = 'vrpn_Base pong_message'

#: Sensor, filler, position (m), quaternion x y z w.
POSE_PAYLOAD = struct.Struct('>i4x7d')
#: Sensor, filler, vector, quaternion x y z w, dt (s); velocity and acceleration alike.
MOTION_PAYLOAD = struct.Struct('>i4x8d')
#: Severity, level; then the text.
TEXT_HEAD = struct.Struct('>II')
TEXT_SIZE = 1024
#: A pose in a datagram: header and payload together.
POSE_MESSAGE = struct.Struct('>IIIiiIi4x7d')

TEXT_WARNING = 1
TEXT_ERROR = 2

#: The library's tables: names with their NUL fit in 100 bytes, ids run from 0 to 1999.
MAX_NAME_SIZE = 100
MAX_IDS = 2000
#: Size of the library's TCP buffer (bytes), which limits the length of a message.
MAX_MESSAGE_SIZE = 64000
#: Largest payload of a datagram of the library: an Ethernet frame without IP and UDP headers.
MAX_DATAGRAM_SIZE = 1472

#: Seconds are 32 bits unsigned on the wire. Larger values (after the year 2096) are negative
#: numbers or invalid data.
MAX_SENDER_SECONDS: Final = 4_000_000_000

Buffer = Union[bytes, bytearray, memoryview]

_COOKIE = re.compile(rb'vrpn: ver\. (\d\d)\.(\d\d)  [0-3]')
_REQUEST = re.compile(rb'([A-Za-z0-9.\-]{1,253}) (\d{1,5})\0?')


__all__ = [
    'Event', 'Motion', 'PeerHello', 'PingReport', 'PongReport', 'PoseReport', 'Quaternion',
    'SenderDescribed', 'TextReport', 'UdpDescribed', 'Vector']


class TextReport(NamedTuple):
    """A text message for users; severity is 0 (normal), 1 (warning) or 2 (error)."""

    sender: str
    sender_time_ns: int
    severity: int
    level: int
    text: str


class PingReport(NamedTuple):
    """The peer asks whether a tracker exists."""

    sender: str
    sender_time_ns: int


class PongReport(NamedTuple):
    """A tracker exists; the server sends the answer to all its clients."""

    sender: str
    sender_time_ns: int


class PeerHello(NamedTuple):
    """The peer's cookie was accepted; ``note`` describes a different minor version, or is ''."""

    major: int
    minor: int
    note: str


class SenderDescribed(NamedTuple):
    """The peer described a sender; this does not prove that a tracker of that name exists."""

    sender: str
    sender_id: int


class UdpDescribed(NamedTuple):
    """The peer receives poses by UDP at this port; ``host`` is its own name for itself."""

    host: str
    port: int


Event = Union[
    PoseReport, Motion, TextReport, PingReport, PongReport, PeerHello, SenderDescribed,
    UdpDescribed]


def encode_cookie() -> bytes:
    """
    Encode the first 24 bytes that each side sends.

    :returns: version 07.38 without logging, padded with NUL bytes.
    """
    text = b'%s%02d.%02d  0' % (COOKIE_PREFIX, MAJOR_VERSION, MINOR_VERSION)
    return text.ljust(COOKIE_SIZE, b'\0')


def decode_cookie(data: Buffer) -> Optional[PeerHello]:
    """
    Decode a peer's cookie at the beginning of a stream.

    The first wrong byte raises the error, so that a web server on the port is recognised even if
    its answer is shorter than a cookie.

    :param data: the stream so far, any length.
    :returns: the greeting, or None while it is incomplete.
    :raises VersionRefusedError: for another major version.
    :raises RemoteProtocolError: for data that is not a cookie.
    """
    head = bytes(data[:COOKIE_SIZE])
    common = min(len(head), len(COOKIE_PREFIX))
    if head[:common] != COOKIE_PREFIX[:common]:
        raise RemoteProtocolError(
            f'the peer does not speak VRPN: it began with {head!r}; check server and port')
    if len(head) < COOKIE_SIZE:
        return None
    match = _COOKIE.match(head)
    if match is None:
        raise RemoteProtocolError(f'the peer sent a broken VRPN cookie: {head!r}')
    major, minor = int(match[1]), int(match[2])
    theirs, ours = f'VRPN {major:02d}.{minor:02d}', f'{MAJOR_VERSION:02d}.{MINOR_VERSION:02d}'
    if major != MAJOR_VERSION:
        raise VersionRefusedError(
            f'the peer speaks {theirs}; only major version {MAJOR_VERSION:02d} is compatible')
    return PeerHello(major, minor, '' if minor == MINOR_VERSION else (
        f'the peer speaks {theirs}, this side {ours}; they are compatible'))


def encode_request(host: str, port: int) -> bytes:
    """
    Encode the UDP request that asks a server to connect back by TCP.

    :param host: this side's address or name as the server can reach it; the library accepts
        letters, digits and dots only.
    :param port: the TCP port that this side listens on; servers accept 1024 and above.
    :raises LocalProtocolError: for a host or port that a server would not accept.
    """
    if not re.fullmatch(r'[A-Za-z0-9.]{1,199}', host) or not 1024 <= port <= 65535:
        raise LocalProtocolError(f'a VRPN server cannot connect back to {host!r} port {port}')
    return b'%s %d\0' % (host.encode('ascii'), port)


def decode_request(data: Buffer) -> tuple[str, int]:
    """
    Decode a client's UDP request.

    :returns: host and TCP port to connect back to.
    :raises RemoteProtocolError: for anything else, ports below 1024 included.
    """
    match = _REQUEST.fullmatch(bytes(data))
    if match is None or not 1024 <= int(match[2]) <= 65535:
        raise RemoteProtocolError(f'not a VRPN request: {bytes(data[:64])!r}')
    return match[1].decode('ascii'), int(match[2])


def padded(size: int) -> int:
    """Round a size (bytes) up to the alignment of the protocol."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def encode_message(
    sender: int, type_id: int, payload: bytes, time_ns: int, sequence: int,
) -> bytes:
    """
    Encode one complete message with its padding.

    :param time_ns: time stamp in nanoseconds; the wire holds whole microseconds.
    :raises LocalProtocolError: if a number does not fit its field.
    """
    seconds, rest = divmod(time_ns, NS_PER_S)
    if not 0 <= seconds <= MAX_SENDER_SECONDS:
        raise LocalProtocolError(f'a time stamp of {time_ns} ns does not fit the wire')
    size = HEADER_SIZE + len(payload)
    head = HEADER.pack(
        size, seconds, rest // 1000, sender, type_id, sequence & 0xffff_ffff)
    return b''.join((head, payload, bytes(padded(size) - size)))


def encode_name(name: str) -> bytes:
    """
    Encode the payload of a sender or type description.

    :raises LocalProtocolError: for a name that VRPN's tables cannot hold.
    """
    raw = name.encode('utf-8', 'surrogateescape') + b'\0'
    if len(raw) > MAX_NAME_SIZE or len(raw) == 1 or b'\0' in raw[:-1]:
        raise LocalProtocolError(
            f'{name!r} is not a VRPN name: give 1 to {MAX_NAME_SIZE - 1} bytes without NUL')
    return len(raw).to_bytes(4, 'big') + raw


def decode_name(payload: Buffer) -> str:
    """
    Decode the payload of a sender or type description.

    Bytes that are not UTF-8 become backslash escapes, so that different names stay different.
    The first NUL ends the name.

    :raises RemoteProtocolError: if the name is empty, too long or shorter than its length field.
    """
    raw = bytes(payload)
    size = int.from_bytes(raw[:4], 'big')
    if not 1 < size <= MAX_NAME_SIZE or len(raw) < 4 + size - 1:
        raise RemoteProtocolError(f'a description with a name of {size} bytes')
    name = raw[4:4 + size].split(b'\0', 1)[0]
    if not name:
        raise RemoteProtocolError('a description with an empty name')
    return name.decode('utf-8', 'backslashreplace')


def encode_pose(sensor: int, position: Vector, quat_xyzw: Quaternion) -> bytes:
    """Encode the payload of a pose; position in metres, quaternion x y z w."""
    return POSE_PAYLOAD.pack(sensor, *position, *quat_xyzw)


def encode_motion(sensor: int, vector: Vector, quat_xyzw: Quaternion, dt: float) -> bytes:
    """Encode the payload of a velocity (m/s) or acceleration (m/s^2); ``dt`` in seconds."""
    return MOTION_PAYLOAD.pack(sensor, *vector, *quat_xyzw, dt)


def encode_text(text: str, severity: int = 0, level: int = 0) -> bytes:
    """Encode the payload of a text message; truncate the text to 1023 bytes."""
    raw = text.encode('utf-8')[:TEXT_SIZE - 1]
    return TEXT_HEAD.pack(severity, level) + raw.ljust(TEXT_SIZE, b'\0')


def decode_text(payload: Buffer) -> tuple[int, int, str]:
    """
    Decode the payload of a text message.

    :returns: severity, level, and the text up to its first NUL (undefined bytes follow it).
    :raises RemoteProtocolError: if the payload is too short for severity and level.
    """
    if len(payload) < TEXT_HEAD.size:
        raise RemoteProtocolError(f'a text message of {len(payload)} bytes')
    severity, level = TEXT_HEAD.unpack_from(payload)
    raw = bytes(payload[TEXT_HEAD.size:TEXT_HEAD.size + TEXT_SIZE]).split(b'\0', 1)[0]
    return severity, level, raw.decode('utf-8', 'backslashreplace')


def decode_udp_description(port: int, payload: Buffer) -> tuple[str, int]:
    """
    Decode the host and port to which a peer wants its datagrams sent.

    :param port: the sender field of the message, which carries the port.
    :raises RemoteProtocolError: if the port is out of range.
    """
    if not 0 < port <= 65535:
        raise RemoteProtocolError(f'a UDP description with port {port}')
    host = bytes(payload).split(b'\0', 1)[0]
    return host.decode('utf-8', 'backslashreplace'), port


def sender_time_ns(seconds: int, microseconds: int) -> Optional[int]:
    """
    Combine the two time fields of a header.

    :returns: nanoseconds, or None for an invalid time (negative, or a million microseconds and
        more).
    """
    if seconds > MAX_SENDER_SECONDS or microseconds > 999_999:
        return None
    return seconds * NS_PER_S + microseconds * 1000


class LocalNames:
    """
    This side's senders and types, numbered in the order of their registration.

    A server shares one table between its connections. Sender 0 and the types 0 to 3 belong to
    the library, as every peer expects.
    """

    def __init__(self) -> None:
        self.senders: dict[str, int] = {CONTROL_SENDER: 0}
        self.types: dict[str, int] = {name: i for i, name in enumerate(CONNECTION_TYPES)}

    def sender_id(self, name: str) -> int:
        """
        Return the number of a sender; register a new sender.

        :raises LocalProtocolError: if the name does not fit the wire or the table is full.
        """
        return self._register(self.senders, name)

    def type_id(self, name: str) -> int:
        """
        Return the number of a message type; register a new type.

        :raises LocalProtocolError: if the name does not fit the wire or the table is full.
        """
        return self._register(self.types, name)

    @staticmethod
    def _register(table: dict[str, int], name: str) -> int:
        number = table.get(name)
        if number is None:
            encode_name(name)
            if len(table) >= MAX_IDS:
                raise LocalProtocolError(f'a VRPN server has at most {MAX_IDS} names')
            number = table[name] = len(table)
        return number


class RemoteNames:
    """
    The peer's senders and types by their numbers, with the limits of the library's tables.

    :ivar refused: number of descriptions refused because their number is out of range.
    """

    def __init__(self) -> None:
        self.senders: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.refused = 0

    def describe(self, table: dict[int, str], number: int, name: str) -> bool:
        """Store a name in one of the tables; False if it was known already or is out of range."""
        if not 0 <= number < MAX_IDS:
            self.refused += 1
            return False
        if table.get(number) == name:
            return False
        table[number] = name
        return True
