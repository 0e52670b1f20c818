# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a frame has beside poses: markers as points, velocities and accelerations of the server."""

from collections.abc import Callable, Sequence
import math
import struct
from typing import NamedTuple, Optional, Union

from optitrack_vrpn.core.axes import FrameMaps
from optitrack_vrpn.core.rotation import compose, Quat, rotate, Transform, Vector
from optitrack_vrpn.drivers.frames import Marker, Motion
from optitrack_vrpn.stream.motion.lever_arm import acceleration_at, angular_rate, velocity_at
from optitrack_vrpn.stream.roster import ServerMotion, TrackedBody

#: One point: position (m), streaming id of the body (0 for none), member number in the body (from
#: 1) or a number of its own, residual: distance from the model or between the rays (m), 1 if it is
#: labelled, else 0.
POINT = struct.Struct('<3fIIfI')
#: Names and offsets (bytes) of its fields. All have 4 bytes; those of INTEGERS are integers, the
#: others floats.
FIELDS = (('x', 0), ('y', 4), ('z', 8), ('body', 12), ('member', 16), ('residual', 20),
          ('labelled', 24))
INTEGERS = ('body', 'member', 'labelled')


OVERTAKEN_NS = 1_000_000_000
"""
A frame whose stamp is earlier than the one before was overtaken, or came twice; a step back of
this time (ns) is one of a clock. Chosen.
"""


class MarkerCloud(NamedTuple):
    """
    The markers that the cameras saw in one frame.

    :ivar stamp_ns: stamp of the frame and of its poses (ns).
    :ivar points: number of points.
    :ivar data: points in sequence, in the layout of POINT.
    :ivar owners: name of the rigid body of each point at the sender, '' for none.
    """

    stamp_ns: int
    points: int
    data: bytes
    owners: tuple[str, ...] = ()

    def places(self) -> bytes:
        """Return the positions alone, in sequence."""
        return b''.join(self.data[i:i + 12] for i in range(0, len(self.data), POINT.size))


def marker_cloud(
    markers: Sequence[Marker], stamp_ns: int, to_enu: Callable[[Vector], Vector],
    world_from_mocap: Transform,
) -> MarkerCloud:
    """
    Convert markers to points in the user's world.

    :param to_enu: converts a position from Motive's axes to ENU.
    """
    points, owners = [], []
    for body, member, position, residual, labelled, owner in markers:
        place = compose(world_from_mocap, Transform(to_enu(position))).position
        if not math.hypot(*place) < 1e30:
            continue    # NaN, or what exceeds a 4-byte float
        points.append(POINT.pack(
            *place, body, member, residual if abs(residual) < 1e30 else math.nan, labelled))
        owners.append(owner)
    return MarkerCloud(stamp_ns, len(points), b''.join(points), tuple(owners))


class LatestFrame:
    """Pass on what frames have beside poses, each frame once, and none that was overtaken."""

    def __init__(self) -> None:
        self._stamp_ns = -OVERTAKEN_NS

    def follow(self, stamp_ns: int) -> bool:
        """Return whether neither a later frame nor this one came before; note the frame."""
        if 0 <= self._stamp_ns - stamp_ns < OVERTAKEN_NS:
            return False
        self._stamp_ns = stamp_ns
        return True


#: What a motion of the server lacks; each is the code of a row of ``telling/rules``.
NO_TWIST, NO_ACCEL, NO_ARM = 'no angular rate', 'no angular acceleration', 'no velocity before'


def server_motion(
    channel: TrackedBody, event: Motion, maps: FrameMaps, turn: Quat,
) -> Union[ServerMotion, str, None]:
    """
    Compute the motion of the base from the motion that the server sends for the rigid body.

    The vector and the rotation over dt are in the tracker's world; the rotation is multiplied from
    the left. The base has a lever arm to the origin of the body.

    :param channel: the body.
    :param event: what the server sends.
    :param maps: conversions from Motive's axes to ENU.
    :param turn: rotation from ENU of the mocap world to the user's world.
    :returns: the motion; or what it lacks, if one half of it is missing; or None if the
        preceding pose did not become a sample.
    """
    if channel.last_sender_ns != event.sender_time_ns:
        return None
    estimator = channel.estimator
    placed = (channel.last_stamp_ns, channel.last_position, channel.last_quat)
    if not estimator.idle:
        placed = estimator.placed
    stamp_ns, _, quat = placed
    is_velocity, vector, quat_xyzw, dt = event[3:]
    if stamp_ns == channel.moved_ns[is_velocity]:
        return None
    linear = rotate(turn, maps.position_to_enu(vector))
    angular: Optional[tuple[float, float, float]] = angular_rate(quat_xyzw, dt)
    if angular is None:
        # Messages cannot mark one half as unknown, and zero would be read as a value.
        return NO_TWIST if is_velocity else NO_ACCEL
    angular = rotate(turn, maps.position_to_enu(angular))
    if any(estimator.lever):
        arm = rotate(quat, estimator.lever)
        if is_velocity:
            linear = velocity_at(arm, linear, angular)
        elif stamp_ns == channel.moved_ns[True]:
            linear = acceleration_at(arm, linear, channel.moved_rate, angular)
        else:
            return NO_ARM
    if not all(map(math.isfinite, linear + angular)):
        return None
    channel.moved_ns[is_velocity] = stamp_ns
    if is_velocity:
        channel.moved_rate = angular
    return ServerMotion(channel, stamp_ns, is_velocity, linear, angular)
