# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What every source delivers, whatever its protocol: frames, clock measurements, motions, texts.

Times are integer nanoseconds; sender times have an arbitrary zero. Positions are in metres and
quaternions in the order x, y, z, w, both in the sender's axes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, Union

from optitrack_vrpn.core.severity import Severity

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class Body(NamedTuple):
    """
    The pose of one body.

    :ivar name: its name at the sender.
    :ivar sensor: number of the sensor of that name, 0 if there is only one.
    :ivar sender_time_ns: time of the pose on the sender's clock, that of its frame.
    :ivar valid: False if the sender states that it does not track the body in this frame.
    :ivar mean_error: mean distance (m) of its markers from the model, 0 if it is not sent.
    """

    name: str
    sensor: int
    sender_time_ns: int
    position: Vector
    quat_xyzw: Quaternion
    valid: bool = True
    mean_error: float = 0.0


class Marker(NamedTuple):
    """
    A marker that the cameras saw.

    :ivar body: number of its body, 0 for none.
    :ivar member: its number in the body, from 1; without a body a number of its own, 0 for none.
    :ivar position: in the sender's axes (m).
    :ivar residual: distance (m) from the model or between the rays, NaN if it is not sent.
    :ivar labelled: whether the sender knows which marker it is: of a body, or an active one.
    :ivar owner: confirmed name of its rigid body, '' for none.
    """

    body: int
    member: int
    position: Vector
    residual: float
    labelled: bool = True
    owner: str = ''


class SkeletonModel(NamedTuple):
    """
    A skeleton, or another group of segments that the sender describes together.

    :ivar bones: names of the bones at the sender, in its order.
    :ivar parents: index of the parent of each bone, -1 for none; a parent comes first.
    :ivar offsets: position (m) of each bone in its parent.
    """

    name: str
    bones: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: tuple[Vector, ...]


class Skeleton(NamedTuple):
    """
    The bones of a skeleton in one frame, as arrays of numpy in the order of the model.

    :ivar positions: (n, 3) in the world (m, sender's axes).
    :ivar quats_xyzw: (n, 4) in the world.
    :ivar valid: (n,) False for bones that the sender does not track or has not sent.
    """

    model: SkeletonModel
    positions: Any
    quats_xyzw: Any
    valid: Any


class PlateModel(NamedTuple):
    """
    A force plate.

    :ivar corners: its corners in the world (m, sender's axes), clockwise from +x +y of the plate.
    :ivar channels: names of its channels.
    :ivar calibrated: whether the channels are forces (N) and moments (N m).
    """

    name: str
    corners: tuple[Vector, ...]
    channels: tuple[str, ...]
    calibrated: bool


class Plate(NamedTuple):
    """The samples of a force plate in one frame: one tuple per channel."""

    model: PlateModel
    samples: tuple[tuple[float, ...], ...]


class Extras(NamedTuple):
    """What a frame contains beside rigid bodies and markers, if it is wanted."""

    skeletons: Sequence[Skeleton] = ()
    plates: Sequence[Plate] = ()


class Frame(NamedTuple):
    """
    Bodies of one sender time that arrived together; a sender may divide a frame.

    :ivar sender_time_ns: time of the poses on the sender's clock.
    :ivar processing_ns: time from then until the frame was sent, 0 if it is not known.
    :ivar ptp_ns: PTP time of the poses, 0 if it is not sent.
    :ivar markers: markers; None if the source sends none.
    :ivar extras: skeletons and force plates; None if the source sends none.
    :ivar camera_ns: the part of ``processing_ns`` until the sender's computer had the data of its
        cameras, 0 if it is not known.
    """

    sender_time_ns: int
    bodies: Sequence[Body]
    processing_ns: int = 0
    ptp_ns: int = 0
    markers: Optional[Sequence[Marker]] = None
    extras: Optional[Extras] = None
    camera_ns: int = 0


class RoundTrip(NamedTuple):
    """
    A measurement of the sender's clock.

    :ivar sent_ns: arrival clock when the request was sent.
    :ivar sender_ns: the sender's clock when the request arrived there.
    :ivar received_ns: arrival clock when the answer arrived.
    """

    sent_ns: int
    sender_ns: int
    received_ns: int


class Motion(NamedTuple):
    """
    The velocity or acceleration of the body whose pose came before.

    :ivar is_velocity: False for an acceleration.
    :ivar vector: in the sender's axes (m/s or m/s^2).
    :ivar quat_xyzw: rotation over ``dt``, or its change.
    :ivar dt: time of that rotation (s).
    """

    name: str
    sensor: int
    sender_time_ns: int
    is_velocity: bool
    vector: Vector
    quat_xyzw: Quaternion
    dt: float


class ServerText(NamedTuple):
    """
    A text of the sender for the user.

    :ivar subject: what it is about, such as the name of a body.
    :ivar severity: as the server states it.
    """

    subject: str
    severity: Severity
    text: str


Item = Union[Frame, RoundTrip, Motion, ServerText]
