# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The layouts of MODELDEF, the model definitions.

From NatNet 4.1 on each description states its size, so that unknown types, and unknown layouts of
others than rigid bodies, are skipped. Before that, nothing behind a description of an unknown type
can be read. Two layouts exist for the bones of skeletons of 3.0 and 3.1: the decoder uses the one
that accounts for every byte.
"""

from typing import NamedTuple, Optional

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.natnet.codec import encode_message
from optitrack_vrpn.drivers.natnet.layouts import (
    Columns, Ignored, Layout, Many, Number, Numbers, Reader, Record, Since, Text,
    Value)
from optitrack_vrpn.drivers.natnet.messages import (
    AssetDefinition, BodyDefinition, Buffer, Definitions, IDENTITY, MessageId, ModelType,
    PlateDefinition, SkeletonDefinition, Version)

_I32, _F32, _VECTOR, _NAME = Number('i'), Number('f'), Numbers('3f'), Text()
#: Chosen: names of markers and channels may be longer than those of models (bytes).
_LONG_NAME = Text(4096)
_NAMES = Many(_LONG_NAME)
_QUAT = Numbers('4f')
_MODEL_MARKERS = Since((3, 0), Columns(_VECTOR, _I32, Since((4, 0), _LONG_NAME, '')), ())


def _body(markers: Layout) -> Layout:
    return Record(BodyDefinition._make, _NAME, _I32, _I32, _VECTOR,
                  Since((4, 2), _QUAT, IDENTITY), markers)


class _Kind(NamedTuple):
    """A type of model: its field of ``Definitions``, since when it exists, its layout."""

    field: str
    since: Version
    layout: Layout


def _kinds(bone: Layout) -> dict[int, _Kind]:
    # Names of the members of marker sets are not used, and some senders of 4.1 and later leave
    # them out.
    return {
        ModelType.MARKER_SET: _Kind('marker_sets', (0, 0), Record(
            lambda found: found[0], _NAME,
            Ignored(Since((4, 1), Layout(), Many(_LONG_NAME))))),
        ModelType.RIGID_BODY: _Kind('bodies', (0, 0), _body(_MODEL_MARKERS)),
        ModelType.SKELETON: _Kind('skeletons', (0, 0), Record(
            SkeletonDefinition._make, _NAME, _I32, Many(bone))),
        ModelType.FORCE_PLATE: _Kind('plates', (2, 9), Record(
            PlateDefinition._make, _I32, _NAME, _F32, _F32, _VECTOR, Numbers('144f'),
            Record(tuple, _VECTOR, _VECTOR, _VECTOR, _VECTOR), _I32, _I32, _NAMES)),
        ModelType.DEVICE: _Kind('devices', (2, 11), Record(
            tuple, _I32, _NAME, _NAME, _I32, _I32, _NAMES)),
        ModelType.CAMERA: _Kind('cameras', (0, 0), Record(tuple, _NAME, _VECTOR, _QUAT)),
        ModelType.ASSET: _Kind('assets', (4, 1), Record(
            AssetDefinition._make, _NAME, _I32, _I32, Many(bone), Many(Record(
                tuple, _LONG_NAME, _I32, _VECTOR, _F32, Number('h'))))),
    }


#: Bones as rigid bodies, and those of 3.0 and 3.1 without markers.
_KINDS, _KINDS_BARE = _kinds(_body(_MODEL_MARKERS)), _kinds(_body(Layout(())))


def decode_definitions(
    payload: Buffer, version: Version, texts: Optional[list[tuple[int, int]]] = None,
) -> Definitions:
    """
    Decode model definitions.

    :param payload: payload of the message MODELDEF.
    :param version: version of the bitstream.
    :param texts: takes where texts are: the first byte and the NUL of each.
    :raises RemoteProtocolError: if the bytes contradict that version.
    """
    layouts = [_KINDS, _KINDS_BARE] if (3, 0) <= version < (4, 0) else [_KINDS]
    failure: Optional[RemoteProtocolError] = None
    for kinds in layouts:
        try:
            return _decode(_reader(payload, texts), version, kinds)
        except RemoteProtocolError as error:
            failure = failure or error
    assert failure is not None
    if version >= (4, 1):
        raise failure
    # With two possible layouts nothing behind a skeleton is certain.
    return _decode(_reader(payload, texts), version, _KINDS if len(layouts) == 1 else {
        number: kind for number, kind in _KINDS.items() if number != ModelType.SKELETON}, True)


def _reader(payload: Buffer, texts: Optional[list[tuple[int, int]]]) -> Reader:
    if texts is not None:
        texts.clear()    # those of a layout that did not fit
    return Reader(payload, texts=texts)


def _decode(
    reader: Reader, version: Version, kinds: dict[int, _Kind], cut: bool = False,
) -> Definitions:
    """
    Decode model definitions.

    :param cut: whether to leave out what is behind a description of unknown type and size.
    """
    found: dict[str, list[Value]] = {kind.field: [] for kind in _KINDS.values()}
    skipped = 0
    unknown: set[int] = set()
    left = reader.count(4)
    while left:
        number = reader.i32()
        kind = kinds.get(number)
        if kind is None:
            unknown.add(number)
            if cut:
                break
        left -= 1
        block = reader.block() if version >= (4, 1) else reader
        start = block.position
        try:
            if kind is None:
                raise RemoteProtocolError(f'a description has the unknown type {number}')
            found[kind.field].append(kind.layout.read(block, version))
        except RemoteProtocolError:
            if block is reader:
                raise
            if number != ModelType.RIGID_BODY:
                skipped += 1
                continue
            block.position = start    # name and id suffice
            found['bodies'].append(BodyDefinition(_NAME.read(block, version), block.i32()))
    if reader.left and not left:
        raise RemoteProtocolError(f'{reader.left} bytes follow the last description')
    definitions = Definitions(
        **{field: tuple(models) for field, models in found.items()})  # type: ignore[arg-type]
    return definitions._replace(
        skipped=skipped, unknown=tuple(sorted(unknown)), cut=left)


def encode_definitions(definitions: Definitions, version: Version) -> bytes:
    """
    Encode MODELDEF.

    :param version: version of the bitstream; types that it does not know are left out.
    :raises LocalProtocolError: if the definitions do not fit into one datagram.
    """
    entries = [(number, kind.layout.write(model, version))
               for number, kind in _KINDS.items() if version >= kind.since
               for model in getattr(definitions, kind.field)]
    return encode_message(MessageId.MODEL_DEFINITIONS, b''.join([
        _I32.write(len(entries), version), *(
            _I32.write(number, version) + (
                _I32.write(len(data), version) if version >= (4, 1) else b'') + data
            for number, data in entries)]))
