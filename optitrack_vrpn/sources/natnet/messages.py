# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet wire protocol: ports, message types, versions, layouts, and messages as named tuples.

All integers are little-endian and packed. The layouts were observed in captures of Motive 1.7.2,
1.9.0 and 2.1 and compared with independent decoders for later versions; see docs/natnet.md.
Positions are in metres and quaternions in the order x, y, z, w, both in the axes that Motive
sends. Ticks are those of the server's counter; ServerInfo states its frequency.
"""

import enum
import struct
from typing import NamedTuple, Optional, Union

from optitrack_vrpn.sources.natnet.models import Definitions, Vector

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
NEWEST = (4, 4)
CERTAIN = (4, 2)

#: Id, position, quaternion x y z w, mean marker error, parameters: from 3.0 on.
BODY = struct.Struct('<i3f4ffh')
#: The same up to the quaternion; before 3.0 the markers follow.
BODY_HEAD = struct.Struct('<i3f4f')
BODY_TAIL = struct.Struct('<fh')
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


Version = tuple[int, int]


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


class Body(NamedTuple):
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


class Marker(NamedTuple):
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


class Skeleton(NamedTuple):
    """
    The bones of one skeleton of a frame, or the bodies of one trained marker set.

    :ivar rows: the bones as bytes, one ``BODY`` after the other; the id of a bone is its number in
        the skeleton plus the id of the skeleton << 16.
    """

    skeleton_id: int
    rows: bytes

    def bones(self) -> list[Body]:
        """Decode the bones."""
        return list(map(Body._make, BODY.iter_unpack(self.rows)))


class Analog(NamedTuple):
    """The samples of one force plate or device in a frame: a tuple for each channel."""

    device_id: int
    channels: tuple[tuple[float, ...], ...]


class Frame(NamedTuple):
    """
    One frame of data; times in ticks are 0 if they were not sent.

    :ivar bodies: rigid bodies, without the bones of skeletons.
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
    bodies: list[Body]
    markers: list[Marker]
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
    skeletons: tuple[Skeleton, ...] = ()
    assets: tuple[Skeleton, ...] = ()
    plates: tuple[Analog, ...] = ()
    devices: tuple[Analog, ...] = ()


class Held(NamedTuple):
    """A frame that waited for the confirmation of its names, and its arrival (ns)."""

    frame: Frame
    arrival_ns: int


class Echo(NamedTuple):
    """
    A round trip to the server's clock.

    :ivar sent_ns: arrival clock of this host when the request was sent (ns).
    :ivar server_ticks: the server's counter when the request arrived there.
    :ivar received_ns: arrival clock when the answer arrived (ns).
    """

    sent_ns: int
    server_ticks: int
    received_ns: int


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


class Untimed(NamedTuple):
    """The frames have no times of the counter, although the server states its frequency."""


class Disconnected(NamedTuple):
    """The conversation has ended, for this reason."""

    reason: str


Event = Union[
    ServerInfo, Frame, Held, Definitions, Echo, Response, Unrecognized, Unanswered, Untimed,
    Disconnected]
