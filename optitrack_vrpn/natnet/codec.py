# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet messages other than frames and model definitions, to bytes and back."""

import struct
from typing import Optional

from optitrack_vrpn.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.natnet.constants import (
    CONNECT, CONNECT_OPTIONS, DISCOVERY, ECHO_ANSWER, ECHO_REQUEST, ECHO_RESPONSE, ECHO_TOKEN,
    HEADER, HEADER_SIZE, KEEP_ALIVE, MAX_PAYLOAD, MODEL_DEFINITIONS, REQUEST,
    REQUEST_MODEL_DEFINITIONS, RESPONSE, SENDER, SERVER_CLOCK, SERVER_INFO,
    UNRECOGNIZED_REQUEST, V3_0)
from optitrack_vrpn.natnet.messages import ClientHello, ServerInfo, Version
from optitrack_vrpn.natnet.reader import Buffer

_I32 = struct.Struct('<i')
_F32 = struct.Struct('<f')
#: Chosen: longest command of a client (bytes); the known ones are below 100.
_MAX_COMMAND = 1024


def encode_message(message_id: int, payload: bytes = b'') -> bytes:
    """
    Put a payload behind its header.

    :raises LocalProtocolError: if it does not fit into one datagram.
    """
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(
            f'a NatNet message has at most {MAX_PAYLOAD} bytes, this one {len(payload)}')
    return HEADER.pack(message_id, len(payload)) + payload


def decode_message(datagram: Buffer) -> tuple[int, bytes]:
    """
    Take a datagram apart.

    :returns: id and payload; what follows the payload is cut off.
    :raises RemoteProtocolError: if it is shorter than it states.
    """
    data = bytes(datagram)
    if len(data) < HEADER_SIZE:
        raise RemoteProtocolError(f'a datagram of {len(data)} bytes is no NatNet message')
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
    Write CONNECT, or DISCOVERY.

    :param name: of the application.
    :param version: of NatNet that it was written for.
    :param bitstream: version to ask for; None for the newest that the server has.
    """
    block = _sender_block(name, (1, 0), version)
    if discovery:
        return encode_message(DISCOVERY, block)
    wanted = bitstream or (0, 0)
    return encode_message(CONNECT, block + CONNECT_OPTIONS.pack(0, *wanted, 0, 0))


def decode_hello(payload: bytes) -> ClientHello:
    """
    Read CONNECT or DISCOVERY; clients send no block, a text, the block, or the block and options.

    :raises RemoteProtocolError: never; what is missing stays empty.
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
    """Write SERVERINFO; before 3.0 without clock, port and group."""
    payload = _sender_block(info.name, info.app_version, info.version)
    if info.version >= V3_0:
        group = [int(part) for part in info.group.split('.')] if info.group else [0, 0, 0, 0]
        payload += SERVER_CLOCK.pack(
            info.frequency, info.data_port, int(bool(info.multicast)), *group)
    return encode_message(SERVER_INFO, payload)


def decode_server_info(payload: bytes) -> ServerInfo:
    """
    Read SERVERINFO.

    :raises RemoteProtocolError: if it is too short.
    """
    if len(payload) < SENDER.size:
        raise RemoteProtocolError(
            f'server information of {len(payload)} bytes; it has at least {SENDER.size}')
    name, *numbers = SENDER.unpack_from(payload)
    app = (numbers[0], numbers[1], numbers[2], numbers[3])
    version = (numbers[4], numbers[5])
    if version < V3_0:
        return ServerInfo(_text(name), app, version, 0, 0, None, '')
    if len(payload) < SENDER.size + SERVER_CLOCK.size:
        raise RemoteProtocolError(
            f'server information of {len(payload)} bytes lacks the clock that NatNet '
            f'{version[0]}.{version[1]} sends')
    frequency, port, multicast, *group = SERVER_CLOCK.unpack_from(payload, SENDER.size)
    if not 1_000 <= frequency <= 10**12:
        raise RemoteProtocolError(f'a server clock of {frequency} ticks a second')
    return ServerInfo(
        _text(name), app, version, frequency, port, bool(multicast), '.'.join(map(str, group)))


def encode_request(command: str) -> bytes:
    """
    Write a REQUEST.

    :raises LocalProtocolError: if the command has a NUL or is too long.
    """
    data = command.encode('utf-8')
    if b'\0' in data or len(data) > _MAX_COMMAND:
        raise LocalProtocolError(f'no NatNet command: {command!r:.80}')
    return encode_message(REQUEST, data + b'\0')


def decode_request(payload: bytes) -> str:
    """
    Read a REQUEST.

    :raises RemoteProtocolError: if it is too long.
    """
    if len(payload) > _MAX_COMMAND + 1:
        raise RemoteProtocolError(f'a command of {len(payload)} bytes')
    return _text(payload)


def encode_response(value: 'int | float | str') -> bytes:
    """Write a RESPONSE with a number of 4 bytes or a text."""
    if isinstance(value, str):
        return encode_message(RESPONSE, value.encode('utf-8') + b'\0')
    return encode_message(
        RESPONSE, _I32.pack(value) if isinstance(value, int) else _F32.pack(value))


def response_float(payload: bytes) -> Optional[float]:
    """Read a response as a number with a fraction; None where it has no 4 bytes."""
    return float(_F32.unpack(payload)[0]) if len(payload) == 4 else None


def response_int(payload: bytes) -> Optional[int]:
    """Read a response as a whole number; None where it has no 4 bytes."""
    return int(_I32.unpack(payload)[0]) if len(payload) == 4 else None


def response_text(payload: bytes) -> str:
    """Read a response as a text."""
    return _text(payload[:_MAX_COMMAND])


def encode_definitions_request(mask: Optional[int] = None) -> bytes:
    """
    Write REQUEST_MODELDEF.

    :param mask: types that are wanted, as bits; None sends no mask.
    """
    return encode_message(
        REQUEST_MODEL_DEFINITIONS, b'' if mask is None else _I32.pack(mask))


def encode_model_definitions(payload: bytes) -> bytes:
    """Write MODELDEF from what ``definitions.encode_definitions`` made."""
    return encode_message(MODEL_DEFINITIONS, payload)


def encode_keep_alive() -> bytes:
    """Write KEEPALIVE."""
    return encode_message(KEEP_ALIVE)


def encode_echo_request(token: int) -> bytes:
    """Write ECHOREQUEST."""
    return encode_message(ECHO_REQUEST, ECHO_TOKEN.pack(token))


def encode_echo_response(token: int, ticks: int) -> bytes:
    """Write ECHORESPONSE."""
    return encode_message(ECHO_RESPONSE, ECHO_ANSWER.pack(token, ticks))


def decode_echo_request(payload: bytes) -> int:
    """
    Read ECHOREQUEST.

    :raises RemoteProtocolError: if it is too short.
    """
    if len(payload) < ECHO_TOKEN.size:
        raise RemoteProtocolError(f'an echo request of {len(payload)} bytes')
    return int(ECHO_TOKEN.unpack_from(payload)[0])


def decode_echo_response(payload: bytes) -> tuple[int, int]:
    """
    Read ECHORESPONSE.

    :returns: the client's token and the server's ticks.
    :raises RemoteProtocolError: if it is too short.
    """
    if len(payload) < ECHO_ANSWER.size:
        raise RemoteProtocolError(f'an echo response of {len(payload)} bytes')
    token, ticks = ECHO_ANSWER.unpack_from(payload)
    return token, ticks


def encode_unrecognized() -> bytes:
    """Write UNRECOGNIZED_REQUEST."""
    return encode_message(UNRECOGNIZED_REQUEST)
