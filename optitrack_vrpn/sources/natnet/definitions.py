# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decode and encode MODELDEF, the model definitions.

From NatNet 4.1 on each description states its size, so that unknown types, and unknown layouts of
others than rigid bodies, are skipped. Before that, a description of an unknown type makes the list
unreadable. Two layouts exist for the bones of skeletons of 3.0 and 3.1: the decoder uses the one
that accounts for every byte.
"""

import math
import struct
from typing import Any

from optitrack_vrpn.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.sources.natnet.codec import Buffer, encode_message, Reader
from optitrack_vrpn.sources.natnet.messages import MAX_NAME, MessageId, Version
from optitrack_vrpn.sources.natnet.models import (
    AssetDefinition, AssetMarker, BodyDefinition, CameraDefinition, Definitions, DeviceDefinition,
    ModelMarker, ModelType, PlateDefinition, SkeletonDefinition)

_I32 = struct.Struct('<i')
#: Id, parent, offset.
_BODY = struct.Struct('<ii3f')
_QUAT = struct.Struct('<4f')
_VECTOR = struct.Struct('<3f')
#: Width, length, electrical centre; calibration; corners; plate type, channel type.
_PLATE_SIZE = struct.Struct('<2f3f')
_CALIBRATION = struct.Struct('<144f')
_CORNERS = struct.Struct('<12f')
_TYPES = struct.Struct('<ii')
_CAMERA = struct.Struct('<3f4f')
#: Id, position, size, parameters.
_ASSET_MARKER = struct.Struct('<i3ffh')
#: Names of markers and channels may be longer than those of models (bytes); Chosen.
_LONG_NAME = 4096


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
        try:
            return _List(version, bone_markers).read(Reader(payload))
        except RemoteProtocolError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _finite(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace what is not finite by 0: definitions are compared, and NaN never equals NaN."""
    return tuple(value if math.isfinite(value) else 0.0 for value in values)


class _List:
    """Decode one list in one layout."""

    def __init__(self, version: Version, bone_markers: bool) -> None:
        self.version = version
        self.bone_markers = bone_markers
        self.found: dict[int, list[Any]] = {kind: [] for kind in ModelType}
        self.skipped = 0

    def read(self, reader: Reader) -> Definitions:
        for _ in range(reader.count(4)):
            kind = reader.i32()
            if self.version >= (4, 1):
                self.read_sized(kind, reader.block())
            elif kind in self.found:
                self.found[kind].append(self.one(kind, reader))
            else:
                raise RemoteProtocolError(f'a description has the unknown type {kind}')
        if reader.left:
            raise RemoteProtocolError(f'{reader.left} bytes follow the last description')
        return Definitions._make([*(tuple(self.found[kind]) for kind in (
            ModelType.RIGID_BODY, ModelType.MARKER_SET, ModelType.SKELETON, ModelType.ASSET,
            ModelType.FORCE_PLATE, ModelType.DEVICE, ModelType.CAMERA)), self.skipped])

    def read_sized(self, kind: int, block: Reader) -> None:
        start = block.position
        try:
            self.found[kind].append(self.one(kind, block))
        except (KeyError, RemoteProtocolError):
            if kind != ModelType.RIGID_BODY:
                self.skipped += 1
                return
            block.position = start    # name and id suffice
            self.found[kind].append(BodyDefinition(block.text(), block.i32()))

    def one(self, kind: int, reader: Reader) -> Any:
        if kind == ModelType.RIGID_BODY:
            return self.body(reader, self.version >= (3, 0))
        if kind == ModelType.MARKER_SET:
            name = reader.text()
            # Their names are not used, and some senders of 4.1 and later leave them out.
            if self.version < (4, 1):
                _texts(reader)
            return name
        if kind == ModelType.SKELETON:
            return SkeletonDefinition(reader.text(), reader.i32(), self.bodies(reader))
        if kind == ModelType.FORCE_PLATE:
            return _plate(reader)
        if kind == ModelType.DEVICE:
            return DeviceDefinition._make([
                reader.i32(), reader.text(), reader.text(), *reader.unpack(_TYPES),
                _texts(reader)])
        if kind == ModelType.CAMERA:
            name, numbers = reader.text(), _finite(reader.unpack(_CAMERA))
            return CameraDefinition(name, numbers[:3], numbers[3:])
        if kind == ModelType.ASSET:
            return AssetDefinition(
                reader.text(), reader.i32(), reader.i32(), self.bodies(reader),
                tuple(_asset_marker(reader) for _ in range(reader.count(23))))
        raise RemoteProtocolError(f'a description has the unknown type {kind}')

    def bodies(self, reader: Reader) -> tuple[BodyDefinition, ...]:
        return tuple(self.body(reader, self.bone_markers) for _ in range(reader.count(21)))

    def body(self, reader: Reader, with_markers: bool) -> BodyDefinition:
        name = reader.text()
        streaming_id, parent, *offset = reader.unpack(_BODY)
        rotation = reader.unpack(_QUAT) if self.version >= (4, 2) else (0.0, 0.0, 0.0, 1.0)
        markers: tuple[ModelMarker, ...] = ()
        if with_markers:
            count = reader.count(16)
            places = [reader.unpack(_VECTOR) for _ in range(count)]
            labels = [reader.i32() for _ in range(count)]
            names = [reader.text(_LONG_NAME) if self.version >= (4, 0) else ''
                     for _ in range(count)]
            markers = tuple(ModelMarker(*each) for each in zip(
                names, map(_finite, places), labels))
        return BodyDefinition(
            name, streaming_id, parent, _finite(tuple(offset)), _finite(rotation), markers)


