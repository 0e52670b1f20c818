# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Store the transforms of /tf_static, and compute the one between two frames."""

from typing import Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.transforms import pose_of

Floats = NDArray[np.float64]


class StaticFrames:
    """The static transforms received so far."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Floats]] = {}

    def add(
        self, parent: str, child: str, translation: tuple[float, float, float],
        quat_xyzw: tuple[float, float, float, float],
    ) -> bool:
        """
        Store parent_from_child.

        :returns: False for a zero quaternion or a value that is not finite; it is not stored.
        """
        if not np.isfinite([*translation, *quat_xyzw]).all() or not any(quat_xyzw):
            return False
        self._parents[child.lstrip('/')] = parent.lstrip('/'), pose_of(translation, quat_xyzw)
        return True

    def parent(self, frame: str) -> Optional[str]:
        """Return the static parent of a frame, None if there is none."""
        found = self._parents.get(frame.lstrip('/'))
        return found[0] if found is not None else None

    def lookup(self, target: str, source: str) -> Optional[Floats]:
        """Return target_from_source, 4x4; None if no chain of transforms joins them."""
        to_target, to_source = self._chain(target), self._chain(source)
        for ancestor, from_target in to_target.items():
            if ancestor in to_source:
                found: Floats = np.linalg.inv(from_target) @ to_source[ancestor]
                return found
        return None

    def _chain(self, frame: str) -> dict[str, Floats]:
        """Return ancestor_from_frame of a frame and each of its ancestors."""
        frame = frame.lstrip('/')
        chain = {frame: np.eye(4)}
        while frame in self._parents:
            parent, transform = self._parents[frame]
            if parent in chain:    # wrong publishers can create a loop
                break
            chain[parent] = transform @ chain[frame]
            frame = parent
        return chain
