# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The messages of a NatNet peer, as named tuples.

Positions are in metres and quaternions in the order x, y, z, w, both in the axes that Motive
sends. Ticks are those of the server's counter; ServerInfo states its frequency.
"""

from typing import NamedTuple, Optional, Union

Version = tuple[int, int]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


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

    :ivar marker_id: streaming id of the model in the upper 16 bits, member (from 1) in the lower.
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


class Frame(NamedTuple):
    """
    One frame of data; times in ticks are 0 if they were not sent.

    :ivar bodies: rigid bodies, without the bones of skeletons.
    :ivar markers: labelled markers, if requested from the decoder.
    :ivar latency: software latency (s), NaN from 3.0 on.
    :ivar timestamp: number of frames divided by the rate (s) since streaming began, or the time of
        the take in edit mode.
    :ivar exposure: ticks at mid-exposure.
    :ivar received: ticks at which the data of the cameras had arrived.
    :ivar transmit: ticks at which the frame was passed to the network.
    :ivar ptp_seconds: PTP time of the frame, from 4.1 on.
    :ivar ptp_fraction: its fraction, in 2**-32 s.
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


class Held(NamedTuple):
    """A frame that waited for the confirmation of its names, and its arrival (ns)."""

    frame: Frame
    arrival_ns: int


class BodyDefinition(NamedTuple):
    """A rigid body that the server describes."""

    name: str
    streaming_id: int


class Definitions(NamedTuple):
    """
    The used model definitions of a server.

    :ivar bodies: rigid bodies, without the bones of skeletons.
    :ivar marker_sets: names of marker sets.
    """

    bodies: tuple[BodyDefinition, ...]
    marker_sets: tuple[str, ...] = ()


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