def _texts(reader: Reader) -> tuple[str, ...]:
    return tuple(reader.text(_LONG_NAME) for _ in range(reader.count(1)))


def _plate(reader: Reader) -> PlateDefinition:
    plate_id, serial = reader.i32(), reader.text()
    width, length, *centre = _finite(reader.unpack(_PLATE_SIZE))
    calibration = _finite(reader.unpack(_CALIBRATION))
    corners = _finite(reader.unpack(_CORNERS))
    return PlateDefinition._make([
        plate_id, serial, width, length, tuple(centre), calibration,
        tuple(corners[i:i + 3] for i in range(0, 12, 3)), *reader.unpack(_TYPES), _texts(reader)])


def _asset_marker(reader: Reader) -> AssetMarker:
    name = reader.text(_LONG_NAME)
    marker_id, x, y, z, size, params = reader.unpack(_ASSET_MARKER)
    return AssetMarker(name, marker_id, _finite((x, y, z)), _finite((size,))[0], params)


# -- encode ---------------------------------------------------------------------------------------

def encode_definitions(definitions: Definitions, version: Version) -> bytes:
    """
    Encode MODELDEF.

    :param version: version of the bitstream; types that it does not know are left out.
    :raises LocalProtocolError: if the definitions do not fit into one datagram.
    """
    entries: list[tuple[int, bytes]] = [
        (ModelType.MARKER_SET, _name(name) + _I32.pack(0)) for name in definitions.marker_sets]
    entries += [(ModelType.RIGID_BODY, _body(body, version, version >= (3, 0)))
                for body in definitions.bodies]
    entries += [(ModelType.SKELETON, _name(one.name) + _I32.pack(one.skeleton_id)
                 + _bodies(one.bones, version)) for one in definitions.skeletons]
    if version >= (2, 9):
        entries += [(ModelType.FORCE_PLATE, _encode_plate(one)) for one in definitions.plates]
    if version >= (2, 11):
        entries += [(ModelType.DEVICE, _I32.pack(one.device_id) + _name(one.name)
                     + _name(one.serial) + _TYPES.pack(one.device_type, one.channel_type)
                     + _names(one.channels)) for one in definitions.devices]
    entries += [(ModelType.CAMERA, _name(one.name) + _CAMERA.pack(*one.position, *one.quat_xyzw))
                for one in definitions.cameras]
    if version >= (4, 1):
        entries += [(ModelType.ASSET, _encode_asset(one, version)) for one in definitions.assets]
    packed = bytearray(_I32.pack(len(entries)))
    for kind, data in entries:
        packed += _I32.pack(kind)
        if version >= (4, 1):
            packed += _I32.pack(len(data))
        packed += data
    return encode_message(MessageId.MODEL_DEFINITIONS, bytes(packed))


def _name(name: str) -> bytes:
    data = name.encode('utf-8', 'surrogateescape')
    if len(data) >= MAX_NAME:
        raise LocalProtocolError(
            f'the name {name!r:.40} has {len(data)} bytes; at most {MAX_NAME - 1} are allowed')
    return data + b'\0'


def _names(names: tuple[str, ...]) -> bytes:
    return _I32.pack(len(names)) + b''.join(map(_name, names))


def _bodies(bodies: tuple[BodyDefinition, ...], version: Version) -> bytes:
    return _I32.pack(len(bodies)) + b''.join(
        _body(body, version, version >= (3, 0)) for body in bodies)


def _body(body: BodyDefinition, version: Version, with_markers: bool) -> bytes:
    data = _name(body.name) + _BODY.pack(body.streaming_id, body.parent, *body.offset)
    if version >= (4, 2):
        data += _QUAT.pack(*body.rotation)
    if with_markers:
        markers = body.markers
        data += _I32.pack(len(markers)) + b''.join(
            _VECTOR.pack(*one.position) for one in markers) + b''.join(
            _I32.pack(one.label) for one in markers)
        if version >= (4, 0):
            data += b''.join(_name(one.name) for one in markers)
    return data


def _encode_plate(plate: PlateDefinition) -> bytes:
    return (_I32.pack(plate.plate_id) + _name(plate.serial)
            + _PLATE_SIZE.pack(plate.width, plate.length, *plate.centre)
            + _CALIBRATION.pack(*plate.calibration)
            + _CORNERS.pack(*(number for corner in plate.corners for number in corner))
            + _TYPES.pack(plate.plate_type, plate.channel_type) + _names(plate.channels))


def _encode_asset(asset: AssetDefinition, version: Version) -> bytes:
    return (_name(asset.name) + _I32.pack(asset.asset_type) + _I32.pack(asset.asset_id)
            + _bodies(asset.bodies, version) + _I32.pack(len(asset.markers)) + b''.join(
                _name(one.name) + _ASSET_MARKER.pack(
                    one.marker_id, *one.position, one.size, one.params)
                for one in asset.markers))
