# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The events of a VRPN conversation, as named tuples.

Times are readings of the sender's clock in integer nanoseconds (the protocol carries
microseconds). Positions are in metres, quaternions in the order x, y, z, w, both in the sender's
axes.
"""

from typing import NamedTuple, Union

# A tracker's pose is the neutral one: it becomes part of a frame as it is.
from optitrack_vrpn.sources.frames import Body as PoseReport, Quaternion, Vector

__all__ = [
    'AccelerationReport', 'Event', 'PeerHello', 'PingReport', 'PongReport', 'PoseReport',
    'Quaternion', 'SenderDescribed', 'TextReport', 'UdpDescribed', 'Vector', 'VelocityReport']


class VelocityReport(NamedTuple):
    """A tracker's velocity (m/s) and the rotation that it makes in ``dt`` seconds."""

    name: str
    sensor: int
    sender_time_ns: int
    velocity: Vector
    quat_xyzw: Quaternion
    dt: float


class AccelerationReport(NamedTuple):
    """A tracker's acceleration (m/s^2) and the change of rotation that it makes in ``dt`` s."""

    name: str
    sensor: int
    sender_time_ns: int
    acceleration: Vector
    quat_xyzw: Quaternion
    dt: float


class TextReport(NamedTuple):
    """A text message for users; severity is 0 (normal), 1 (warning) or 2 (error)."""

    sender: str
    sender_time_ns: int
    severity: int
    level: int
    text: str


class PingReport(NamedTuple):
    """The peer asks whether a tracker exists."""

    sender: str
    sender_time_ns: int


class PongReport(NamedTuple):
    """A tracker exists; the server sends the answer to all its clients."""

    sender: str
    sender_time_ns: int


class PeerHello(NamedTuple):
    """The peer's cookie was accepted; ``note`` describes a different minor version, or is ''."""

    major: int
    minor: int
    note: str


class SenderDescribed(NamedTuple):
    """The peer described a sender; this does not prove that a tracker of that name exists."""

    sender: str
    sender_id: int


class UdpDescribed(NamedTuple):
    """The peer receives poses by UDP at this port; ``host`` is its own name for itself."""

    host: str
    port: int


Event = Union[
    PoseReport, VelocityReport, AccelerationReport, TextReport, PingReport, PongReport,
    PeerHello, SenderDescribed, UdpDescribed]
