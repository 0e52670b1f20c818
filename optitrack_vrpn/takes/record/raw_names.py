# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names and texts of raw recordings are replaced, so that they can be sent to others."""

from __future__ import annotations

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions
from optitrack_vrpn.drivers.natnet.layouts import decoded_text, Reader
from optitrack_vrpn.drivers.natnet.messages import (
    MessageId, ModelType, MULTICAST_GROUP, Version)
from optitrack_vrpn.drivers.vrpn.codec import (
    ACCELERATION_TYPE, CONTROL_SENDER, COOKIE_PREFIX, HEADER, HEADER_SIZE, PING_TYPE, PONG_TYPE,
    POSE_TYPE, SENDER_DESCRIPTION, TYPE_DESCRIPTION, VELOCITY_TYPE)
from optitrack_vrpn.takes.record.raw_session import Action, messages, StreamCutter

#: Types of VRPN messages without texts.
_NUMBERS = {name.encode() for name in (
    ACCELERATION_TYPE, PING_TYPE, PONG_TYPE, POSE_TYPE, VELOCITY_TYPE)}
#: Messages of NatNet without texts of the user; requests are those of the recorder.
_KEPT = {MessageId.ECHO_REQUEST, MessageId.ECHO_RESPONSE, MessageId.CONNECT, MessageId.REQUEST,
         MessageId.KEEP_ALIVE, MessageId.DISCONNECT, MessageId.DISCONNECT_BY_TIMEOUT,
         MessageId.UNRECOGNIZED_REQUEST, MessageId.REQUEST_MODEL_DEFINITIONS}


class NameRemover:
    """
    Replace the names of bodies in a server's bytes by others of equal length; clear all texts.

    VRPN: cookie, names of types, times and the numbers of poses, velocities, accelerations and
    pings stay as they are; of all other messages only the head stays. NatNet: frames, definitions,
    measurements of the clock and numbers stay; names of models, markers and bones are replaced,
    other texts cleared. Names of one or two bytes stay: they could be numbers.

    :ivar names: what stands for each name, in the order in which they were described.
    :ivar bodies: the new names of bodies.
    """

    def __init__(self) -> None:
        self.names: dict[bytes, bytes] = {}
        self.bodies: list[bytes] = []
        self._types: dict[int, bytes] = {}
        self._cutter = StreamCutter()
        self._version: Version = (0, 0)

    def clean(self, kind: str, data: bytes) -> bytes:
        """
        Return bytes without names.

        :param kind: protocol and kind of the bytes, as in 'vrpn/tcp'.
        """
        protocol, _, kind = kind.partition('/')
        if kind == 'begin':
            if protocol == 'vrpn':
                self._types, self._cutter = {}, StreamCutter()
            return data
        if protocol == 'natnet':
            return self._message(data)
        return (self.stream if kind == 'tcp' else self.datagram)(data)

    # -- VRPN ----------------------------------------------------------------------------------

    def stream(self, data: bytes) -> bytes:
        """Return the messages that these bytes of the stream complete."""
        return b''.join(self.datagram(action.data)
                        for action in self._cutter.push(Action(0, 'tcp', data)))

    def datagram(self, data: bytes) -> bytes:
        """Return messages; a cookie stays."""
        if data.startswith(COOKIE_PREFIX):
            return data
        return b''.join(map(self._cleared, messages(data)))

    def _cleared(self, message: bytes) -> bytes:
        if len(message) < HEADER_SIZE:
            return bytes(len(message))
        size, _, _, sender, kind, _ = HEADER.unpack_from(message)
        text = message[HEADER_SIZE + 4:size].rstrip(b'\0')
        if kind == SENDER_DESCRIPTION and text != CONTROL_SENDER.encode():
            shown = self._shown(text)
            self._note(shown)
            at = HEADER_SIZE + 4
            return message[:at] + shown + message[at + len(text):]
        if kind == TYPE_DESCRIPTION:
            self._types[sender] = text
        elif kind != SENDER_DESCRIPTION and self._types.get(kind) not in _NUMBERS:
            return message[:HEADER_SIZE] + bytes(len(message) - HEADER_SIZE)
        return message

    def _note(self, body: bytes) -> None:
        if body not in self.bodies:
            self.bodies.append(body)

    def _shown(self, name: bytes) -> bytes:
        return self.names.setdefault(name, _substitute(len(self.names), len(name)))

    # -- NatNet --------------------------------------------------------------------------------

    def _message(self, datagram: bytes) -> bytes:
        """Return a datagram of either side; one that is not understood is cleared."""
        try:
            number, payload = codec.decode_message(datagram)
            return datagram[:4] + self._payload(number, payload)
        except RemoteProtocolError:
            return datagram[:4] + bytes(max(len(datagram) - 4, 0))

    def _payload(self, number: int, payload: bytes) -> bytes:
        if number in _KEPT:
            return payload
        if number == MessageId.SERVER_INFO:
            info = codec.decode_server_info(payload)
            self._version = info.version
            return codec.encode_server_info(info._replace(
                group=info.group and MULTICAST_GROUP))[4:]
        if number == MessageId.RESPONSE:
            version = codec.bitstream_version(payload)
            self._version = version or self._version
            return payload if version or len(payload) <= 4 else bytes(len(payload))
        if number == MessageId.MODEL_DEFINITIONS:
            return self._definitions(payload)
        if number == MessageId.FRAME:
            return self._frame(payload)
        return bytes(len(payload))

    def _definitions(self, payload: bytes) -> bytes:
        made, places = bytearray(payload), list[tuple[int, int]]()
        described = decode_definitions(payload, self._version, places)
        if described.unknown and self._version < (4, 1):
            return bytes(len(payload))    # what is behind the unknown type may contain names
        if self._version >= (4, 1):
            self._clear_unread(made)
        self._replace(made, payload, places)
        # Decoded names of bodies differ from their bytes where these are not UTF-8.
        shown = {decoded_text(payload[begin:end]): bytes(made[begin:end])
                 for begin, end in places}
        for body in described.bodies:
            self._note(shown[body.name])
        return bytes(made)

    def _replace(
        self, made: bytearray, payload: bytes, places: list[tuple[int, int]],
    ) -> None:
        for begin, end in places:
            if end - begin > 2:
                made[begin:end] = self._shown(payload[begin:end])

    def _clear_unread(self, made: bytearray) -> None:
        """Clear descriptions that are not read: those of members of marker sets, unknown types."""
        reader = Reader(bytes(made))
        for _ in range(reader.count(8)):
            number, block = reader.i32(), reader.block()
            if number == ModelType.MARKER_SET:
                block.text(block.left)
                block.skip(min(4, block.left))
            elif number in ModelType.__members__.values():
                continue
            made[block.position:block.end] = bytes(
                byte and ord('x') for byte in made[block.position:block.end])

    def _frame(self, payload: bytes) -> bytes:
        """Replace the names of marker sets, the only texts of a frame."""
        made, places = bytearray(payload), list[tuple[int, int]]()
        reader = Reader(payload, texts=places)
        reader.i32()
        count = reader.i32()
        if self._version >= (4, 1):
            reader.i32()
        for _ in range(count):
            reader.text(len(payload))
            reader.skip(12 * reader.count(12))
        self._replace(made, payload, places)
        return bytes(made)


def _substitute(number: int, size: int) -> bytes:
    """Return a name of this size: body0___, or letters if that is too long."""
    name = f'body{number}'
    if len(name) <= size:
        return name.ljust(size, '_').encode()
    letters = ''
    for _ in range(size):
        number, digit = divmod(number, 26)
        letters = chr(ord('a') + digit) + letters
    return letters.encode()
