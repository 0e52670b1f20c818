# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Encode and decode NatNet messages other than frames and models, with all bounds checked."""

import ipaddress
import struct
from typing import Optional

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.drivers.natnet.messages import (
    Buffer, ClientHello, CONNECT_OPTIONS, ECHO_ANSWER, ECHO_TOKEN, HEADER, HEADER_SIZE,
    MAX_PAYLOAD, MessageId, SENDER, SERVER_CLOCK, ServerInfo, Version)

_I32 = struct.Struct('<i')
_F32 = struct.Struct('<f')
#: Chosen: longest command of a client (bytes); the known commands have less than 100.
_MAX_COMMAND = 1024


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
    return data.split(b'\0', 1)[0].decode('utf-8', 'backslashreplace')


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


def bitstream_version(payload: bytes) -> Optional[Version]:
    """Decode the answer to 'Bitstream', as 'Bitstream,4.1.0.0'; None without one from 3.0 on."""
    parts = _text(payload[:_MAX_COMMAND]).rpartition(',')[2].strip().split('.')
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        return None
    version = int(parts[0]), int(parts[1])
    return version if version >= (3, 0) else None


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
