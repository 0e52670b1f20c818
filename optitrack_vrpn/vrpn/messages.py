# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What a VRPN peer can say, as plain tuples.

Times are the sender's own clock in integer nanoseconds (the wire carries microseconds). Positions
are in metres and quaternions in the order x, y, z, w, both in the axes that the sender uses.
"""

from typing import NamedTuple, Union

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


class PoseReport(NamedTuple):
    """A tracker's position (m) and attitude (rotates the body's axes to the sender's world)."""

    sender: str
    sensor: int
    sender_time_ns: int
    position: Vector
    quat_xyzw: Quaternion


class VelocityReport(NamedTuple):
    """A tracker's velocity (m/s) and the rotation that it makes in ``dt`` seconds."""

    sender: str
    sensor: int
    sender_time_ns: int
    velocity: Vector
    quat_xyzw: Quaternion
    dt: float


class AccelerationReport(NamedTuple):
    """A tracker's acceleration (m/s^2) and the change of rotation that it makes in ``dt`` s."""

    sender: str
    sensor: int
    sender_time_ns: int
    acceleration: Vector
    quat_xyzw: Quaternion
    dt: float


class TextReport(NamedTuple):
    """A line for people; severity is 0 (normal), 1 (warning) or 2 (error)."""

    sender: str
    sender_time_ns: int
    severity: int
    level: int
    text: str


class PingReport(NamedTuple):
    """The peer asks whether a tracker is there."""

    sender: str
    sender_time_ns: int


class PongReport(NamedTuple):
    """The peer says that a tracker is there; goes to every client, whoever asked."""

    sender: str
    sender_time_ns: int


class PeerHello(NamedTuple):
    """The peer's cookie came and was accepted; ``note`` says what is unusual about it, or ''."""

    major: int
    minor: int
    note: str


class SenderDescribed(NamedTuple):
    """The peer named a sender; no proof that a tracker of that name exists."""

    sender: str
    sender_id: int


class UdpDescribed(NamedTuple):
    """The peer takes poses by UDP at this port; the host is what it calls itself."""

    host: str
    port: int


Event = Union[
    PoseReport, VelocityReport, AccelerationReport, TextReport, PingReport, PongReport,
    PeerHello, SenderDescribed, UdpDescribed]
