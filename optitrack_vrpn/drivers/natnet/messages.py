# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet wire protocol: ports, message types, versions, layouts, and messages as named tuples.

All integers are little-endian and packed. The layouts were observed in captures of Motive 1.7.2,
1.9.0 and 2.1 and compared with independent decoders for later versions; see docs/natnet.md.
Positions are in metres and quaternions in the order x, y, z, w, both in the axes that Motive
sends. Ticks are those of the server's counter; ServerInfo states its frequency.
"""

from collections.abc import Sequence
import enum
import struct
from typing import NamedTuple, Optional, Union

Version = tuple[int, int]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
IDENTITY: Quaternion = (0.0, 0.0, 0.0, 1.0)
Buffer = Union[bytes, bytearray, memoryview]

#: UDP port for commands (server) and for multicast data; multicast group of the data.
COMMAND_PORT = 1510
DATA_PORT = 1511
MULTICAST_GROUP = '239.255.42.99'

#: Message id and length of the payload.
HEADER = struct.Struct('<HH')
HEADER_SIZE = HEADER.size
#: The largest payload of one UDP datagram over IPv4, minus the header.
MAX_PAYLOAD = 65503

#: Name, application version, NatNet version.
SENDER = struct.Struct('<256s4B4B')
#: Clock frequency (ticks per second), data port, multicast, group address; from 3.0 on.
SERVER_CLOCK = struct.Struct('<QHB4B')
#: Subscribed data only, version of the bitstream; from 4.0 on.
CONNECT_OPTIONS = struct.Struct('<5B')
ECHO_TOKEN = struct.Struct('<Q')
ECHO_ANSWER = struct.Struct('<QQ')

#: The oldest supported version, and the newest whose sections are all known. Above CERTAIN it is
#: not confirmed that entries have no further fields.
OLDEST = (2, 7)
NEWEST = (4, 5)
CERTAIN = (4, 2)

#: Id, position, quaternion x y z w, mean marker error, parameters: from 3.0 on.
BODY = struct.Struct('<i3f4ffh')
#: Id, position, size, parameters, residual (m): from 3.0 on; before that without the residual.
LABELLED_MARKER = struct.Struct('<i3ffhf')
LABELLED_MARKER_2 = struct.Struct('<i3ffh')

#: Latency (s), time code, subframe, timestamp (s), parameters, end: before 3.0.
SUFFIX_2 = struct.Struct('<fIIdhI')
#: Time code, subframe, timestamp, mid-exposure, data received, transmit, parameters, end.
SUFFIX_3 = struct.Struct('<IIdQQQhI')
#: The same with PTP seconds and fraction before the parameters: from 4.1 on.
SUFFIX_4_1 = struct.Struct('<IIdQQQIIhI')

#: Parameters of a frame.
FRAME_RECORDING = 1
FRAME_MODELS_CHANGED = 2
FRAME_EDIT_MODE = 4
FRAME_BITSTREAM_CHANGED = 8
#: Parameters of a body and of a marker.
BODY_TRACKING_VALID = 1
MARKER_OCCLUDED = 1
MARKER_UNLABELLED = 16
MARKER_ACTIVE = 32

#: Longest accepted name (bytes); Motive allows shorter names only.
MAX_NAME = 256
#: Commands that record in Motive.
RECORDING_COMMANDS = TAKE_NAME, START, STOP = (
    'SetRecordTakeName', 'StartRecording', 'StopRecording')


class MessageId(enum.IntEnum):
    """Types of messages."""

    CONNECT = 0
    SERVER_INFO = 1
    REQUEST = 2
    RESPONSE = 3
    REQUEST_MODEL_DEFINITIONS = 4
    MODEL_DEFINITIONS = 5
    REQUEST_FRAME = 6
    FRAME = 7
    MESSAGE_STRING = 8
    DISCONNECT = 9
    KEEP_ALIVE = 10
    DISCONNECT_BY_TIMEOUT = 11
    ECHO_REQUEST = 12
    ECHO_RESPONSE = 13
    DISCOVERY = 14
    UNRECOGNIZED_REQUEST = 100


class ServerInfo(NamedTuple):
    """
    What a server states about itself.

    :ivar name: name of the application, 'Motive'.
    :ivar app_version: version of the application.
    :ivar version: version of NatNet.
    :ivar frequency: frequency of its clock (ticks per second), 0 before NatNet 3.0.
    :ivar data_port: port of multicast data, 0 before 3.0.
    :ivar multicast: whether data are sent by multicast; None before 3.0.
    :ivar group: multicast address; '' before 3.0, or if the stated one is none.
    """

    name: str
    app_version: tuple[int, int, int, int]
    version: Version
    frequency: int
    data_port: int
    multicast: Optional[bool]
    group: str


class ClientHello(NamedTuple):
    """
    A client's request to connect or to be discovered.

    :ivar bitstream: requested version; None for the newest.
    """

    name: str
    version: Version
    bitstream: Optional[Version]


class NatNetBody(NamedTuple):
    """
    One rigid body of a frame.

    :ivar streaming_id: id as in the model definitions.
    :ivar mean_error: mean distance (m) of its markers from their positions in the model.
    :ivar params: bit 0 is set if the body is tracked in this frame.
    """

    streaming_id: int
    x: float
    y: float
    z: float
    qx: float
    qy: float
    qz: float
    qw: float
    mean_error: float
    params: int


#: The fields of ``NatNetBody`` in a plain tuple, as decoded: one object for each body.
BodyRow = tuple[int, float, float, float, float, float, float, float, float, int]


class NatNetMarker(NamedTuple):
    """
    One labelled marker of a frame.

    :ivar marker_id: id of the model in the upper 16 bits and member (from 1) in the lower; of an
        unlabelled or active marker an id of its own.
    :ivar size: diameter (m).
    :ivar residual: distance (m) from the model or between the rays; NaN before NatNet 3.0.
    """

    marker_id: int
    x: float
    y: float
    z: float
    size: float
    params: int
    residual: float


class NatNetSkeleton(NamedTuple):
    """
    The bones of one skeleton of a frame, or the bodies of one trained marker set.

    :ivar rows: the bones as bytes, one ``BODY`` after the other; the id of a bone is its number in
        the skeleton plus the id of the skeleton << 16.
    """

    skeleton_id: int
    rows: bytes

    def bones(self) -> list[NatNetBody]:
        """Decode the bones."""
        return list(map(NatNetBody._make, BODY.iter_unpack(self.rows)))


class Analog(NamedTuple):
    """The samples of one force plate or device in a frame: a tuple for each channel."""

    device_id: int
    channels: tuple[tuple[float, ...], ...]


class NatNetFrame(NamedTuple):
    """
    One frame of data; times in ticks are 0 if they were not sent.

    :ivar bodies: rigid bodies, without the bones of skeletons; decoded ones are plain tuples.
    :ivar markers: labelled markers, and what follows ``params``: if requested from the decoder.
    :ivar latency: software latency (s), NaN from 3.0 on.
    :ivar timestamp: number of frames divided by the rate (s) since streaming began, or the time of
        the take in edit mode.
    :ivar exposure: ticks at mid-exposure.
    :ivar received: ticks at which the data of the cameras had arrived.
    :ivar transmit: ticks at which the frame was passed to the network.
    :ivar ptp_seconds: PTP time of the frame, from 4.1 on.
    :ivar ptp_fraction: its fraction, in 2**-32 s.
    :ivar others: the deprecated section of unlabelled markers (m).
    :ivar assets: bodies of trained marker sets, without their markers.
    """

    number: int
    bodies: Sequence[BodyRow]
    markers: list[NatNetMarker]
    latency: float
    timecode: int
    subframe: int
    timestamp: float
    exposure: int
    received: int
    transmit: int
    ptp_seconds: int
    ptp_fraction: int
    params: int
    others: tuple[Vector, ...] = ()
    skeletons: tuple[NatNetSkeleton, ...] = ()
    assets: tuple[NatNetSkeleton, ...] = ()
    plates: tuple[Analog, ...] = ()
    devices: tuple[Analog, ...] = ()


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


class BodyDefinition(NamedTuple):
    """
    A rigid body or a bone.

    :ivar streaming_id: id of a body; of a bone its number in the skeleton.
    :ivar parent: number of the parent bone; -1 or 0 for none.
    :ivar offset: position in the parent; of a rigid body without meaning.
    :ivar rotation: attitude of the offset, from 4.2 on.
    :ivar markers: place in the body (m), active label or 0, and name of each marker.
    """

    name: str
    streaming_id: int
    parent: int = -1
    offset: Vector = (0.0, 0.0, 0.0)
    rotation: Quaternion = IDENTITY
    markers: tuple[tuple[Vector, int, str], ...] = ()


class SkeletonDefinition(NamedTuple):
    """A skeleton, in the order of its bones."""

    name: str
    skeleton_id: int
    bones: tuple[BodyDefinition, ...]


class AssetDefinition(NamedTuple):
    """
    A trained marker set with its rigid bodies, from 4.1 on.

    :ivar markers: name, id, position (m), size (m) and parameters of each.
    """

    name: str
    asset_type: int
    asset_id: int
    bodies: tuple[BodyDefinition, ...]
    markers: tuple[tuple[object, ...], ...] = ()


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


class Definitions(NamedTuple):
    """
    The model definitions of a server.

    :ivar bodies: rigid bodies, without the bones of skeletons.
    :ivar marker_sets: names of marker sets.
    :ivar devices: id, name, serial number, type, type and names of the channels of each.
    :ivar cameras: name, position (m) and quaternion of each.
    :ivar skipped: number of descriptions of unknown type or layout.
    :ivar unknown: their unknown types.
    :ivar cut: number of descriptions from one of unknown type and size on, before NatNet 4.1.
    """

    bodies: tuple[BodyDefinition, ...]
    marker_sets: tuple[str, ...] = ()
    skeletons: tuple[SkeletonDefinition, ...] = ()
    assets: tuple[AssetDefinition, ...] = ()
    plates: tuple[PlateDefinition, ...] = ()
    devices: tuple[tuple[object, ...], ...] = ()
    cameras: tuple[tuple[object, ...], ...] = ()
    skipped: int = 0
    unknown: tuple[int, ...] = ()
    cut: int = 0

    def only(self, wanted: frozenset[str]) -> 'Definitions':
        """Leave out what is not wanted; see ``frames.decode_frame``."""
        posed = not _NAMED.isdisjoint(wanted)
        return Definitions(
            self.bodies, self.marker_sets, self.skeletons if posed else (),
            self.assets if posed else (), self.plates if 'plates' in wanted else (),
            skipped=self.skipped if wanted else 0, unknown=self.unknown, cut=self.cut)


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


class Response(NamedTuple):
    """
    The answer to a request.

    :ivar command: the request; '' if no request waits for an answer.
    :ivar payload: a number of 4 bytes or a text, depending on the command.
    """

    command: str
    payload: bytes


class Unrecognized(NamedTuple):
    """The server does not know a request."""

    command: str


class Unanswered(NamedTuple):
    """The server did not answer a request after several attempts."""

    command: str
