# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Force plates: their frame from the corners, and wrenches from the channels; pure."""

from collections import deque
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.rotation import Quat, Vector
from optitrack_vrpn.drivers.frames import Plate, PlateModel
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
_PARTS = ('fx', 'fy', 'fz', 'mx', 'my', 'mz')
#: Chosen: a pause (ns) after which the interval of frames is learned again, and how many count.
_PAUSE_NS, _RECENT = 1_000_000_000, 15


class PlateFrame(NamedTuple):
    """The frame of a plate: centre of the corners, x and y along its sides; sender's axes."""

    position: Vector
    quat_xyzw: Quat


def plate_frame(model: PlateModel) -> Optional[PlateFrame]:
    """
    Compute the frame of a plate.

    The corners are clockwise from +x +y, seen from above, so that z points up.

    :returns: None if the corners span no rectangle.
    """
    corners = np.array(model.corners, dtype=np.float64)
    x = corners[0] + corners[1] - corners[2] - corners[3]
    y = corners[0] + corners[3] - corners[1] - corners[2]
    if min(np.linalg.norm(x), np.linalg.norm(y)) < 1e-3:
        return None
    x = x / np.linalg.norm(x)
    z = np.cross(x, y)
    if np.linalg.norm(z) < 1e-3:
        return None
    z = z / np.linalg.norm(z)
    axes = np.stack((x, np.cross(z, x), z), axis=1)
    middle = corners.mean(axis=0)
    return PlateFrame((middle[0], middle[1], middle[2]), quat_of_axes(axes))


def quat_of_axes(axes: Array) -> Quat:
    """Return the rotation (x, y, z, w) whose matrix has these axes as columns."""
    x, y, z, w = Rotation.from_matrix(axes).as_quat().tolist()
    return x, y, z, w


def channel_order(model: PlateModel) -> Optional[tuple[int, ...]]:
    """
    Find the channels of forces and moments.

    :returns: indices of Fx Fy Fz Mx My Mz: by names, or six channels in this order; else None.
    """
    names = [name.strip().lower() for name in model.channels]
    found = [next((i for i, name in enumerate(names) if name.startswith(part)), -1)
             for part in _PARTS]
    if min(found) >= 0:
        return tuple(found)
    return tuple(range(6)) if max(found) < 0 and len(names) in (0, 6) else None


def wrenches(plate: Plate, order: tuple[int, ...]) -> Array:
    """
    Return the samples of a frame.

    :returns: (samples, 6) forces (N) and moments (N m); none if channels are missing, have
        different lengths, or a value is not finite.
    """
    if max(order) >= len(plate.samples):
        return np.empty((0, 6))
    columns = [plate.samples[i] for i in order]
    if len({len(column) for column in columns}) != 1:
        return np.empty((0, 6))
    table = np.array(columns, dtype=np.float64).T
    return table if np.isfinite(table).all() else np.empty((0, 6))


class SampleTimes:
    """
    Times of the samples in a frame: the last one at its time, the others evenly before it.

    They reach back to the frame before, never over a gap.
    """

    def __init__(self) -> None:
        self._last_ns = self._interval_ns = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def follow(self, stamp_ns: int) -> None:
        """Learn the interval of frames from the stamp (ns) of the next one."""
        interval_ns, self._last_ns = stamp_ns - self._last_ns, stamp_ns
        if not 0 < interval_ns < _PAUSE_NS:
            self._recent.clear()
            self._interval_ns = 0
            return
        self._recent.append(interval_ns)
        median = sorted(self._recent)[(len(self._recent) - 1) // 2]
        # Frames that were lost or left out lengthen the distance of two frames, not their samples.
        self._interval_ns = min(interval_ns, median)

    def times(self, count: int) -> list[int]:
        """Return when the samples of the last frame were taken (ns); [] if it is unknown."""
        return [self._last_ns - self._interval_ns * (count - 1 - i) // count
                for i in range(count)] if self._interval_ns else []
