# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert the markers of a frame to points in the user's world."""

from collections.abc import Callable, Sequence
import math
import struct
from typing import NamedTuple

from optitrack_vrpn.motion import compose, Transform, Vector
from optitrack_vrpn.sources import Marker

#: One point: position (m), streaming id of the body (0 for none), member number in the body (from
#: 1) or a number of its own, residual: distance from the model or between the rays (m), 1 if it is
#: labelled, else 0.
POINT = struct.Struct('<3fIIfI')
#: Names and offsets (bytes) of its fields. All have 4 bytes; those of INTEGERS are integers, the
#: others floats.
FIELDS = (('x', 0), ('y', 4), ('z', 8), ('body', 12), ('member', 16), ('residual', 20),
          ('labelled', 24))
INTEGERS = ('body', 'member', 'labelled')


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
