# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Model definitions of NatNet as named tuples, and the keys by which frames refer to them.

Positions are in metres and quaternions in the order x, y, z, w, both in the axes that Motive
sends.
"""

import enum
from typing import NamedTuple, Union

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
IDENTITY: Quaternion = (0.0, 0.0, 0.0, 1.0)


class ModelType(enum.IntEnum):
    """Types of model definitions."""

    MARKER_SET = 0
    RIGID_BODY = 1
    SKELETON = 2
    FORCE_PLATE = 3
    DEVICE = 4
    CAMERA = 5
    ASSET = 6


#: Added to the id of a model other than a rigid body, so that each model has a key of its own.
SKELETON_KEY = 1 << 32
ASSET_KEY = 2 << 32
PLATE_KEY = 3 << 32
#: What needs the definitions of skeletons and assets; markers, because their ids can be of these.
_NAMED = frozenset({'skeletons', 'markers'})


class ModelMarker(NamedTuple):
    """A marker of a rigid body: name ('' before 4.0), place in the body, active label or 0."""

    name: str
    position: Vector
    label: int


class BodyDefinition(NamedTuple):
    """
    A rigid body or a bone.

    :ivar streaming_id: id of a body; of a bone its number in the skeleton.
    :ivar parent: number of the parent bone; -1 or 0 for none.
    :ivar offset: position in the parent; of a rigid body without meaning.
    :ivar rotation: attitude of the offset, from 4.2 on.
    """

    name: str
    streaming_id: int
    parent: int = -1
    offset: Vector = (0.0, 0.0, 0.0)
    rotation: Quaternion = IDENTITY
    markers: tuple[ModelMarker, ...] = ()


class SkeletonDefinition(NamedTuple):
    """A skeleton, in the order of its bones."""

    name: str
    skeleton_id: int
    bones: tuple[BodyDefinition, ...]


class AssetMarker(NamedTuple):
    """A marker of a trained marker set."""

    name: str
    marker_id: int
    position: Vector
    size: float
    params: int


class AssetDefinition(NamedTuple):
    """A trained marker set with its rigid bodies, from 4.1 on."""

    name: str
    asset_type: int
    asset_id: int
    bodies: tuple[BodyDefinition, ...]
    markers: tuple[AssetMarker, ...] = ()


class PlateDefinition(NamedTuple):
    """
    A force plate.

    :ivar width: size (m) along its x axis; ``length`` along y.
    :ivar centre: electrical centre (m), in the plate's axes.
    :ivar calibration: 12 x 12 matrix by rows, for raw voltages.
    :ivar corners: four corners in the world (m), clockwise from +x +y seen from above.
    :ivar plate_type: type as in C3D.
    :ivar channel_type: 0 for calibrated forces, 1 for raw voltages.
    :ivar channels: names of the channels.
    """

    plate_id: int
    serial: str
    width: float
    length: float
    centre: Vector
    calibration: tuple[float, ...]
    corners: tuple[Vector, ...]
    plate_type: int
    channel_type: int
    channels: tuple[str, ...]


class DeviceDefinition(NamedTuple):
    """An analog device."""

    device_id: int
    name: str
    serial: str
    device_type: int
    channel_type: int
    channels: tuple[str, ...]


class CameraDefinition(NamedTuple):
    """A camera and its pose."""

    name: str
    position: Vector
    quat_xyzw: Quaternion


class Definitions(NamedTuple):
    """
    The model definitions of a server.

    :ivar bodies: rigid bodies, without the bones of skeletons.
    :ivar marker_sets: names of marker sets.
    :ivar skipped: number of descriptions of unknown type or layout.
    """

    bodies: tuple[BodyDefinition, ...]
    marker_sets: tuple[str, ...] = ()
    skeletons: tuple[SkeletonDefinition, ...] = ()
    assets: tuple[AssetDefinition, ...] = ()
    plates: tuple[PlateDefinition, ...] = ()
    devices: tuple[DeviceDefinition, ...] = ()
    cameras: tuple[CameraDefinition, ...] = ()
    skipped: int = 0

    def only(self, wanted: frozenset[str]) -> 'Definitions':
        """Leave out what is not wanted; see ``frames.decode_frame``."""
        posed = not _NAMED.isdisjoint(wanted)
        return Definitions(
            self.bodies, self.marker_sets, self.skeletons if posed else (),
            self.assets if posed else (), self.plates if 'plates' in wanted else (),
            skipped=self.skipped if wanted else 0)


#: What a confirmed id stands for: the name of a rigid body, or a whole definition.
Model = Union[str, SkeletonDefinition, AssetDefinition, PlateDefinition]


def model_name(model: Model) -> str:
    """Return the name of a model; of a plate its serial number or, without one, its id."""
    if isinstance(model, str):
        return model
    if isinstance(model, PlateDefinition):
        return model.serial or f'plate{model.plate_id}'
    return model.name


def type_mask(wanted: frozenset[str], version: tuple[int, int]) -> int:
    """Return the mask of the types to request from a server of a version."""
    kinds = {ModelType.MARKER_SET, ModelType.RIGID_BODY}
    if not _NAMED.isdisjoint(wanted):
        kinds.add(ModelType.SKELETON)
        if version >= (4, 1):
            kinds.add(ModelType.ASSET)
    if 'plates' in wanted:
        kinds.add(ModelType.FORCE_PLATE)
    return sum(1 << kind for kind in kinds)
