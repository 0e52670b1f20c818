# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode and decode NatNet messages other than frames, with all bounds checked.

In MODELDEF, from NatNet 4.1 on each description states its size: the name and the id are read, the
rest and other types are skipped. Before that, a description of an unknown type makes the list
unreadable. Two layouts exist for the bones of skeletons of 3.0 and 3.1: the decoder uses the one
that accounts for every byte.
"""

import ipaddress
import struct
from typing import Any, Optional, Union

from optitrack_vrpn.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.sources.natnet.messages import (
    BodyDefinition, ClientHello, CONNECT_OPTIONS, Definitions, ECHO_ANSWER, ECHO_TOKEN, HEADER,
    HEADER_SIZE, MAX_NAME, MAX_PAYLOAD, MessageId, ModelType, SENDER, SERVER_CLOCK, ServerInfo,
    Version)

Buffer = Union[bytes, bytearray, memoryview]
_I32 = struct.Struct('<i')
_F32 = struct.Struct('<f')
#: Chosen: longest command of a client (bytes); the known commands have less than 100.
_MAX_COMMAND = 1024
_BODY = struct.Struct('<ii3f')
#: Numbers of a force plate after its serial number: size, origin, calibration, corners, types.
_FORCE_PLATE_NUMBERS = 4 * (2 + 3 + 144 + 12 + 2)
_CAMERA_NUMBERS = 4 * 7


class Reader:
    """
    A position in a payload.

    Counts are checked against the remaining bytes, so that no count makes this side allocate more
    memory than the datagram contained.

    :param data: the payload.
    :param position: first byte.
    :param end: end; by default the end of the data.
    """

    __slots__ = ('data', 'position', 'end')

    def __init__(self, data: Buffer, position: int = 0, end: int = -1) -> None:
        self.data = data if isinstance(data, bytes) else bytes(data)
        self.position = position
        self.end = len(self.data) if end < 0 else end

    @property
    def left(self) -> int:
        """Return the number of remaining bytes."""
        return self.end - self.position

    def skip(self, size: int) -> None:
        """
        Skip bytes.

        :raises RemoteProtocolError: if fewer bytes remain.
        """
        if not 0 <= size <= self.end - self.position:
            raise RemoteProtocolError(
                f'{size} bytes are announced at byte {self.position}, {self.left} are left')
        self.position += size

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """
        Decode fields.

        :raises RemoteProtocolError: if the payload ends before the last field.
        """
        position = self.position
        self.skip(layout.size)
        return layout.unpack_from(self.data, position)

    def i32(self) -> int:
        """Decode a signed 32-bit integer."""
        position = self.position
        if self.end - position < 4:
            raise RemoteProtocolError(f'the payload ends at byte {self.end}, within a number')
        self.position = position + 4
        return int(_I32.unpack_from(self.data, position)[0])

    def count(self, least_size: int) -> int:
        """
        Decode the number of the entries that follow.

        :param least_size: minimum size of an entry (bytes).
        :raises RemoteProtocolError: if the entries do not fit into the remaining bytes.
        """
        count = self.i32()
        if not 0 <= count * least_size <= self.end - self.position or count < 0:
            raise RemoteProtocolError(
                f'{count} entries are announced at byte {self.position - 4}, '
                f'{self.left} bytes are left')
        return count

    def block(self) -> 'Reader':
        """Decode a size, skip as many bytes, and return a reader of them."""
        size = self.i32()
        start = self.position
        self.skip(size)
        return Reader(self.data, start, start + size)

    def skip_text(self) -> None:
        """
        Skip a text and its NUL.

        :raises RemoteProtocolError: if the text has no end.
        """
        found = self.data.find(0, self.position, self.end)
        if found < 0:
            raise RemoteProtocolError(f'the text at byte {self.position} does not end')
        self.position = found + 1

    def text(self) -> str:
        """
        Decode a text up to its NUL; invalid UTF-8 is replaced.

        :raises RemoteProtocolError: if the text has no end or exceeds the longest name.
        """
        start = self.position
        self.skip_text()
        if self.position - start > MAX_NAME:
            raise RemoteProtocolError(
                f'the name at byte {start} has {self.position - start - 1} bytes; '
                f'at most {MAX_NAME - 1} are accepted')
        return self.data[start:self.position - 1].decode('utf-8', 'replace')


def encode_message(message_id: int, payload: bytes = b'') -> bytes:
    """
    Add the header to a payload.

    :raises LocalProtocolError: if the message does not fit into one datagram.
    """
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(
            f'a NatNet message has at most {MAX_PAYLOAD} bytes, this one has {len(payload)}')
    return HEADER.pack(message_id, len(payload)) + payload


def decode_message(datagram: Buffer) -> tuple[int, bytes]:
    """
    Split a datagram.

    :returns: id and payload, without bytes that follow the payload.
    :raises RemoteProtocolError: if the datagram is shorter than its header states.
    """
    data = bytes(datagram)
    if len(data) < HEADER_SIZE:
        raise RemoteProtocolError(f'a datagram of {len(data)} bytes is not a NatNet message')
    message_id, size = HEADER.unpack_from(data)
    if size > len(data) - HEADER_SIZE:
        raise RemoteProtocolError(
            f'message {message_id} states {size} bytes and has {len(data) - HEADER_SIZE}')
    return message_id, data[HEADER_SIZE:HEADER_SIZE + size]


def _sender_block(name: str, app_version: tuple[int, ...], version: Version) -> bytes:
    return SENDER.pack(
        name.encode('utf-8')[:255], *(*app_version, 0, 0, 0, 0)[:4], version[0], version[1], 0, 0)


def _text(data: bytes) -> str:
    return data.split(b'\0', 1)[0].decode('utf-8', 'replace')


def encode_hello(
    name: str, version: Version, *, discovery: bool = False,
    bitstream: Optional[Version] = None,
) -> bytes:
    """
    Encode CONNECT or DISCOVERY.

    :param name: name of the application.
    :param version: NatNet version of the application.
    :param bitstream: requested version; None for the newest of the server.
    """
    block = _sender_block(name, (1, 0), version)
    if discovery:
        return encode_message(MessageId.DISCOVERY, block)
    wanted = bitstream or (0, 0)
    return encode_message(MessageId.CONNECT, block + CONNECT_OPTIONS.pack(0, *wanted, 0, 0))


def decode_hello(payload: bytes) -> ClientHello:
    """
    Decode CONNECT or DISCOVERY: empty, a text, the sender block, or the block and options.

    No payload is an error: missing fields stay empty.
    """
    if len(payload) < SENDER.size:
        return ClientHello(_text(payload), (0, 0), None)
    name, *numbers = SENDER.unpack_from(payload)
    bitstream = None
    if len(payload) >= SENDER.size + CONNECT_OPTIONS.size:
        _, major, minor, _, _ = CONNECT_OPTIONS.unpack_from(payload, SENDER.size)
        bitstream = (major, minor) if major else None
    return ClientHello(_text(name), (numbers[4], numbers[5]), bitstream)


def encode_server_info(info: ServerInfo) -> bytes:
    """Encode SERVERINFO; before 3.0 without clock, port and group."""
    payload = _sender_block(info.name, info.app_version, info.version)
    if info.version >= (3, 0):
        group = ipaddress.IPv4Address(info.group or '0.0.0.0').packed
        payload += SERVER_CLOCK.pack(
            info.frequency, info.data_port, int(bool(info.multicast)), *group)
    return encode_message(MessageId.SERVER_INFO, payload)


def decode_server_info(payload: bytes) -> ServerInfo:
    """
    Decode SERVERINFO.

    :raises RemoteProtocolError: if it is too short or its clock has no frequency.
    """
    if len(payload) < SENDER.size:
        raise RemoteProtocolError(
            f'server information of {len(payload)} bytes; it has at least {SENDER.size}')
    name, *numbers = SENDER.unpack_from(payload)
    app = (numbers[0], numbers[1], numbers[2], numbers[3])
    version = (numbers[4], numbers[5])
    if version < (3, 0):
        return ServerInfo(_text(name), app, version, 0, 0, None, '')
    if len(payload) < SENDER.size + SERVER_CLOCK.size:
        raise RemoteProtocolError(
            f'server information of {len(payload)} bytes lacks the clock that NatNet '
            f'{version[0]}.{version[1]} sends')
    frequency, port, multicast, *group = SERVER_CLOCK.unpack_from(payload, SENDER.size)
    if not 1_000 <= frequency <= 10**12:
        raise RemoteProtocolError(f'a server clock of {frequency} ticks per second')
    address = ipaddress.IPv4Address(bytes(group))
    return ServerInfo(
        _text(name), app, version, frequency, port, bool(multicast),
        str(address) if address.is_multicast else '')


def encode_request(command: str) -> bytes:
    """
    Encode a REQUEST.

    :raises LocalProtocolError: if the command contains NUL or is too long.
    """
    data = command.encode('utf-8')
    if b'\0' in data or len(data) > _MAX_COMMAND:
        raise LocalProtocolError(f'not a NatNet command: {command!r:.80}')
    return encode_message(MessageId.REQUEST, data + b'\0')


def decode_request(payload: bytes) -> str:
    """
    Decode a REQUEST.

    :raises RemoteProtocolError: if it is too long.
    """
    if len(payload) > _MAX_COMMAND + 1:
        raise RemoteProtocolError(f'a command of {len(payload)} bytes')
    return _text(payload)


def encode_response(value: 'int | float | str') -> bytes:
    """Encode a RESPONSE with a 4-byte number or a text."""
    if isinstance(value, str):
        return encode_message(MessageId.RESPONSE, value.encode('utf-8') + b'\0')
    return encode_message(
        MessageId.RESPONSE, _I32.pack(value) if isinstance(value, int) else _F32.pack(value))


def response_float(payload: bytes) -> Optional[float]:
    """Decode a response as float32; return None if it does not have 4 bytes."""
    return float(_F32.unpack(payload)[0]) if len(payload) == 4 else None


def response_int(payload: bytes) -> Optional[int]:
    """Decode a response as int32; return None if it does not have 4 bytes."""
    return int(_I32.unpack(payload)[0]) if len(payload) == 4 else None


def response_text(payload: bytes) -> str:
    """Decode a response as text."""
    return _text(payload[:_MAX_COMMAND])


def encode_definitions_request(mask: Optional[int] = None) -> bytes:
    """
    Encode REQUEST_MODELDEF.

    :param mask: bit mask of the requested types; None sends no mask.
    """
    return encode_message(
        MessageId.REQUEST_MODEL_DEFINITIONS, b'' if mask is None else _I32.pack(mask))


def encode_echo_request(token: int) -> bytes:
    """Encode ECHOREQUEST."""
    return encode_message(MessageId.ECHO_REQUEST, ECHO_TOKEN.pack(token))


def encode_echo_response(token: int, ticks: int) -> bytes:
    """Encode ECHORESPONSE."""
    return encode_message(MessageId.ECHO_RESPONSE, ECHO_ANSWER.pack(token, ticks))


def decode_echo_request(payload: bytes) -> int:
    """
    Decode ECHOREQUEST.

    :raises RemoteProtocolError: if it is too short.
    """
    if len(payload) < ECHO_TOKEN.size:
        raise RemoteProtocolError(f'an echo request of {len(payload)} bytes')
    return int(ECHO_TOKEN.unpack_from(payload)[0])


def decode_echo_response(payload: bytes) -> tuple[int, int]:
    """
    Decode ECHORESPONSE.

    :returns: the client's token and the server's ticks.
    :raises RemoteProtocolError: if it is too short.
    """
    if len(payload) < ECHO_ANSWER.size:
        raise RemoteProtocolError(f'an echo response of {len(payload)} bytes')
    token, ticks = ECHO_ANSWER.unpack_from(payload)
    return token, ticks


class _List:
    """Descriptions decoded so far."""

    def __init__(self, version: Version, bone_markers: bool) -> None:
        self.version = version
        self.bone_markers = bone_markers
        self.bodies: list[BodyDefinition] = []
        self.marker_sets: list[str] = []

    def read(self, reader: Reader) -> None:
        for _ in range(reader.count(4)):
            kind = reader.i32()
            if self.version >= (4, 1):
                block = reader.block()
                if kind == ModelType.MARKER_SET:
                    self.marker_sets.append(block.text())
                elif kind == ModelType.RIGID_BODY:
                    self.bodies.append(BodyDefinition(block.text(), block.i32()))
            elif kind == ModelType.MARKER_SET:
                self.marker_sets.append(reader.text())
                _skip_texts(reader)
            elif kind == ModelType.RIGID_BODY:
                self.bodies.append(self.body(reader, self.version >= (3, 0)))
            else:
                self.skip(kind, reader)
        if reader.left:
            raise RemoteProtocolError(f'{reader.left} bytes follow the last description')

    def body(self, reader: Reader, markers: bool) -> BodyDefinition:
        name = reader.text()
        streaming_id, *_ = reader.unpack(_BODY)
        if markers:
            count = reader.count(16)
            reader.skip(16 * count)
            if self.version >= (4, 0):
                for _ in range(count):
                    reader.skip_text()
        return BodyDefinition(name, streaming_id)

    def skip(self, kind: int, reader: Reader) -> None:
        """
        Skip a description whose size is not stated.

        :raises RemoteProtocolError: if its type is unknown.
        """
        if kind == ModelType.SKELETON:
            reader.skip_text()
            reader.skip(4)
            for _ in range(reader.count(21)):
                self.body(reader, self.bone_markers)
        elif kind == ModelType.FORCE_PLATE:
            reader.skip(4)
            reader.skip_text()
            reader.skip(_FORCE_PLATE_NUMBERS)
            _skip_texts(reader)
        elif kind == ModelType.DEVICE:
            reader.skip(4)
            reader.skip_text()
            reader.skip_text()
            reader.skip(8)
            _skip_texts(reader)
        elif kind == ModelType.CAMERA:
            reader.skip_text()
            reader.skip(_CAMERA_NUMBERS)
        else:
            raise RemoteProtocolError(f'a description has the unknown type {kind}')


def decode_definitions(payload: Buffer, version: Version) -> Definitions:
    """
    Decode model definitions.

    :param payload: payload of the message MODELDEF.
    :param version: version of the bitstream.
    :raises RemoteProtocolError: if the bytes contradict that version.
    """
    layouts = (False,) if version < (3, 0) else (True,) if version >= (4, 0) else (True, False)
    failure = None
    for bone_markers in layouts:
        found = _List(version, bone_markers)
        try:
            found.read(Reader(payload))
        except RemoteProtocolError as error:
            failure = failure or error
            continue
        return Definitions(tuple(found.bodies), tuple(found.marker_sets))
    assert failure is not None
    raise failure


def _skip_texts(reader: Reader) -> None:
    for _ in range(reader.count(1)):
        reader.skip_text()


def encode_definitions(definitions: Definitions, version: Version) -> bytes:
    """
    Encode MODELDEF with marker sets and rigid bodies, without offsets and markers.

    :param version: version of the bitstream.
    :raises LocalProtocolError: if the definitions do not fit into one datagram.
    """
    entries = [(ModelType.MARKER_SET, _name_bytes(name) + _I32.pack(0))
               for name in definitions.marker_sets]
    for body in definitions.bodies:
        data = _name_bytes(body.name) + _BODY.pack(body.streaming_id, -1, 0.0, 0.0, 0.0)
        if version >= (4, 2):
            data += struct.pack('<4f', 0.0, 0.0, 0.0, 1.0)
        if version >= (3, 0):
            data += _I32.pack(0)
        entries.append((ModelType.RIGID_BODY, data))
    packed = bytearray(_I32.pack(len(entries)))
    for kind, data in entries:
        packed += _I32.pack(kind)
        if version >= (4, 1):
            packed += _I32.pack(len(data))
        packed += data
    return encode_message(MessageId.MODEL_DEFINITIONS, bytes(packed))


def _name_bytes(name: str) -> bytes:
    return name.encode('utf-8', 'surrogateescape')[:MAX_NAME - 1] + b'\0'
