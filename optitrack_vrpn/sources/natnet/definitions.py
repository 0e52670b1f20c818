# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decode and encode MODELDEF: names of rigid bodies and marker sets.

From NatNet 4.1 on each description states its size: the name and the id are read, the rest and
other types are skipped. Before that, a description of an unknown type makes the list unreadable.
Two layouts exist for the bones of skeletons of 3.0 and 3.1: the decoder uses the one that accounts
for every byte.
"""

import struct

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.sources.natnet.codec import encode_message
from optitrack_vrpn.sources.natnet.constants import (
    CAMERA, DEVICE, FORCE_PLATE, MARKER_SET, MAX_NAME, MODEL_DEFINITIONS, RIGID_BODY, SKELETON,
    V3_0, V4_0, V4_1, V4_2)
from optitrack_vrpn.sources.natnet.messages import BodyDefinition, Definitions, Version
from optitrack_vrpn.sources.natnet.reader import Buffer, Reader

_BODY = struct.Struct('<ii3f')
_I32 = struct.Struct('<i')
#: Numbers of a force plate after its serial number: size, origin, calibration, corners, types.
_FORCE_PLATE_NUMBERS = 4 * (2 + 3 + 144 + 12 + 2)
_CAMERA_NUMBERS = 4 * 7


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
            if self.version >= V4_1:
                block = reader.block()
                if kind == MARKER_SET:
                    self.marker_sets.append(block.text())
                elif kind == RIGID_BODY:
                    self.bodies.append(BodyDefinition(block.text(), block.i32()))
            elif kind == MARKER_SET:
                self.marker_sets.append(reader.text())
                _skip_texts(reader)
            elif kind == RIGID_BODY:
                self.bodies.append(self.body(reader, self.version >= V3_0))
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
            if self.version >= V4_0:
                for _ in range(count):
                    reader.skip_text()
        return BodyDefinition(name, streaming_id)

    def skip(self, kind: int, reader: Reader) -> None:
        """
        Skip a description whose size is not stated.

        :raises RemoteProtocolError: if its type is unknown.
        """
        if kind == SKELETON:
            reader.skip_text()
            reader.skip(4)
            for _ in range(reader.count(21)):
                self.body(reader, self.bone_markers)
        elif kind == FORCE_PLATE:
            reader.skip(4)
            reader.skip_text()
            reader.skip(_FORCE_PLATE_NUMBERS)
            _skip_texts(reader)
        elif kind == DEVICE:
            reader.skip(4)
            reader.skip_text()
            reader.skip_text()
            reader.skip(8)
            _skip_texts(reader)
        elif kind == CAMERA:
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
    layouts = (False,) if version < V3_0 else (True,) if version >= V4_0 else (True, False)
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
    entries = [(MARKER_SET, _text(name) + _I32.pack(0)) for name in definitions.marker_sets]
    for body in definitions.bodies:
        data = _text(body.name) + _BODY.pack(body.streaming_id, -1, 0.0, 0.0, 0.0)
        if version >= V4_2:
            data += struct.pack('<4f', 0.0, 0.0, 0.0, 1.0)
        if version >= V3_0:
            data += _I32.pack(0)
        entries.append((RIGID_BODY, data))
    packed = bytearray(_I32.pack(len(entries)))
    for kind, data in entries:
        packed += _I32.pack(kind)
        if version >= V4_1:
            packed += _I32.pack(len(data))
        packed += data
    return encode_message(MODEL_DEFINITIONS, bytes(packed))


def _text(name: str) -> bytes:
    return name.encode('utf-8', 'surrogateescape')[:MAX_NAME - 1] + b'\0'
